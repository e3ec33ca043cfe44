// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/writing.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <sstream>
#include <utility>

#include "apps/fovea/exit_codes.h"
#include "apps/fovea/output.h"
#include "apps/fovea/signals.h"
#include "apps/fovea/terminal.h"
#include "apps/fovea/text_input.h"
#include "fovea/base/check.h"
#include "fovea/io/files.h"

namespace fovea {
namespace {

std::string speed(const GenerateResult& result) {
  size_t tokens = 0;
  for (const Generated& row : result.rows) tokens += row.tokens.size();
  const double seconds = result.seconds.prefill + result.seconds.decode;
  return detail::concat(tokens, " tokens · ", fixed(seconds, 2), " s · ",
                        short_number(double(tokens) / std::max(seconds, 1e-9)), " tok/s · ",
                        finish_name(result.rows[0].finish));
}

}  // namespace

void Writing::declare_common(CommandLine& line) {
  line.option("-m,--model", "DIR", folder_path, "model folder", Need::kRequired);
  line.flag("--json", json, "one JSON object a text (docs/json.md)");
  line.option("--batch-size", "N", batch_size, "texts of a file that run together [16]");
  line.fields([this](FieldVisitor& visitor) { options.visit(visitor); });
  typed = [&line, this](const GenerateOptions& under) { return layered(under, options, line); };
  threads.declare(line);
  line.flag("-q,--quiet", quiet, "nothing on standard error but errors");
}

int Writing::run() {
  FOVEA_CHECK_CONFIG(prompts.empty() || prompts_file.empty(), "texts and a file of texts exclude each other");
  FOVEA_CHECK_CONFIG(batch_size >= 1, "--batch-size is ", batch_size, ", wanted 1 or more");
  threads.apply();
  GenerateOptions alone = options;  // what is wrong whatever the folder says is told before it is opened
  alone.beams = std::max(alone.beams, alone.results);
  alone.check();
  ModelFolder folder = open_model_folder(folder_path);
  const GenerativeModel model = writing_model(folder);
  check_model(folder, *model);
  options = typed(folder.options);
  options.check();
  const bool drawn = options.temperature > 0 && options.seed < 0;
  if (options.seed < 0) options.seed = int64_t(std::random_device()() >> 1);
  if (drawn && !quiet) tell("seed " + std::to_string(options.seed));

  if (!prompts.empty()) {
    for (const std::string& text : prompts)
      if (!StopSignals::wanted()) write_batch(folder, *model, {{text, "the command line", {}}});
  } else if (!prompts_file.empty()) {
    write_file_prompts(folder, *model);
  } else {
    int64_t number = 0;
    for (std::string text; !StopSignals::wanted() && next_line(std::cin, text, number);) {
      if (!text.empty()) write_batch(folder, *model, {{text, detail::concat("standard input, line ", number), {}}});
    }
  }
  return StopSignals::wanted() ? kExitInterrupted : 0;
}

void Writing::write_file_prompts(const ModelFolder& folder, const GenerativeModelImpl& model) {
  const std::string text = read_text(prompts_file, "file of prompts");
  std::istringstream lines(text);
  std::vector<Prompt> batch;
  int64_t number = 0;
  for (std::string line; next_line(lines, line, number) && !StopSignals::wanted();) {
    if (!line.empty()) batch.push_back({line, detail::concat(prompts_file, ":", number), {}});
    if (int64_t(batch.size()) == batch_size) write_batch(folder, model, std::exchange(batch, {}));
  }
  if (!batch.empty() && !StopSignals::wanted()) write_batch(folder, model, std::move(batch));
}

// Generates for some prompts together; a single one appears as it is written.
void Writing::write_batch(const ModelFolder& folder, const GenerativeModelImpl& model, std::vector<Prompt> batch) {
  std::vector<std::vector<int64_t>> ids;
  for (Prompt& prompt : batch) ids.push_back(prompt.ids = prompt_ids(folder, prompt.text, prompt.source));
  const bool stream = !json && batch.size() == 1 && options.beams == 1;
  bool begun = false;  // the prompt is shown once nothing stands in the text's way
  const auto begin = [&] {
    if (stream && !std::exchange(begun, true)) show_prompt(model, batch[0]);
  };

  std::optional<StopSignals> catch_signals;
  if (options.beams == 1) catch_signals.emplace();  // a beam search is not asked between its steps: a signal ends it
  const GenerateResult result = run_model(folder, model, ids, [&](int64_t, std::string_view text) {
    begin();
    if (stream) {
      output().write(text);
      output().flush();
    }
    return !StopSignals::wanted();
  });
  begin();  // even of a text without an answer
  if (stream) output().line("");
  const size_t each = result.rows.size() / batch.size();  // beams of a prompt
  for (size_t row = 0; row < result.rows.size(); ++row) {
    const Prompt& prompt = batch[row / each];
    if (json) {
      output().json(as_json(prompt, result, row, folder.seconds));
    } else if (!stream) {
      show_prompt(model, prompt);
      output().line(result.rows[row].text);
    }
  }
  output().flush();
  options.seed = (options.seed + int64_t(batch.size())) & INT64_MAX;
  if (!quiet && !json && is_terminal(STDERR_FILENO)) tell(speed(result));
}

GenerateResult Writing::run_model(const ModelFolder& folder, const GenerativeModelImpl& model,
                                  const std::vector<std::vector<int64_t>>& ids, const TextCallback& on_text) const {
  if (options.beams > 1) return fovea::generate(model, ids, options, &folder.tokenizer);
  if (!one_window && !model.has_encoder()) return generate_rolling(model, ids, options, folder.tokenizer, on_text);
  return fovea::generate(model, ids, options, &folder.tokenizer,
                         [&](const TokenEvent& event) { return on_text(event.row, event.text); });
}

void Writing::show_prompt(const GenerativeModelImpl& model, const Prompt& prompt) const {
  if (!no_prompt && !model.has_encoder()) output().write(prompt.text);
  output().flush();
}

nlohmann::json Writing::as_json(const Prompt& prompt, const GenerateResult& result, size_t row, double load) const {
  const Generated& text = result.rows[row];
  nlohmann::json out = {
      {"prompt_tokens", prompt.ids},
      {"tokens", text.tokens},
      {"text", text.text},
      {"logprobs", text.logprobs},
      {"finish", finish_name(text.finish)},
      {"seconds", {{"load", load}, {"prefill", result.seconds.prefill}, {"decode", result.seconds.decode}}}};
  if (options.beams > 1)
    out["score"] = text.score;
  else
    out["seed"] = result.seed + int64_t(row);
  return out;
}

}  // namespace fovea
