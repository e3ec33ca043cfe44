// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/labels.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/data/padding.h"
#include "fovea/data/text_lines.h"
#include "fovea/io/files.h"

namespace fovea {
namespace {

std::vector<std::string> columns_of(std::string_view row) {
  std::vector<std::string> out;
  for (;;) {
    const size_t tab = row.find('\t');
    out.emplace_back(row.substr(0, tab));
    if (tab == std::string_view::npos) return out;
    row.remove_prefix(tab + 1);
  }
}

}  // namespace

LabelColumn label_column(const std::string& name) {
  if (name == "first") return LabelColumn::kFirst;
  FOVEA_CHECK_CONFIG(name == "last", "unknown column of labels \"", name, "\"", suggestion(name, {"first", "last"}));
  return LabelColumn::kLast;
}

std::vector<LabelledText> read_labels(const std::filesystem::path& path, LabelColumn column) {
  const std::string text = read_text(path, "table of labels");
  const char* wanted = column == LabelColumn::kFirst ? "label<TAB>text" : "text<TAB>label";
  std::vector<LabelledText> out;
  int64_t line = 0;
  for (const std::string_view row : split_lines(text)) {
    ++line;
    if (row.empty()) continue;
    const std::string where = path.native() + ":" + std::to_string(line);
    std::vector<std::string> columns = columns_of(row);
    FOVEA_CHECK_INPUT(columns.size() >= 2, where, ": one column; wanted ", wanted);
    FOVEA_CHECK_INPUT(columns.size() <= 3, where, ": ", columns.size(), " columns; wanted ", wanted,
                      " or, for pairs of texts, one more");
    if (column == LabelColumn::kLast) std::rotate(columns.begin(), columns.end() - 1, columns.end());
    if (columns.size() == 2) columns.emplace_back();
    LabelledText found{std::move(columns[0]), std::move(columns[1]), std::move(columns[2]), where};
    FOVEA_CHECK_INPUT(!trimmed(found.label).empty(), where, ": the label is empty; wanted ", wanted);
    FOVEA_CHECK_INPUT(trimmed(found.label) == found.label, where, ": the label \"", found.label,
                      "\" begins or ends with a blank");
    FOVEA_CHECK_INPUT(!trimmed(found.text).empty(), where, ": the text is empty; wanted ", wanted);
    const bool pair = std::count(row.begin(), row.end(), '\t') == 2;
    FOVEA_CHECK_INPUT(!pair || !trimmed(found.second).empty(), where, ": the second text is empty");
    FOVEA_CHECK_INPUT(out.empty() || pair != out.front().second.empty(), where, ": ", pair ? 3 : 2,
                      " columns, where the lines before have ", pair ? 2 : 3);
    out.push_back(std::move(found));
  }
  FOVEA_CHECK_INPUT(!out.empty(), path.native(), ": holds no texts; wanted lines of ", wanted);
  return out;
}

std::vector<std::string> class_names(const std::vector<LabelledText>& texts, const std::string& source) {
  std::set<std::string> names;
  for (const LabelledText& text : texts) names.insert(text.label);
  FOVEA_CHECK_INPUT(names.size() >= 2, source, ": all ", texts.size(), " texts have the label \"",
                    names.empty() ? "" : *names.begin(), "\"; wanted at least two classes to tell apart");
  FOVEA_CHECK_INPUT(names.size() < texts.size() || names.size() == 2, source, ": each of the ", texts.size(),
                    " texts has a label of its own; data.label_column says which column holds the labels");
  return {names.begin(), names.end()};
}

LabelledTexts::LabelledTexts(std::vector<LabelledTokens> texts, const LabelledOptions& options,
                             const std::string& source)
    : BucketedDataset(options.buckets), texts_(std::move(texts)), options_(options) {
  FOVEA_CHECK_INPUT(!texts_.empty(), source, ": holds no texts");
  for (const LabelledTokens& text : texts_) {
    FOVEA_CHECK_INPUT(!text.ids.empty(), source, ": text ", item_count() + 1, " has no tokens");
    FOVEA_CHECK(text.type_ids.empty() || text.type_ids.size() == text.ids.size(), "text ", item_count() + 1, " has ",
                text.ids.size(), " tokens and ", text.type_ids.size(), " types");
    add_item(int64_t(text.ids.size()));
  }
}

Batch LabelledTexts::batch(int64_t epoch, int64_t index) {
  const std::vector<int64_t>& chosen = items(epoch, index);
  std::vector<std::vector<TokenId>> ids, types;
  Batch out{.labels = at::empty({int64_t(chosen.size())}, at::kLong), .tokens = int64_t(chosen.size())};
  auto labels = out.labels.accessor<int64_t, 1>();
  bool typed = false;
  for (size_t b = 0; b < chosen.size(); ++b) {
    const LabelledTokens& text = texts_[size_t(chosen[b])];
    labels[int64_t(b)] = text.label;
    ids.push_back(text.ids);
    types.push_back(text.type_ids);
    typed = typed || !text.type_ids.empty();
  }
  out.ids = pad_right(ids, options_.pad);                          // [B, T]
  out.lengths = row_lengths(ids);                                  // [B]
  if (typed) out.type_ids = pad_right(types, 0, out.ids.size(1));  // [B, T]
  return out;
}

int64_t LabelledTexts::vocabulary_needed() const {
  TokenId greatest = options_.pad;
  for (const LabelledTokens& text : texts_)
    for (const TokenId token : text.ids) greatest = std::max(greatest, token);
  return int64_t(greatest) + 1;
}

uint64_t LabelledTexts::fingerprint() const {
  Fingerprint out = buckets_fingerprint();
  out.add(uint64_t(uint32_t(options_.pad)));
  for (const LabelledTokens& text : texts_) {
    out.add(text.ids);
    out.add(text.type_ids);
    out.add(uint64_t(text.label));
  }
  return out.value();
}

}  // namespace fovea
