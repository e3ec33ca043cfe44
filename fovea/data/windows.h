// Language modelling on one long token stream, cut into windows: the label of a token is the token after it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/data/dataset.h"

namespace fovea {

enum class WindowOrder {
  kShuffled,     // side by side from a random start, in random order: each token once an epoch, cut anew every epoch
  kRandom,       // every window begins anywhere; an "epoch" is as many windows as cover the stream once
  kConsecutive,  // from the first token to the last, the last window shorter: for measuring
  kStreams,      // batch_size streams side by side, each from its first token to its last: row b of a batch goes on
                 // where row b of the batch before ended (Batch::continues), for models that carry memory
};
// "shuffled", "random", "consecutive", "streams"; Error(kConfig) otherwise.
WindowOrder window_order(const std::string& name);

struct WindowOptions {
  int64_t context = 128;   // T, tokens in a window
  int64_t batch_size = 8;  // B, windows in a batch; the last batch of an epoch may have fewer
  WindowOrder order = WindowOrder::kShuffled;
  uint64_t seed = 0;
};

// Batches have ids and labels [B, T], all T of them real, except in the last batches of kConsecutive and kStreams:
// right padding, lengths. Streams divide the text evenly; the last of them may hold less, or nothing.
class TokenWindows : public Dataset {
 public:
  // `source` names the text in errors. Error(kInput) where the stream is shorter than a window and its label (T + 1
  // tokens; kConsecutive, kStreams: 2).
  TokenWindows(std::vector<TokenId> tokens, const WindowOptions& options, const std::string& source = "text");

  int64_t batch_count(int64_t epoch) override;
  Batch batch(int64_t epoch, int64_t index) override;
  int64_t longest_row() const override { return options_.context; }
  int64_t vocabulary_needed() const override;
  int64_t token_count() override;
  uint64_t fingerprint() const override;

 private:
  int64_t window_count(int64_t epoch) const;
  int64_t phase(int64_t epoch) const;  // where the first window of a shuffled epoch begins
  int64_t offset(int64_t epoch, int64_t window);
  int64_t stream_count() const;
  int64_t stream_length() const;  // labels of a stream; the last may be shorter
  Batch stream_batch(int64_t index) const;
  // Fills row b with the `length` tokens from `begin` on and their labels, then padding.
  void fill(Batch& batch, int64_t b, int64_t begin, int64_t length) const;

  std::vector<TokenId> tokens_;
  WindowOptions options_;
  int64_t labels_;              // tokens that have a successor
  std::vector<int64_t> order_;  // of the shuffled epoch order_epoch_
  int64_t order_epoch_ = -1;
};

}  // namespace fovea
