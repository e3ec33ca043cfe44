// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/attention_bench.h"

#include <ATen/Functions.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "fovea/ops/bind.h"

namespace fovea::bench {
namespace {

// One side of a case: query, key and value, and how it answers.
struct Side {
  Tensor query, key, value, gradient;
  std::vector<Tensor> learned;
  std::function<Tensor(const Side&)> call;

  std::vector<Tensor> run(bool backward) const {
    if (!backward) {
      const at::NoGradGuard guard;
      return {call(*this)};
    }
    const Tensor out = call(*this);
    std::vector<Tensor> leaves{query, key, value};
    leaves.insert(leaves.end(), learned.begin(), learned.end());
    auto all = torch::autograd::grad({out}, leaves, {gradient});
    all.insert(all.begin(), out.detach());
    return all;
  }
};

class Measurement {
 public:
  Measurement(const AttentionCase& c, at::ScalarType type) : case_(c), type_(type) {}

  Result run(double seconds, const Peaks& peaks) {
    const AttentionShape& s = case_.shape;
    Result r{.name = case_.name, .dtype = type_ == at::kFloat ? "f32" : "bf16"};
    r.mode = case_.backward ? "fwd+bwd" : s.T == 1 ? "decode" : "fwd";
    r.reads = s.T == 1;
    check(r);
    at::manual_seed(1);
    build(case_.shape, type_);
    r.peer = peer_name_;
    measure(r, seconds, [&] { ours_.run(case_.backward); }, [&] { theirs_.run(case_.backward); });
    const int64_t size = type_ == at::kFloat ? 4 : 2;
    const double pairs = visible_pairs();
    r.work = r.reads ? 2.0 * pairs / double(s.H) * double(s.G) * double(s.D * size)
                     : 4.0 * pairs * double(s.D) * (case_.backward ? 3.5 : 1.0);
    const double exps = pairs * (case_.backward ? 2 : 1);
    const double least =
        r.reads ? r.work / peak_reads(2 * s.B * s.G * s.S * s.D * size) : r.work / peaks.flops + exps / peaks.exps;
    r.ceiling = least / r.ours;
    return r;
  }

 private:
  // Pairs of all batches and heads that the mask leaves.
  double visible_pairs() const {
    const AttentionShape& s = case_.shape;
    if (!case_.mask) return double(s.B * s.H) * double(s.T) * double(s.S);
    double pairs = 0;
    const auto bound = bind_mask(case_.mask(s), s);
    const bool by_batch = bound.object->depends_on_batch();
    std::vector<uint8_t> visible(size_t(s.S));
    for (int64_t b = 0; b < (by_batch ? s.B : 1); ++b)
      for (int64_t q = 0; q < s.T; ++q) {
        bound.object->fill({b, 0, q, q + 1, 0, s.S}, visible.data(), s.S);
        pairs += double(std::count(visible.begin(), visible.end(), 1));
      }
    return pairs * double(s.H) * double(by_batch ? 1 : s.B);
  }

  void build(const AttentionShape& s, at::ScalarType type) {
    const auto leaf = [&](Tensor x) { return x.requires_grad_(case_.backward); };
    ours_.query = leaf(bench::random_heads(s.B, s.H, s.T, s.D, type) * case_.query_factor);
    const bool cached = s.T == 1 && !case_.side_by_side;
    const auto laid = [&](const Tensor& t) { return leaf(cached ? t.contiguous() : t); };
    ours_.key = laid(bench::random_heads(s.B, s.G, s.S, s.D, type));
    ours_.value = laid(bench::random_heads(s.B, s.G, s.S, s.E, type));
    ours_.gradient = bench::random_heads(s.B, s.H, s.T, s.E, type);
    const Score score = case_.score ? case_.score(s) : Score();
    ours_.learned.clear();
    for (const auto& term : score.terms())
      for (const Tensor& tensor : term->data)
        if (case_.learned) ours_.learned.push_back(Tensor(tensor).requires_grad_());
    theirs_ = ours_;
    const AttentionOptions options{
        .mask = case_.mask ? case_.mask(s) : Mask(), .score = score, .dropout = case_.dropout, .dropout_seed = 3};
    ours_.call = [options](const Side& x) { return attention(x.query, x.key, x.value, options); };
    build_peer(s, type, options);
  }

  // PyTorch's own attention, told the same by the means it has: is_causal, a boolean mask, a float bias.
  void build_peer(const AttentionShape& s, at::ScalarType type, const AttentionOptions& options) {
    const bool grouped = s.G != s.H;
    peer_name_ = case_.dropout > 0 || case_.learned ? "PyTorch (math)" : "PyTorch";
    if (options.score.is_empty()) {
      std::optional<Tensor> mask;
      if (case_.mask && !case_.is_causal) mask = visible(options.mask, s, 0, s.B);
      const bool is_causal = case_.is_causal;
      const double dropout = case_.dropout;
      theirs_.call = [=](const Side& x) {
        return at::scaled_dot_product_attention(x.query, x.key, x.value, mask, dropout, is_causal, std::nullopt,
                                                grouped);
      };
      return;
    }
    // The definition adds up the bias [1, H, T, S]; where it is learned, its making is part of the work, as in a model.
    const auto bias = [=, score = options.score, mask = options.mask] {
      Tensor out = at::zeros({1, s.H, s.T, s.S});
      if (!mask.is_full()) out = out.masked_fill(visible(mask, s, 0, 1).logical_not(), -INFINITY);
      for (const auto& term : score.terms()) out = out + dense_bias(*term, s);
      return out.to(type);
    };
    if (case_.learned) {
      theirs_.call = [=](const Side& x) {
        return at::scaled_dot_product_attention(x.query, x.key, x.value, bias(), 0.0, false, std::nullopt, grouped);
      };
      return;
    }
    theirs_.call = [=, fixed = bias()](const Side& x) {
      return at::scaled_dot_product_attention(x.query, x.key, x.value, fixed, 0.0, false, std::nullopt, grouped);
    };
  }

  static Tensor dense_bias(const Score::Term& term, const AttentionShape& s) {
    if (term.name == "dense") return term.data[0];
    const auto distance = at::arange(s.S) - at::arange(s.T).unsqueeze(1) - s.offset();  // [T, S]
    if (term.name == "slopes") return -term.data[0].view({s.H, 1, 1}) * distance.abs();
    if (term.user) return term.data[0].view({s.H, 1, 1}) * distance;  // the one user's rule of the list
    std::vector<int64_t> buckets;
    for (int64_t d = -(s.T - 1 + s.offset()); d <= s.S - 1 - s.offset(); ++d)
      buckets.push_back(t5_bucket(d, true, term.data[0].size(0), term.numbers[1]));
    const auto rows = at::tensor(buckets).index_select(0, (distance + (s.T - 1 + s.offset())).flatten());
    return at::embedding(term.data[0], rows).view({s.T, s.S, s.H}).permute({2, 0, 1});
  }

  // The largest error against f64 of output and gradients, relative to the largest number, for one key/value head of
  // one batch.
  void check(Result& r) {
    AttentionShape small = case_.shape;
    small.H /= small.G, small.G = 1, small.B = 1;
    while (small.T * small.S > (int64_t{1} << 22) * (case_.mask ? 4 : 1))
      small.T = (small.T + 1) / 2, small.S = (small.S + 1) / 2;
    at::manual_seed(2);
    build(small, type_);
    const auto have = ours_.run(case_.backward), other = theirs_.run(case_.backward);
    Side wide = ours_;
    for (Tensor* x : {&wide.query, &wide.key, &wide.value, &wide.gradient})
      *x = x->detach().to(at::kDouble).requires_grad_(case_.backward);
    const auto want = wide.run(case_.backward);
    r.error = largest_error(have, want);
    if (case_.dropout == 0) r.peer_error = largest_error(other, want);
    check_error(r);
  }

  const AttentionCase& case_;
  at::ScalarType type_;
  Side ours_, theirs_;
  std::string peer_name_;
};

}  // namespace

Result run_attention_case(const AttentionCase& which, at::ScalarType type, double seconds, const Peaks& peaks) {
  return Measurement(which, type).run(seconds, peaks);
}

}  // namespace fovea::bench
