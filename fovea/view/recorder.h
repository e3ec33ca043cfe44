// Listens to a model while it runs and keeps the attention weights of one text.
//
//   Recorder recorder("gpt2", token_texts(tokenizer, ids));
//   model->step(…);                                  // one forward pass of exactly these tokens, on this thread
//   write_page("look.html", recorder.finish());
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/probe.h"
#include "fovea/text/tokenizer.h"
#include "fovea/view/record.h"

namespace fovea {

// Listens to "*attention.weights" ([1, H, T, S]; a batch of one) from its construction until finish().
class Recorder {
 public:
  // A model with one stack: its tokens stand on both axes.
  Recorder(std::string model, std::vector<std::string> tokens);
  // Encoder-decoder: layers under "encoder" look at the source, layers named "cross…" from the target at the source,
  // all others at the target.
  Recorder(std::string model, std::vector<std::string> source, std::vector<std::string> target);

  // A model that sees: the class token, then the patches row by row, named by row and column from 1.
  Recorder(std::string model, AttentionRecord::Picture picture);

  // Ends listening. Error(kArgument) where no layer gave its weights.
  AttentionRecord finish();

 private:
  // Errors name the layer: a batch of several texts, other numbers of tokens, the same layer a second time.
  void take(std::string_view name, const at::Tensor& weights);

  AttentionRecord record_;
  Probe probe_;  // last: it must stop before the record goes
};

// What each token adds to the decoded text, special tokens spelled out. A token that ends inside a character adds
// nothing; the one that completes it adds it.
std::vector<std::string> token_texts(const Tokenizer& tokenizer, const std::vector<int64_t>& ids);

}  // namespace fovea
