// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/folder_options.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/io/files.h"
#include "fovea/io/json.h"

namespace fovea {
namespace {

using nlohmann::json;

// One id or a list of them, without those that the model does not have; empty for anything else.
std::vector<int64_t> ids_of(const json& config, const char* key, int64_t vocabulary) {
  const auto found = config.find(key);
  if (found == config.end()) return {};
  std::vector<int64_t> out;
  for (const json& id : found->is_array() ? *found : json::array({*found}))
    if (id.is_number_integer() && id >= 0 && id < vocabulary) out.push_back(id.get<int64_t>());
  return out;
}

// What the two files say; the first one counts.
class GenerationFiles {
 public:
  GenerationFiles(const std::filesystem::path& folder, const ModelImpl& model)
      : vocabulary_(model.vocab_size()), config_(read_json(folder / "config.json", "model configuration")) {
    const auto path = folder / "generation_config.json";
    has_own_ = path_exists(path);
    source_ = (has_own_ ? path : folder / "config.json").string();
    own_ = has_own_ ? read_json(path, "generation configuration") : config_;
    defaults_ = model.config();
    FOVEA_CHECK_INPUT(own_.is_object(), source_, ": wanted an object");
  }

  // Absent and null: `value`.
  template <class T>
  T get(const char* key, T value) const {
    JsonConfigReader(own_, source_).field(key, value);
    return value;
  }
  bool has(const char* key) const { return own_.contains(key) && !own_[key].is_null(); }
  bool is(const char* key, const json& value) const { return own_.contains(key) && own_[key] == value; }

  // Tokens with a role, from wherever they are named.
  std::vector<int64_t> ids(const char* key) const {
    for (const json* source : {&own_, &config_, &defaults_})
      if (auto found = ids_of(*source, key, vocabulary_); !found.empty()) return found;
    return {};
  }
  std::optional<int64_t> id(const char* key) const {
    const auto found = ids(key);
    return found.empty() ? std::nullopt : std::optional(found.front());
  }
  // A forced token, which a generation_config.json that is silent does not force.
  int64_t forced(const char* key) const {
    if (!has_own_) return id(key).value_or(-1);
    const auto found = ids_of(own_, key, vocabulary_);
    return found.empty() ? -1 : found.front();
  }

  // Throws where a field has another value than the one that does nothing.
  void refuse_others() const {
    const std::pair<const char*, json> neutral[] = {{"encoder_no_repeat_ngram_size", 0},
                                                    {"encoder_repetition_penalty", 1.0},
                                                    {"num_beam_groups", 1},
                                                    {"diversity_penalty", 0.0},
                                                    {"typical_p", 1.0},
                                                    {"epsilon_cutoff", 0.0},
                                                    {"eta_cutoff", 0.0},
                                                    {"guidance_scale", 1.0},
                                                    {"bad_words_ids", nullptr},
                                                    {"suppress_tokens", nullptr},
                                                    {"begin_suppress_tokens", nullptr},
                                                    {"sequence_bias", nullptr},
                                                    {"exponential_decay_length_penalty", nullptr},
                                                    {"penalty_alpha", nullptr},
                                                    {"constraints", nullptr},
                                                    {"force_words_ids", nullptr}};
    for (const auto& [key, value] : neutral) {
      const bool silent = !has(key) || own_[key] == value || (own_[key].is_array() && own_[key].empty());
      FOVEA_CHECK_INPUT(silent, source_, ": \"", key, "\": ", own_[key].dump(), " is not supported");
    }
  }

  // A setting out of range is the file's mistake here.
  void check(const GenerateOptions& options) const {
    try {
      options.check();
    } catch (const Error& error) {
      throw Error(ErrorKind::kInput, source_ + ": " + error.what());
    }
  }

 private:
  int64_t vocabulary_;
  json config_, own_, defaults_;
  bool has_own_ = false;
  std::string source_;
};

void read_drawing(const GenerationFiles& files, GenerateOptions& out) {
  if (!files.get("do_sample", false)) return;
  out.temperature = files.get("temperature", 1.0);
  out.top_k = files.get("top_k", int64_t{50});  // what transformers takes where nothing is said
  out.top_p = files.get("top_p", 1.0);
  out.min_p = files.get("min_p", 0.0);
}

void read_lengths(const GenerationFiles& files, bool encoder, GenerateOptions& out) {
  // Whole lengths count the token that opens the target; without an encoder they count the prompt, which is not here.
  if (encoder) {
    out.max_new_tokens = std::max<int64_t>(files.get("max_length", out.max_new_tokens + 1) - 1, 1);
    out.min_new_tokens = std::max<int64_t>(files.get("min_length", int64_t{0}) - 1, 0);
  }
  out.max_new_tokens = files.get("max_new_tokens", out.max_new_tokens);
  out.min_new_tokens = std::min(files.get("min_new_tokens", out.min_new_tokens), out.max_new_tokens);
}

}  // namespace

GenerateOptions folder_options(const std::filesystem::path& folder, const ModelImpl& model,
                               const Tokenizer& tokenizer) {
  const GenerationFiles files(folder, model);
  files.refuse_others();
  const auto* writer = dynamic_cast<const GenerativeModelImpl*>(&model);
  const bool encoder = writer != nullptr && writer->has_encoder();
  GenerateOptions out;
  read_lengths(files, encoder, out);
  read_drawing(files, out);
  out.repetition_penalty = files.get("repetition_penalty", out.repetition_penalty);
  out.no_repeat_ngram = files.get("no_repeat_ngram_size", out.no_repeat_ngram);
  out.beams = files.get("num_beams", out.beams);
  out.results = std::min(files.get("num_return_sequences", out.results), out.beams);
  out.length_penalty = files.get("length_penalty", out.length_penalty);
  if (files.is("early_stopping", true)) out.beam_stop = "first";
  if (files.is("early_stopping", "never")) out.beam_stop = "exact";

  out.end_ids = files.ids("eos_token_id");
  if (out.end_ids.empty())
    if (const auto id = tokenizer.eos_id()) out.end_ids = {*id};
  out.pad_id = files.id("pad_token_id").value_or(tokenizer.pad_id().value_or(-1));
  if (encoder) {
    const auto opens = files.id("decoder_start_token_id");
    out.start_id = (opens ? opens : files.id("bos_token_id")).value_or(tokenizer.bos_id().value_or(-1));
    out.forced_first = files.forced("forced_bos_token_id");
    out.forced_last = files.forced("forced_eos_token_id");
  }
  files.check(out);
  return out;
}

std::vector<int64_t> source_ids(const Tokenizer& tokenizer, const GenerateOptions& options, std::string_view text) {
  std::vector<int64_t> ids = tokenizer.source().ids(text, {.truncate = false, .pad = false});
  std::optional<int64_t> end;
  if (tokenizer.has_source())
    end = tokenizer.source().eos_id();
  else if (!options.end_ids.empty())
    end = options.end_ids[0];
  if (end && (ids.empty() || ids.back() != *end)) ids.push_back(*end);
  return ids;
}

}  // namespace fovea
