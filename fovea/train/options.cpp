// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/options.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/data/windows.h"
#include "fovea/io/json.h"
#include "fovea/io/toml.h"
#include "fovea/train/schedule.h"

namespace fovea {

void DataOptions::visit(FieldVisitor& v) {
  v.field(
      "kind", kind,
      "text (one stream), lines (a text a line, packed), pairs (source<TAB>target), labels (label<TAB>text), masked "
      "(a text a line, some words hidden) or images");
  v.field("train", train, "files, read one after another; images: folders of CLASS/*.png or *.jpg, or IDX files");
  v.field("validation", validation, "files; empty: see validation_fraction");
  v.field("validation_fraction", validation_fraction, "of the training text, cut off its end; 0: no validation");
  v.field("context", context, "tokens in a row; 0: as many as the model has positions");
  v.field("windows", windows,
          "shuffled (each token once an epoch), random, or streams (rows go on from batch to batch, for memory)");
  v.field("drop_longer", drop_longer, "pairs and labelled texts longer than context are left out instead of an error");
  v.field("cut_longer", cut_longer, "labelled texts longer than context are cut, here and wherever the model is used");
  v.field("label_column", label_column, "labels: first or last");
  v.field("resize", resize, "images of another size than the model's are resized instead of an error");
  v.field("flip", flip, "images: probability that left and right change places");
  v.field("shift", shift, "images: pixels at most, in both directions");
  v.field("erase", erase, "images: probability that a rectangle becomes black");
}

void TokenizerOptions::visit(FieldVisitor& v) {
  v.field("type", type, "characters, bpe (byte-level), words (trained on the training text) or file");
  v.field("path", path, "file: a tokenizer.json or its folder");
  v.field("vocab_size", vocab_size, "bpe, words");
  v.field("isolate", isolate, "bpe: a pattern whose matches are words of their own; \\p{Lo} for Chinese characters");
}

void ModelOptions::visit(FieldVisitor& v) {
  const std::string before = type;
  v.field("type", type, "name in the registry of models");
  if (type.empty()) return;
  if (!recipe || type != before) recipe = models_registry().at(type).recipe();
  recipe->visit(v);
}

void OptimOptions::visit(FieldVisitor& v) {
  v.field("learning_rate", learning_rate, "peak");
  v.field("weight_decay", weight_decay, "decoupled");
  v.field("beta1", beta1);
  v.field("beta2", beta2);
  v.field("eps", eps);
  v.field("clip", clip, "largest global gradient norm; 0: none");
  v.field("batch_size", batch_size, "rows");
  v.field("batch_tokens", batch_tokens,
          "pairs, labels, masked: padded tokens at most, a longer row alone; 0: no limit");
  v.field("accumulate", accumulate, "batches a step");
  v.field("label_smoothing", label_smoothing);
  v.field("no_decay", no_decay, "parameter names, beside all of fewer than two dimensions");
}

void ScheduleOptions::visit(FieldVisitor& v) {
  v.field("name", name, "constant, linear, cosine or inverse_sqrt");
  v.field("warmup", warmup, "steps");
  v.field("min_ratio", min_ratio, "floor, as a part of the peak");
}

void RunOptions::visit(FieldVisitor& v) {
  v.field("out", out, "folder of the run");
  v.field("init", init, "model folder to go on from, in place of [model] and [tokenizer]");
  v.field("existing", existing, "a run that stands at out: resume or replace");
  v.field("steps", steps);
  v.field("max_minutes", max_minutes, "0: no limit");
  v.field("validate_every", validate_every, "steps; 0: only at the end");
  v.field("validate_batch_size", validate_batch_size, "rows");
  v.field("patience", patience, "validations without a new best before stopping; 0: never");
  v.field("checkpoint_every", checkpoint_every, "steps; 0: only a new best and the end");
  v.field("journal_every", journal_every, "steps");
  v.field("seed", seed);
  v.field("freeze", freeze, "names of parameters that do not learn");
}

void TrainOptions::visit(FieldVisitor& v) {
  visit_section(v, "data", data);
  visit_section(v, "tokenizer", tokenizer);
  visit_section(v, "source_tokenizer", source_tokenizer);
  visit_section(v, "model", model);
  visit_section(v, "optim", optim);
  visit_section(v, "schedule", schedule);
  visit_section(v, "train", train);
}

namespace {

void check_range(std::string_view key, double value, double low, double high) {
  FOVEA_CHECK_CONFIG(
      value >= low && value <= high && std::isfinite(value), key, " is ", value, ", must be ",
      std::isfinite(high) ? detail::concat("between ", low, " and ", high) : detail::concat("at least ", low));
}

void check_choice(std::string_view key, const std::string& value, const std::vector<std::string>& choices) {
  const bool known = std::find(choices.begin(), choices.end(), value) != choices.end();
  FOVEA_CHECK_CONFIG(known, key, " is \"", value, "\"", suggestion(value, choices));
}

bool is_default(const TokenizerOptions& o, const std::string& type) {
  const TokenizerOptions plain;
  return o.type == type && o.path == plain.path && o.vocab_size == plain.vocab_size && o.isolate == plain.isolate;
}

// A setting that would change nothing is a mistake somewhere.
void check_used(const TrainOptions& o) {
  const DataOptions& data = o.data;
  const DataOptions plain;
  const auto only_for = [&](const char* key, bool given, std::initializer_list<std::string_view> kinds) {
    std::string names;
    for (const std::string_view kind : kinds) names += (names.empty() ? "" : ", ") + std::string(kind);
    FOVEA_CHECK_CONFIG(!given || std::find(kinds.begin(), kinds.end(), data.kind) != kinds.end(), key, " is for ",
                       names, "; data.kind is \"", data.kind, "\"");
  };
  only_for("data.context", data.context != 0, {"text", "lines", "pairs", "labels", "masked"});
  only_for("data.windows", data.windows != plain.windows, {"text"});
  only_for("data.drop_longer", data.drop_longer, {"pairs", "labels"});
  only_for("data.cut_longer", data.cut_longer, {"labels"});
  only_for("data.label_column", data.label_column != plain.label_column, {"labels"});
  only_for("data.resize", data.resize, {"images"});
  only_for("data.flip", data.flip != 0, {"images"});
  only_for("data.shift", data.shift != 0, {"images"});
  only_for("data.erase", data.erase != 0, {"images"});
  only_for("optim.batch_tokens", o.optim.batch_tokens != 0, {"pairs", "labels", "masked"});
  only_for("tokenizer", !is_default(o.tokenizer, "characters"), {"text", "lines", "pairs", "labels", "masked"});
  only_for("source_tokenizer", !o.source_tokenizer.type.empty(), {"pairs"});
}

}  // namespace

void TrainOptions::check() const {
  constexpr double kAny = INFINITY;
  check_choice("data.kind", data.kind, {"text", "lines", "pairs", "labels", "masked", "images"});
  check_choice("data.label_column", data.label_column, {"first", "last"});
  check_choice("data.windows", data.windows, {"shuffled", "random", "streams"});
  check_range("data.validation_fraction", data.validation_fraction, 0, 0.99);
  check_range("data.context", double(data.context), 0, kAny);
  check_range("data.flip", data.flip, 0, 1);
  check_range("data.shift", double(data.shift), 0, kAny);
  check_range("data.erase", data.erase, 0, 1);
  for (const auto& [name, one] : {std::pair("tokenizer", &tokenizer), {"source_tokenizer", &source_tokenizer}}) {
    if (one == &source_tokenizer && one->type.empty()) {
      FOVEA_CHECK_CONFIG(is_default(*one, ""),
                         "source_tokenizer.type is empty; name one: characters, bpe, words or file");
      continue;
    }
    check_choice(std::string(name) + ".type", one->type, {"characters", "bpe", "words", "file"});
    FOVEA_CHECK_CONFIG(one->type != "file" || !one->path.empty() || !train.init.empty(), name, ".path is empty; ", name,
                       ".type = \"file\" needs the path of a tokenizer.json");
  }
  FOVEA_CHECK_CONFIG(source_tokenizer.type.empty() || train.init.empty(),
                     "source_tokenizer and train.init exclude each other; the folder has its own tokenizers");
  check_used(*this);
  FOVEA_CHECK_CONFIG(optim.learning_rate > 0 && std::isfinite(optim.learning_rate), "optim.learning_rate is ",
                     optim.learning_rate, ", must be a number above 0");
  check_range("optim.weight_decay", optim.weight_decay, 0, kAny);
  check_range("optim.beta1", optim.beta1, 0, 0.999999);
  check_range("optim.beta2", optim.beta2, 0, 0.99999999);
  FOVEA_CHECK_CONFIG(optim.eps > 0 && std::isfinite(optim.eps), "optim.eps is ", optim.eps,
                     ", must be a number above 0");
  check_range("optim.clip", optim.clip, 0, kAny);
  const bool whole_rows = data.kind == "text" || data.kind == "lines" || data.kind == "images";
  check_range("optim.batch_size", double(optim.batch_size), whole_rows ? 1 : 0, kAny);
  check_range("optim.batch_tokens", double(optim.batch_tokens), 0, kAny);
  FOVEA_CHECK_CONFIG(optim.batch_size + optim.batch_tokens > 0, "optim.batch_size and optim.batch_tokens are both 0");
  check_range("optim.accumulate", double(optim.accumulate), 1, 100000);  // they are in memory together
  check_range("optim.label_smoothing", optim.label_smoothing, 0, 1);
  check_schedule(schedule);
  FOVEA_CHECK_CONFIG(!train.out.empty(), "train.out is empty; name the folder that the run is written to");
  check_choice("train.existing", train.existing, {"resume", "replace"});
  check_range("train.steps", double(train.steps), 1, kAny);
  check_range("train.max_minutes", train.max_minutes, 0, kAny);
  check_range("train.validate_every", double(train.validate_every), 0, kAny);
  check_range("train.validate_batch_size", double(train.validate_batch_size), 1, kAny);
  check_range("train.patience", double(train.patience), 0, kAny);
  check_range("train.checkpoint_every", double(train.checkpoint_every), 0, kAny);
  check_range("train.journal_every", double(train.journal_every), 1, kAny);
  check_range("train.seed", double(train.seed), 0, kAny);
}

TrainOptions TrainOptions::from_toml(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  TomlConfig toml = TomlConfig::read(path);
  for (const std::string& assignment : overrides) toml.override_with(assignment);
  TrainOptions out;
  toml.fill(out);
  out.check();
  if (out.train.init.empty()) return out;
  for (const std::string_view assignment : overrides)
    for (const char* table : {"model.", "tokenizer."})
      FOVEA_CHECK_CONFIG(!assignment.starts_with(table), assignment.substr(0, assignment.find('=')),
                         ": model and tokenizer are those of train.init = ", out.train.init,
                         "; leave it out, or change that folder's files");
  return out;
}

std::vector<std::string> differing_keys(const TrainOptions& a, const TrainOptions& b) {
  constexpr std::array<std::string_view, 9> kFree = {
      "out",      "existing",         "steps",         "max_minutes",        "validate_every",
      "patience", "checkpoint_every", "journal_every", "validate_batch_size"};
  const auto flat = [&](const TrainOptions& options) {
    nlohmann::json object = nlohmann::json::object();
    write_to_json(options, object);
    for (const std::string_view key : kFree) object["train"].erase(std::string(key));
    return object.flatten();
  };
  const nlohmann::json left = flat(a), right = flat(b);
  std::vector<std::string> out;
  const auto add = [&](std::string pointer) {  // "/optim/learning_rate"
    std::replace(pointer.begin(), pointer.end(), '/', '.');
    out.push_back(pointer.substr(1));
  };
  for (const auto& [key, value] : left.items())
    if (!right.contains(key) || right[key] != value) add(key);
  for (const auto& [key, value] : right.items())
    if (!left.contains(key)) add(key);
  return out;
}

}  // namespace fovea
