// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/masking.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/data/padding.h"
#include "fovea/data/random.h"

namespace fovea {
namespace {

// Apart from the streams of the items' and the batches' order.
constexpr uint64_t kMaskingStream = uint64_t{1} << 60;
// What is drawn for one row.
constexpr uint64_t kPlaceDraws = 0, kKindDraws = 1, kTokenDraws = 2;

}  // namespace

MaskedTexts::MaskedTexts(std::vector<std::vector<TokenId>> texts, MaskingOptions options, const std::string& source)
    : BucketedDataset(options.buckets), texts_(std::move(texts)), options_(std::move(options)) {
  FOVEA_CHECK_CONFIG(options_.part > 0 && options_.part <= 1, "masked words: part is ", options_.part,
                     ", wanted more than 0 and at most 1");
  FOVEA_CHECK(!options_.ordinary.empty(), "there are no ordinary tokens");
  for (const TokenId token : options_.ordinary) {
    FOVEA_CHECK(token >= 0 && token != options_.mask && token != options_.pad, "token ", token,
                " is no ordinary one: negative, the mask or the padding");
    if (size_t(token) >= ordinary_.size()) ordinary_.resize(size_t(token) + 1);
    ordinary_[size_t(token)] = true;
  }
  std::erase_if(texts_, [this](const auto& text) { return ordinary_places(text).empty(); });
  FOVEA_CHECK_INPUT(!texts_.empty(), source, ": no line has a token that could be hidden");
  for (const auto& text : texts_) add_item(int64_t(text.size()));
}

std::vector<size_t> MaskedTexts::ordinary_places(const std::vector<TokenId>& text) const {
  std::vector<size_t> out;
  for (size_t t = 0; t < text.size(); ++t)
    if (is_ordinary(text[t])) out.push_back(t);
  return out;
}

int64_t MaskedTexts::chosen_count(size_t places) const {
  return std::max<int64_t>(1, std::lround(options_.part * double(places)));
}

std::vector<TokenId> MaskedTexts::hide(std::vector<TokenId>& text, int64_t epoch, int64_t item) const {
  std::vector<TokenId> labels(text.size(), TokenId(kIgnore));
  std::vector<size_t> places = ordinary_places(text);
  const uint64_t seed = random_bits(options_.buckets.seed, kMaskingStream + uint64_t(epoch), uint64_t(item));
  const int64_t chosen = chosen_count(places.size());
  for (int64_t i = 0; i < chosen; ++i) {  // the first steps of a shuffle
    const int64_t left = int64_t(places.size()) - i;
    std::swap(places[size_t(i)], places[size_t(i + random_below(left, seed, kPlaceDraws, uint64_t(i)))]);
    const size_t place = places[size_t(i)];
    labels[place] = text[place];
    const int64_t kind = random_below(10, seed, kKindDraws, uint64_t(i));
    const int64_t other = random_below(int64_t(options_.ordinary.size()), seed, kTokenDraws, uint64_t(i));
    if (kind < 8) text[place] = options_.mask;
    if (kind == 8) text[place] = options_.ordinary[size_t(other)];
  }
  return labels;
}

Batch MaskedTexts::batch(int64_t epoch, int64_t index) {
  std::vector<std::vector<TokenId>> ids, labels;
  Batch out;
  for (const int64_t item : items(epoch, index)) {
    ids.push_back(texts_[size_t(item)]);
    labels.push_back(hide(ids.back(), epoch, item));
    out.tokens += std::count_if(labels.back().begin(), labels.back().end(), [](TokenId t) { return t != kIgnore; });
  }
  out.ids = pad_right(ids, options_.pad);   // [B, T]
  out.lengths = row_lengths(ids);           // [B]
  out.labels = pad_right(labels, kIgnore);  // [B, T]
  return out;
}

int64_t MaskedTexts::vocabulary_needed() const {
  TokenId greatest = std::max({options_.mask, options_.pad, TokenId(ordinary_.size()) - 1});
  for (const auto& text : texts_) greatest = std::max(greatest, *std::max_element(text.begin(), text.end()));
  return int64_t(greatest) + 1;
}

int64_t MaskedTexts::token_count() {
  int64_t out = 0;
  for (const auto& text : texts_) out += chosen_count(ordinary_places(text).size());
  return out;
}

uint64_t MaskedTexts::fingerprint() const {
  Fingerprint out = buckets_fingerprint();
  out.add(uint64_t(std::llround(options_.part * 1e9)));
  for (const TokenId token : {options_.mask, options_.pad}) out.add(uint64_t(uint32_t(token)));
  out.add(options_.ordinary);
  for (const auto& text : texts_) out.add(text);
  return out.value();
}

}  // namespace fovea
