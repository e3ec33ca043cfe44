// A model's loss over a whole dataset, and what it means in bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "fovea/data/dataset.h"
#include "fovea/models/model.h"

namespace fovea {

struct Evaluation {
  double loss = 0;     // nats per token that counts; NaN or infinite where the model's is
  int64_t tokens = 0;  // labels that count

  double perplexity() const;      // e^loss
  double bits_per_token() const;  // loss / ln 2
  // Bits per character of a text in which a token stands for `characters_per_token` characters on average.
  double bits_per_character(double characters_per_token) const;
};

// Epoch 0 of the dataset, every batch once, averaged by token: in evaluation mode, without gradients and label
// smoothing. The model's mode and LibTorch's generator are afterwards as they were. `stop`, asked before each batch,
// gives up: then nothing is returned.
std::optional<Evaluation> evaluate(ModelImpl& model, Dataset& dataset, const std::function<bool()>& stop = {});

// What a model that reads takes each item for: labelled texts, or hidden tokens, those that count.
struct Predictions {
  std::vector<int64_t> truth, predicted;
  Evaluation evaluation;  // as evaluate() finds it, from the same scores
  double accuracy() const;
};

// The best class of forward() for each label of epoch 0 that counts; modes and `stop` as above. Error(kArgument) for
// labels that are no numbers of classes.
std::optional<Predictions> predict(ModelImpl& model, Dataset& dataset, const std::function<bool()>& stop = {});

}  // namespace fovea
