// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/parts.h"

#include <ATen/Context.h>

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
#include "fovea/data/windows.h"
#include "fovea/models/pretrained.h"
#include "fovea/text/training.h"

namespace fovea {
namespace {

// What the recipe's files hold, before tokens: a text, or pairs.
struct Corpus {
  std::string text;
  std::vector<TextPair> pairs;
  std::string source;  // names it in errors
  bool empty() const { return text.empty() && pairs.empty(); }
};

// How a dataset is cut from a corpus.
struct Cut {
  std::string kind;
  int64_t context = 0;
  int64_t batch_size = 0, batch_tokens = 0;
  WindowOrder windows = WindowOrder::kConsecutive;
  bool shuffle = false;
  bool drop_longer = false;
  uint64_t seed = 0;
};

Corpus read_corpus(const std::string& kind, const std::vector<std::string>& files, const std::string& what) {
  Corpus out;
  for (const std::string& file : files) {
    out.source += (out.source.empty() ? "" : ", ") + file;
    if (kind != "pairs") continue;
    const auto pairs = read_pairs(file);
    out.pairs.insert(out.pairs.end(), pairs.begin(), pairs.end());
  }
  if (kind != "pairs") out.text = read_texts(files, what);
  return out;
}

// Cuts the validation off the training corpus's end.
Corpus cut_validation(Corpus& train, double fraction) {
  Corpus out{{}, {}, train.source};
  if (train.pairs.empty()) {
    const auto [first, last] = split_tail(train.text, fraction, train.source);
    out.text = last;
    train.text.resize(first.size());
    return out;
  }
  const size_t count = size_t(fraction * double(train.pairs.size()));
  FOVEA_CHECK_INPUT(count > 0 && count < train.pairs.size(), train.source, ": ", 100 * fraction, " % of ",
                    train.pairs.size(), " pairs leave one side empty; the validation split needs at least one pair");
  out.pairs.assign(train.pairs.end() - int64_t(count), train.pairs.end());
  train.pairs.resize(train.pairs.size() - count);
  return out;
}

Tokenizer make_tokenizer(const TrainOptions& options, const Corpus& corpus) {
  if (!options.train.init.empty()) return Tokenizer::load(options.train.init);
  if (options.tokenizer.type == "file") return Tokenizer::load(options.tokenizer.path);
  std::vector<std::string> special;
  if (options.data.kind == "pairs") special = {"<pad>", "<s>", "</s>"};
  if (options.data.kind == "lines") special = {"<s>", "</s>"};
  std::string joined;
  for (const TextPair& pair : corpus.pairs) joined += pair.source + "\n" + pair.target + "\n";
  const std::string& text = corpus.pairs.empty() ? corpus.text : joined;
  if (options.tokenizer.type == "bpe")
    return train_bpe({text}, {.vocab_size = options.tokenizer.vocab_size, .special_tokens = special});
  return train_characters(text, {.special_tokens = special});
}

std::vector<TokenId> tokens_of(const Tokenizer& tokenizer, std::string_view text) {
  const auto ids = tokenizer.ids(text, {.add_special_tokens = false, .truncate = false, .pad = false});
  return std::vector<TokenId>(ids.begin(), ids.end());
}

Model make_model_for(const TrainOptions& options, const Tokenizer& tokenizer) {
  if (!options.train.init.empty()) return load_pretrained_model(options.train.init);
  FOVEA_CHECK_CONFIG(options.model.recipe != nullptr, "model.type is empty; name a model",
                     suggestion("", models_registry().names()));
  nlohmann::json config = options.model.recipe->config(tokenizer.end_id());
  const std::pair<const char*, std::optional<int64_t>> roles[] = {
      {"bos_token_id", tokenizer.bos_id()}, {"eos_token_id", tokenizer.eos_id()}, {"pad_token_id", tokenizer.pad_id()}};
  for (const auto& [key, id] : roles)
    if (id && (!config.contains(key) || config[key].is_null() || config[key] == -1)) config[key] = *id;
  at::manual_seed(uint64_t(options.train.seed));
  return make_model(config);
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

std::shared_ptr<Dataset> cut_lines(const Corpus& corpus, const Tokenizer& tokenizer, const Cut& cut) {
  std::vector<std::vector<TokenId>> texts;
  for (const std::string_view line : split_lines(corpus.text)) {
    if (line.empty()) continue;
    std::vector<TokenId> text = tokens_of(tokenizer, line);
    if (const auto id = tokenizer.bos_id()) text.insert(text.begin(), TokenId(*id));
    if (const auto id = tokenizer.eos_id()) text.push_back(TokenId(*id));
    texts.push_back(std::move(text));
  }
  const PackingOptions options{cut.context, cut.batch_size, cut.shuffle, cut.seed};
  return std::make_shared<PackedTexts>(std::move(texts), options, corpus.source);
}

std::shared_ptr<Dataset> cut_pairs(const Corpus& corpus, const ModelImpl& model, const Tokenizer& tokenizer,
                                   const Cut& cut) {
  PairOptions options;
  options.buckets = {
      .batch_size = cut.batch_size, .batch_tokens = cut.batch_tokens, .shuffle = cut.shuffle, .seed = cut.seed};
  options.begin = role_token(model, {"decoder_start_token_id", "bos_token_id"}, tokenizer.bos_id());
  options.end = role_token(model, {"eos_token_id"}, tokenizer.eos_id());
  options.pad = role_token(model, {"pad_token_id"}, tokenizer.pad_id());
  std::vector<TokenPair> pairs;
  for (const TextPair& pair : corpus.pairs) {
    TokenPair tokens{tokens_of(tokenizer, pair.source), tokens_of(tokenizer, pair.target)};
    const int64_t length = int64_t(std::max(tokens.source.size(), tokens.target.size())) + 1;  // and its end
    if (length > cut.context) {
      FOVEA_CHECK_INPUT(cut.drop_longer, pair.where, ": the pair has ", length, " tokens, rows have ", cut.context,
                        "; data.drop_longer leaves such pairs out");
      continue;
    }
    pairs.push_back(std::move(tokens));
  }
  return std::make_shared<TextPairs>(std::move(pairs), options, corpus.source);
}

MeasuredData cut_corpus(const Corpus& corpus, const ModelImpl& model, const Tokenizer& tokenizer, Cut cut) {
  constexpr int64_t kLongestDefault = int64_t{1} << 20;
  const auto* writer = dynamic_cast<const GenerativeModelImpl*>(&model);
  FOVEA_CHECK_CONFIG(writer != nullptr, "a ", model.type(),
                     " model does not predict the next token, which is what text, lines and pairs ask for");
  const bool reads_pairs = writer->has_encoder();
  FOVEA_CHECK_CONFIG(reads_pairs == (cut.kind == "pairs"), "the data's kind is \"", cut.kind, "\", a ", model.type(),
                     " model reads ", reads_pairs ? "pairs" : "text or lines");
  if (cut.context == 0) cut.context = model.max_positions();
  FOVEA_CHECK_CONFIG(cut.context <= kLongestDefault,
                     "data.context is 0, but the model has no limit of its own; give one");
  FOVEA_CHECK_CONFIG(cut.context <= model.max_positions(), "data.context is ", cut.context, ", the model has ",
                     model.max_positions(), " positions");
  if (cut.kind == "pairs") return {cut_pairs(corpus, model, tokenizer, cut), 0};
  if (cut.kind == "lines") {
    MeasuredData out{cut_lines(corpus, tokenizer, cut)};
    const bool ends = tokenizer.eos_id().has_value();  // stands for the line's end
    for (const std::string_view line : split_lines(corpus.text))
      if (!line.empty()) out.characters += int64_t(count_code_points(line)) + ends;
    return out;
  }
  std::vector<TokenId> tokens = tokens_of(tokenizer, corpus.text);
  const double labels = double(tokens.size()) - 1, characters = double(count_code_points(corpus.text));
  const WindowOptions options{cut.context, cut.batch_size, cut.windows, cut.seed};
  const int64_t labelled =
      int64_t(characters * labels / std::max(labels + 1, 1.0) + 0.5);  // the first token is no label
  return {std::make_shared<TokenWindows>(std::move(tokens), options, corpus.source), labelled};
}

}  // namespace

TrainParts load_train_parts(const TrainOptions& options) {
  const DataOptions& data = options.data;
  FOVEA_CHECK_CONFIG(!data.train.empty(), "data.train is empty; name at least one file");
  if (!options.train.init.empty()) check_model_folder(options.train.init);
  FOVEA_CHECK_CONFIG(data.validation.empty() || data.validation_fraction == 0,
                     "data.validation and data.validation_fraction exclude each other");
  Corpus train = read_corpus(data.kind, data.train, "training text"), validation;
  if (!data.validation.empty()) validation = read_corpus(data.kind, data.validation, "validation text");
  if (data.validation_fraction > 0) validation = cut_validation(train, data.validation_fraction);

  TrainParts out;
  out.tokenizer = make_tokenizer(options, train);
  out.model = make_model_for(options, *out.tokenizer);
  Cut cut{.kind = data.kind,
          .context = data.context,
          .batch_size = options.optim.batch_size,
          .batch_tokens = options.optim.batch_tokens,
          .windows = window_order(data.windows),
          .shuffle = true,
          .drop_longer = data.drop_longer,
          .seed = uint64_t(options.train.seed)};
  out.train = cut_corpus(train, *out.model, *out.tokenizer, cut).data;
  if (validation.empty()) return out;
  cut.windows = WindowOrder::kConsecutive;
  cut.shuffle = false;
  if (data.kind != "pairs") cut.batch_size = options.train.validate_batch_size;
  const MeasuredData measured = cut_corpus(validation, *out.model, *out.tokenizer, cut);
  out.validation = measured.data;
  out.characters_per_token = measured.characters_per_token();
  return out;
}

MeasuredData load_measured_data(const ModelImpl& model, const Tokenizer& tokenizer, const MeasureOptions& options) {
  FOVEA_CHECK(!options.files.empty(), "no file to measure on");
  const Corpus corpus = read_corpus(options.kind, options.files, "text");
  return cut_corpus(corpus, model, tokenizer,
                    {.kind = options.kind, .context = options.context, .batch_size = options.batch_size});
}

}  // namespace fovea
