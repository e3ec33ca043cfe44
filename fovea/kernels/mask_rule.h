// A mask as the kernels see it: one predicate. Which tiles to skip is derived from it, or given by an override that the
// conformance test checks against it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "fovea/kernels/view.h"

namespace fovea {

// Half-open ranges of queries and keys of one (batch, head).
struct Tile {
  int64_t b = 0, h = 0, q0 = 0, q1 = 0, k0 = 0, k1 = 0;
};

enum class Cover : uint8_t { kSkip, kPartial, kFull };

class MaskRule {
 public:
  virtual ~MaskRule() = default;
  // May query q see key k?
  virtual bool allowed(int64_t b, int64_t h, int64_t q, int64_t k) const = 0;
  // kSkip: nothing in the tile is visible; kFull: everything is; kPartial: look closer (always permitted).
  virtual Cover cover(const Tile& tile) const;
  // visible[(q - q0) * stride + (k - k0)] = allowed(b, h, q, k), 0 or 1.
  virtual void fill(const Tile& tile, uint8_t* visible, int64_t stride) const;
  // Where false, one plan serves all batches (heads).
  virtual bool depends_on_batch() const { return false; }
  virtual bool depends_on_head() const { return false; }
};

using MaskRulePtr = std::shared_ptr<const MaskRule>;

MaskRulePtr full_rule();
MaskRulePtr both(MaskRulePtr left, MaskRulePtr right);
MaskRulePtr either(MaskRulePtr left, MaskRulePtr right);
MaskRulePtr inverse(MaskRulePtr rule);

// A rule whose loops over tiles have its predicate inlined: class CausalRule final : public InlinedRule<CausalRule>.
template <class Rule>
class InlinedRule : public MaskRule {
 public:
  Cover cover(const Tile& tile) const override {
    bool any = false, all = true;
    for (int64_t q = tile.q0; q < tile.q1; ++q) {
      for (int64_t k = tile.k0; k < tile.k1; ++k) {
        const bool visible = sees(tile, q, k);
        any |= visible;
        all &= visible;
      }
      if (any && !all) return Cover::kPartial;
    }
    return any ? Cover::kFull : Cover::kSkip;
  }
  void fill(const Tile& tile, uint8_t* visible, int64_t stride) const override {
    for (int64_t q = tile.q0; q < tile.q1; ++q) {
      uint8_t* row = visible + (q - tile.q0) * stride - tile.k0;
      for (int64_t k = tile.k0; k < tile.k1; ++k) row[k] = sees(tile, q, k);
    }
  }

 private:
  bool sees(const Tile& tile, int64_t q, int64_t k) const {
    return static_cast<const Rule&>(*this).Rule::allowed(tile.b, tile.h, q, k);
  }
};

// A rule from any callable (b, h, q, k) -> bool. `cover` may be nullptr.
template <class F, class CoverF = std::nullptr_t>
class LambdaRule final : public InlinedRule<LambdaRule<F, CoverF>> {
 public:
  explicit LambdaRule(F f, CoverF cover = nullptr) : f_(std::move(f)), cover_(std::move(cover)) {}
  bool allowed(int64_t b, int64_t h, int64_t q, int64_t k) const override { return f_(b, h, q, k); }
  Cover cover(const Tile& tile) const override {
    if constexpr (std::is_same_v<CoverF, std::nullptr_t>) {
      return InlinedRule<LambdaRule>::cover(tile);
    } else {
      return cover_(tile);
    }
  }
  bool depends_on_batch() const override { return true; }
  bool depends_on_head() const override { return true; }

 private:
  F f_;
  CoverF cover_;
};

}  // namespace fovea
