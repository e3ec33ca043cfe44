// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/parts.h"

#include <ATen/Context.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/base/log.h"
#include "fovea/data/labels.h"
#include "fovea/models/pretrained.h"
#include "fovea/text/training.h"
#include "fovea/train/corpus.h"
#include "fovea/train/cuts.h"

namespace fovea {
namespace {

Tokenizer train_tokenizer(const TokenizerOptions& options, std::string text, const std::vector<std::string>& special,
                          const char* unknown) {
  if (options.type == "bpe")
    return train_bpe({text}, {.vocab_size = options.vocab_size, .special_tokens = special, .isolate = options.isolate});
  if (options.type == "words")
    return train_words(text, {.vocab_size = options.vocab_size, .unk_token = unknown, .special_tokens = special});
  return train_characters(text, {.unk_token = unknown, .special_tokens = special});
}

// For pairs; `side` is what it will read of each.
Tokenizer make_side_tokenizer(const TokenizerOptions& options, const Corpus& corpus, std::string TextPair::* side) {
  if (options.type == "file") return Tokenizer::load(options.path);
  std::string text;
  for (const TextPair& pair : corpus.pairs) text += pair.*side + (options.type == "characters" ? "" : "\n");
  return train_tokenizer(options, text, {"<pad>", "<s>", "</s>"}, "<unk>");
}

Tokenizer make_tokenizer(const TrainOptions& options, const Corpus& corpus) {
  if (!options.train.init.empty()) return Tokenizer::load(options.train.init);
  if (!options.source_tokenizer.type.empty())
    return make_side_tokenizer(options.tokenizer, corpus, &TextPair::target)
        .with_source(make_side_tokenizer(options.source_tokenizer, corpus, &TextPair::source).source());
  if (options.tokenizer.type == "file") {
    const Tokenizer out = Tokenizer::load(options.tokenizer.path);
    return options.data.kind == "pairs" ? out : out.without_source();
  }
  std::string text = corpus.joined();
  if (is_for_readers(options.data.kind)) {
    // Its texts are lines: their ends are no characters to know.
    if (options.tokenizer.type == "characters") std::erase_if(text, [](char c) { return c == '\n' || c == '\r'; });
    const auto tokenizer = train_tokenizer(options.tokenizer, text, {"[PAD]", "[CLS]", "[SEP]", "[MASK]"}, "[UNK]");
    return enclose_texts(tokenizer, "[CLS]", "[SEP]");
  }
  std::vector<std::string> special;
  if (options.data.kind == "pairs") special = {"<pad>", "<s>", "</s>"};
  if (options.data.kind == "lines")  // a text to go on with begins as those learned from do
    return enclose_texts(train_tokenizer(options.tokenizer, text, {"<s>", "</s>"}, "<unk>"), "<s>", "");
  return train_tokenizer(options.tokenizer, text, special, "<unk>");
}

// The model that train.init names, under the head that the data asks for: its own where that fits.
Model model_of_folder(const TrainOptions& options, const std::vector<std::string>& labels) {
  const Model model = load_pretrained_model(options.train.init);
  if (!is_for_readers(options.data.kind)) return model;
  const auto reader = std::dynamic_pointer_cast<EncoderModelImpl>(model);
  FOVEA_CHECK_INPUT(reader != nullptr && reader->vocab_size() > 0, options.train.init, ": a ", model->type(),
                    " model is no text encoder, which the data's kind \"", options.data.kind, "\" asks for");
  const std::string head = options.data.kind == "labels" ? "classifier" : "masked_lm";
  std::vector<std::string> known = reader->labels();
  std::sort(known.begin(), known.end());
  if (reader->head() == head && (head == "masked_lm" || known == labels)) return model;
  log("train",
      detail::concat(options.train.init, ": the head \"", reader->head(), "\" gives way to a new \"", head, "\""));
  at::manual_seed(uint64_t(options.train.seed));
  return reader->with_head(head, labels);
}

Model make_model_for(const TrainOptions& options, const Corpus& corpus, const Tokenizer& tokenizer) {
  std::vector<std::string> labels;
  if (options.data.kind == "labels") labels = class_names(corpus.labelled, corpus.source);
  if (!options.train.init.empty()) return model_of_folder(options, labels);
  FOVEA_CHECK_CONFIG(options.model.recipe != nullptr, "model.type is empty; name a model",
                     suggestion("", models_registry().names()));
  const bool reads = is_for_readers(options.data.kind);
  const ModelRecipe& recipe = *options.model.recipe;
  const int64_t segments = labels.empty() || corpus.labelled.front().second.empty() ? 1 : 2;
  nlohmann::json config =
      reads ? recipe.reader_config({tokenizer.end_id(), segments, tokenizer.pad_id().value_or(0), labels})
            : recipe.config(tokenizer.end_id());
  if (tokenizer.has_source()) {
    FOVEA_CHECK_CONFIG(config.contains("source_vocab_size"), "a ", options.model.type,
                       " model has one vocabulary for both sides; leave source_tokenizer out");
    config["source_vocab_size"] = tokenizer.source().end_id();
    config["shared_embeddings"] = false;
  }
  const std::pair<const char*, std::optional<int64_t>> roles[] = {
      {"bos_token_id", tokenizer.bos_id()}, {"eos_token_id", tokenizer.eos_id()}, {"pad_token_id", tokenizer.pad_id()}};
  for (const auto& [key, id] : roles)
    if (id && (!config.contains(key) || config[key].is_null() || config[key] == -1)) config[key] = *id;
  at::manual_seed(uint64_t(options.train.seed));
  return make_model(config);
}

Tokenizer cutting_tokenizer(const Tokenizer& tokenizer, const ModelImpl& model, const std::string& kind,
                            int64_t context) {
  FOVEA_CHECK_CONFIG(kind == "labels",
                     "data.cut_longer is for labelled texts, as --cut-longer of fovea eval is; the kind is \"", kind,
                     "\"");
  const int64_t longest = context > 0 ? context : model.max_positions();
  const int64_t around = int64_t(tokenizer.ids("", {.truncate = false, .pad = false}).size());
  FOVEA_CHECK_CONFIG(longest > around, "texts are to be cut to ", longest, " tokens, which leaves no room beside the ",
                     around, " around each text; make the context larger");
  return shorten_texts(tokenizer, longest);
}

}  // namespace

std::string unit_of(const std::string& kind) {
  return kind == "labels" ? "texts" : kind == "images" ? "images" : "tokens";
}

TrainParts load_train_parts(const TrainOptions& options) {
  const DataOptions& data = options.data;
  FOVEA_CHECK_CONFIG(!data.train.empty(), "data.train is empty; name at least one file");
  if (!options.train.init.empty()) {
    check_model_folder(options.train.init);
    if (options.model.recipe != nullptr)
      log("train", detail::concat("model and tokenizer are those of ", options.train.init,
                                  "; the recipe's [model] and [tokenizer] are not used, its dropout neither"));
  }
  FOVEA_CHECK_CONFIG(data.validation.empty() || data.validation_fraction == 0,
                     "data.validation and data.validation_fraction exclude each other");
  if (data.kind == "images") return load_image_parts(options);
  const LabelColumn column = label_column(data.label_column);
  Corpus train = read_corpus(data.kind, data.train, "training text", column), validation;
  if (!data.validation.empty()) validation = read_corpus(data.kind, data.validation, "validation text", column);
  if (data.validation_fraction > 0) validation = cut_validation(train, data.validation_fraction);

  TrainParts out;
  out.tokenizer = make_tokenizer(options, train);
  out.model = make_model_for(options, train, *out.tokenizer);
  if (!options.train.init.empty()) check_tokenizer_fits(*out.model, *out.tokenizer, options.train.init);
  if (data.cut_longer) out.tokenizer = cutting_tokenizer(*out.tokenizer, *out.model, data.kind, data.context);
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
  FOVEA_CHECK_CONFIG(options.kind != "images", "the data's kind is \"images\", which a ", model.type(),
                     " model does not read");
  const Corpus corpus = read_corpus(options.kind, options.files, "text", label_column(options.label_column));
  return cut_corpus(corpus, model,
                    options.cut_longer ? cutting_tokenizer(tokenizer, model, options.kind, options.context) : tokenizer,
                    {.kind = options.kind, .context = options.context, .batch_size = options.batch_size, .seed = 1});
}

}  // namespace fovea
