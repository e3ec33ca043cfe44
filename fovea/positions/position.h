// How tokens learn their order. A position encoding has three hooks, each doing nothing unless the encoding needs it; a
// stack (or an attention module of its own) calls all of them for every encoding.
//
//   embed    once, on what enters the first layer      sinusoidal, learned, sinusoidal_2d
//   rotate   in each layer, on query and key           rope, rope_2d
//   score    a bias of the scores, in each layer       alibi, t5_bias, relative_keys, xl_relative
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/config.h"
#include "fovea/positions/rope_scaling.h"
#include "fovea/scores/score.h"

namespace fovea {

using at::Tensor;

// The cells of an image, row by row from the top left one, behind `before` tokens that have no place (class tokens).
struct CellGrid {
  int64_t rows = 0, columns = 0, before = 0;
  // Whether that is T tokens in all; for any numbers, however large.
  bool has(int64_t T) const;
};

// Which position each of a sequence's T tokens has: a run first … first + T − 1 (cheap), or ids, int64 [T] or [B, T];
// for the 2-D encodings a grid. Default: a run that follows what a cache holds.
struct Positions {
  Positions() = default;
  explicit Positions(int64_t first) : first(first) {}
  Positions(Tensor ids) : ids(std::move(ids)) {}             // NOLINT: a tensor of ids is what a caller has
  Positions(const CellGrid& grid) : first(0), grid(grid) {}  // NOLINT: likewise
  // Left padding: row b's first real token, in slot start[b] (int64 [B]), has position 0, padding before it too.
  // `past`: slots that a cache holds before these T.
  static Positions after_padding(const Tensor& start, int64_t T, int64_t past = 0);

  bool defined() const { return ids.defined() || first.has_value(); }
  int64_t begin() const { return first.value_or(0); }

  std::optional<int64_t> first;
  Tensor ids;
  std::optional<CellGrid> grid;
};

// Sizes left at 0 are taken from the module that holds the encoding.
struct PositionOptions {
  int64_t width = 0;            // C; sinusoidal, learned
  int64_t heads = 0;            // H; alibi, t5_bias, xl_relative
  int64_t head_width = 0;       // D; rope, relative_keys, xl_relative
  int64_t max_positions = 0;    // 0: no limit (learned needs one)
  double base = 10000;          // rope, sinusoidal
  std::string layout;           // "halves" or "interleaved"; empty: rope halves, sinusoidal interleaved
  int64_t rotary_width = 0;     // rope: how many of a head's channels turn; 0: all
  RopeScaling scaling;          // rope: for texts longer than those it was trained on
  int64_t offset = 0;           // learned: position p has row p + offset (BART: 2)
  int64_t buckets = 32;         // t5_bias
  int64_t max_distance = 128;   // t5_bias
  bool bidirectional = false;   // t5_bias: buckets for later keys too (encoders)
  bool learned_slopes = false;  // alibi: its slopes are parameters, which begin as the paper's
  int64_t reach = 0;            // relative_keys, xl_relative: distances from here on share a vector; 0: as usual
  std::vector<int64_t> grid;    // sinusoidal_2d, rope_2d: {rows, columns} that cells of another grid are laid on
  void visit(FieldVisitor& visitor);
};

class PositionImpl;

// What all layers of one pass share, made once by PositionImpl::prepare. Valid while the encoding lives.
struct PositionPass {
  const PositionImpl* encoding = nullptr;
  std::vector<Tensor> tables;  // the encoding's own business
  Score score;
};

class PositionImpl : public torch::nn::Module {
 public:
  static constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

  // `name` is used in messages.
  PositionImpl(std::string name, PositionOptions options);

  // x [B, T, C] -> [B, T, C]. Throws when a position lies outside the encoding's.
  virtual Tensor embed(const Tensor& x, const Positions& positions) const;
  // query [B, H, T, D], key [B, G, T, D] of the same T tokens; `tables` from this encoding for them.
  virtual std::pair<Tensor, Tensor> rotate(const Tensor& query, const Tensor& key,
                                           const std::vector<Tensor>& tables) const;
  // The bias for T queries that are the newest of S keys.
  virtual Score score(int64_t T, int64_t S) const;

  // Tables for the T tokens, in f32 (f64 for f64 models), for rotate.
  virtual std::vector<Tensor> tables(const Positions& positions, int64_t T, const at::TensorOptions& like) const;

  // For a pass of T tokens that see S keys; `like` has the model's type and device. Throws when a position lies
  // outside.
  PositionPass prepare(const Positions& positions, int64_t T, int64_t S, const at::TensorOptions& like) const;
  // rotate for one's own use, without a pass.
  std::pair<Tensor, Tensor> rotate(const Tensor& query, const Tensor& key, const Positions& positions) const;

  int64_t max_positions() const { return options_.max_positions > 0 ? options_.max_positions : kNoLimit; }
  const std::string& encoding() const { return name_; }
  const PositionOptions& options() const { return options_; }

 protected:
  // Throws Error(kArgument) that says the lengths and what to do.
  void check_fits(const Positions& positions, int64_t T) const;

  PositionOptions options_;

 private:
  std::string name_;
};

using Position = std::shared_ptr<PositionImpl>;

// By registered name: "none", "sinusoidal", "learned", "rope", "alibi", "t5_bias", "relative_keys", "xl_relative",
// "sinusoidal_2d", "rope_2d", …
Position make_position(const std::string& name, const PositionOptions& options);

}  // namespace fovea
