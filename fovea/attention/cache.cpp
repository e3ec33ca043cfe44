// SPDX-License-Identifier: Apache-2.0
#include "fovea/attention/cache.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <c10/core/InferenceMode.h>

#include <atomic>

#include "fovea/base/check.h"

namespace fovea {
namespace {

// Slots left free after a first, long append: a prompt is followed by steps.
constexpr int64_t kSpare = 64;

bool fits(const at::Tensor& held, const at::Tensor& came) {
  return held.size(0) == came.size(0) && held.size(1) == came.size(1) && held.size(3) == came.size(3) &&
         held.scalar_type() == came.scalar_type();
}

void check_fits(const char* what, const at::Tensor& held, const at::Tensor& came) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, fits(held, came), "cache: ", what, " is ", came.sizes(), " ",
                   came.scalar_type(), ", the cache holds [", held.size(0), ", ", held.size(1), ", ·, ", held.size(3),
                   "] ", held.scalar_type());
}

void check_axes(const at::Tensor& key, const at::Tensor& value) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, key.dim() == 4 && value.dim() == 4 && key.size(2) == value.size(2),
                   "cache: key is ", key.sizes(), ", value ", value.sizes(), "; wanted [B, G, T, D] and [B, G, T, E]");
}

bool is_identity(const at::Tensor& rows, int64_t batch) {
  return rows.size(0) == batch && at::equal(rows, at::arange(batch, rows.options()));
}

// Slots from … to − 1 of every row and head. As strides: one dispatch where a slice makes two, and a step needs six of
// them.
at::Tensor window(const at::Tensor& t, int64_t from, int64_t to) {
  return t.as_strided({t.size(0), t.size(1), to - from, t.size(3)}, t.strides(),
                      t.storage_offset() + from * t.stride(2));
}

// [B, G, capacity, D], the first `length` slots from those of `from` that begin at `begin`.
at::Tensor larger(const at::Tensor& like, int64_t capacity, const at::Tensor& from, int64_t begin, int64_t length) {
  const c10::InferenceMode off(false);  // a cache may be filled in inference mode and continued outside
  at::Tensor out = at::empty({like.size(0), like.size(1), capacity, like.size(3)}, like.options().requires_grad(false));
  if (length > 0) window(out, 0, length).copy_(window(from, begin, begin + length));
  return out;
}

}  // namespace

// Storage that copies of a cache share. Slots below `written` have been handed out (in views, to copies) and never
// change, unless nobody else holds the storage; whoever moves `written` on owns the slots between.
struct LayerCache::Slots {
  at::Tensor key, value;  // [B, G, capacity, D], [B, G, capacity, E]
  std::atomic<int64_t> written = 0;

  int64_t capacity() const { return key.size(2); }
  bool held_elsewhere() const {
    const auto held = [](const at::Tensor& t) { return t.use_count() > 1 || t.storage().use_count() > 1; };
    return held(key) || held(value);
  }
};

void LayerCache::make_room(const at::Tensor& key, const at::Tensor& value) {
  const int64_t end = begin_ + length_ + key.size(2);
  if (slots_ != nullptr && end <= slots_->capacity()) {
    int64_t expected = begin_ + length_;
    if (slots_->written.compare_exchange_strong(expected, end)) return;
    if (slots_.use_count() == 1 && !slots_->held_elsewhere()) {
      slots_->written = end;
      return;
    }
  }
  const int64_t wanted = length_ + key.size(2), capacity = std::max(2 * length_, wanted + kSpare);
  auto slots = std::make_shared<Slots>();
  slots->key = larger(key, capacity, slots_ ? slots_->key : at::Tensor(), begin_, length_);
  slots->value = larger(value, capacity, slots_ ? slots_->value : at::Tensor(), begin_, length_);
  slots->written = wanted;
  slots_ = std::move(slots);
  begin_ = 0;
}

std::pair<at::Tensor, at::Tensor> LayerCache::append(const at::Tensor& key, const at::Tensor& value) {
  check_axes(key, value);
  if (length_ > 0) {
    check_fits("key", slots_->key, key);
    check_fits("value", slots_->value, value);
  } else if (slots_ != nullptr && !(fits(slots_->key, key) && fits(slots_->value, value))) {
    slots_ = nullptr;  // cropped to nothing, then used for another batch
    begin_ = 0;
  }
  const at::NoGradGuard no_grad;
  make_room(key, value);
  const int64_t from = begin_ + length_, end = from + key.size(2);
  window(slots_->key, from, end).copy_(key);
  window(slots_->value, from, end).copy_(value);
  length_ = end - begin_;
  return {this->key(), this->value()};
}

void LayerCache::set(at::Tensor key, at::Tensor value) {
  check_axes(key, value);
  slots_ = std::make_shared<Slots>();
  begin_ = 0;
  length_ = key.size(2);
  slots_->key = key.detach().contiguous();
  slots_->value = value.detach().contiguous();
  slots_->written = length_;
}

at::Tensor LayerCache::key() const { return slots_ ? window(slots_->key, begin_, begin_ + length_) : at::Tensor(); }
at::Tensor LayerCache::value() const { return slots_ ? window(slots_->value, begin_, begin_ + length_) : at::Tensor(); }

void LayerCache::crop(int64_t length) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, 0 <= length && length <= length_, "cache: crop to ", length,
                   " keys, wanted 0 … ", length_);
  FOVEA_CHECK_KIND(ErrorKind::kArgument, !state_.defined() || length == 0 || length == length_, "cache: crop to ",
                   length, " tokens: a recurrent state holds all ", length_,
                   " in one sum, from which none can be taken");
  if (length == 0) state_ = at::Tensor();
  length_ = length;
}

void LayerCache::keep_newest(int64_t count) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, count >= 0, "cache: the newest ", count, " keys, wanted at least 0");
  const int64_t dropped = std::max<int64_t>(0, length_ - count);
  begin_ += dropped;
  length_ -= dropped;
}

void LayerCache::set_state(at::Tensor state, int64_t length) {
  state_ = state.detach();
  length_ = length;
}

void LayerCache::reorder(const at::Tensor& rows) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, rows.defined() && rows.dim() == 1 && rows.scalar_type() == at::kLong,
                   "cache: rows are ", rows.sizes(), " ", rows.scalar_type(), ", wanted Long [B]");
  if (slots_ == nullptr && !state_.defined()) return;
  const int64_t batch = state_.defined() ? state_.size(0) : slots_->key.size(0);
  if (is_identity(rows, batch)) return;
  const c10::InferenceMode off(false);
  const at::NoGradGuard no_grad;
  // LibTorch checks each row anyway: only the message is ours.
  const auto of_rows = [&](const at::Tensor& t) {
    try {
      return t.index_select(0, rows);
    } catch (const c10::IndexError&) {
      throw Error(ErrorKind::kArgument,
                  detail::concat("cache: rows name one outside 0 … ", batch - 1, ", which the cache holds"));
    }
  };
  if (state_.defined()) {
    state_ = of_rows(state_);
    return;
  }
  auto slots = std::make_shared<Slots>();
  // Free slots come along, so that the next append finds room.
  slots->key = of_rows(slots_->key);
  slots->value = of_rows(slots_->value);
  slots->written = begin_ + length_;
  slots_ = std::move(slots);
}

void DecoderState::crop(int64_t length) {
  for (auto& layer : self) layer.crop(length);
}

void DecoderState::reorder(const at::Tensor& rows) {
  for (auto& layer : self) layer.reorder(rows);
  for (auto& layer : cross) layer.reorder(rows);
  for (at::Tensor* t : {&start, &memory, &memory_lengths})
    if (t->defined()) *t = t->index_select(0, rows);
}

}  // namespace fovea
