// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/pairs.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/data/padding.h"
#include "fovea/data/text_lines.h"
#include "fovea/io/files.h"

namespace fovea {

std::vector<TextPair> read_pairs(const std::filesystem::path& path) {
  const std::string text = read_text(path, "table of pairs");
  std::vector<TextPair> out;
  int64_t line = 0;
  for (const std::string_view row : split_lines(text)) {
    ++line;
    if (row.empty()) continue;
    const std::string where = path.native() + ":" + std::to_string(line);
    const size_t tab = row.find('\t');
    FOVEA_CHECK_INPUT(tab != std::string_view::npos, where, ": one column; wanted source<TAB>target");
    const std::string_view source = row.substr(0, tab), target = row.substr(tab + 1);
    FOVEA_CHECK_INPUT(target.find('\t') == std::string_view::npos, where, ": ",
                      std::count(row.begin(), row.end(), '\t') + 1, " columns; wanted source<TAB>target");
    FOVEA_CHECK_INPUT(!trimmed(source).empty(), where, ": the source column is empty");
    FOVEA_CHECK_INPUT(!trimmed(target).empty(), where, ": the target column is empty");
    out.push_back({std::string(source), std::string(target), where});
  }
  FOVEA_CHECK_INPUT(!out.empty(), path.native(), ": holds no pairs; wanted lines of source<TAB>target");
  return out;
}

TextPairs::TextPairs(std::vector<TokenPair> pairs, const PairOptions& options, const std::string& source)
    : BucketedDataset(options.buckets), pairs_(std::move(pairs)), options_(options) {
  FOVEA_CHECK_INPUT(!pairs_.empty(), source, ": holds no pairs");
  for (TokenPair& pair : pairs_) {
    pair.source.push_back(options.source_end.value_or(options.end));
    add_item(int64_t(std::max(pair.source.size(), pair.target.size() + 1)));
  }
}

Batch TextPairs::batch(int64_t epoch, int64_t index) {
  std::vector<std::vector<TokenId>> sources, inputs, labels;
  Batch out;
  for (const int64_t item : items(epoch, index)) {
    const TokenPair& pair = pairs_[size_t(item)];
    sources.push_back(pair.source);
    inputs.push_back({options_.begin});
    inputs.back().insert(inputs.back().end(), pair.target.begin(), pair.target.end());
    labels.push_back(pair.target);
    labels.back().push_back(options_.end);
    out.tokens += int64_t(labels.back().size());
  }
  out.ids = pad_right(sources, options_.source_pad.value_or(options_.pad));  // [B, S]
  out.lengths = row_lengths(sources);                                        // [B]
  out.target_ids = pad_right(inputs, options_.pad);                          // [B, U]
  out.target_lengths = row_lengths(inputs);                                  // [B]
  out.labels = pad_right(labels, kIgnore);                                   // [B, U]
  return out;
}

int64_t TextPairs::vocabulary_needed() const {
  TokenId greatest = std::max({options_.begin, options_.end, options_.pad});
  for (const TokenPair& pair : pairs_)
    for (const TokenId token : pair.target) greatest = std::max(greatest, token);
  return greatest + 1;
}

int64_t TextPairs::source_vocabulary_needed() const {
  TokenId greatest = options_.source_pad.value_or(options_.pad);
  for (const TokenPair& pair : pairs_)
    for (const TokenId token : pair.source) greatest = std::max(greatest, token);  // its end among them
  return greatest + 1;
}

int64_t TextPairs::token_count() {
  int64_t out = 0;
  for (const TokenPair& pair : pairs_) out += int64_t(pair.target.size()) + 1;
  return out;
}

uint64_t TextPairs::fingerprint() const {
  Fingerprint out = buckets_fingerprint();
  for (const TokenId token : {options_.begin, options_.end, options_.pad, options_.source_pad.value_or(options_.pad)})
    out.add(uint64_t(uint32_t(token)));
  for (const TokenPair& pair : pairs_) {
    out.add(pair.source);
    out.add(pair.target);
  }
  return out.value();
}

}  // namespace fovea
