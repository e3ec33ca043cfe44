// SPDX-License-Identifier: Apache-2.0
#include "fovea/positions/angles.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/stack.h>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"

namespace fovea {
namespace {

constexpr int64_t kTabulated = 2048;

}  // namespace

Angles::Angles(Tensor frequencies, double amplitude, std::vector<Arrange> arrange, int64_t max_positions)
    : arrange_(std::move(arrange)),
      frequencies_(std::move(frequencies)),
      amplitude_(amplitude),
      tabulated_(max_positions > 0 ? std::min(max_positions, kTabulated) : kTabulated) {
  tables_ = compute(at::arange(tabulated_, at::kLong), at::kFloat, frequencies_);
}

std::vector<Tensor> Angles::compute(const Tensor& positions, at::ScalarType type, const Tensor& frequencies) const {
  const Tensor angles = positions.to(at::kDouble).unsqueeze(-1) * frequencies.to(positions.device());  // [..., n/2]
  std::vector<Tensor> out;
  for (const Arrange arrange : arrange_) out.push_back((arrange(angles) * amplitude_).to(type));
  return out;
}

std::vector<Tensor> Angles::rows(const Positions& positions, int64_t T, const at::TensorOptions& like) const {
  const bool wide = c10::typeMetaToScalarType(like.dtype()) == at::kDouble;
  const int64_t first = positions.begin();
  if (wide || positions.ids.defined() || !like.device().is_cpu() || first < 0 || first + T > tabulated_)
    return rows(positions, T, like, frequencies_);
  std::vector<Tensor> out;
  for (const Tensor& table : tables_) out.push_back(table.slice(0, first, first + T));
  return out;
}

std::vector<Tensor> Angles::rows(const Positions& positions, int64_t T, const at::TensorOptions& like,
                                 const Tensor& frequencies) const {
  const bool wide = c10::typeMetaToScalarType(like.dtype()) == at::kDouble;
  const int64_t first = positions.begin();
  const Tensor ids = positions.ids.defined() ? positions.ids : at::arange(first, first + T, at::kLong);
  return compute(ids.to(like.device()), wide ? at::kDouble : at::kFloat, frequencies);
}

Angles::Arrange waves(bool interleaved) {
  if (interleaved) return [](const Tensor& a) { return at::stack({a.sin(), a.cos()}, -1).flatten(-2); };
  return [](const Tensor& a) { return at::cat({a.sin(), a.cos()}, -1); };
}

bool is_interleaved(const std::string& layout, const std::string& usual) {
  const std::string& name = layout.empty() ? usual : layout;
  FOVEA_CHECK_CONFIG(name == "halves" || name == "interleaved", "unknown layout \"", name, "\" of positions",
                     suggestion(name, {"halves", "interleaved"}));
  return name == "interleaved";
}

}  // namespace fovea
