// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/text_encoder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/base/check.h"
#include "fovea/io/files.h"
#include "fovea/io/json.h"
#include "fovea/models/pretrained.h"
#include "fovea/models/text_batches.h"

namespace fovea {
namespace {

// ---- Sentence folders: modules.json lists what follows the encoder --------------------------------------------------

std::string pooling_of(const nlohmann::json& config, const std::string& source) {
  if (const auto mode = config.find("pooling_mode"); mode != config.end() && mode->is_string())
    return mode->get<std::string>();
  std::string out;
  for (const auto& [key, value] : config.items()) {
    if (!key.starts_with("pooling_mode_") || !value.is_boolean() || !value.get<bool>()) continue;
    FOVEA_CHECK_INPUT(out.empty(), source, ": several pooling modes at once are not supported");
    out = key == "pooling_mode_mean_tokens" ? "mean" : key == "pooling_mode_cls_token" ? "cls" : key;
  }
  return out;
}

void read_sentence_modules(TextEncoder& encoder, const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "modules.json";
  if (!path_exists(file)) return;
  const nlohmann::json modules = read_json(file, "list of modules");
  FOVEA_CHECK_INPUT(modules.is_array(), file.native(), ": wanted a list of modules");
  for (const auto& module : modules) {
    FOVEA_CHECK_INPUT(module.is_object(), file.native(), ": wanted a list of objects with \"type\" and \"path\"");
    const std::string type = module.value("type", std::string()), name = type.substr(type.rfind('.') + 1);
    if (name == "Pooling") {
      const std::filesystem::path config = folder / module.value("path", std::string()) / "config.json";
      encoder.pool = pooling_of(read_json(config, "pooling configuration"), config.native());
      FOVEA_CHECK_INPUT(encoder.pool == "mean" || encoder.pool == "cls", config.native(), ": pooling by \"",
                        encoder.pool, "\" is not supported, only mean and cls");
    } else if (name == "Normalize") {
      encoder.normalize = true;
    } else {
      FOVEA_CHECK_INPUT(name == "Transformer", file.native(), ": the module \"", type, "\" is not supported");
    }
  }
}

void write_sentence_modules(const TextEncoder& encoder, int64_t width, const std::filesystem::path& folder) {
  nlohmann::json modules = nlohmann::json::array();
  const auto add = [&](const char* name, const std::string& path) {
    modules.push_back({{"idx", modules.size()},
                       {"name", std::to_string(modules.size())},
                       {"path", path},
                       {"type", std::string("sentence_transformers.models.") + name}});
  };
  add("Transformer", "");
  add("Pooling", "1_Pooling");
  if (encoder.normalize) add("Normalize", "2_Normalize");
  std::filesystem::create_directories(folder / "1_Pooling");
  write_file(folder / "1_Pooling" / "config.json", dump_json({{"word_embedding_dimension", width},
                                                              {"pooling_mode_cls_token", encoder.pool == "cls"},
                                                              {"pooling_mode_mean_tokens", encoder.pool == "mean"}},
                                                             2) +
                                                       "\n");
  write_file(folder / "modules.json", dump_json(modules, 2) + "\n");
}

// ---- What a batch's result is made of ------------------------------------------------------------------------------

std::vector<Encoding> encoded_texts(const TextEncoder& encoder, const TextEncoder::Texts& texts) {
  std::vector<Encoding> out;
  for (const std::string& text : texts) out.push_back(encoder.tokenizer.encode(text, kUnpadded));
  return out;
}

// Hidden states [B, T, C] of padded rows -> one f32 vector each, [B, C].
Tensor pooled_rows(const TextEncoder& encoder, const Tensor& hidden, const Tensor& lengths) {
  Tensor out;
  if (encoder.pool == "cls") {
    out = hidden.select(1, 0).to(at::kFloat);
  } else {
    const Tensor real = at::arange(hidden.size(1)).lt(lengths.unsqueeze(1)).unsqueeze(2);  // [B, T, 1]
    out = hidden.to(at::kFloat).masked_fill(real.logical_not(), 0).sum(1) / lengths.unsqueeze(1);
  }
  return encoder.normalize ? out / out.norm(2, {1}, /*keepdim=*/true).clamp_min(1e-12) : out;
}

void check_head(const TextEncoder& encoder, const char* wanted, const char* purpose) {
  FOVEA_CHECK_KIND(ErrorKind::kInput, encoder.model->head() == wanted, "the model cannot ", purpose, ": its head is \"",
                   encoder.model->head(), "\", wanted \"", wanted, "\"");
}

Classified best_of(const TextEncoder& encoder, const Tensor& logits) {
  const Tensor scores = encoder.model->scores(logits).cpu().contiguous();  // [N]
  const auto values = scores.accessor<float, 1>();
  Classified out;
  for (int64_t i = 0; i < values.size(0); ++i) out.scores.push_back(values[i]);
  const size_t best = size_t(std::max_element(out.scores.begin(), out.scores.end()) - out.scores.begin());
  out.label = encoder.model->labels().at(best);
  return out;
}

std::vector<Classified> classify_rows(const TextEncoder& encoder, const std::vector<Encoding>& rows) {
  check_head(encoder, "classifier", "classify texts");
  std::vector<Classified> out(rows.size());
  run_by_length(encoder, rows, [&](const TextBatch& b) {
    const Tensor logits = encoder.model->forward(b.batch);  // [B, N]
    for (size_t i = 0; i < b.rows.size(); ++i) out[size_t(b.rows[i])] = best_of(encoder, logits[int64_t(i)]);
  });
  return out;
}

// The best tokens for one mask, of its logits [V].
void add_best(const Tokenizer& tokenizer, const Tensor& logits, int64_t mask, int64_t top_k,
              std::vector<FilledMask>& out) {
  // A vocabulary may be wider than its tokenizer: the rows beyond it say nothing.
  const Tensor scores = at::softmax(logits, -1, at::kFloat).slice(0, 0, tokenizer.end_id());
  const auto [best, ids] = at::topk(scores, std::min(top_k, scores.size(0)));  // [K]
  for (int64_t k = 0; k < ids.size(0); ++k) {
    const int64_t id = ids[k].item<int64_t>();
    const bool known = tokenizer.id_to_token(id).has_value();  // ids may have gaps
    out.push_back({mask, known ? tokenizer.decode({id}, false) : "", id, best[k].item<float>()});
  }
}

}  // namespace

TextEncoder TextEncoder::load(const std::filesystem::path& folder) {
  const Model model = load_pretrained_model(folder);
  const auto reader = std::dynamic_pointer_cast<EncoderModelImpl>(model);
  FOVEA_CHECK_INPUT(reader != nullptr && model->vocab_size() > 0, folder.native(), ": a ", model->type(),
                    " model is no text encoder");
  TextEncoder out{reader, Tokenizer::load(folder)};
  check_tokenizer_fits(*model, out.tokenizer, folder.native());
  read_sentence_modules(out, folder);
  return out;
}

void TextEncoder::save(const std::filesystem::path& folder) const {
  save_pretrained(*model, folder);
  tokenizer.save(folder);
  if (model->head() != "none") return;
  const at::NoGradGuard no_gradient;
  write_sentence_modules(*this, model->encode({.ids = at::zeros({1, 1}, at::kLong)}).size(2), folder);
}

Tensor TextEncoder::embed(const Texts& texts) const {
  FOVEA_CHECK_CONFIG(pool == "mean" || pool == "cls", "pool is \"", pool, "\", wanted \"mean\" or \"cls\"");
  Tensor out = at::empty({int64_t(texts.size()), 0});
  run_by_length(*this, encoded_texts(*this, texts), [&](const TextBatch& b) {
    const Tensor vectors = pooled_rows(*this, model->encode(b.batch), b.batch.lengths);
    if (out.size(1) == 0) out = at::empty({out.size(0), vectors.size(1)});
    out.index_copy_(0, at::tensor(b.rows, at::kLong), vectors);
  });
  return out;
}

std::vector<Tensor> TextEncoder::embed_tokens(const Texts& texts) const {
  std::vector<Tensor> out(texts.size());
  const std::vector<Encoding> rows = encoded_texts(*this, texts);
  run_by_length(*this, rows, [&](const TextBatch& b) {
    const Tensor hidden = model->encode(b.batch);
    for (size_t i = 0; i < b.rows.size(); ++i) {
      const size_t row = size_t(b.rows[i]);
      out[row] = hidden[int64_t(i)].slice(0, 0, int64_t(rows[row].ids.size())).clone();
    }
  });
  return out;
}

std::vector<Classified> TextEncoder::classify(const Texts& texts) const {
  return classify_rows(*this, encoded_texts(*this, texts));
}

std::vector<Classified> TextEncoder::classify(const Pairs& pairs) const {
  std::vector<Encoding> rows;
  for (const auto& [first, second] : pairs) rows.push_back(tokenizer.encode_pair(first, second, kUnpadded));
  return classify_rows(*this, rows);
}

std::vector<std::vector<ClassifiedToken>> TextEncoder::classify_tokens(const Texts& texts) const {
  check_head(*this, "token_classifier", "classify tokens");
  const std::vector<Encoding> rows = encoded_texts(*this, texts);
  std::vector<std::vector<ClassifiedToken>> out(texts.size());
  run_by_length(*this, rows, [&](const TextBatch& b) {
    const Tensor logits = model->forward(b.batch);  // [B, T, N]
    for (size_t i = 0; i < b.rows.size(); ++i) {
      const Encoding& row = rows[size_t(b.rows[i])];
      for (size_t t = 0; t < row.ids.size(); ++t)
        if (row.special_tokens_mask[t] == 0)
          out[size_t(b.rows[i])].push_back(
              {row.tokens[t], row.offsets[t], best_of(*this, logits[int64_t(i)][int64_t(t)])});
    }
  });
  return out;
}

std::string TextEncoder::mask_token() const {
  const auto id = tokenizer.mask_id();
  FOVEA_CHECK_KIND(ErrorKind::kInput, id.has_value(), "the tokenizer has no mask token");
  return tokenizer.id_to_token(*id).value();
}

std::vector<FilledMask> TextEncoder::fill_mask(std::string_view text, int64_t top_k) const {
  return fill_masks({std::string(text)}, top_k)[0];
}

std::vector<std::vector<FilledMask>> TextEncoder::fill_masks(const Texts& texts, int64_t top_k) const {
  check_head(*this, "masked_lm", "fill masks");
  FOVEA_CHECK_CONFIG(top_k >= 1, "top_k is ", top_k, ", wanted at least 1");
  const std::string spelling = mask_token();
  const std::vector<Encoding> rows = encoded_texts(*this, texts);
  for (size_t i = 0; i < rows.size(); ++i)
    FOVEA_CHECK_INPUT(std::count(rows[i].ids.begin(), rows[i].ids.end(), tokenizer.mask_id()) > 0, "text ", i + 1,
                      " has no ", spelling, " to fill");
  std::vector<std::vector<FilledMask>> out(texts.size());
  run_by_length(*this, rows, [&](const TextBatch& b) {
    const Tensor logits = model->forward(b.batch);  // [B, T, V]
    for (size_t i = 0; i < b.rows.size(); ++i) {
      const Encoding& row = rows[size_t(b.rows[i])];
      int64_t mask = 0;
      for (size_t t = 0; t < row.ids.size(); ++t)
        if (row.ids[t] == tokenizer.mask_id())
          add_best(tokenizer, logits[int64_t(i)][int64_t(t)], mask++, top_k, out[size_t(b.rows[i])]);
    }
  });
  return out;
}

}  // namespace fovea
