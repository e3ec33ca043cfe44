// `fovea eval`: how good a model is on texts or images it is given: its loss, and what its kind is for.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>

#include "apps/fovea/commands/registry.h"
#include "apps/fovea/evaluation.h"
#include "apps/fovea/exit_codes.h"
#include "apps/fovea/machine.h"
#include "apps/fovea/model_folder.h"
#include "apps/fovea/output.h"
#include "apps/fovea/signals.h"
#include "fovea/base/check.h"
#include "fovea/data/text_lines.h"
#include "fovea/io/files.h"
#include "fovea/loss/evaluate.h"
#include "fovea/models/image_encoder.h"
#include "fovea/train/parts.h"

namespace fovea {
namespace {

constexpr double kAsTheFolder = std::numeric_limits<double>::quiet_NaN();

struct Eval {
  std::string folder_path, kind, words, texts, wanted, label_column;
  std::vector<std::string> files;
  int64_t batch_size = 32, context = 0, beams = 0, max_new_tokens = -1, samples = 0, seed = 1;
  double temperature = kAsTheFolder, length_penalty = kAsTheFolder;
  bool loss_only = false, cut_longer = false, json = false;
  ThreadsOption threads;

  void declare(CommandLine& line) {
    line.option("-m,--model", "DIR", folder_path, "model folder");
    line.option("-d,--data", "FILE", files,
                "what to measure on (may be repeated); images: a folder of CLASS/*.png or *.jpg, or an IDX file");
    line.option("--kind", "text|lines|pairs|labels|masked|images", kind,
                "one stream of text, a text a line, source<TAB>target, label<TAB>text, a text a line with some words "
                "hidden, or "
                "images [what the model is for; a decoder alone: text]");
    line.option("--label-column", "first|last", label_column, "of labels [first]");
    line.flag("--cut-longer", cut_longer, "labels: texts longer than a row are cut");
    line.option("--context", "N", context, "tokens in a row [as many as the model has positions]");
    line.option("--batch-size", "N", batch_size, "rows that run together [32]");
    line.flag("--loss-only", loss_only, "pairs: do not translate");
    line.option("--beams", "N", beams, "pairs: for the translations [as the folder says]");
    line.option("--length-penalty", "X", length_penalty, "pairs: of the beams, above 1 for longer translations");
    line.option("--samples", "N", samples, "text, lines: texts to write, for how much they repeat [0]");
    line.option("--temperature", "X", temperature, "of these samples [as the folder says]");
    line.option("--max-new-tokens", "N", max_new_tokens, "of each text written [as the folder says; samples: 200]");
    line.option("--words", "13a|zh|char", words, "how texts are cut into words [13a; zh where most of it is Chinese]");
    line.option("--texts", "FILE", texts, "without a model: translations, a line each");
    line.option("--wanted", "FILE", wanted, "what they should have been, a line each");
    line.option("--seed", "N", seed, "of the draws behind the intervals, and of samples [1]");
    line.flag("--json", json, "one JSON object (docs/json.md)");
    threads.declare(line);
  }

  int run() {
    check_options();
    threads.apply();
    const StopSignals catch_signals;
    if (!texts.empty()) return score_files(), 0;
    if (ImageEncoder::fits(folder_path)) return measure_images();
    const ModelFolder folder = open_model_folder(folder_path);
    FOVEA_CHECK_CONFIG(context <= folder.model->max_positions(), "--context is ", context, ", the model has ",
                       folder.model->max_positions(), " positions");
    if (kind.empty()) kind = kind_of(*folder.model);
    check_used();
    const auto begin = std::chrono::steady_clock::now();
    auto facts = measure(folder);
    if (facts && !loss_only) facts = with_texts(folder, std::move(*facts));
    if (!facts) return kExitInterrupted;
    (*facts)["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    show(*facts);
    return 0;
  }

 private:
  using Facts = nlohmann::ordered_json;

  void check_options() const {
    const bool scores = !texts.empty() || !wanted.empty();
    FOVEA_CHECK_CONFIG(!scores || (!texts.empty() && !wanted.empty()), "--texts and --wanted go together");
    FOVEA_CHECK_CONFIG(!scores || (folder_path.empty() && files.empty()),
                       "--texts and --wanted need no model and no --data");
    FOVEA_CHECK_CONFIG(scores || !folder_path.empty(), "--model is required");
    FOVEA_CHECK_CONFIG(scores || !files.empty(), "--data is required");
    FOVEA_CHECK_CONFIG(batch_size >= 1, "--batch-size is ", batch_size, ", wanted 1 or more");
    FOVEA_CHECK_CONFIG(beams >= 0, "--beams is ", beams, ", wanted 1 or more");
    FOVEA_CHECK_CONFIG(max_new_tokens == -1 || max_new_tokens >= 1, "--max-new-tokens is ", max_new_tokens,
                       ", wanted 1 or more");
    FOVEA_CHECK_CONFIG(!(temperature < 0), "--temperature is ", temperature, ", wanted 0 or more");
    FOVEA_CHECK_CONFIG(context >= 0, "--context is ", context, ", wanted 1 or more, or 0");
    FOVEA_CHECK_CONFIG(samples >= 0 && seed >= 0, "--samples is ", samples, " and --seed ", seed, ", wanted 0 or more");
    if (!words.empty()) word_split(words);
  }

  // An option that would change nothing is a mistake somewhere.
  void check_used() const {
    const auto only_for = [&](const char* option, bool given, std::initializer_list<const char*> kinds) {
      std::string names;
      for (const char* name : kinds) names += (names.empty() ? "" : ", ") + std::string(name);
      FOVEA_CHECK_CONFIG(!given || std::find(kinds.begin(), kinds.end(), kind) != kinds.end(), option, " is for ",
                         names, "; the data's kind is \"", kind, "\"");
    };
    only_for("--label-column", !label_column.empty(), {"labels"});
    only_for("--cut-longer", cut_longer, {"labels"});
    only_for("--context", context > 0, {"text", "lines", "pairs", "labels", "masked"});
    only_for("--loss-only", loss_only, {"pairs"});
    only_for("--beams", beams > 0, {"pairs"});
    only_for("--length-penalty", !std::isnan(length_penalty), {"pairs"});
    only_for("--samples", samples > 0, {"text", "lines"});
    only_for("--temperature", !std::isnan(temperature), {"text", "lines"});
    only_for("--max-new-tokens", max_new_tokens > 0, {"text", "lines", "pairs"});
    only_for("--words", !words.empty(), {"text", "lines", "pairs"});
    const bool writes = kind == "pairs" ? !loss_only : samples > 0;
    const std::pair<const char*, bool> of_writing[] = {{"--beams", beams > 0},
                                                       {"--length-penalty", !std::isnan(length_penalty)},
                                                       {"--temperature", !std::isnan(temperature)},
                                                       {"--max-new-tokens", max_new_tokens > 0},
                                                       {"--words", !words.empty()}};
    for (const auto& [option, given] : of_writing)
      FOVEA_CHECK_CONFIG(writes || !given, option, " is of the texts that are written; ",
                         kind == "pairs" ? "--loss-only writes none" : "--samples says how many, and is 0");
  }

  static std::string kind_of(const ModelImpl& model) {
    if (const auto* writer = dynamic_cast<const GenerativeModelImpl*>(&model); writer && writer->has_encoder())
      return "pairs";
    const auto* reader = dynamic_cast<const EncoderModelImpl*>(&model);
    const std::string head = reader ? reader->head() : "";
    return head == "classifier" ? "labels" : head == "masked_lm" ? "masked" : "text";
  }

  BootstrapOptions draws() const { return {.seed = uint64_t(seed)}; }

  // Losses, and for a model that reads how often it is right. Nothing where a signal asked to stop.
  std::optional<Facts> measure(const ModelFolder& folder) const {
    const MeasuredData measured = load_measured_data(*folder.model, folder.tokenizer,
                                                     {.kind = kind,
                                                      .files = files,
                                                      .context = context,
                                                      .batch_size = batch_size,
                                                      .label_column = label_column.empty() ? "first" : label_column,
                                                      .cut_longer = cut_longer});
    const bool reads = kind == "labels" || kind == "masked";
    const auto found = reads ? predict(*folder.model, *measured.data, StopSignals::wanted) : std::nullopt;
    const auto result = reads ? (found ? std::optional(found->evaluation) : std::nullopt)
                              : evaluate(*folder.model, *measured.data, StopSignals::wanted);
    if (!result) return std::nullopt;
    FOVEA_CHECK_KIND(ErrorKind::kDiverged, std::isfinite(result->loss), folder_path, ": the loss is ",
                     std::abs(result->loss));
    Facts facts = {{"loss", result->loss}};
    if (kind != "labels") {
      facts["perplexity"] = result->perplexity();
      facts["bits_per_token"] = result->bits_per_token();
    }
    if (measured.characters > 0) {
      facts["bits_per_character"] = result->bits_per_character(measured.characters_per_token());
      facts["characters"] = measured.characters;
    }
    facts[unit_of(kind)] = result->tokens;
    if (!found) return facts;
    const auto labels = std::dynamic_pointer_cast<EncoderModelImpl>(folder.model)->labels();
    facts.update(kind == "labels" ? class_facts(*found, labels, draws()) : hidden_word_facts(*found, draws()));
    return facts;
  }

  int measure_images() {
    if (kind.empty()) kind = "images";
    check_used();
    const ImageEncoder encoder = open_image_encoder(folder_path);
    const auto begin = std::chrono::steady_clock::now();
    const auto data =
        load_measured_images(*encoder.model, encoder.prepare, {.kind = kind, .files = files, .batch_size = batch_size});
    const auto found = predict(*encoder.model, *data, StopSignals::wanted);
    if (!found) return kExitInterrupted;
    const auto [loss, images] = found->evaluation;
    FOVEA_CHECK_KIND(ErrorKind::kDiverged, std::isfinite(loss), folder_path, ": the loss is ", std::abs(loss));
    Facts facts = {{"loss", loss}, {"images", images}};
    facts.update(class_facts(*found, encoder.model->labels(), draws()));
    facts["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    show(facts);
    return 0;
  }

  // What the model writes: translations of pairs, samples of a decoder.
  std::optional<Facts> with_texts(const ModelFolder& folder, Facts facts) const {
    const auto writer = std::dynamic_pointer_cast<GenerativeModelImpl>(folder.model);
    if (!writer || (kind != "pairs" && samples == 0)) return facts;
    GenerateOptions options = folder.options;
    options.seed = seed;
    if (beams > 0) options.beams = beams;
    if (!std::isnan(length_penalty)) options.length_penalty = length_penalty;
    if (max_new_tokens > 0) options.max_new_tokens = max_new_tokens;
    if (kind == "pairs") {
      options.check();
      const auto translations = translate_pairs(folder, *writer, files, options, batch_size);
      if (!translations) return std::nullopt;
      facts.update(translation_facts(translations->texts, translations->wanted, words, draws()));
      return facts;
    }
    if (max_new_tokens < 0) options.max_new_tokens = 200;
    if (!std::isnan(temperature)) options.temperature = temperature;
    options.beams = options.results = 1;
    options.check();
    const auto written = write_samples(folder, *writer, kind, files, options, samples, batch_size);
    if (!written) return std::nullopt;
    facts.update(diversity_facts(*written, words));
    return facts;
  }

  static std::vector<std::string> lines_of(const std::string& file) {
    const std::string content = read_text(file, "file of texts");
    std::vector<std::string> out;
    for (const std::string_view line : split_lines(content)) out.emplace_back(line);
    return out;
  }

  void score_files() const {
    const auto have = lines_of(texts), want = lines_of(wanted);
    FOVEA_CHECK_INPUT(have.size() == want.size(), texts, " has ", have.size(), " lines, ", wanted, " has ", want.size(),
                      "; wanted as many in both");
    FOVEA_CHECK_INPUT(!have.empty(), texts, ": the file is empty");
    show(translation_facts(have, want, words, draws()));
  }

  void show(const Facts& facts) const {
    if (json) return output().line(facts.dump());
    output().write(facts_table(facts));
  }
};

}  // namespace

void register_commands_eval(CommandsRegistry& registry) {
  registry.add(
      "eval",
      command<Eval>("how good a model is: loss, accuracy, BLEU",
                    "fovea eval --model runs/kjv/best --data .cache/data/kjv/test.txt\n"
                    "fovea eval --model runs/en_zh/best --data .cache/data/en-zh/test_far.tsv --beams 4 --json\n"
                    "fovea eval --model runs/fashion/best --data .cache/data/fashion-mnist/test-images-idx3-ubyte\n"
                    "fovea eval --texts answers.txt --wanted right.txt"));
}

}  // namespace fovea
