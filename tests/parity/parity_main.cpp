// What the Python tests compare with: runs a model folder on tensors from a safetensors file and writes tensors back.
//
//   parity forward  MODEL IN OUT [bf16|f64]  logits, loss, grad.<stored name>; IN: ids or images, labels, lengths, target_ids …;
//                                         of a model that reads also `hidden`, and `pooled` where it has a pooler
//   parity decode   MODEL IN OUT          logits of one-token steps after `prompt` tokens of ids [B, T]; start [B] or
//                                         source [B, S], source_lengths
//   parity generate MODEL IN OUT TOKENS [OPTIONS]   tokens after ids [B, T] (encoder-decoder: for them), lengths [B], start_id;
//                                         OPTIONS: fields of GenerateOptions, as a JSON object
//   parity train    MODEL IN OUT RATE     losses of AdamW steps over ids [N, B, T] or images [N, B, …], labels [N, B, …]
//   parity channel  OPTIONS IN OUT NAME   y, grad.x, grad.<parameter>, buffers and probes of a channel attention with
//                                         OPTIONS (JSON); IN: x, gradient of y, parameters; `training`
//   parity attention OPTIONS IN OUT       y, grad.x, grad.<parameter> of an attention module with OPTIONS (JSON: width,
//                                         heads, kv_heads, causal, variant, variants, position, positions, grid [rows,
//                                         columns, before], steps: sizes of cached calls, which give `cached`); IN: x,
//                                         gradient of y, parameters; lengths, start, past
//   parity segments MODEL IN OUT          losses of segments ids, labels [N, B, T] that go on from each other, and
//                                         grad.<stored name> of their sum
//   parity copy     MODEL DIR             load, save
//   parity image    FOLDER FILE OUT CHANNELS   `pixels` of an image file, and those `prepared` as FOLDER's
//                                              preprocessor_config.json says, which FOLDER/saved gets a copy of
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "fovea/attention/attention.h"
#include "fovea/base/probe.h"
#include "fovea/channel/channel_attention.h"
#include "fovea/data/image_processor.h"
#include "fovea/generate/generate.h"
#include "fovea/io/images.h"
#include "fovea/io/json.h"
#include "fovea/masks/causal.h"
#include "fovea/masks/padding.h"
#include "fovea/models/bert.h"
#include "fovea/models/pretrained.h"
#include "fovea/models/vit.h"
#include "fovea/train/optimizer.h"

using namespace fovea;

namespace {

Tensor optional(const SafetensorsFile& file, const char* name) { return file.contains(name) ? file.tensor(name) : Tensor(); }

Batch read_batch(const SafetensorsFile& in) {
  return {.ids = optional(in, "ids"),
          .lengths = optional(in, "lengths"),
          .start = optional(in, "start"),
          .type_ids = optional(in, "type_ids"),
          .global = optional(in, "global"),
          .images = optional(in, "images"),
          .documents = optional(in, "documents"),
          .positions = optional(in, "positions"),
          .target_ids = optional(in, "target_ids"),
          .target_lengths = optional(in, "target_lengths"),
          .labels = optional(in, "labels"),
          .next_sentence = optional(in, "next_sentence")};
}

NamedTensors forward(ModelImpl& model, const SafetensorsFile& in) {
  const Batch batch = read_batch(in);
  NamedTensors out{{"logits", model.forward(batch).detach()}};
  if (auto* encoder = dynamic_cast<EncoderModelImpl*>(&model)) out.emplace_back("hidden", encoder->encode(batch).detach());
  const auto pool = [&](const auto* reader) {
    if (reader && reader->has_pooler()) out.emplace_back("pooled", reader->pooled(batch).detach());
  };
  pool(dynamic_cast<BertImpl*>(&model));
  pool(dynamic_cast<VitImpl*>(&model));
  if (!batch.labels.defined()) return out;
  const LossSum loss = model.loss(batch);
  loss.mean().backward();
  out.emplace_back("loss", loss.mean().detach().reshape({1}));
  for (auto& [name, gradient] : stored_tensors(model, [](const Tensor& p) { return p.grad().defined() ? p.grad() : at::zeros_like(p); }))
    out.emplace_back("grad." + name, gradient);
  return out;
}

NamedTensors decode(const GenerativeModelImpl& model, const SafetensorsFile& in) {
  const at::NoGradGuard guard;
  const Tensor ids = in.tensor("ids");
  const int64_t prompt = in.tensor("prompt").item<int64_t>();
  DecoderState state = model.begin(optional(in, "source"), optional(in, "source_lengths"));
  state.start = optional(in, "start");
  std::vector<Tensor> logits{model.step(ids.narrow(1, 0, prompt), state)};
  for (int64_t t = prompt; t < ids.size(1); ++t) logits.push_back(model.step(ids.narrow(1, t, 1), state));
  return {{"logits", at::cat(logits, 1)}};
}

NamedTensors generated(const GenerativeModelImpl& model, const SafetensorsFile& in, int64_t tokens, const std::string& more) {
  std::vector<std::vector<int64_t>> prompts;
  const Tensor ids = in.tensor("ids"), lengths = optional(in, "lengths");
  for (int64_t b = 0; b < ids.size(0); ++b) {
    const int64_t length = lengths.defined() ? lengths[b].item<int64_t>() : ids.size(1);
    prompts.emplace_back();
    for (int64_t t = 0; t < length; ++t) prompts.back().push_back(ids[b][t].item<int64_t>());
  }
  GenerateOptions options{.max_new_tokens = tokens};
  if (in.contains("start_id")) options.start_id = in.tensor("start_id").item<int64_t>();
  const nlohmann::json fields = parse_json(more, "options");
  fill_from_json(options, fields, "options");
  const GenerateResult result = generate(model, prompts, options);
  std::vector<double> scores;
  for (const Generated& row : result.rows) scores.push_back(row.score);
  return {{"ids", result.ids}, {"scores", at::tensor(scores, at::kDouble)}};
}

NamedTensors train(ModelImpl& model, const SafetensorsFile& in, double rate) {
  model.train();
  const bool sees = in.contains("images");
  const Tensor inputs = in.tensor(sees ? "images" : "ids"), labels = in.tensor("labels");
  AdamW optimizer(distinct_parameters(model), {.weight_decay = 0.1, .beta1 = 0.9, .beta2 = 0.99, .clip = 1, .no_decay = {}});
  std::vector<double> losses;
  for (int64_t n = 0; n < inputs.size(0); ++n) {
    optimizer.zero_grad();
    Batch batch{.labels = labels[n]};
    (sees ? batch.images : batch.ids) = inputs[n];
    const Tensor loss = model.loss(batch).mean();
    losses.push_back(loss.item<double>());
    loss.backward();
    optimizer.clip_gradients();
    optimizer.step(rate);
  }
  return {{"losses", at::tensor(losses, at::kDouble)}};
}

NamedTensors image(const std::string& folder, const std::string& file, int64_t channels) {
  const auto prepare = ImageProcessor::load(folder);
  std::filesystem::create_directories(folder + "/saved");
  prepare.save(folder + "/saved");
  const Tensor pixels = read_image(file, channels);
  if (channels == 1) return {{"pixels", pixels}};
  return {{"pixels", pixels}, {"prepared", prepare(pixels)}};
}

NamedTensors channel(const std::string& name, const std::string& options, const SafetensorsFile& in) {
  ChannelOptions filled;
  fill_from_json(filled, parse_json(options, "options"), "options");
  const auto module = make_channel_attention(name, filled);
  module->train(in.contains("training"));
  NamedTensors out;
  const Probe probe = Probe::on("*", [&](std::string_view path, const Tensor& value) { out.emplace_back(path, value.detach().clone()); });
  {
    const at::NoGradGuard guard;
    for (auto& item : module->named_parameters()) item.value().copy_(in.tensor(item.key()));
  }
  const Tensor x = in.tensor("x").requires_grad_();
  const Tensor y = module->forward(x);
  y.backward(in.tensor("gradient"));
  out.emplace_back("y", y.detach());
  out.emplace_back("grad.x", x.grad());
  for (auto& item : module->named_parameters()) out.emplace_back("grad." + item.key(), item.value().grad());
  for (auto& item : module->named_buffers()) out.emplace_back(item.key(), item.value());
  return out;
}

NamedTensors attend(const std::string& text, const SafetensorsFile& in) {
  const nlohmann::json options = parse_json(text, "options");
  MultiHeadOptions filled{.width = options.at("width"),
                          .heads = options.at("heads"),
                          .kv_heads = options.value("kv_heads", int64_t{0}),
                          .position = options.value("position", "none"),
                          .variant = options.value("variant", "softmax")};
  const nlohmann::json variants = options.value("variants", nlohmann::json::object()),
                       positions = options.value("positions", nlohmann::json::object());
  fill_from_json(filled.variants, variants, "options");
  fill_from_json(filled.positions, positions, "options");
  Attention module(filled);
  const Tensor x = in.tensor("x").clone().requires_grad_(), start = optional(in, "start"), lengths = optional(in, "lengths");
  module->to(x.scalar_type());
  {
    const at::NoGradGuard guard;
    for (auto& item : module->named_parameters()) item.value().copy_(in.tensor(item.key()));
  }
  AttendInput input{.past = optional(in, "past")};
  if (options.value("causal", false)) input.mask = masks::causal();
  if (lengths.defined()) input.mask = input.mask & (start.defined() ? masks::padding(start, lengths) : masks::padding(lengths));
  if (options.contains("grid")) input.positions = CellGrid{options["grid"][0], options["grid"][1], options["grid"][2]};
  const Tensor y = module->forward(x, input);
  y.backward(in.tensor("gradient"));
  NamedTensors out{{"y", y.detach()}, {"grad.x", x.grad()}};
  for (auto& item : module->named_parameters()) out.emplace_back("grad." + item.key(), item.value().grad());
  if (!options.contains("steps")) return out;
  const at::NoGradGuard guard;
  LayerCache cache;
  std::vector<Tensor> steps;
  int64_t done = 0;
  for (const int64_t count : options["steps"]) {
    steps.push_back(module->forward(x.detach().narrow(1, done, count), {.mask = masks::causal(), .cache = &cache}));
    done += count;
  }
  out.emplace_back("cached", at::cat(steps, 1));
  return out;
}

NamedTensors segments(ModelImpl& model, const SafetensorsFile& in) {
  model.train();
  const Tensor ids = in.tensor("ids"), labels = in.tensor("labels");
  std::vector<double> losses;
  for (int64_t n = 0; n < ids.size(0); ++n) {
    const LossSum loss = model.loss({.ids = ids[n], .labels = labels[n], .continues = n > 0});
    losses.push_back(loss.mean().item<double>());
    loss.mean().backward();
  }
  NamedTensors out{{"losses", at::tensor(losses, at::kDouble)}};
  for (auto& [name, gradient] : stored_tensors(model, [](const Tensor& p) { return p.grad(); }))
    out.emplace_back("grad." + name, gradient);
  return out;
}

int run(const std::vector<std::string>& args) {
  const std::string& what = args.at(0);
  if (what == "copy") {
    save_pretrained(*load_pretrained_model(args.at(1)), args.at(2));
    return 0;
  }
  if (what == "channel") {
    write_safetensors(args.at(3), channel(args.at(4), args.at(1), SafetensorsFile(args.at(2))));
    return 0;
  }
  if (what == "attention") {
    write_safetensors(args.at(3), attend(args.at(1), SafetensorsFile(args.at(2))));
    return 0;
  }
  if (what == "image") {
    write_safetensors(args.at(3), image(args.at(1), args.at(2), std::stoll(args.at(4))));
    return 0;
  }
  const Model model = load_pretrained_model(args.at(1));
  if (args.size() > 4 && args[4] == "bf16") model->to(at::kBFloat16);
  if (args.size() > 4 && args[4] == "f64") model->to(at::kDouble);
  const SafetensorsFile in(args.at(2));
  const auto generative = std::dynamic_pointer_cast<GenerativeModelImpl>(model);
  NamedTensors out;
  if (what == "forward") out = forward(*model, in);
  if (what == "decode") out = decode(*generative, in);
  if (what == "generate") out = generated(*generative, in, std::stoll(args.at(4)), args.size() > 5 ? args[5] : "{}");
  if (what == "segments") out = segments(*model, in);
  if (what == "train") out = train(*model, in, std::stod(args.at(4)));
  write_safetensors(args.at(3), out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "parity: %s\n", error.what());
    return 1;
  }
}
