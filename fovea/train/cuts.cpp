// Texts and pairs as batches, and who may have which kind.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/cuts.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/data/packing.h"
#include "fovea/data/pairs.h"
#include "fovea/data/text_lines.h"

namespace fovea {
namespace {

std::vector<TokenId> tokens_of(const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.ids(text, {.add_special_tokens = false, .truncate = false, .pad = false});
  return std::vector<TokenId>(ids.begin(), ids.end());
}

// The token of a role in pairs: config.json's, under the first of these keys that it has, else the tokenizer's.
TokenId role_token(const ModelImpl& model, std::initializer_list<const char*> keys,
                   std::optional<int64_t> of_tokenizer) {
  const nlohmann::json config = model.config();
  for (const char* key : keys) {
    auto found = config.value(key, nlohmann::json());
    if (found.is_array() && !found.empty()) found = nlohmann::json(found.front());
    if (found.is_number_integer() && found >= 0) return found.get<TokenId>();
  }
  FOVEA_CHECK_INPUT(of_tokenizer.has_value(), "pairs need a ", *keys.begin(),
                    ": neither config.json nor the tokenizer has one");
  return TokenId(*of_tokenizer);
}

MeasuredData cut_lines(const Corpus& corpus, const Tokenizer& tokenizer, const Cut& cut) {
  std::vector<std::vector<TokenId>> texts;
  double characters = 0;  // that labels stand for
  for (const std::string_view line : split_lines(corpus.text)) {
    if (line.empty()) continue;
    std::vector<TokenId> text = tokens_of(tokenizer, line);
    double written = double(count_code_points(line));
    if (const auto id = tokenizer.eos_id()) text.push_back(TokenId(*id)), ++written;  // stands for the line's end
    if (const auto id = tokenizer.bos_id()) {
      text.insert(text.begin(), TokenId(*id));
    } else {
      written *= 1 - 1 / std::max(double(text.size()), 1.0);  // the first token is no label
    }
    characters += written;
    texts.push_back(std::move(text));
  }
  const PackingOptions options{cut.context, cut.batch_size, cut.shuffle, cut.seed};
  return {std::make_shared<PackedTexts>(std::move(texts), options, corpus.source), int64_t(characters + 0.5)};
}

std::shared_ptr<Dataset> cut_pairs(const Corpus& corpus, const ModelImpl& model, const Tokenizer& tokenizer,
                                   const Cut& cut) {
  PairOptions options;
  options.buckets = cut.buckets();
  options.begin = role_token(model, {"decoder_start_token_id", "bos_token_id"}, tokenizer.bos_id());
  options.end = role_token(model, {"eos_token_id"}, tokenizer.eos_id());
  options.pad = role_token(model, {"pad_token_id"}, tokenizer.pad_id());
  const Tokenizer reads = tokenizer.source();
  if (tokenizer.has_source()) {
    FOVEA_CHECK_INPUT(reads.eos_id().has_value(), "the tokenizer of the sources has no token that ends a text");
    options.source_end = TokenId(*reads.eos_id());
    options.source_pad = TokenId(reads.pad_id().value_or(*reads.eos_id()));
  }
  std::vector<TokenPair> pairs;
  for (const TextPair& pair : corpus.pairs) {
    TokenPair tokens{tokens_of(reads, pair.source), tokens_of(tokenizer, pair.target)};
    const int64_t length = int64_t(std::max(tokens.source.size(), tokens.target.size())) + 1;  // and its end
    if (length > cut.context) {
      FOVEA_CHECK_INPUT(cut.drop_longer, pair.where, ": the pair has ", length, " tokens, rows have ", cut.context,
                        "; in training, data.drop_longer leaves such pairs out");
      continue;
    }
    pairs.push_back(std::move(tokens));
  }
  FOVEA_CHECK_INPUT(!pairs.empty() || corpus.pairs.empty(), corpus.source, ": all ", corpus.pairs.size(),
                    " pairs are longer than the ", cut.context, " tokens of a row");
  return std::make_shared<TextPairs>(std::move(pairs), options, corpus.source);
}

void check_kind(const std::string& kind, const ModelImpl& model) {
  if (is_for_readers(kind)) {
    const auto* reader = dynamic_cast<const EncoderModelImpl*>(&model);
    const char* wanted = kind == "labels" ? "classifier" : "masked_lm";
    FOVEA_CHECK_CONFIG(reader != nullptr && reader->head() == wanted && reader->vocab_size() > 0,
                       "the data's kind is \"", kind, "\", which is for a text encoder with the head \"", wanted,
                       "\"; this is a ", model.type(), " model",
                       reader ? " with the head \"" + reader->head() + "\"" : std::string());
    return;
  }
  const auto* writer = dynamic_cast<const GenerativeModelImpl*>(&model);
  FOVEA_CHECK_CONFIG(writer != nullptr, "a ", model.type(),
                     " model does not predict the next token, which is what text, lines and pairs ask for");
  FOVEA_CHECK_CONFIG(kind == "text" || !model.keeps_memory(), "the data's kind is \"", kind, "\", a ", model.type(),
                     " model carries memory through one text");
  const bool reads_pairs = writer->has_encoder();
  FOVEA_CHECK_CONFIG(reads_pairs == (kind == "pairs"), "the data's kind is \"", kind, "\", a ", model.type(),
                     " model reads ", reads_pairs ? "pairs" : "text or lines");
}

}  // namespace

MeasuredData cut_corpus(const Corpus& corpus, const ModelImpl& model, const Tokenizer& tokenizer, Cut cut) {
  constexpr int64_t kLongestDefault = int64_t{1} << 20;
  check_kind(cut.kind, model);
  if (cut.context == 0) cut.context = model.max_positions();
  FOVEA_CHECK_CONFIG(
      cut.context <= kLongestDefault,
      "the model has no limit of its own: give the length of its windows (data.context; fovea eval: --context)");
  FOVEA_CHECK_CONFIG(cut.context <= model.max_positions(), "data.context is ", cut.context, ", the model has ",
                     model.max_positions(), " positions");
  if (cut.kind == "labels")
    return {cut_labels(corpus, dynamic_cast<const EncoderModelImpl&>(model), tokenizer, cut), 0};
  if (cut.kind == "masked") return {cut_masked(corpus, tokenizer, cut), 0};
  if (cut.kind == "pairs") return {cut_pairs(corpus, model, tokenizer, cut), 0};
  if (cut.kind == "lines") return cut_lines(corpus, tokenizer, cut);
  if (model.keeps_memory()) {
    FOVEA_CHECK_CONFIG(!cut.shuffle || cut.windows == WindowOrder::kStreams, "a ", model.type(),
                       " model carries memory from batch to batch; it wants data.windows = \"streams\"");
    cut.windows = WindowOrder::kStreams;
  }
  std::vector<TokenId> tokens = tokens_of(tokenizer, corpus.text);
  const double labels = double(tokens.size()) - 1, characters = double(count_code_points(corpus.text));
  const WindowOptions options{cut.context, cut.batch_size, cut.windows, cut.seed};
  const int64_t labelled =
      int64_t(characters * labels / std::max(labels + 1, 1.0) + 0.5);  // the first token is no label
  return {std::make_shared<TokenWindows>(std::move(tokens), options, corpus.source), labelled};
}

}  // namespace fovea
