// SPDX-License-Identifier: Apache-2.0
#include "fovea/kernels/mask_rule.h"

#include <vector>

namespace fovea {
namespace {

class FullRule final : public MaskRule {
 public:
  bool allowed(int64_t, int64_t, int64_t, int64_t) const override { return true; }
  Cover cover(const Tile&) const override { return Cover::kFull; }
};

class BothRule final : public MaskRule {
 public:
  BothRule(MaskRulePtr left, MaskRulePtr right) : left_(std::move(left)), right_(std::move(right)) {}
  bool allowed(int64_t b, int64_t h, int64_t q, int64_t k) const override {
    return left_->allowed(b, h, q, k) && right_->allowed(b, h, q, k);
  }
  Cover cover(const Tile& tile) const override {
    const Cover left = left_->cover(tile);
    if (left == Cover::kSkip) return Cover::kSkip;
    const Cover right = right_->cover(tile);
    if (right == Cover::kSkip) return Cover::kSkip;
    return left == Cover::kFull ? right : Cover::kPartial;
  }
  void fill(const Tile& tile, uint8_t* visible, int64_t stride) const override {
    left_->fill(tile, visible, stride);
    const int64_t keys = tile.k1 - tile.k0;
    std::vector<uint8_t> other((tile.q1 - tile.q0) * keys);
    right_->fill(tile, other.data(), keys);
    for (int64_t q = 0; q < tile.q1 - tile.q0; ++q)
      for (int64_t k = 0; k < keys; ++k) visible[q * stride + k] &= other[q * keys + k];
  }
  bool depends_on_batch() const override { return left_->depends_on_batch() || right_->depends_on_batch(); }
  bool depends_on_head() const override { return left_->depends_on_head() || right_->depends_on_head(); }

 private:
  MaskRulePtr left_, right_;
};

class InverseRule final : public MaskRule {
 public:
  explicit InverseRule(MaskRulePtr rule) : rule_(std::move(rule)) {}
  bool allowed(int64_t b, int64_t h, int64_t q, int64_t k) const override { return !rule_->allowed(b, h, q, k); }
  Cover cover(const Tile& tile) const override {
    switch (rule_->cover(tile)) {
      case Cover::kSkip: return Cover::kFull;
      case Cover::kFull: return Cover::kSkip;
      default: return Cover::kPartial;
    }
  }
  void fill(const Tile& tile, uint8_t* visible, int64_t stride) const override {
    rule_->fill(tile, visible, stride);
    for (int64_t q = 0; q < tile.q1 - tile.q0; ++q)
      for (int64_t k = 0; k < tile.k1 - tile.k0; ++k) visible[q * stride + k] ^= 1;
  }
  bool depends_on_batch() const override { return rule_->depends_on_batch(); }
  bool depends_on_head() const override { return rule_->depends_on_head(); }

 private:
  MaskRulePtr rule_;
};

}  // namespace

Cover MaskRule::cover(const Tile& tile) const {
  bool any = false, all = true;
  for (int64_t q = tile.q0; q < tile.q1; ++q) {
    for (int64_t k = tile.k0; k < tile.k1; ++k) {
      const bool visible = allowed(tile.b, tile.h, q, k);
      any |= visible;
      all &= visible;
      if (any && !all) return Cover::kPartial;
    }
  }
  return any ? Cover::kFull : Cover::kSkip;
}

void MaskRule::fill(const Tile& tile, uint8_t* visible, int64_t stride) const {
  for (int64_t q = tile.q0; q < tile.q1; ++q)
    for (int64_t k = tile.k0; k < tile.k1; ++k) visible[(q - tile.q0) * stride + k - tile.k0] = allowed(tile.b, tile.h, q, k);
}

MaskRulePtr full_rule() { return std::make_shared<FullRule>(); }
MaskRulePtr both(MaskRulePtr left, MaskRulePtr right) {
  return std::make_shared<BothRule>(std::move(left), std::move(right));
}
MaskRulePtr inverse(MaskRulePtr rule) { return std::make_shared<InverseRule>(std::move(rule)); }
// De Morgan: a | b = ~(~a & ~b); one class fewer, and cover() comes out right by itself.
MaskRulePtr either(MaskRulePtr left, MaskRulePtr right) {
  return inverse(both(inverse(std::move(left)), inverse(std::move(right))));
}

}  // namespace fovea
