// A model small enough to reason about, for tests of generation: a real cache, left padding, an optional encoder, and
// logits that depend on every token so far, its position and the source.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "fovea/models/model.h"

namespace fovea {

class ToyModelImpl : public GenerativeModelImpl {
 public:
  struct Config {
    int64_t vocab = 5;
    int64_t positions = 32;
    bool encoder = false;
    at::ScalarType dtype = at::kFloat;
    uint64_t seed = 1;
    double sharpness = 1.5;  // the larger, the less even the probabilities
  };
  explicit ToyModelImpl(const Config& config) : config_(config) {
    at::Generator generator = at::detail::createCPUGenerator(config.seed);
    const auto normal = [&](int64_t rows, int64_t columns) {
      return at::randn({rows, columns}, generator).to(config.dtype);
    };
    tokens_ = register_parameter("tokens", normal(config.vocab, kWidth), false);
    positions_ = register_parameter("positions", normal(config.positions, kWidth), false);
    output_ = register_parameter("output", normal(kWidth, config.vocab) * config.sharpness, false);
    eval();
  }

  DecoderState begin(const Tensor& source = {}, const Tensor& source_lengths = {}) const override {
    DecoderState state;
    state.self.resize(1);
    if (!config_.encoder) return state;
    const Tensor real = (at::arange(source.size(1)) < source_lengths.unsqueeze(1)).unsqueeze(2);  // [B, S, 1]
    state.memory = at::embedding(tokens_, source) * real;                                         // [B, S, C]
    state.memory_lengths = source_lengths;
    state.cross.resize(1);
    state.cross[0].set(state.memory.unsqueeze(1), state.memory.unsqueeze(1));
    return state;
  }
  bool has_encoder() const override { return config_.encoder; }

  // h_t = Σ over real tokens s ≤ t of embedding_s / (1 + t − s), plus the position and the sum of the source.
  Tensor step(const Tensor& ids, DecoderState& state, bool last_only = false) const override {
    ++steps;
    rows += ids.size(0);
    const int64_t B = ids.size(0), T = ids.size(1), past = state.length();
    const Tensor x = at::embedding(tokens_, ids).unsqueeze(1);        // [B, 1, T, C]
    const Tensor all = state.self[0].append(x, x).second.squeeze(1);  // [B, S, C]
    const Tensor start = state.start.defined() ? state.start : at::zeros({B}, at::kLong);
    const Tensor query = at::arange(past, past + T).view({1, T, 1}), key = at::arange(past + T).view({1, 1, past + T});
    const Tensor seen = (key <= query) & (key >= start.view({B, 1, 1}));           // [B, T, S]
    const Tensor weight = (seen / (1.0 + (query - key).abs())).to(config_.dtype);  // [B, T, S]
    const Tensor position = (query.squeeze(2) - start.view({B, 1})).clamp_min(0);  // [B, T]
    Tensor h = at::bmm(weight, all) + at::embedding(positions_, position);         // [B, T, C]
    if (config_.encoder) h = h + state.cross[0].value().squeeze(1).sum(1, true);
    if (last_only) h = h.narrow(1, T - 1, 1);
    return at::matmul(at::tanh(h), output_);  // [B, T, V]
  }

  // Logits after these tokens, the whole computed at once: [V].
  Tensor full(const std::vector<int64_t>& ids, DecoderState state) const {
    return step(at::tensor(ids, at::kLong).unsqueeze(0), state, true).view({-1});
  }

  std::string type() const override { return "toy"; }
  nlohmann::json config() const override { return {}; }
  std::vector<TensorName> tensor_names() const override { return {}; }
  void initialize() override {}
  LossSum loss(const Batch&, double = 0) override { return {}; }
  int64_t vocab_size() const override { return config_.vocab; }
  int64_t max_positions() const override { return config_.positions; }

  mutable int64_t steps = 0, rows = 0;  // calls of step(), and rows they computed

 private:
  static constexpr int64_t kWidth = 6;
  Config config_;
  Tensor tokens_, positions_, output_;
};

// Writes a fixed text whatever it reads: token i of the answer is script[i], by a wide margin; then the last one again.
class ScriptModelImpl : public ToyModelImpl {
 public:
  ScriptModelImpl(int64_t vocab, std::vector<int64_t> script)
      : ToyModelImpl({.vocab = vocab}), script_(std::move(script)) {}

  Tensor step(const Tensor& ids, DecoderState& state, bool last_only = false) const override {
    ToyModelImpl::step(ids, state, last_only);
    Tensor logits = at::zeros({ids.size(0), 1, vocab_size()});
    logits.select(2, script_[std::min(written_++, script_.size() - 1)]).fill_(20);
    return logits;  // [B, 1, V]
  }

 private:
  std::vector<int64_t> script_;
  mutable size_t written_ = 0;
};

}  // namespace fovea
