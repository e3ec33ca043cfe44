// `fovea classify`: the class of each text, of each of its tokens, or of each image.
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "apps/fovea/commands/registry.h"
#include "apps/fovea/exit_codes.h"
#include "apps/fovea/machine.h"
#include "apps/fovea/model_folder.h"
#include "apps/fovea/output.h"
#include "apps/fovea/signals.h"
#include "apps/fovea/terminal.h"
#include "apps/fovea/text_input.h"
#include "fovea/base/check.h"
#include "fovea/data/labelled_images.h"

namespace fovea {
namespace {

struct Classify {
  std::string folder_path;
  bool pairs = false, json = false;
  TextInput input;
  ThreadsOption threads;

  void declare(CommandLine& line) {
    line.option("-m,--model", "DIR", folder_path, "model folder", Need::kRequired);
    input.declare(line);
    line.flag("--pairs", pairs, "each text is two, with a tab between them");
    line.flag("--json", json, "one JSON object a text or image (docs/json.md)");
    threads.declare(line);
  }

  int run() {
    threads.apply();
    if (ImageEncoder::fits(folder_path)) return classify_images();
    const TextEncoder encoder = open_text_encoder(folder_path);
    const bool of_tokens = encoder.model->head() == "token_classifier";
    FOVEA_CHECK_INPUT(of_tokens || encoder.model->head() == "classifier", folder_path,
                      ": the model does not classify; its head is \"", encoder.model->head(), "\"");
    FOVEA_CHECK_CONFIG(!of_tokens || !pairs, "--pairs is for models that classify texts; this one classifies tokens");
    if (pairs) check_reads_pairs(*encoder.model, encoder.tokenizer, folder_path);
    input.each(256, [&](const std::vector<TextLine>& lines) {
      of_tokens ? write_tokens(encoder, lines) : write_texts(encoder, lines);
      output().flush();
    });
    return StopSignals::wanted() ? kExitInterrupted : 0;
  }

  // The "texts" name images.
  int classify_images() const {
    FOVEA_CHECK_CONFIG(!pairs, "--pairs is for models that classify texts; this one classifies images");
    const ImageEncoder encoder = open_image_encoder(folder_path);
    input.each(32, [&](const std::vector<TextLine>& lines) {
      std::vector<at::Tensor> images;
      for (const TextLine& line : lines) {
        check_text_is_there(line.text, line.source);
        images.push_back(encoder.read(line.text));
      }
      for (const Classified& is : encoder.classify(images)) write(*encoder.model, is);
      output().flush();
    });
    return StopSignals::wanted() ? kExitInterrupted : 0;
  }

  void write(const EncoderModelImpl& model, const Classified& is) const {
    json ? output().json(as_json(model, is)) : output().line(as_text(model, is));
  }

  static std::vector<std::string> checked_texts(const TextEncoder& encoder, const std::vector<TextLine>& lines) {
    std::vector<std::string> out;
    for (const TextLine& line : lines) {
      check_text(encoder, line.text, line.source);
      out.push_back(line.text);
    }
    return out;
  }

  static TextEncoder::Pairs checked_pairs(const TextEncoder& encoder, const std::vector<TextLine>& lines) {
    TextEncoder::Pairs out;
    for (const TextLine& line : lines) {
      check_text(encoder, line.text, line.source);
      const TextPair pair = text_pair(line);
      out.emplace_back(pair.source, pair.target);
    }
    return out;
  }

  static nlohmann::json as_json(const EncoderModelImpl& model, const Classified& is) {
    nlohmann::json scores = nlohmann::json::object();
    const auto labels = model.labels();
    for (size_t i = 0; i < labels.size(); ++i) scores[labels[i]] = is.scores[i];
    return {{"label", is.label}, {"scores", scores}};
  }

  static std::string as_text(const EncoderModelImpl& model, const Classified& is) {
    const auto labels = model.labels();
    for (size_t i = 0; i < labels.size(); ++i)
      if (labels[i] == is.label) return is.label + "\t" + fixed(is.scores[i], 4);
    return is.label;
  }

  void write_texts(const TextEncoder& encoder, const std::vector<TextLine>& lines) const {
    const auto results =
        pairs ? encoder.classify(checked_pairs(encoder, lines)) : encoder.classify(checked_texts(encoder, lines));
    for (const Classified& is : results) write(*encoder.model, is);
  }

  void write_tokens(const TextEncoder& encoder, const std::vector<TextLine>& lines) const {
    for (const auto& tokens : encoder.classify_tokens(checked_texts(encoder, lines))) {
      nlohmann::json list = nlohmann::json::array();
      for (const ClassifiedToken& token : tokens) {
        if (!json) {
          output().line(token.token + "\t" + as_text(*encoder.model, token.is));
          continue;
        }
        list.push_back(as_json(*encoder.model, token.is));
        list.back().update({{"token", token.token}, {"offset", token.offset}});
      }
      json ? output().json({{"tokens", list}}) : output().line("");
    }
  }
};

}  // namespace

void register_commands_classify(CommandsRegistry& registry) {
  registry.add("classify", command<Classify>("the class of each text, of each of its tokens, or of each image",
                                             "fovea classify --model runs/sentiment/best \"A film to see twice.\"\n"
                                             "fovea classify --model runs/sentiment/best --json < reviews.txt\n"
                                             "fovea classify --model runs/fashion/best left-shoe.png coat.jpg"));
}

}  // namespace fovea
