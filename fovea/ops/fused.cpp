// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/fused.h"

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "fovea/kernels/attention.h"
#include "fovea/kernels/dispatch.h"
#include "fovea/ops/bind.h"

namespace fovea {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kWidest = 512;            // of keys and values
constexpr int64_t kWorthAThread = 1 << 19;  // multiplications

Heads heads_of(const Tensor& x, int64_t b, int64_t first_row) {
  const Number type = x.scalar_type() == at::kBFloat16 ? Number::kBFloat16 : Number::kFloat;
  const Matrix all{x.data_ptr(), type, x.stride(2), x.stride(3)};
  return {all.at(b * x.stride(0) + first_row * x.stride(2)), x.stride(1)};
}

void parallel_for(int64_t n, const std::function<void(int64_t)>& f) {
  if (n == 1) return f(0);
  at::parallel_for(0, n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(i);
  });
}

// A call with everything that forward and backward share: bound masks and scores, and the plan of tiles.
struct Problem : torch::CustomClassHolder {
  struct Part {
    Bound<MaskRulePtr> mask;
    std::vector<Bound<ScoreVisitorPtr>> scores;
    TilePlans plans;
  };
  AttentionCall call;  // without tensors of its own
  PackedOffsets packed;
  std::vector<Part> parts;  // one, or one a sequence of a packed batch
  Tensor log_sum_exp;

  Problem(const AttentionCall& c, const PackedOffsets* offsets)
      : call(c), packed(offsets ? *offsets : PackedOffsets{}) {
    const bool is_packed = offsets != nullptr;
    const int64_t count = is_packed ? int64_t(packed.query.size()) - 1 : 1;
    for (int64_t i = 0; i < count; ++i) {
      AttentionShape shape = call.shape;
      if (is_packed) shape.B = count, shape.T = rows(packed.query, i), shape.S = rows(packed.key, i);
      Part part{bind_mask(call.mask, shape), {}, {}};
      for (const auto& term : call.score.terms()) part.scores.push_back(bind_score(*term, call.scale, shape));
      const int64_t first = is_packed ? i : call.first_batch, batches = is_packed ? 1 : call.query.size(0);
      part.plans = TilePlans(*part.mask.object, first, batches, shape.H, shape.T, shape.S, parallel_for);
      parts.push_back(std::move(part));
    }
    log_sum_exp = at::empty({call.query.size(0) * call.shape.H * call.query.size(2)}, at::kFloat);
    call.query = call.key = call.value = Tensor();
  }

  static int64_t rows(const std::vector<int64_t>& offsets, int64_t i) {
    return offsets[size_t(i) + 1] - offsets[size_t(i)];
  }

  AttentionTask task(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& output) const {
    AttentionTask task{.H = call.shape.H,
                       .G = call.shape.G,
                       .D = call.shape.D,
                       .E = call.shape.E,
                       .scale = float(call.scale),
                       .soft_cap = float(call.soft_cap),
                       .dropout = call.dropout,
                       .dropout_seed = uint64_t(call.dropout_seed)};
    const int64_t count = packed.query.empty() ? query.size(0) : int64_t(parts.size());
    float* lse = log_sum_exp.data_ptr<float>();
    int64_t work = 0;
    for (int64_t i = 0; i < count; ++i) {
      const bool is_packed = !packed.query.empty();
      const Part& part = parts[is_packed ? size_t(i) : 0];
      const int64_t b = is_packed ? 0 : i, from = is_packed ? packed.query[size_t(i)] : 0,
                    key_from = is_packed ? packed.key[size_t(i)] : 0;
      Sequence s{.batch = is_packed ? i : call.first_batch + i,
                 .T = is_packed ? rows(packed.query, i) : query.size(2),
                 .S = is_packed ? rows(packed.key, i) : key.size(2),
                 .query = heads_of(query, b, from),
                 .key = heads_of(key, b, key_from),
                 .value = heads_of(value, b, key_from),
                 .output = heads_of(output, b, from),
                 .log_sum_exp = lse,
                 .plans = &part.plans,
                 .plan = is_packed ? 0 : i};
      for (const auto& score : part.scores) s.visitors.push_back(score.object.get());
      lse += call.shape.H * s.T;
      for (int64_t h = 0; h < call.shape.H; ++h)
        for (const TilePlan& plan : s.plan_of(h)) work += plan.pairs_to_visit() * (call.shape.D + call.shape.E);
      task.sequences.push_back(std::move(s));
    }
    const int64_t threads = at::in_parallel_region() ? 1 : at::get_num_threads();
    task.threads = int(std::clamp<int64_t>(work / kWorthAThread, 1, threads));
    task.parallel = parallel_for;
    task.isa = &isa();
    return task;
  }
};

using ProblemPtr = c10::intrusive_ptr<Problem>;

// [b, H, T, width] in [b, T, H, width] storage: the projection that follows need not move it.
Tensor empty_heads(const Tensor& like, int64_t width) {
  return at::empty({like.size(0), like.size(2), like.size(1), width}, like.options().requires_grad(false))
      .transpose(1, 2);
}

// Undefined: refused for NaN.
Tensor run_forward(const Tensor& query, const Tensor& key, const Tensor& value, const Problem& problem) {
  Tensor output = empty_heads(query, value.size(3));
  return attention_forward(problem.task(query, key, value, output)) ? output : Tensor();
}

class FusedFunction : public torch::autograd::Function<FusedFunction> {
 public:
  // `learned`: the tensors of all score terms, one after the other.
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& key, const Tensor& value,
                        at::TensorList learned, const ProblemPtr& problem) {
    Tensor output = run_forward(query, key, value, *problem);
    const bool good = output.defined();
    if (!good) output = at::empty({0}, query.options());
    context->saved_data["problem"] = c10::IValue::make_capsule(problem);
    if (!good) {
      context->mark_non_differentiable({output});
      return output;
    }
    std::vector<Tensor> saved{query, key, value, output};
    saved.insert(saved.end(), learned.begin(), learned.end());
    context->save_for_backward(saved);
    return output;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    FOVEA_CHECK_KIND(ErrorKind::kArgument, !at::GradMode::is_enabled(),
                     "attention: the kernels have no second derivatives; pass .path = AttentionPath::reference where "
                     "they are wanted");
    const auto problem = c10::static_intrusive_pointer_cast<Problem>(context->saved_data["problem"].toCapsule());
    const auto saved = context->get_saved_variables();
    const Tensor &query = saved[0], &key = saved[1], &value = saved[2], &output = saved[3];
    const Tensor gradient = gradients[0].to(query.scalar_type());
    Tensor query_gradient = empty_heads(query, query.size(3)), key_gradient = empty_heads(key, key.size(3)),
           value_gradient = empty_heads(value, value.size(3));

    AttentionTask task = problem->task(query, key, value, output);
    const bool is_packed = !problem->packed.query.empty();
    for (size_t i = 0; i < task.sequences.size(); ++i) {
      Sequence& s = task.sequences[i];
      const int64_t b = is_packed ? 0 : int64_t(i), from = is_packed ? problem->packed.query[i] : 0,
                    key_from = is_packed ? problem->packed.key[i] : 0;
      s.output_gradient = heads_of(gradient, b, from);
      s.query_gradient = heads_of(query_gradient, b, from);
      s.key_gradient = heads_of(key_gradient, b, key_from);
      s.value_gradient = heads_of(value_gradient, b, key_from);
    }
    std::vector<Tensor> learned_gradients;
    size_t next = 4;
    for (const auto& term : problem->call.score.terms()) {
      task.learned.emplace_back();
      for (size_t i = 0; i < term->data.size(); ++i, ++next) {
        const bool wanted =
            context->needs_input_grad(next - 1);  // query, key and value come before, the output is no input
        learned_gradients.push_back(wanted ? at::zeros(saved[next].sizes(), at::kFloat) : Tensor());
        task.learned.back().push_back(
            wanted ? LearnedGradient{learned_gradients.back().data_ptr<float>(), saved[next].numel()}
                   : LearnedGradient{});
      }
    }
    attention_backward(task);

    variable_list out{query_gradient, key_gradient, value_gradient};
    for (size_t i = 0; i < learned_gradients.size(); ++i)
      out.push_back(learned_gradients[i].defined() ? learned_gradients[i].to(saved[4 + i].options()) : Tensor());
    out.emplace_back();  // problem
    return out;
  }
};

}  // namespace

std::string fused_refuses(const AttentionCall& call) {
  const auto type = call.query.scalar_type();
  if (!call.query.device().is_cpu()) return "not on a CPU";
  if (type != at::kFloat && type != at::kBFloat16) return std::string("no kernel for type ") + toString(type);
  if (call.query.numel() == 0 || call.key.numel() == 0 || call.value.numel() == 0) return "an empty size";
  if (call.shape.D > kWidest || call.shape.E > kWidest) return "wider than " + std::to_string(kWidest);
  return "";
}

std::optional<Tensor> fused_attention(const AttentionCall& call, const PackedOffsets* packed) {
  const auto problem = c10::make_intrusive<Problem>(call, packed);
  std::vector<Tensor> learned;
  for (const auto& term : call.score.terms()) learned.insert(learned.end(), term->data.begin(), term->data.end());
  const auto needs_gradient = [](const Tensor& x) { return x.requires_grad(); };
  const bool differentiate = at::GradMode::is_enabled() &&
                             (call.query.requires_grad() || call.key.requires_grad() || call.value.requires_grad() ||
                              std::any_of(learned.begin(), learned.end(), needs_gradient));
  const Tensor output = differentiate
                            ? FusedFunction::apply(call.query, call.key, call.value, at::TensorList(learned), problem)
                            : run_forward(call.query, call.key, call.value, *problem);
  if (!output.defined() || output.dim() != 4) return std::nullopt;
  return output;
}

}  // namespace fovea
