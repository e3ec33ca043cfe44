// SPDX-License-Identifier: Apache-2.0
#include "fovea/data/windows.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/data/random.h"

namespace fovea {
namespace {

// Streams of random_bits, apart from the epochs' own (which count up from 0).
constexpr uint64_t kPhaseStream = uint64_t{1} << 62;

int64_t ceil_divide(int64_t a, int64_t b) { return a / b + (a % b != 0); }

}  // namespace

WindowOrder window_order(const std::string& name) {
  if (name == "shuffled") return WindowOrder::kShuffled;
  if (name == "random") return WindowOrder::kRandom;
  if (name == "streams") return WindowOrder::kStreams;
  FOVEA_CHECK_CONFIG(name == "consecutive", "unknown order of windows \"", name, "\"",
                     suggestion(name, {"shuffled", "random", "consecutive", "streams"}));
  return WindowOrder::kConsecutive;
}

TokenWindows::TokenWindows(std::vector<TokenId> tokens, const WindowOptions& options, const std::string& source)
    : tokens_(std::move(tokens)), options_(options), labels_(int64_t(tokens_.size()) - 1) {
  FOVEA_CHECK_CONFIG(options.context >= 1, "context is ", options.context, ", must be at least 1");
  FOVEA_CHECK_CONFIG(options.batch_size >= 1, "batch_size is ", options.batch_size, ", must be at least 1");
  FOVEA_CHECK_INPUT(!tokens_.empty(), source, ": the text is empty");
  const bool any_length = options.order == WindowOrder::kConsecutive || options.order == WindowOrder::kStreams;
  const int64_t window = any_length ? 1 : options.context;
  FOVEA_CHECK_INPUT(labels_ >= window, source, ": the text has ", labels_ + 1, labels_ == 0 ? " token" : " tokens",
                    ", wanted a window of ", window, " and the token to predict after it");
}

int64_t TokenWindows::phase(int64_t epoch) const {
  const int64_t choices = std::min(options_.context, labels_ - options_.context + 1);
  return random_below(choices, options_.seed, kPhaseStream, uint64_t(epoch));
}

int64_t TokenWindows::window_count(int64_t epoch) const {
  if (options_.order == WindowOrder::kShuffled) return (labels_ - phase(epoch)) / options_.context;
  return ceil_divide(labels_, options_.context);
}

int64_t TokenWindows::batch_count(int64_t epoch) {
  if (options_.order == WindowOrder::kStreams) return ceil_divide(stream_length(), options_.context);
  return ceil_divide(window_count(epoch), options_.batch_size);
}

int64_t TokenWindows::stream_count() const { return std::min(options_.batch_size, labels_); }
int64_t TokenWindows::stream_length() const { return ceil_divide(labels_, stream_count()); }

int64_t TokenWindows::offset(int64_t epoch, int64_t window) {
  if (options_.order == WindowOrder::kConsecutive) return window * options_.context;
  if (options_.order == WindowOrder::kRandom)
    return random_below(labels_ - options_.context + 1, options_.seed, uint64_t(epoch), uint64_t(window));
  if (order_epoch_ != epoch) {
    order_ = random_permutation(window_count(epoch), options_.seed, uint64_t(epoch));
    order_epoch_ = epoch;
  }
  return phase(epoch) + order_[size_t(window)] * options_.context;
}

void TokenWindows::fill(Batch& batch, int64_t b, int64_t begin, int64_t length) const {
  const int64_t context = batch.ids.size(1);
  auto ids = batch.ids.accessor<int64_t, 2>(), labels = batch.labels.accessor<int64_t, 2>();
  for (int64_t t = 0; t < length; ++t) {
    ids[b][t] = tokens_[size_t(begin + t)];
    labels[b][t] = tokens_[size_t(begin + t + 1)];
  }
  for (int64_t t = length; t < context; ++t) {
    ids[b][t] = 0;
    labels[b][t] = kIgnore;
  }
  if (length < context) {
    if (!batch.lengths.defined()) batch.lengths = at::full({batch.ids.size(0)}, context, at::kLong);
    batch.lengths.accessor<int64_t, 1>()[b] = length;
  }
  batch.tokens += length;
}

Batch TokenWindows::stream_batch(int64_t index) const {
  const int64_t from = index * options_.context, length = stream_length();
  const int64_t rows = stream_count(), context = std::min(options_.context, length - from);
  Batch out;
  out.ids = at::empty({rows, context}, at::kLong);
  out.labels = at::empty({rows, context}, at::kLong);
  for (int64_t b = 0; b < rows; ++b) {
    const int64_t begin = b * length + from;
    fill(out, b, begin, std::clamp<int64_t>(labels_ - begin, 0, context));
  }
  out.continues = index > 0;
  return out;
}

Batch TokenWindows::batch(int64_t epoch, int64_t index) {
  FOVEA_CHECK(index >= 0 && index < batch_count(epoch), "batch ", index, " of ", batch_count(epoch));
  if (options_.order == WindowOrder::kStreams) return stream_batch(index);
  const int64_t first = index * options_.batch_size;
  const int64_t rows = std::min(options_.batch_size, window_count(epoch) - first);
  const int64_t context = std::min(options_.context, labels_);  // a row is not longer than the text
  Batch out;
  out.ids = at::empty({rows, context}, at::kLong);
  out.labels = at::empty({rows, context}, at::kLong);
  for (int64_t b = 0; b < rows; ++b) {
    const int64_t begin = offset(epoch, first + b);
    fill(out, b, begin, std::min(context, labels_ - begin));
  }
  return out;
}

int64_t TokenWindows::vocabulary_needed() const { return *std::max_element(tokens_.begin(), tokens_.end()) + 1; }

int64_t TokenWindows::token_count() {
  const bool each = options_.order == WindowOrder::kConsecutive || options_.order == WindowOrder::kStreams;
  return each ? labels_ : window_count(0) * options_.context;
}

uint64_t TokenWindows::fingerprint() const {
  Fingerprint out;
  out.add(uint64_t(options_.order));
  out.add(uint64_t(options_.context));
  out.add(uint64_t(options_.batch_size));
  out.add(options_.seed);
  out.add(tokens_);
  return out.value();
}

}  // namespace fovea
