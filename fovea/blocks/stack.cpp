// SPDX-License-Identifier: Apache-2.0
#include "fovea/blocks/stack.h"

#include <ATen/Functions.h>
#include <torch/nn/modules/container/modulelist.h>

#include "fovea/base/check.h"
#include "fovea/base/probe.h"
#include "fovea/base/size.h"
#include "fovea/layers/dropout.h"
#include "fovea/masks/causal.h"
#include "fovea/masks/document.h"
#include "fovea/masks/padding.h"
#include "fovea/masks/sliding_window.h"

namespace fovea {
namespace {

PositionOptions position_options(const StackOptions& o) {
  const MultiHeadOptions& a = o.block.attention;
  PositionOptions p = o.positions;
  if (p.width == 0) p.width = a.width;
  if (p.heads == 0) p.heads = a.heads;
  if (p.head_width == 0) p.head_width = a.head_width > 0 ? a.head_width : a.width / std::max<int64_t>(a.heads, 1);
  return p;
}

// The state's tensor where the caller gave none.
Tensor either(const Tensor& given, const DecoderState* state, Tensor DecoderState::*held) {
  return given.defined() || state == nullptr ? given : state->*held;
}

// Which keys are real.
Mask padding_mask(const Tensor& start, const Tensor& lengths) {
  if (start.defined()) return lengths.defined() ? masks::padding(start, lengths) : masks::padding_left(start);
  return lengths.defined() ? masks::padding(lengths) : Mask();
}

// The real tokens of all rows as one row, one text behind the other: nothing is computed for padding.
struct RealTokens {
  Tensor places;     // [N] in B · T
  Tensor texts;      // [1, N] the row each comes from
  Tensor positions;  // [1, N]
};

RealTokens real_tokens(const Tensor& start, const Tensor& lengths, const Positions& positions, int64_t B, int64_t T) {
  const Tensor slot = at::arange(T).expand({B, T});
  const Tensor first = start.defined() ? start.unsqueeze(1) : at::zeros({B, 1}, at::kLong);
  const Tensor end = lengths.defined() ? first + lengths.unsqueeze(1) : at::full({B, 1}, T, at::kLong);
  RealTokens out;
  out.places = ((slot >= first) & (slot < end)).flatten().nonzero().squeeze(1);
  out.texts = out.places.floor_divide(T).unsqueeze(0);
  const Tensor ids = positions.ids.defined() ? positions.ids.expand({B, T}) : slot + positions.begin();
  out.positions = ids.flatten().index_select(0, out.places).unsqueeze(0);
  return out;
}

// The newest `length` of what stands before the input and of the input itself.
Tensor newest_states(const Tensor& past, const Tensor& input, int64_t length) {
  const Tensor all = past.defined() ? at::cat({past, input.detach()}, 1) : input.detach();
  return all.slice(1, std::max<int64_t>(0, all.size(1) - length));
}

void fit_caches(DecoderState& state, size_t layers, bool cross) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, state.self.empty() || state.self.size() == layers,
                   "stack: the state holds caches of ", state.self.size(), " layers, wanted ", layers,
                   "; is it another model's?");
  state.self.resize(layers);
  if (cross) state.cross.resize(layers);
}

}  // namespace

StackImpl::StackImpl(StackOptions options) : options_(std::move(options)) {
  FOVEA_CHECK_CONFIG(options_.layers > 0, "stack: layers is ", options_.layers, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(options_.block.attention.position == "none", "stack: block.attention.position is \"",
                     options_.block.attention.position, "\"; a stack's encoding is given as its own `position`");
  check_probability("stack: embed_dropout", options_.embed_dropout);
  check_probability("stack: final_dropout", options_.final_dropout);
  FOVEA_CHECK_CONFIG(options_.window == 0 || (options_.window > 0 && options_.causal), "stack: window is ",
                     options_.window, options_.causal ? ", wanted at least 1, or 0 for none" : "; it goes with causal");
  BlockOptions b = options_.block;
  if (options_.position_each) {
    b.attention.position = options_.position;
    b.attention.positions = position_options(options_);
  }
  if (b.attention.variants.max_positions == 0) b.attention.variants.max_positions = options_.positions.max_positions;
  // At least: query and output projections, and the feed-forward's two.
  const double width = double(b.attention.width), heads = double(b.attention.heads);
  const double inner = b.attention.head_width > 0 ? heads * double(b.attention.head_width) : width;
  check_parameters("stack", double(options_.layers) * width * (2 * inner + 2 * double(b.feed_forward.hidden)));
  const NormOptions norm{.width = b.attention.width, .kind = b.norm, .eps = b.eps, .bias = b.norm_bias};

  torch::nn::ModuleList list;
  for (int64_t i = 0; i < options_.layers; ++i) {
    layers.emplace_back(b);
    list->push_back(layers.back());
  }
  if (const Variant& first = layers.front()->attention->variant; first->shared_by_layers())
    for (size_t i = 1; i < layers.size(); ++i) layers[i]->attention->share_variant(first);
  const std::string shared = options_.position_each ? "none" : options_.position;
  position = register_module("position", make_position(shared, position_options(options_)));
  if (options_.embed_norm) embed_norm = register_module("embed_norm", Norm(norm));
  register_module("layers", list);
  if (options_.final_norm) final_norm = register_module("final_norm", Norm(norm));
}

Tensor StackImpl::embed(const Tensor& x, const Positions& positions) const {
  const bool first = options_.embed_dropout_first;
  Tensor y = position->embed(x, positions);
  if (first) y = drop(y, options_.embed_dropout, is_training());
  if (!embed_norm.is_empty()) y = embed_norm->forward(y);
  return first ? y : drop(y, options_.embed_dropout, is_training());
}

BlockInput StackImpl::block_input(const Tensor& x, const StackInput& in) const {
  const int64_t T = x.size(1), past = in.state != nullptr ? in.state->length() : 0;
  // Slots behind a short row would stay in the cache, where later steps would see them.
  FOVEA_CHECK_KIND(ErrorKind::kArgument, in.state == nullptr || !in.lengths.defined(),
                   "stack: lengths do not go with a state; pad on the left and give start");
  for (const size_t given : {in.layer_masks.size(), in.layer_scores.size()})
    FOVEA_CHECK_KIND(ErrorKind::kArgument, given == 0 || given == layers.size(), "stack: masks or scores of ", given,
                     " layers were given, wanted ", layers.size(), " or none");
  const Tensor start = either(in.start, in.state, &DecoderState::start);
  const Tensor memory_lengths = either(in.memory_lengths, in.state, &DecoderState::memory_lengths);

  BlockInput out{.mask = in.mask,
                 .score = in.score,
                 .memory = either(in.memory, in.state, &DecoderState::memory),
                 .memory_mask = in.memory_mask,
                 .global = in.global,
                 .attention_dropout = in.attention_dropout};
  out.mask = out.mask & order(T);
  out.mask = out.mask & padding_mask(start, in.lengths);
  if (memory_lengths.defined()) out.memory_mask = out.memory_mask & masks::padding(memory_lengths);
  if (in.positions.defined()) {
    out.positions = in.positions;
  } else {
    out.positions = start.defined() ? Positions::after_padding(start, T, past) : Positions(past);
  }
  return out;
}

Mask StackImpl::order(int64_t T) const {
  if (options_.window > 0) return masks::sliding_window(options_.window);
  return options_.causal && T > 1 ? masks::causal() : Mask();  // a single newest token sees all keys before it anyway
}

bool StackImpl::may_skip_padding(const Tensor& x, const StackInput& in) const {
  // Only the kernels skip what one text may not see of another.
  const bool fused = x.device().is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
  return fused && options_.block.attention.variant == "softmax" && in.state == nullptr && !in.memory.defined() &&
         in.mask.is_full() && in.score.is_empty() && in.layer_masks.empty() && in.layer_scores.empty() &&
         (in.start.defined() || in.lengths.defined()) && !Probe::listening();
}

void StackImpl::check_segments(const Tensor& x, const StackInput& in) const {
  if (in.segments == nullptr) return;
  const SegmentMemory& memory = *in.segments;
  FOVEA_CHECK_KIND(ErrorKind::kArgument, in.state == nullptr && !in.start.defined() && !in.lengths.defined(),
                   "stack: segments go without a state, start and lengths (a causal text's padding stands behind it)");
  FOVEA_CHECK_KIND(ErrorKind::kArgument, memory.length >= 0, "stack: segments keep ", memory.length,
                   " states, wanted at least 0");
  FOVEA_CHECK_KIND(ErrorKind::kArgument, memory.layers.empty() || memory.layers.size() == layers.size(),
                   "stack: the segments' memory has ", memory.layers.size(), " layers, wanted ", layers.size());
  for (const Tensor& states : memory.layers)
    FOVEA_CHECK_KIND(ErrorKind::kArgument,
                     states.dim() == 3 && states.size(0) == x.size(0) && states.size(2) == x.size(2),
                     "stack: the segments' memory is ", states.sizes(), ", wanted [B, N, C] with B = ", x.size(0),
                     ", C = ", x.size(2));
}

Tensor StackImpl::forward(const Tensor& x, const StackInput& in) const {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, x.dim() == 3 && x.size(2) == options_.block.attention.width, "stack: x is ",
                   x.sizes(), ", wanted [B, T, C] with C = ", options_.block.attention.width);
  check_segments(x, in);
  const bool remembers = in.segments != nullptr && !in.segments->layers.empty();
  const int64_t B = x.size(0);
  const int64_t past = in.state != nullptr ? in.state->length() : remembers ? in.segments->layers[0].size(1) : 0;
  int64_t T = x.size(1);
  BlockInput shared = block_input(x, in);
  ResidualStream y{embed(x, shared.positions), {}};
  RealTokens real;
  if (may_skip_padding(x, in)) {
    real = real_tokens(in.start, in.lengths, shared.positions, B, T);
    const int64_t count = real.places.size(0);
    if (count == 0 || count * 10 > B * T * 9) {
      real = {};  // not worth two copies
    } else {
      T = count;
      y.stream = y.stream.flatten(0, 1).index_select(0, real.places).unsqueeze(0);  // [1, N, C]
      shared = {.mask = order(T) & masks::document(real.texts),
                .positions = real.positions,
                .attention_dropout = in.attention_dropout};
    }
  }
  const PositionPass pass = position->prepare(shared.positions, T, past + T, x.options());
  shared.position = options_.position_each ? nullptr : &pass;
  SegmentMemory memory;
  if (in.state != nullptr) fit_caches(*in.state, layers.size(), options_.block.cross_attention);
  for (size_t i = 0; i < layers.size(); ++i) {
    const ProbeScope scope("layers", int64_t(i));
    if (in.state != nullptr) {
      shared.self_cache = &in.state->self[i];
      shared.cross_cache = options_.block.cross_attention ? &in.state->cross[i] : nullptr;
    }
    if (!in.layer_masks.empty()) shared.local_mask = in.layer_masks[i];
    if (!in.layer_scores.empty()) shared.score = in.score + in.layer_scores[i];
    if (in.segments != nullptr) {
      y = {layers[i]->join(y), {}};  // what the layer reads, whole
      shared.past = remembers ? in.segments->layers[i] : Tensor();
      memory.layers.push_back(newest_states(shared.past, y.stream, in.segments->length));
    }
    y = layers[i]->forward(std::move(y), shared);
  }
  if (in.segments != nullptr) in.segments->layers = std::move(memory.layers);
  const BlockImpl& last = *layers.back();
  Tensor out;
  if (final_norm.is_empty()) {
    out = last.join(y);
  } else {
    out = y.added.defined() ? final_norm->forward(y.stream, y.added, last.dropout()).normed
                            : final_norm->forward(y.stream);
  }
  if (real.places.defined())  // [1, N, C] -> [B, T, C], zeros where padding is
    out = at::zeros({B * x.size(1), x.size(2)}, out.options().requires_grad(false))
              .index_copy(0, real.places, out.squeeze(0))
              .view(x.sizes());
  return drop(out, options_.final_dropout, is_training());
}

}  // namespace fovea
