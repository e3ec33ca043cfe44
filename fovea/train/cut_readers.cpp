// Labelled and masked texts as batches.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/data/labels.h"
#include "fovea/data/masking.h"
#include "fovea/data/text_lines.h"
#include "fovea/train/cuts.h"

namespace fovea {
namespace {

int64_t class_of(const LabelledText& text, const std::vector<std::string>& names) {
  const auto found = std::find(names.begin(), names.end(), text.label);
  if (found != names.end()) return found - names.begin();
  const std::string& other = text.second.empty() ? text.text : text.second;
  const bool swapped =
      std::count(names.begin(), names.end(), other) + std::count(names.begin(), names.end(), text.text) > 0;
  throw Error(
      ErrorKind::kInput,
      detail::concat(text.where, ": the model knows no label \"", text.label, "\"",
                     swapped ? "; it seems to stand in the other column (data.label_column; fovea eval: --label-column)"
                             : suggestion(text.label, names)));
}

// A line's tokens, and those that the tokenizer puts before and behind it.
struct EnclosedTokens {
  std::vector<TokenId> before, inside, behind;
};

EnclosedTokens enclosed_tokens(const Tokenizer& tokenizer, std::string_view line) {
  const Encoding encoding = tokenizer.encode(line, {.truncate = false, .pad = false});
  EnclosedTokens out;
  for (size_t t = 0; t < encoding.ids.size(); ++t) {
    const bool around = encoding.special_tokens_mask[t] != 0;
    (around ? out.inside.empty() ? out.before : out.behind : out.inside).push_back(TokenId(encoding.ids[t]));
  }
  return out;
}

// Ids that stand for pieces of text.
std::vector<TokenId> ordinary_tokens(const Tokenizer& tokenizer) {
  std::vector<TokenId> out;
  for (int64_t id = 0; id < tokenizer.end_id(); ++id)
    if (!tokenizer.is_special(id) && tokenizer.id_to_token(id).has_value()) out.push_back(TokenId(id));
  return out;
}

}  // namespace

std::shared_ptr<Dataset> cut_labels(const Corpus& corpus, const EncoderModelImpl& model, const Tokenizer& tokenizer,
                                    const Cut& cut) {
  const std::vector<std::string> names = model.labels();
  std::vector<LabelledTokens> texts;
  for (const LabelledText& text : corpus.labelled) {
    constexpr EncodeOptions kAsItIsUsed{.pad = false};  // cut where the tokenizer's file says so
    const Encoding encoding = text.second.empty() ? tokenizer.encode(text.text, kAsItIsUsed)
                                                  : tokenizer.encode_pair(text.text, text.second, kAsItIsUsed);
    const int64_t length = int64_t(encoding.ids.size());
    LabelledTokens tokens{{encoding.ids.begin(), encoding.ids.end()}, {}, class_of(text, names)};
    if (!text.second.empty()) tokens.type_ids.assign(encoding.type_ids.begin(), encoding.type_ids.end());
    FOVEA_CHECK_INPUT(length > 0, text.where, ": the text has no tokens");
    const int64_t kinds = 1 + *std::max_element(encoding.type_ids.begin(), encoding.type_ids.end());
    FOVEA_CHECK_INPUT(kinds <= model.segments(), text.where, ": a pair of texts; the model reads single ones");
    if (length > cut.context) {
      FOVEA_CHECK_INPUT(
          cut.drop_longer, text.where, ": the text has ", length, " tokens, rows have ", cut.context,
          "; data.cut_longer (fovea eval: --cut-longer) cuts such texts, in training data.drop_longer leaves "
          "them out");
      continue;
    }
    texts.push_back(std::move(tokens));
  }
  FOVEA_CHECK_INPUT(!texts.empty() || corpus.labelled.empty(), corpus.source, ": all ", corpus.labelled.size(),
                    " texts are longer than the ", cut.context, " tokens of a row");
  const LabelledOptions options{cut.buckets(), TokenId(tokenizer.pad_id().value_or(0))};
  return std::make_shared<LabelledTexts>(std::move(texts), options, corpus.source);
}

std::shared_ptr<Dataset> cut_masked(const Corpus& corpus, const Tokenizer& tokenizer, const Cut& cut) {
  MaskingOptions options{.buckets = cut.buckets()};
  FOVEA_CHECK_INPUT(tokenizer.mask_id().has_value(), "the tokenizer has no mask token, which masked words need");
  options.mask = TokenId(*tokenizer.mask_id());
  options.pad = TokenId(tokenizer.pad_id().value_or(options.mask));
  options.ordinary = ordinary_tokens(tokenizer);
  std::erase(options.ordinary, options.mask);
  std::erase(options.ordinary, options.pad);
  std::vector<std::vector<TokenId>> rows;
  for (const std::string_view line : split_lines(corpus.text)) {
    if (line.empty()) continue;
    const auto [before, inside, behind] = enclosed_tokens(tokenizer, line);
    const int64_t room = cut.context - int64_t(before.size() + behind.size());
    FOVEA_CHECK_CONFIG(room > 0, "rows have ", cut.context,
                       " tokens (data.context; fovea eval: --context), which is no room for a token beside the ",
                       before.size() + behind.size(), " around each text");
    // A line longer than a row goes on in the next, which is enclosed likewise.
    for (auto at = inside.begin(); at != inside.end();) {
      const auto end = at + std::min<int64_t>(room, inside.end() - at);
      rows.push_back(before);
      rows.back().insert(rows.back().end(), at, end);
      rows.back().insert(rows.back().end(), behind.begin(), behind.end());
      at = end;
    }
  }
  return std::make_shared<MaskedTexts>(std::move(rows), std::move(options), corpus.source);
}

}  // namespace fovea
