// A user's own score rule: one callable, seen element by element in double precision by the reference (its definition) and
// inlined into the tile loop in single precision by the kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <type_traits>
#include <vector>

#include "fovea/kernels/dual.h"
#include "fovea/kernels/score_visitor.h"

namespace fovea {

// The definition reads learned tensors as f64, the kernels as f32.
template <class Number>
struct NumberTraits {
  using Stored = Number;
};
template <class T>
struct NumberTraits<Dual<T>> {
  using Stored = T;
};

// What `p[i]` is inside a rule: one learned tensor, read as plain numbers or as numbers that carry derivatives.
template <class Number>
class LearnedView {
  using Stored = typename NumberTraits<Number>::Stored;

 public:
  LearnedView(const ArrayView& view, int index) : view_(view), index_(index) {}
  Number operator[](int64_t i) const { return (*this)(i); }
  Number operator()(int64_t i, int64_t j = 0, int64_t k = 0, int64_t l = 0) const {
    const auto value = view_.at<Stored>(i, j, k, l);
    if constexpr (std::is_arithmetic_v<Number>) {
      return Number(value);
    } else {
      // Gradients are contiguous, whatever the strides of the data.
      return Number(value, index_, ((i * view_.size[1] + j) * view_.size[2] + k) * view_.size[3] + l);
    }
  }

 private:
  const ArrayView& view_;
  int index_;
};

template <class Number>
class LearnedViews {
 public:
  explicit LearnedViews(const std::vector<ArrayView>& views) : views_(views) {}
  LearnedView<Number> operator[](int i) const { return {views_[size_t(i)], i}; }

 private:
  const std::vector<ArrayView>& views_;
};

// The definition of a user's score, element by element; the reference loops over it.
class UserScore {
 public:
  virtual ~UserScore() = default;
  virtual double value(double score, const std::vector<ArrayView>& learned, int64_t b, int64_t h, int64_t q, int64_t k) const = 0;
  // ∂value/∂score; adds gradient · ∂value/∂learned[i] to own[i].
  virtual double backward(double score, double gradient, const std::vector<ArrayView>& learned, int64_t b, int64_t h, int64_t q, int64_t k,
                          double* const* own) const = 0;
  // The tile form over the same callable.
  virtual ScoreVisitorPtr visitor(std::vector<ArrayView> learned) const = 0;
};

using UserScorePtr = std::shared_ptr<const UserScore>;

// Where the gradients of learned numbers go: sums of a tile, in double precision, before they join those of all tiles.
// Added one by one to a large float, millions of small numbers would lose their last digits.
class TileSums {
 public:
  TileSums(const std::vector<ArrayView>& learned, float* const* own) : learned_(learned), own_(own) {
    double* next = room_;
    for (size_t i = 0; i < learned.size(); ++i) {
      const bool fits = own[i] && next + learned[i].numel() <= room_ + kRoom;
      sums_.push_back(fits ? next : nullptr);
      if (fits) next += learned[i].numel();
    }
  }
  ~TileSums() {
    for (size_t i = 0; i < sums_.size(); ++i)
      for (int64_t n = 0; sums_[i] && n < learned_[i].numel(); ++n) own_[i][n] += float(sums_[i][n]);
  }
  TileSums(const TileSums&) = delete;
  TileSums& operator=(const TileSums&) = delete;

  void operator()(int parameter, int64_t element, float gradient) {
    if (sums_[size_t(parameter)]) {
      sums_[size_t(parameter)][element] += double(gradient);
    } else if (own_[parameter]) {
      own_[parameter][element] += gradient;
    }
  }

 private:
  static constexpr int64_t kRoom = 256;  // large tables get few numbers each: those are added in place

  const std::vector<ArrayView>& learned_;
  float* const* own_;
  double room_[kRoom] = {};
  std::vector<double*> sums_;
};

// Runs a rule over tiles; `Rule` gives value<Number>() and backward<Number>() that inline.
template <class Rule>
class RuleVisitor final : public ScoreVisitor {
 public:
  RuleVisitor(const Rule& rule, std::vector<ArrayView> learned) : rule_(rule), learned_(std::move(learned)) {}

  void forward(const ScoreTile& t) const override {
    for (int64_t k = 0; k < t.keys; ++k) {
      float* row = t.values + k * t.stride;
      for (int64_t q = 0; q < t.queries; ++q) row[q] = rule_.template evaluate<float>(row[q], learned_, t.b, t.h, t.q0 + q, t.k0 + k);
    }
  }
  void backward(const ScoreTile& gradient, const ScoreTile& before, float* const* own) const override {
    TileSums sums(learned_, own);
    for (int64_t k = 0; k < gradient.keys; ++k) {
      for (int64_t q = 0; q < gradient.queries; ++q) {
        float& g = gradient.values[k * gradient.stride + q];
        const float score = before.values ? before.values[k * before.stride + q] : 0.0f;
        g *= rule_.template differentiate<float>(score, g, learned_, gradient.b, gradient.h, gradient.q0 + q, gradient.k0 + k, sums);
      }
    }
  }
  bool needs_scores() const override { return Rule::kNeedsScores; }

 private:
  Rule rule_;
  std::vector<ArrayView> learned_;
};

// CRTP glue: the element-wise definition and the visitor, both from `evaluate` and `differentiate`.
template <class Rule>
class UserRule : public UserScore {
 public:
  double value(double score, const std::vector<ArrayView>& learned, int64_t b, int64_t h, int64_t q, int64_t k) const final {
    return self().template evaluate<double>(score, learned, b, h, q, k);
  }
  double backward(double score, double gradient, const std::vector<ArrayView>& learned, int64_t b, int64_t h, int64_t q, int64_t k,
                  double* const* own) const final {
    const auto add = [own](int parameter, int64_t element, double partial) {
      if (own[parameter]) own[parameter][element] += partial;
    };
    return self().template differentiate<double>(score, gradient, learned, b, h, q, k, add);
  }
  ScoreVisitorPtr visitor(std::vector<ArrayView> learned) const final {
    return std::make_shared<RuleVisitor<Rule>>(self(), std::move(learned));
  }

 private:
  const Rule& self() const { return static_cast<const Rule&>(*this); }
};

template <class F, class DF = std::nullptr_t>
class AddRule final : public UserRule<AddRule<F, DF>> {
 public:
  static constexpr bool kNeedsScores = false;
  explicit AddRule(F f, DF df = nullptr) : f_(std::move(f)), df_(std::move(df)) {}

  template <class Number>
  Number evaluate(Number score, const std::vector<ArrayView>& learned, int64_t b, int64_t h, int64_t q, int64_t k) const {
    return score + Number(f_(LearnedViews<Number>(learned), b, h, q, k));
  }
  // ∂/∂score; add(i, element, g) for each learned number that the rule read.
  template <class Number, class Add>
  Number differentiate(Number, Number gradient, const std::vector<ArrayView>& learned, int64_t b, int64_t h, int64_t q, int64_t k,
                       Add&& add) const {
    const auto emit = [&](int parameter, int64_t element, Number partial) { add(parameter, element, gradient * partial); };
    if constexpr (!std::is_same_v<DF, std::nullptr_t>) {
      df_(LearnedViews<Number>(learned), b, h, q, k, emit);
    } else if (!learned.empty()) {
      const Dual<Number> term = f_(LearnedViews<Dual<Number>>(learned), b, h, q, k);
      for (int i = 0; i < term.count; ++i) emit(term.parts[i].parameter, term.parts[i].offset, term.parts[i].partial);
    }
    return Number(1);
  }

 private:
  F f_;
  DF df_;
};

template <class F, class DF>
class MapRule final : public UserRule<MapRule<F, DF>> {
 public:
  static constexpr bool kNeedsScores = true;
  MapRule(F f, DF df) : f_(std::move(f)), df_(std::move(df)) {}

  template <class Number>
  Number evaluate(Number score, const std::vector<ArrayView>&, int64_t b, int64_t h, int64_t q, int64_t k) const {
    return Number(f_(score, b, h, q, k));
  }
  template <class Number, class Add>
  Number differentiate(Number score, Number, const std::vector<ArrayView>&, int64_t b, int64_t h, int64_t q, int64_t k, Add&&) const {
    return Number(df_(score, b, h, q, k));
  }

 private:
  F f_;
  DF df_;
};

}  // namespace fovea
