// A linear classifier over vectors, of whole sequences or of tokens, with the loss and the scores that belong to what
// it decides.
//
//   single_label_classification   one of N classes          cross entropy          softmax
//   multi_label_classification    any number of N classes   binary cross entropy   sigmoid
//   regression                    N numbers                 squared error          the numbers themselves
//
// The names are Hugging Face's `problem_type`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/modules/linear.h>

#include <string>

#include "fovea/layers/module.h"
#include "fovea/ops/cross_entropy.h"

namespace fovea {

struct ClassifierOptions {
  int64_t width = 0;
  int64_t classes = 0;  // N
  double dropout = 0;   // on what enters
  // A name above. Empty: regression for one class, otherwise one of several for integer labels and any number of them
  // for other labels.
  std::string problem;
};

class ClassifierImpl : public torch::nn::Module {
 public:
  // Error(kConfig) for an unknown problem.
  explicit ClassifierImpl(ClassifierOptions options);
  // [..., C] -> logits [..., N]
  at::Tensor forward(const at::Tensor& x) const;
  // Labels: integers [...]; for regression numbers [..., N], or [...] where N is 1; for several labels 0 and 1 as
  // floating-point numbers [..., N]. The count is that of labels, so [..., N] counts N for each row. Smoothing is for
  // one of N classes only.
  CrossEntropySum loss(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing = 0) const;
  // Logits [..., N] -> f32 [..., N], as the table says; without a problem: sigmoid for one class, softmax for more.
  at::Tensor scores(const at::Tensor& logits) const;
  const ClassifierOptions& options() const { return options_; }

  torch::nn::Linear output{nullptr};  // C -> N

 private:
  ClassifierOptions options_;
};
FOVEA_MODULE(Classifier, ClassifierOptions);

}  // namespace fovea
