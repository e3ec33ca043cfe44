// `fovea eval`: a model's loss on a text it is given, and what that means in bits.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/fovea/commands/registry.h"
#include "apps/fovea/exit_codes.h"
#include "apps/fovea/machine.h"
#include "apps/fovea/model_folder.h"
#include "apps/fovea/output.h"
#include "apps/fovea/signals.h"
#include "apps/fovea/terminal.h"
#include "fovea/base/check.h"
#include "fovea/loss/evaluate.h"
#include "fovea/train/parts.h"

namespace fovea {
namespace {

struct Eval {
  std::string folder_path, kind;
  std::vector<std::string> files;
  int64_t batch_size = 32, context = 0;
  bool json = false;
  ThreadsOption threads;

  void declare(CommandLine& line) {
    line.option("-m,--model", "DIR", folder_path, "model folder", Need::kRequired);
    line.option("-d,--data", "FILE", files, "text to predict (may be repeated)");
    line.option("--kind", "text|lines|pairs", kind,
                "one stream of text, a text a line, or source<TAB>target [text, pairs for an encoder-decoder]");
    line.option("--context", "N", context, "tokens in a row [as many as the model has positions]");
    line.option("--batch-size", "N", batch_size, "rows that run together [32]");
    line.flag("--json", json, "one JSON object (docs/json.md)");
    threads.declare(line);
  }

  int run() {
    FOVEA_CHECK_CONFIG(!files.empty(), "--data is required");
    FOVEA_CHECK_CONFIG(batch_size >= 1, "--batch-size is ", batch_size, ", wanted 1 or more");
    FOVEA_CHECK_CONFIG(context >= 0, "--context is ", context, ", wanted 1 or more, or 0");
    threads.apply();
    const ModelFolder folder = open_model_folder(folder_path);
    const auto writer = std::dynamic_pointer_cast<GenerativeModelImpl>(folder.model);
    if (kind.empty()) kind = writer && writer->has_encoder() ? "pairs" : "text";
    FOVEA_CHECK_CONFIG(context <= folder.model->max_positions(), "--context is ", context, ", the model has ",
                       folder.model->max_positions(), " positions");
    const MeasuredData measured = load_measured_data(
        *folder.model, folder.tokenizer, {.kind = kind, .files = files, .context = context, .batch_size = batch_size});

    const StopSignals catch_signals;
    const auto begin = std::chrono::steady_clock::now();
    const auto result = evaluate(*folder.model, *measured.data, StopSignals::wanted);
    if (!result) return kExitInterrupted;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    FOVEA_CHECK_KIND(ErrorKind::kDiverged, std::isfinite(result->loss), folder_path, ": the loss is ",
                     std::abs(result->loss));
    show(*result, measured, seconds);
    return 0;
  }

  void show(const Evaluation& result, const MeasuredData& measured, double seconds) const {
    nlohmann::ordered_json facts = {
        {"loss", result.loss}, {"perplexity", result.perplexity()}, {"bits_per_token", result.bits_per_token()}};
    if (measured.characters > 0) {
      facts["bits_per_character"] = result.bits_per_character(measured.characters_per_token());
      facts["characters"] = measured.characters;
    }
    facts["tokens"] = result.tokens;
    facts["seconds"] = seconds;
    if (json) return output().line(facts.dump());
    for (const auto& [name, value] : facts.items()) {
      const std::string text = value.is_number_float() ? fixed(value.get<double>(), name == "seconds" ? 1 : 4)
                                                       : grouped_number(value.get<int64_t>());
      output().line(name + std::string(20 - name.size(), ' ') + text);
    }
  }
};

}  // namespace

void register_commands_eval(CommandsRegistry& registry) {
  registry.add("eval", command<Eval>("a model's loss on a text",
                                     "fovea eval --model runs/kjv/best --data .cache/data/kjv/test.txt"));
}

}  // namespace fovea
