// `fovea attend`: where every head looks while the model reads a text or sees an image, as a page or as numbers.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>

#include "apps/fovea/commands/registry.h"
#include "apps/fovea/machine.h"
#include "apps/fovea/model_folder.h"
#include "apps/fovea/output.h"
#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/data/labelled_images.h"
#include "fovea/generate/generate.h"
#include "fovea/view/channel_recorder.h"
#include "fovea/view/page.h"
#include "fovea/view/recorder.h"

namespace fovea {
namespace {

at::Tensor row_of(const std::vector<int64_t>& ids) { return at::tensor(ids, at::kLong).unsqueeze(0); }  // [1, T]

struct Attend {
  std::string folder_path, text, target, page;
  bool pairs = false, json = false;
  ThreadsOption threads;

  void declare(CommandLine& line) {
    line.option("-m,--model", "DIR", folder_path, "model folder", Need::kRequired);
    line.positional("TEXT", text,
                    "what the model reads; of a model that sees: a PNG or JPEG file, or FILE:N of an IDX file");
    line.option("--target", "TEXT", target, "encoder-decoder: what it has written [its own best answer]");
    line.option("-o,--out", "FILE", page, "HTML page to write; opens without a network");
    line.flag("--pairs", pairs, "TEXT is two texts with a tab between them");
    line.flag("--json", json, "the record on standard output (docs/view.md)");
    threads.declare(line);
  }

  int run() {
    FOVEA_CHECK_CONFIG(json || !page.empty(), "wanted --out FILE, --json or both");
    threads.apply();
    if (ImageEncoder::fits(folder_path)) {
      FOVEA_CHECK_CONFIG(!pairs, "--pairs is for models that read texts; this one sees");
      return write(watch_picture());
    }
    const ModelFolder folder = open_model_folder(folder_path);
    const auto reader = std::dynamic_pointer_cast<EncoderModelImpl>(folder.model);
    const GenerativeModel writer = reader ? nullptr : writing_model(folder);
    const bool both = writer && writer->has_encoder();
    FOVEA_CHECK_CONFIG(target.empty() || both, "--target is for an encoder-decoder; this is a ", folder.model->type());
    const c10::InferenceMode inference;
    if (pairs) {
      FOVEA_CHECK_CONFIG(reader != nullptr, "--pairs is for models that read; this one writes");
      return write(watch_pair(folder, *reader));
    }
    const std::vector<int64_t> ids = prompt_ids(folder, text, "TEXT");
    const AttentionRecord record = reader ? watch_reader(folder, *reader, ids)
                                   : both ? watch_both(folder, *writer, ids)
                                          : watch_one(folder, *writer, ids);
    return write(record);
  }

  int write(const AttentionRecord& record) const {
    if (!page.empty()) write_page(page, record);
    size_t tokens = record.sequences[0].tokens.size();
    if (json)
      output().line(to_json(record));
    else
      output().line(detail::concat("saved ", page, " (", record.maps.size(), " layers, ", tokens, " tokens)"));
    return 0;
  }

  AttentionRecord watch_picture() const {
    FOVEA_CHECK_CONFIG(target.empty(), "--target is for an encoder-decoder; this model sees");
    const ImageEncoder encoder = open_image_encoder(folder_path);
    const ImageShape shape = encoder.shape();
    const at::Tensor pixels = encoder.prepare.resized(encoder.read(text));
    const at::Tensor seen =
        pixels.narrow(1, 0, shape.rows * shape.patch_height).narrow(2, 0, shape.columns * shape.patch_width);
    const c10::InferenceMode inference;
    const auto watch = [&](auto&& recorder) {
      encoder.model->encode({.images = encoder.prepare.scaled(pixels).unsqueeze(0)});
      return recorder.finish();
    };
    if (encoder.model->type() == "residual_cnn") return watch(ChannelRecorder(folder_path, pixels));
    return watch(Recorder(folder_path, AttentionRecord::Picture{seen, shape.rows, shape.columns}));
  }

  static AttentionRecord watch_reader(const ModelFolder& folder, const EncoderModelImpl& model,
                                      const std::vector<int64_t>& ids, const at::Tensor& type_ids = {}) {
    Recorder recorder(folder.path.native(), token_texts(folder.tokenizer, ids));
    model.encode({.ids = row_of(ids), .type_ids = type_ids});
    return recorder.finish();
  }

  AttentionRecord watch_pair(const ModelFolder& folder, const EncoderModelImpl& model) const {
    check_reads_pairs(model, folder.tokenizer, folder_path);
    check_utf8(text, "TEXT");
    const TextPair pair = text_pair({text, "TEXT"});
    const Encoding row = folder.tokenizer.encode_pair(pair.source, pair.target, {.pad = false});
    FOVEA_CHECK_INPUT(int64_t(row.ids.size()) <= model.max_positions(), "TEXT: the texts have ", row.ids.size(),
                      " tokens, the model has ", model.max_positions(), " positions");
    return watch_reader(folder, model, row.ids, row_of(row.type_ids));
  }

  static AttentionRecord watch_one(const ModelFolder& folder, const GenerativeModelImpl& model,
                                   const std::vector<int64_t>& ids) {
    Recorder recorder(folder.path.native(), token_texts(folder.tokenizer, ids));
    DecoderState state = model.begin();
    model.step(row_of(ids), state, true);
    return recorder.finish();
  }

  AttentionRecord watch_both(const ModelFolder& folder, const GenerativeModelImpl& model,
                             const std::vector<int64_t>& source) const {
    FOVEA_CHECK_INPUT(folder.options.start_id >= 0, folder.path.native(),
                      ": neither config.json nor the tokenizer names the token that a target starts with");
    std::vector<int64_t> ids{folder.options.start_id};
    for (const int64_t id : target.empty() ? own_answer(folder, model, source) : target_ids(folder)) ids.push_back(id);
    FOVEA_CHECK_INPUT(int64_t(ids.size()) <= model.max_positions(), "the target has ", ids.size(),
                      " tokens, the model has ", model.max_positions(), " positions");
    Recorder recorder(folder.path.native(), token_texts(folder.tokenizer.source(), source),
                      token_texts(folder.tokenizer, ids));
    DecoderState state = model.begin(row_of(source), at::tensor({int64_t(source.size())}, at::kLong));
    model.step(row_of(ids), state, true);
    return recorder.finish();
  }

  std::vector<int64_t> target_ids(const ModelFolder& folder) const {
    check_utf8(target, "--target");
    return folder.tokenizer.ids(target, {.add_special_tokens = false, .truncate = false, .pad = false});
  }

  // What the model itself would write, without the end token.
  static std::vector<int64_t> own_answer(const ModelFolder& folder, const GenerativeModelImpl& model,
                                         const std::vector<int64_t>& source) {
    GenerateOptions options;
    options.end_ids = folder.options.end_ids;
    options.start_id = folder.options.start_id;
    Generated answer = std::move(generate(model, {source}, options).rows[0]);
    if (answer.finish == Finish::kEnd) answer.tokens.pop_back();
    if (int64_t(answer.tokens.size()) >= model.max_positions()) answer.tokens.resize(size_t(model.max_positions()) - 1);
    return answer.tokens;
  }
};

}  // namespace

void register_commands_attend(CommandsRegistry& registry) {
  registry.add("attend",
               command<Attend>("where every head of a model looks, as a page",
                               "fovea attend --model runs/kjv/best \"In the beginning\" -o look.html\n"
                               "fovea attend --model runs/fashion/best coat.png -o look.html\n"
                               "fovea attend --model models/nli --pairs $'A man eats.\\tHe is hungry.' -o look.html"));
}

}  // namespace fovea
