// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/attention.h"

#include <ATen/Functions.h>

#include <cmath>

#include "fovea/base/log.h"
#include "fovea/kernels/dispatch.h"
#include "fovea/ops/bind.h"
#include "fovea/ops/fused.h"
#include "fovea/ops/reference.h"
#include "fovea/ops/seed.h"

namespace fovea {
namespace {

// Checks name the public function, whichever it was.
#define CHECK_CALL(condition, ...) FOVEA_CHECK_KIND(ErrorKind::kArgument, condition, function, ": ", __VA_ARGS__)

void check_tensor(const char* function, const char* name, const Tensor& x, int64_t axes, const char* layout) {
  CHECK_CALL(x.defined(), name, " is undefined; wanted ", layout);
  CHECK_CALL(x.dim() == axes, name, " has ", x.dim(), " axes ", x.sizes(), "; wanted ", layout);
  const auto type = x.scalar_type();
  CHECK_CALL(type == at::kFloat || type == at::kDouble || type == at::kBFloat16 || type == at::kHalf, name, " has type ", toString(type),
             "; wanted float, double, bfloat16 or half");
  CHECK_CALL(x.layout() == at::kStrided, name, " is not a strided tensor");
}

void check_same_kind(const char* function, const Tensor& query, const Tensor& key, const Tensor& value) {
  CHECK_CALL(key.scalar_type() == query.scalar_type() && value.scalar_type() == query.scalar_type(), "query, key and value have types ",
             toString(query.scalar_type()), ", ", toString(key.scalar_type()), " and ", toString(value.scalar_type()), "; all must be the same");
  CHECK_CALL(key.device() == query.device() && value.device() == query.device(), "query, key and value are on ", query.device(), ", ",
             key.device(), " and ", value.device(), "; all must be on one device");
}

void check_heads(const char* function, const AttentionShape& s, const Tensor& key, const Tensor& value) {
  CHECK_CALL(key.size(-1) == s.D, "query has width ", s.D, ", key has ", key.size(-1), "; both must be the same");
  CHECK_CALL(value.size(1) == s.G, "key has ", s.G, " heads, value has ", value.size(1), "; both must have the same number (shape ",
             key.sizes(), " and ", value.sizes(), ")");
  CHECK_CALL(s.G > 0 ? s.H % s.G == 0 : s.H == 0, "query has ", s.H, " heads, key has ", s.G, "; the number of key heads must divide that of the query");
}

void check_options(const char* function, const AttentionOptions& options) {
  CHECK_CALL(options.dropout >= 0 && options.dropout <= 1, "dropout is ", options.dropout, "; wanted a probability in [0, 1]");
  CHECK_CALL(options.soft_cap >= 0 && std::isfinite(options.soft_cap), "soft_cap is ", options.soft_cap, "; wanted 0 (none) or a positive number");
  CHECK_CALL(!options.scale || std::isfinite(*options.scale), "scale is ", options.scale.value_or(0), "; wanted a finite number");
}

AttentionCall resolve(const char* function, const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) {
  check_tensor(function, "query", query, 4, "[B, H, T, D]");
  check_tensor(function, "key", key, 4, "[B, G, S, D]");
  check_tensor(function, "value", value, 4, "[B, G, S, E]");
  check_same_kind(function, query, key, value);
  CHECK_CALL(key.size(0) == query.size(0) && value.size(0) == query.size(0), "query, key and value have batches of ", query.size(0), ", ",
             key.size(0), " and ", value.size(0), "; all must be the same");
  CHECK_CALL(value.size(2) == key.size(2), "key has ", key.size(2), " positions, value has ", value.size(2), "; both must be the same");
  const AttentionShape shape{query.size(0), query.size(1), key.size(1), query.size(2), key.size(2), query.size(3), value.size(3)};
  check_heads(function, shape, key, value);
  check_options(function, options);
  return {.query = query,
          .key = key,
          .value = value,
          .shape = shape,
          .mask = options.mask,
          .score = options.score,
          .scale = options.scale.value_or(shape.D > 0 ? 1.0 / std::sqrt(double(shape.D)) : 1.0),
          .soft_cap = options.soft_cap,
          .dropout = options.dropout,
          .dropout_seed = options.dropout > 0 ? (options.dropout_seed ? *options.dropout_seed : draw_seed()) : 0};
}

void log_path(const std::string& answer) {
  if (log_wanted("dispatch")) log("dispatch", "attention: " + answer);
}

// The kernels where they keep our promises; if they don't, nothing, and the log says why.
std::optional<Tensor> kernel_output(const char* function, const AttentionCall& call, AttentionPath path, const PackedOffsets* packed = nullptr) {
  std::string refusal = path == AttentionPath::reference ? "asked for" : fused_refuses(call);
  if (refusal.empty()) {
    if (auto output = fused_attention(call, packed)) {
      log_path(std::string("kernel ") + isa().name);
      return output;
    }
    refusal = "a hidden key may hold NaN or infinity";
  }
  CHECK_CALL(path != AttentionPath::kernel, "path is kernel, but no kernel takes this call: ", refusal);
  log_path("reference (" + refusal + ")");
  return std::nullopt;
}

std::vector<int64_t> check_offsets(const char* function, const char* name, const Tensor& offsets, int64_t tokens) {
  CHECK_CALL(offsets.defined() && offsets.dim() == 1 && offsets.numel() >= 1 && at::isIntegralType(offsets.scalar_type(), false), name,
             ": wanted integers [N + 1]");
  std::vector<Tensor> storage;
  const ArrayView view = view_of(offsets, storage);
  std::vector<int64_t> out;
  for (int64_t i = 0; i < view.size[0]; ++i) {
    out.push_back(view.at<int64_t>(i));
    CHECK_CALL(i == 0 ? out[0] == 0 : out[size_t(i)] >= out[size_t(i - 1)], name, "[", i, "] is ", out.back(), "; offsets start at 0 and never fall");
  }
  CHECK_CALL(out.back() == tokens, name, " ends at ", out.back(), "; wanted the number of tokens, ", tokens);
  return out;
}

}  // namespace

Tensor attention(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) {
  const AttentionCall call = resolve("attention", query, key, value, options);
  if (auto output = kernel_output("attention", call, options.path)) return *output;
  return reference_attention(call, visible_of(call), false).output;
}

AttentionResult attention_detailed(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) {
  const AttentionCall call = resolve("attention_detailed", query, key, value, options);
  return reference_attention(call, visible_of(call), true);
}

Tensor attention_packed(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& query_offsets, const Tensor& key_offsets,
                        const AttentionOptions& options) {
  const char* function = "attention_packed";
  check_tensor(function, "query", query, 3, "[tokens, H, D]");
  check_tensor(function, "key", key, 3, "[tokens, G, D]");
  check_tensor(function, "value", value, 3, "[tokens, G, E]");
  CHECK_CALL(value.size(0) == key.size(0), "key has ", key.size(0), " tokens, value has ", value.size(0), "; both must be the same");
  const auto from = check_offsets(function, "query_offsets", query_offsets, query.size(0));
  const auto key_from = check_offsets(function, "key_offsets", key_offsets, key.size(0));
  CHECK_CALL(from.size() == key_from.size(), "query_offsets has ", from.size() - 1, " sequences, key_offsets has ", key_from.size() - 1);

  AttentionOptions shared = options;
  if (options.dropout > 0 && !options.dropout_seed) shared.dropout_seed = draw_seed();
  // [tokens, heads, width] -> [1, heads, tokens, width]
  const auto row = [](const Tensor& x) { return x.transpose(0, 1).unsqueeze(0); };
  AttentionCall whole = resolve(function, row(query), row(key), row(value), shared);
  const PackedOffsets offsets{from, key_from};
  if (from.size() > 1)
    if (auto output = kernel_output(function, whole, options.path, &offsets)) return output->squeeze(0).transpose(0, 1);

  // One sequence as a batch of one: [tokens, heads, width] -> [1, heads, n, width]
  const auto cut = [](const Tensor& x, int64_t begin, int64_t end) { return x.narrow(0, begin, end - begin).transpose(0, 1).unsqueeze(0); };
  std::vector<Tensor> outputs;
  for (size_t i = 0; i + 1 < from.size(); ++i) {
    AttentionCall call = resolve(function, cut(query, from[i], from[i + 1]), cut(key, key_from[i], key_from[i + 1]),
                                 cut(value, key_from[i], key_from[i + 1]), shared);
    call.shape.B = int64_t(from.size()) - 1;
    call.first_batch = int64_t(i);
    outputs.push_back(reference_attention(call, visible_of(call), false).output.squeeze(0).transpose(0, 1));  // [n, H, E]
  }
  if (outputs.empty()) return at::zeros({0, query.size(1), value.size(2)}, query.options());
  return at::cat(outputs, 0);
}

#undef CHECK_CALL

}  // namespace fovea
