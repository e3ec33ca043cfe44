// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/packing.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <array>
#include <utility>

#include "fovea/base/check.h"

namespace fovea {
namespace {

// Rows still open for further pieces: more fill better, but keep neighbours of the shuffled order further apart.
constexpr size_t kOpenRows = 32;

std::vector<PackedPiece> cut(const std::vector<std::vector<TokenId>>& texts, const PackingOptions& options,
                             const std::string& source) {
  FOVEA_CHECK_CONFIG(options.context >= 1, "context is ", options.context, ", must be at least 1");
  FOVEA_CHECK_CONFIG(options.batch_size >= 1, "batch_size is ", options.batch_size, ", must be at least 1");
  std::vector<PackedPiece> out;
  for (size_t i = 0; i < texts.size(); ++i) {
    const int64_t labels = int64_t(texts[i].size()) - 1;
    for (int64_t begin = 0; begin < labels; begin += options.context)
      out.push_back({int64_t(i), begin, std::min(options.context, labels - begin)});
  }
  FOVEA_CHECK_INPUT(!out.empty(), source, ": the text is empty (no text has two tokens)");
  return out;
}

struct OpenRow {
  PackedRow pieces;
  int64_t used = 0;
};

}  // namespace

PackedTexts::PackedTexts(std::vector<std::vector<TokenId>> texts, const PackingOptions& options,
                         const std::string& source)
    : texts_(std::move(texts)),
      options_(options),
      pieces_(cut(texts_, options, source)),
      sampler_(int64_t(pieces_.size()), options.seed, options.shuffle) {}

// First fit among the open rows; when too many are open, the fullest is closed.
const std::vector<PackedRow>& PackedTexts::plan(int64_t epoch) {
  if (plan_epoch_ == epoch) return plan_;
  plan_.clear();
  std::vector<OpenRow> open;
  const auto close = [&](size_t i) {
    plan_.push_back(std::move(open[i].pieces));
    open.erase(open.begin() + int64_t(i));
  };
  for (const int64_t item : sampler_.order(epoch)) {
    const PackedPiece& piece = pieces_[size_t(item)];
    size_t i = 0;
    while (i < open.size() && open[i].used + piece.length > options_.context) ++i;
    if (i == open.size()) {
      if (open.size() == kOpenRows) {
        const auto fuller = [](const OpenRow& a, const OpenRow& b) { return a.used < b.used; };
        close(size_t(std::max_element(open.begin(), open.end(), fuller) - open.begin()));
      }
      open.emplace_back();
      i = open.size() - 1;
    }
    open[i].pieces.push_back(piece);
    open[i].used += piece.length;
    if (open[i].used == options_.context) close(i);
  }
  while (!open.empty()) close(0);
  plan_epoch_ = epoch;
  return plan_;
}

int64_t PackedTexts::batch_count(int64_t epoch) {
  const int64_t rows = int64_t(plan(epoch).size());
  return rows / options_.batch_size + (rows % options_.batch_size != 0);
}

void PackedTexts::fill_row(const PackedRow& row, int64_t b, Batch& batch) const {
  auto ids = batch.ids.accessor<int64_t, 2>()[b], labels = batch.labels.accessor<int64_t, 2>()[b];
  auto documents = batch.documents.accessor<int64_t, 2>()[b], positions = batch.positions.accessor<int64_t, 2>()[b];
  int64_t t = 0;
  for (size_t document = 0; document < row.size(); ++document) {
    const PackedPiece& piece = row[document];
    const auto& text = texts_[size_t(piece.text)];
    for (int64_t i = 0; i < piece.length; ++i, ++t) {
      ids[t] = text[size_t(piece.begin + i)];
      labels[t] = text[size_t(piece.begin + i + 1)];
      documents[t] = int64_t(document);
      positions[t] = i;
    }
  }
  batch.lengths.accessor<int64_t, 1>()[b] = t;
  batch.tokens += t;
}

Batch PackedTexts::batch(int64_t epoch, int64_t index) {
  FOVEA_CHECK(index >= 0 && index < batch_count(epoch), "batch ", index, " of ", batch_count(epoch));
  const auto& rows = plan(epoch);
  const int64_t first = index * options_.batch_size;
  const int64_t count = std::min(options_.batch_size, int64_t(rows.size()) - first);
  const std::array<int64_t, 2> shape = {count, options_.context};
  Batch out;
  out.ids = at::full(shape, 0, at::kLong);
  out.labels = at::full(shape, kIgnore, at::kLong);
  out.documents = at::full(shape, -1, at::kLong);
  out.positions = at::full(shape, 0, at::kLong);
  out.lengths = at::full({count}, 0, at::kLong);
  for (int64_t b = 0; b < count; ++b) fill_row(rows[size_t(first + b)], b, out);
  return out;
}

int64_t PackedTexts::vocabulary_needed() const {
  TokenId greatest = 0;
  for (const auto& text : texts_)
    for (const TokenId token : text) greatest = std::max(greatest, token);
  return greatest + 1;
}

int64_t PackedTexts::token_count() {
  int64_t out = 0;
  for (const PackedPiece& piece : pieces_) out += piece.length;
  return out;
}

uint64_t PackedTexts::fingerprint() const {
  Fingerprint out;
  out.add(uint64_t(options_.context));
  out.add(uint64_t(options_.batch_size));
  out.add(uint64_t(options_.shuffle));
  out.add(options_.seed);
  for (const auto& text : texts_) out.add(text);
  return out.value();
}

}  // namespace fovea
