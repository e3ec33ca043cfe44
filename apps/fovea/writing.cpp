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
#include "fovea/data/buckets.h"
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
  line.option("--batch-size", "N", batch_size,
              "texts that run together [16 of a file; of standard input 1: each is answered when it comes]");
  line.fields([this](FieldVisitor& visitor) { options.visit(visitor); });
  typed = [&line, this](const GenerateOptions& under) { return layered(under, options, line); };
  threads.declare(line);
  line.flag("-q,--quiet", quiet, "nothing on standard error but errors");
}

int Writing::run() {
  FOVEA_CHECK_CONFIG(prompts.empty() || prompts_file.empty(), "texts and a file of texts exclude each other");
  FOVEA_CHECK_CONFIG(batch_size >= 0, "--batch-size is ", batch_size, ", wanted 1 or more");
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
    std::istringstream lines(read_text(prompts_file, "file of prompts"));
    write_lines(folder, *model, lines, prompts_file + ":", batch_size > 0 ? batch_size : 16);
  } else {
    write_lines(folder, *model, std::cin, "standard input, line ", std::max<int64_t>(1, batch_size));
  }
  return StopSignals::wanted() ? kExitInterrupted : 0;
}

void Writing::write_lines(const ModelFolder& folder, const GenerativeModelImpl& model, std::istream& lines,
                          const std::string& source, int64_t together) {
  // Prompts of similar length run together, chosen among some batches; drawn texts depend on their place, so they stay.
  const bool sorted = together > 1 && (options.temperature == 0 || options.beams > 1);
  const size_t pool = size_t(together) * (sorted ? 16 : 1);
  std::vector<Prompt> waiting;
  const auto flush = [&] {
    if (waiting.empty() || StopSignals::wanted()) return;
    sorted ? write_pool(folder, model, std::exchange(waiting, {}), together)
           : write_batch(folder, model, std::exchange(waiting, {}));
  };
  int64_t number = 0;
  for (std::string line; !StopSignals::wanted() && next_line(lines, line, number);) {
    if (!line.empty()) waiting.push_back({line, detail::concat(source, number), {}});
    if (waiting.size() == pool) flush();
  }
  flush();
}

// Runs the shortest together, and so on; shows the answers in the prompts' order.
void Writing::write_pool(const ModelFolder& folder, const GenerativeModelImpl& model, std::vector<Prompt> pool,
                         int64_t together) {
  std::vector<int64_t> lengths;
  for (Prompt& prompt : pool) {
    prompt.ids = prompt_ids(folder, prompt.text, prompt.source);
    lengths.push_back(int64_t(prompt.ids.size()));
  }
  std::optional<StopSignals> catch_signals;
  if (options.beams == 1) catch_signals.emplace();
  std::vector<GenerateResult> results;
  std::vector<std::optional<std::pair<size_t, size_t>>> place(pool.size());  // which result, and where in it
  for (const auto& batch : bucket_batches(lengths, {.batch_size = together, .shuffle = false}, 0)) {
    if (StopSignals::wanted()) break;
    std::vector<std::vector<int64_t>> ids;
    for (const int64_t i : batch) {
      place[size_t(i)] = {results.size(), ids.size()};
      ids.push_back(pool[size_t(i)].ids);
    }
    results.push_back(run_model(folder, model, ids, [](int64_t, std::string_view) { return !StopSignals::wanted(); }));
    if (!quiet && !json && is_terminal(STDERR_FILENO)) tell(speed(results.back()));
  }
  for (size_t i = 0; i < pool.size() && place[i]; ++i)
    show_result(folder, model, pool[i], results[place[i]->first], place[i]->second, options.seed + int64_t(i));
  output().flush();
  options.seed = (options.seed + int64_t(pool.size())) & INT64_MAX;
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
  for (size_t i = 0; i < batch.size() && !stream; ++i)
    show_result(folder, model, batch[i], result, i, result.seed + int64_t(i));
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

// What was written for prompt `at` of a batch.
void Writing::show_result(const ModelFolder& folder, const GenerativeModelImpl& model, const Prompt& prompt,
                          const GenerateResult& result, size_t at, int64_t seed) const {
  const size_t each = options.beams > 1 ? size_t(options.results) : 1;
  for (size_t row = at * each; row < (at + 1) * each; ++row) {
    if (json) {
      output().json(as_json(prompt, result, row, seed, folder.seconds));
    } else {
      show_prompt(model, prompt);
      output().line(result.rows[row].text);
    }
  }
}

void Writing::show_prompt(const GenerativeModelImpl& model, const Prompt& prompt) const {
  if (!no_prompt && !model.has_encoder()) output().write(prompt.text);
  output().flush();
}

nlohmann::json Writing::as_json(const Prompt& prompt, const GenerateResult& result, size_t row, int64_t seed,
                                double load) const {
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
    out["seed"] = seed;
  return out;
}

}  // namespace fovea
