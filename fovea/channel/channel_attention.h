// Attention over feature maps [B, C, Y, X]: each module finds a weight in 0 … 1 for channels, places or both, from the
// maps themselves, and multiplies them with it.
//
//   auto attend = make_channel_attention("squeeze_excitation", {.channels = 64});
//   Tensor y = attend->forward(x);   // [B, 64, Y, X]
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>

#include "fovea/base/config.h"

namespace fovea {

using at::Tensor;

struct ChannelOptions {
  int64_t channels = 0;           // C
  int64_t reduction = 16;         // all but eca: C / reduction hidden channels, at most C
  int64_t least_hidden = 1;       // … and at least so many (coordinate's paper: 8)
  bool bias = true;               // of the hidden layer and what follows it
  std::string activation;         // of the hidden layer; empty: relu, coordinate hard_swish
  int64_t kernel = 0;             // odd. eca: channels that a weight depends on, 0: by its rule; cbam: of places, 0: 7
  std::string order = "channel";  // cbam: "channel" weighs channels, then places; "spatial" the other way round
  std::string norm = "batch";     // coordinate: before the activation, "batch" or "none"
  double eps = 1e-5;              // of the norm
  double momentum = 0.1;          // of its running mean and variance
  void visit(FieldVisitor& visitor);
  void visit_settings(FieldVisitor& visitor);  // all but channels, where the maps have them
};

class ChannelAttentionImpl : public torch::nn::Module {
 public:
  // `name` is used in messages and is the scope that probes see. Throws Error(kConfig) for sizes that do not fit.
  ChannelAttentionImpl(std::string name, ChannelOptions options);
  // x [B, C, Y, X] with at least one place -> the same shape.
  Tensor forward(const Tensor& x) const;
  // Multiplications by its weights that one image of Y × X places takes; what weighs the maps is not counted.
  virtual int64_t multiply_adds(int64_t Y, int64_t X) const = 0;
  const ChannelOptions& options() const { return options_; }

 protected:
  virtual Tensor attend(const Tensor& x) const = 0;
  int64_t hidden() const;  // max(C / reduction, least_hidden); throws Error(kConfig) where reduction does not fit

  ChannelOptions options_;

 private:
  std::string name_;
};

using ChannelAttention = std::shared_ptr<ChannelAttentionImpl>;

// By registered name: "squeeze_excitation", "eca", "cbam", "coordinate", …
ChannelAttention make_channel_attention(const std::string& name, const ChannelOptions& options);

}  // namespace fovea
