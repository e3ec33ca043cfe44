// The fovea side of the model benchmarks: a process that waits for a line on stdin, does its case's work once and
// answers with the seconds it took and a number to compare (a loss, a sum of outputs), so that it can alternate with a
// peer in Python. tools/bench.py drives it.
//
//   model_bench CASE THREADS [FOLDER]    FOLDER: what the peer made, a model and the inputs
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <chrono>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string_view>

#include "benchmarks/attention_cases.h"
#include "benchmarks/long_layers.h"
#include "fovea/base/memory.h"
#include "fovea/channel/channel_attention.h"
#include "fovea/generate/generate.h"
#include "fovea/models/gpt2.h"
#include "fovea/models/pretrained.h"
#include "fovea/models/text_encoder.h"
#include "fovea/train/optimizer.h"

using namespace fovea;

namespace {

using Path = std::filesystem::path;
using Work = std::function<double()>;

// GPT-2's layers in the size of configs/kjv.toml.
constexpr int64_t kVocabulary = 64, kContext = 128, kBatch = 8;

Gpt2 demo_model() {
  return Gpt2(Gpt2Config{.vocab_size = kVocabulary,
                         .positions = kContext,
                         .width = 128,
                         .layers = 4,
                         .heads = 4,
                         .residual_dropout = 0,
                         .embedding_dropout = 0,
                         .attention_dropout = 0});
}

// One step: forward, backward, clipping, AdamW. `next` gives the tokens, one more than the model reads.
Work training(Model model, std::function<Tensor()> next) {
  model->train();
  auto optimizer = std::make_shared<AdamW>(distinct_parameters(*model), OptimOptions{});
  return [=] {
    const Tensor tokens = next();
    optimizer->zero_grad();
    const Tensor loss = model->loss({.ids = tokens.slice(1, 0, -1), .labels = tokens.slice(1, 1)}).mean();
    loss.backward();
    optimizer->clip_gradients();
    optimizer->step(1e-3);
    return loss.item<double>();
  };
}

Work generation(GenerativeModel model, std::vector<int64_t> prompt, GenerateOptions options) {
  model->eval();
  return [=] {
    double sum = 0;
    for (const auto& row : generate(*model, {prompt}, options).rows)
      for (const int64_t id : row.tokens) sum += double(id);
    return sum;
  };
}

Tensor input(const Path& folder, const char* name) {
  return SafetensorsFile(folder / "inputs.safetensors").tensor(name);
}

std::vector<int64_t> ids_of(const Tensor& ids) {
  return {ids.data_ptr<int64_t>(), ids.data_ptr<int64_t>() + ids.numel()};
}

Work encoding(const Path& folder) {
  const auto encoder = TextEncoder::load(folder);
  std::vector<std::string> texts;
  std::ifstream file(folder / "texts.txt");
  for (std::string line; std::getline(file, line);) texts.push_back(line);
  return [=] {
    const at::InferenceMode guard;
    return encoder.embed(texts).abs().sum().item<double>();
  };
}

Work forward(const Path& folder) {
  const Model model = load_pretrained_model(folder);
  const Batch batch{.ids = input(folder, "ids"), .lengths = input(folder, "lengths")};
  const Tensor real = at::arange(batch.ids.size(1)) < batch.lengths.unsqueeze(1);
  return [=] {
    const at::InferenceMode guard;
    return model->forward(batch).index({real}).abs().sum().item<double>();
  };
}

// An attention layer with the peer's weights, forward and backward.
Work long_layer(const std::string& name, const Path& folder) {
  const Tensor x = input(folder, "x").clone().requires_grad_();
  const auto layer = bench::long_layer(name, x.size(1));
  const at::NoGradGuard guard;
  for (auto& parameter : layer.attention->named_parameters())
    parameter.value().copy_(input(folder, parameter.key().c_str()));
  return [=] {
    const at::AutoGradMode on(true);
    const double sum = layer.run(x).abs().sum().item<double>();
    return sum + x.grad().abs().sum().item<double>();
  };
}

// A channel attention with the peer's weights, in training, forward and backward.
Work channel(const std::string& name, const Path& folder) {
  const Tensor x = input(folder, "x").clone().requires_grad_();
  const auto layer =
      make_channel_attention(name, {.channels = x.size(1), .least_hidden = name == "coordinate" ? 8 : 1});
  const at::NoGradGuard guard;
  for (auto& parameter : layer->named_parameters()) parameter.value().copy_(input(folder, parameter.key().c_str()));
  return [=] {
    const at::AutoGradMode on(true);
    layer->zero_grad();
    x.mutable_grad() = Tensor();
    const Tensor y = layer->forward(x);
    y.mul(x.detach()).sum().backward();
    return y.detach().abs().sum().item<double>() + x.grad().abs().sum().item<double>();
  };
}

// A call of attention_cases.h, forward, on the peer's numbers.
Work call(const std::string& name, const Path& folder) {
  for (const bench::AttentionCase& c : bench::attention_cases()) {
    if (!name.starts_with(c.name + "-flex")) continue;
    const at::ScalarType type = name.ends_with("bf16") ? at::kBFloat16 : at::kFloat;
    const auto heads = [&](const char* which) {
      return input(folder, which).to(type).transpose(1, 2);
    };  // [B, H, T, D]
    const Tensor q = heads("q"), k = heads("k"), v = heads("v");
    const AttentionOptions options{.mask = c.mask ? c.mask(c.shape) : Mask(),
                                   .score = c.score ? c.score(c.shape) : Score()};
    return [=] { return attention(q, k, v, options).abs().sum(at::kDouble).item<double>(); };
  }
  throw Error(ErrorKind::kArgument, "model_bench: unknown case \"" + name + "\"");
}

Work make(const std::string& name, const Path& folder) {
  const auto from_folder = [&](at::ScalarType type, GenerateOptions options) {
    const GenerativeModel model = load_generative_model(folder);
    model->to(type);
    return generation(model, ids_of(input(folder, "ids")), options);
  };
  if (name == "demo-train")
    return training(demo_model().ptr(), [] { return at::randint(kVocabulary, {kBatch, kContext + 1}, at::kLong); });
  if (name == "demo-generate")
    return generation(demo_model().ptr(), std::vector<int64_t>(64, 7), {.max_new_tokens = 64});
  if (name == "gpt2-train")
    return training(load_pretrained_model(folder), [ids = input(folder, "ids")] { return ids; });
  if (name == "gpt2-generate") return from_folder(at::kFloat, {.max_new_tokens = 64});
  if (name == "gpt2-generate-bf16") return from_folder(at::kBFloat16, {.max_new_tokens = 64});
  if (name == "t5-small-beams")
    return from_folder(at::kFloat, {.max_new_tokens = 48, .beams = 4, .pad_id = 0, .start_id = 0});
  if (name == "bert-base-padded") return forward(folder);
  if (name.starts_with("channel-")) return channel(name.substr(8), folder);
  if (name.find("-layer") != std::string::npos) return long_layer(name, folder);
  if (name == "minilm-encode") return encoding(folder);
  return call(name, folder);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: model_bench CASE THREADS [FOLDER]\n";
    return 2;
  }
  keep_freed_memory();  // as the command does
  if (!std::string_view(argv[1]).ends_with("-train")) use_large_pages();
  at::set_num_threads(std::stoi(argv[2]));
  at::manual_seed(1);
  const Work work = make(argv[1], argc > 3 ? argv[3] : "");
  for (std::string line; std::getline(std::cin, line);) {
    const auto begin = std::chrono::steady_clock::now();
    const double answer = work();
    std::cout << std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() << ' ' << answer
              << std::endl;
  }
}
