// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/neighbour_bench.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "fovea/ops/affine.h"
#include "fovea/ops/cross_entropy.h"
#include "fovea/ops/norm.h"
#include "fovea/ops/rotary.h"

namespace fovea::bench {
namespace {

using at::Tensor;

// `outputs` and the gradients of their sum, weighted by fixed numbers, with respect to the first `leaves` inputs.
Answers with_gradients(Answers outputs, const Answers& inputs, size_t leaves) {
  Answers seeds;
  for (const Tensor& out : outputs) seeds.push_back(out.dim() == 0 ? at::ones_like(out) : at::full_like(out, 0.5));
  auto gradients =
      torch::autograd::grad(outputs, Answers(inputs.begin(), inputs.begin() + std::ptrdiff_t(leaves)), seeds);
  for (Tensor& out : outputs) gradients.push_back(out.detach());
  return gradients;
}

// x, added [N, C], weight, bias [C] -> the sum and its norm
Neighbour norm_residual_dropout(at::ScalarType) {
  const auto inputs = [](int64_t rows) {
    return Answers{at::randn({rows, 768}), at::randn({rows, 768}), at::randn({768}), at::randn({768})};
  };
  Neighbour out{.mode = "fwd+bwd", .reads = true, .inputs = inputs(8192), .few = inputs(64)};
  // Read x, added, sum and two gradients; write sum, normed and two gradients.
  out.work = 9.0 * 8192 * 768;
  constexpr double p = 0.1;
  out.ours = [](const Answers& in, bool exact) {
    const ResidualNorm y = residual_norm(in[0], in[1], exact ? 0 : p, {in[2], in[3]});
    return with_gradients({y.sum, y.normed}, in, 4);
  };
  out.theirs = [](const Answers& in, bool exact) {
    const Tensor sum = in[0] + at::dropout(in[1], exact ? 0 : p, true);
    return with_gradients({sum, at::layer_norm(sum, {in[0].size(-1)}, in[2], in[3])}, in, 4);
  };
  return out;
}

// hidden [N, C], weight [V, C], labels [N] -> the loss
Neighbour linear_cross_entropy(at::ScalarType) {
  const auto inputs = [](int64_t rows, int64_t vocabulary) {
    return Answers{at::randn({rows, 768}), at::randn({vocabulary, 768}) * 0.05,
                   at::randint(vocabulary, {rows}, at::kLong)};
  };
  Neighbour out{.mode = "fwd+bwd", .inputs = inputs(4096, 50257), .few = inputs(64, 1000)};
  out.work = 3 * 2.0 * 4096 * 768 * 50257;
  out.ours = [](const Answers& in, bool) {
    return with_gradients({linear_cross_entropy_sum(in[0], in[1], in[2]).sum}, in, 2);
  };
  out.theirs = [](const Answers& in, bool) {
    Tensor logits = at::linear(in[0], in[1]);
    if (logits.scalar_type() == at::kBFloat16) logits = logits.to(at::kFloat);
    return with_gradients({at::cross_entropy_loss(logits, in[2], {}, at::Reduction::Sum)}, in, 2);
  };
  return out;
}

// query, key [B, H, T, D], cosine, sine [T, D] -> both turned
Neighbour rope(bool interleaved) {
  const auto inputs = [](int64_t B, int64_t T) {
    const auto heads = [&] { return at::randn({B, T, 12, 64}).transpose(1, 2); };
    const Tensor angles = at::arange(T).unsqueeze(1) * at::pow(10000.0, at::arange(32) / -32.0);
    return Answers{heads(), heads(), angles.cos(), angles.sin()};
  };
  Neighbour out{.mode = "fwd+bwd", .reads = true, .inputs = inputs(4, 1024), .few = inputs(1, 16), .typed = 2};
  out.work = 2 * 2 * 2.0 * 4 * 12 * 1024 * 64;  // both, read and written, there and back
  // Angles of pairs, for each channel; `sign` for the first of a pair.
  const auto spread = [interleaved](const Tensor& x, double sign) {
    return interleaved ? at::stack({x * sign, x}, -1).flatten(-2) : at::cat({x * sign, x}, -1);
  };
  out.ours = [=](const Answers& in, bool) {
    const auto [q, k] = rotary(in[0], in[1], {spread(in[2], 1), spread(in[3], -1), interleaved});
    return with_gradients({q, k}, in, 2);
  };
  out.theirs = [=](const Answers& in, bool) {
    const Tensor cosine = spread(in[2], 1).to(in[0].scalar_type()), sine = spread(in[3], 1).to(in[0].scalar_type());
    const auto turn = [&](const Tensor& x) {
      const Tensor swapped =
          interleaved ? at::stack({-x.slice(-1, 1, INT64_MAX, 2), x.slice(-1, 0, INT64_MAX, 2)}, -1).flatten(-2)
                      : at::cat({-x.slice(-1, 32), x.slice(-1, 0, 32)}, -1);
      return x * cosine + swapped * sine;
    };
    return with_gradients({turn(in[0]), turn(in[1])}, in, 2);
  };
  return out;
}

// x [M, K], weight [N, K] -> [M, N]
Neighbour skinny_linear(int64_t rows, int64_t outputs, int64_t width, at::ScalarType type) {
  const Answers inputs{at::randn({rows, width}), at::randn({outputs, width}) / std::sqrt(double(width))};
  Neighbour out{.mode = "fwd", .reads = true, .inputs = inputs, .few = inputs};
  out.work = double(outputs * width) * (type == at::kFloat ? 4 : 2);
  out.ours = [](const Answers& in, bool) { return Answers{affine(in[0], in[1])}; };
  out.theirs = [](const Answers& in, bool) { return Answers{at::linear(in[0], in[1])}; };
  return out;
}

// The inputs as leaves of the type; ids and tables as they are.
Answers leaves_of(const Neighbour& n, const Answers& inputs, at::ScalarType type, bool gradients) {
  Answers out;
  for (const Tensor& x : inputs) {
    const bool takes_type = out.size() < n.typed && at::isFloatingType(x.scalar_type());
    out.push_back(takes_type ? x.detach().to(type).requires_grad_(gradients) : x);
  }
  return out;
}

}  // namespace

const std::vector<NeighbourCase>& neighbour_cases() {
  static const std::vector<NeighbourCase> cases{
      {"norm-residual-dropout", norm_residual_dropout},
      {"linear-cross-entropy", linear_cross_entropy},
      {"rope-halves", [](at::ScalarType) { return rope(false); }},
      {"rope-interleaved", [](at::ScalarType) { return rope(true); }},
      {"linear-1x3072x768", [](at::ScalarType type) { return skinny_linear(1, 3072, 768, type); }},
      {"linear-1x768x3072", [](at::ScalarType type) { return skinny_linear(1, 768, 3072, type); }},
      {"linear-1x4096x4096", [](at::ScalarType type) { return skinny_linear(1, 4096, 4096, type); }},
      {"linear-8x4096x4096", [](at::ScalarType type) { return skinny_linear(8, 4096, 4096, type); }},
  };
  return cases;
}

Result run_neighbour_case(const NeighbourCase& which, at::ScalarType type, double seconds, const Peaks& peaks) {
  at::manual_seed(1);
  const Neighbour n = which.make(type);
  const bool backward = n.mode == "fwd+bwd";
  const at::AutoGradMode gradients(backward);
  Result r{.name = which.name,
           .dtype = type == at::kFloat ? "f32" : "bf16",
           .peer = "LibTorch",
           .mode = n.mode,
           .reads = n.reads};
  // f64 inputs hold the rounded numbers, so that the error is that of computing alone.
  const Answers rounded = leaves_of(n, n.few, type, backward), wide = leaves_of(n, rounded, at::kDouble, backward);
  const Answers want = n.theirs(wide, true);
  r.error = largest_error(n.ours(rounded, true), want);
  r.peer_error = largest_error(n.theirs(rounded, true), want);
  check_error(r);
  const Answers inputs = leaves_of(n, n.inputs, type, backward);
  measure(
      r, seconds, [&] { n.ours(inputs, false); }, [&] { n.theirs(inputs, false); });
  const int64_t size = type == at::kFloat ? 4 : 2;
  r.work = n.mode == "fwd" || !n.reads ? n.work : n.work * double(size);
  int64_t footprint = 0;
  for (const Tensor& x : n.inputs) footprint += x.numel() * size;
  r.ceiling = r.work / r.ours / (r.reads ? peak_reads(footprint) : peaks.flops);
  return r;
}

}  // namespace fovea::bench
