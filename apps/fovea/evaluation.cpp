// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/evaluation.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/fovea/rolling.h"
#include "apps/fovea/signals.h"
#include "apps/fovea/terminal.h"
#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/data/buckets.h"
#include "fovea/data/pairs.h"
#include "fovea/data/text_lines.h"
#include "fovea/loss/classification.h"
#include "fovea/loss/text_scores.h"

namespace fovea {
namespace {

using Facts = nlohmann::ordered_json;

Facts as_list(const Interval& interval) { return Facts::array({interval.low, interval.high}); }

WordSplit chosen_split(const std::string& name, const std::vector<std::string>& texts) {
  return name.empty() ? likely_split(texts) : word_split(name);
}

// Columns as wide as their widest cell, numbers to the right.
std::string aligned_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], count_code_points(row[i]));
    }
  std::string out;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string fill(widths[i] - count_code_points(row[i]), ' ');
      out += i == 0 ? row[i] + fill : "  " + fill + row[i];
    }
    out += "\n";
  }
  return out;
}

std::string number_text(const std::string& name, const Facts& value) {
  if (value.is_number_float()) return fixed(value.get<double>(), name == "seconds" ? 1 : 4);
  if (value.is_number()) return grouped_number(value.get<int64_t>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string class_tables(const Facts& facts) {
  const char* items = facts.contains("images") ? "images" : "texts";
  std::vector<std::vector<std::string>> classes{{"class", "precision", "recall", "F1", items}},
      confusion{{"is \\ taken for"}};
  for (const Facts& of : facts["classes"]) {
    classes.push_back({of["label"].get<std::string>()});
    for (const char* key : {"precision", "recall", "f1", "count"}) classes.back().push_back(number_text(key, of[key]));
    confusion[0].push_back(classes.back()[0]);
  }
  for (size_t i = 0; i < facts["confusion"].size(); ++i) {
    confusion.push_back({confusion[0][i + 1]});
    for (const Facts& count : facts["confusion"][i]) confusion.back().push_back(number_text("", count));
  }
  return "\n" + aligned_table(classes) + "\n" + aligned_table(confusion);
}

// The tokens that `count` samples go on from, spread over the text, at most `most` each.
std::vector<std::vector<int64_t>> beginnings(const Tokenizer& tokenizer, const std::string& kind,
                                             const std::string& text, size_t most, int64_t count) {
  std::vector<std::vector<int64_t>> out;
  if (kind == "lines") {
    std::vector<std::string_view> lines = split_lines(text);
    std::erase_if(lines, [](std::string_view line) { return line.empty(); });
    for (size_t i = 0; i < size_t(count); ++i) {
      out.push_back(tokenizer.ids(lines[lines.size() * i / size_t(count)], {.truncate = false, .pad = false}));
      out.back().resize(std::min(most, (out.back().size() + 1) / 2));
    }
    return out;
  }
  const auto tokens = tokenizer.ids(text, {.add_special_tokens = false, .truncate = false, .pad = false});
  const size_t given = std::min(most, tokens.size());
  for (size_t i = 0; i < size_t(count); ++i) {
    const auto begin = tokens.begin() + int64_t((tokens.size() - given) * i / size_t(count));
    out.emplace_back(begin, begin + int64_t(given));
  }
  return out;
}

}  // namespace

Facts class_facts(const Predictions& of, const std::vector<std::string>& labels, const BootstrapOptions& draws) {
  const int64_t count = int64_t(labels.size());
  const auto figures = classification_figures(of.truth, of.predicted, count);
  const auto intervals = classification_intervals(of.truth, of.predicted, count, draws);
  Facts classes = Facts::array();
  for (size_t i = 0; i < labels.size(); ++i) {
    const ClassFigures& is = figures.classes[i];
    classes.push_back(
        {{"label", labels[i]}, {"precision", is.precision}, {"recall", is.recall}, {"f1", is.f1}, {"count", is.count}});
  }
  return {{"accuracy", figures.accuracy}, {"accuracy_interval", as_list(intervals.accuracy)},
          {"macro_f1", figures.macro_f1}, {"macro_f1_interval", as_list(intervals.macro_f1)},
          {"classes", classes},           {"confusion", figures.confusion}};
}

Facts hidden_word_facts(const Predictions& of, const BootstrapOptions& draws) {
  const int64_t count = int64_t(of.truth.size());
  const Interval interval = bootstrap(
      count,
      [&](const std::vector<int64_t>& counts) {
        int64_t right = 0;
        for (size_t i = 0; i < counts.size(); ++i) right += of.truth[i] == of.predicted[i] ? counts[i] : 0;
        return double(right) / double(count);
      },
      draws);
  return {{"accuracy", of.accuracy()}, {"accuracy_interval", as_list(interval)}};
}

Facts translation_facts(const std::vector<std::string>& texts, const std::vector<std::string>& wanted,
                        const std::string& words, const BootstrapOptions& draws) {
  const TranslationScores scores = score_translations(texts, wanted, chosen_split(words, wanted), draws);
  return {{"bleu", scores.bleu.score},
          {"bleu_interval", as_list(scores.bleu_interval)},
          {"bleu_words", name_of(scores.words)},
          {"bleu_precisions", scores.bleu.precisions},
          {"bleu_brevity", scores.bleu.brevity},
          {"chrf", scores.chrf},
          {"chrf_interval", as_list(scores.chrf_interval)},
          {"texts", scores.texts}};
}

Facts diversity_facts(const std::vector<std::string>& texts, const std::string& words) {
  const Diversity is = diversity_of(texts, chosen_split(words, texts));
  return {{"samples", texts.size()},      {"sample_words", is.words},     {"distinct_1", is.distinct[0]},
          {"distinct_2", is.distinct[1]}, {"distinct_3", is.distinct[2]}, {"repetition", is.repetition}};
}

std::optional<Translations> translate_pairs(const ModelFolder& folder, const GenerativeModelImpl& model,
                                            const std::vector<std::string>& files, const GenerateOptions& options,
                                            int64_t batch_size) {
  Translations out;
  std::vector<std::vector<int64_t>> sources;
  for (const std::string& file : files)
    for (const TextPair& pair : read_pairs(file)) {
      sources.push_back(prompt_ids(folder, pair.source, pair.where));
      out.wanted.push_back(pair.target);
    }
  out.texts.resize(sources.size());
  std::vector<int64_t> lengths;
  for (const auto& source : sources) lengths.push_back(int64_t(source.size()));
  GenerateOptions each = options;
  each.results = 1;
  for (const auto& chosen : bucket_batches(lengths, {.batch_size = batch_size, .shuffle = false}, 0)) {
    if (StopSignals::wanted()) return std::nullopt;
    std::vector<std::vector<int64_t>> batch;
    for (const int64_t i : chosen) batch.push_back(sources[size_t(i)]);
    const GenerateResult result = fovea::generate(model, batch, each, &folder.tokenizer);
    for (size_t i = 0; i < chosen.size(); ++i) out.texts[size_t(chosen[i])] = result.rows[i].text;
    each.seed += int64_t(chosen.size());
  }
  return out;
}

std::optional<std::vector<std::string>> write_samples(const ModelFolder& folder, const GenerativeModelImpl& model,
                                                      const std::string& kind, const std::vector<std::string>& files,
                                                      const GenerateOptions& options, int64_t count,
                                                      int64_t batch_size) {
  const std::vector<std::vector<int64_t>> given = beginnings(
      folder.tokenizer, kind, read_texts(files), std::min<size_t>(16, size_t(model.max_positions() / 2)), count);
  std::vector<std::string> out;
  GenerateOptions each = options;
  while (int64_t(out.size()) < count) {
    if (StopSignals::wanted()) return std::nullopt;
    const int64_t rows = std::min(batch_size, count - int64_t(out.size()));
    const std::vector<std::vector<int64_t>> batch(given.begin() + int64_t(out.size()),
                                                  given.begin() + int64_t(out.size()) + rows);
    const auto on_text = [](int64_t, std::string_view) { return !StopSignals::wanted(); };
    for (Generated& row : generate_rolling(model, batch, each, folder.tokenizer, on_text).rows)
      out.push_back(std::move(row.text));
    each.seed += rows;
  }
  return out;
}

std::string facts_table(const Facts& facts) {
  std::string out;
  for (const auto& [name, value] : facts.items()) {
    if (name == "classes" || name == "confusion" || name.ends_with("_interval")) continue;
    out += name + std::string(20 - std::min<size_t>(19, name.size()), ' ');
    if (value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i) out += (i ? " " : "") + number_text(name, value[i]);
    } else {
      out += number_text(name, value);
    }
    if (const auto interval = facts.find(name + "_interval"); interval != facts.end())
      out += "  (95 %: " + number_text(name, (*interval)[0]) + " … " + number_text(name, (*interval)[1]) + ")";
    out += "\n";
  }
  if (facts.contains("classes")) out += class_tables(facts);
  return out;
}

}  // namespace fovea
