// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/prefill.h"

#include <ATen/ops/full_like.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "fovea/base/check.h"

namespace fovea {
namespace {

at::Device device_of(const GenerativeModelImpl& model) {
  const auto parameters = model.parameters();
  return parameters.empty() ? at::kCPU : parameters.front().device();
}

void check_prompt(const GenerativeModelImpl& model, size_t row, const std::vector<int64_t>& prompt) {
  FOVEA_CHECK_INPUT(!prompt.empty(), "generate: prompt ", row, " is empty; wanted at least one token");
  FOVEA_CHECK_INPUT(int64_t(prompt.size()) <= model.max_positions(), "generate: prompt ", row, " has ", prompt.size(),
                    " tokens, the model has ", model.max_positions(), " positions");
  const int64_t vocabulary = model.source_vocab_size();
  for (int64_t id : prompt)
    FOVEA_CHECK_INPUT(id >= 0 && id < vocabulary, "generate: prompt ", row, " holds token ", id,
                      ", the model's vocabulary has ", vocabulary, " (is this the model's own tokenizer?)");
}

void check_ids(const GenerativeModelImpl& model, const GenerateOptions& options) {
  const int64_t vocabulary = model.vocab_size();
  for (int64_t id : options.end_ids)
    FOVEA_CHECK_CONFIG(id >= 0 && id < vocabulary, "generate: end_ids holds ", id, ", wanted 0 … ", vocabulary - 1);
  const auto check_optional = [&](const char* name, int64_t id) {
    FOVEA_CHECK_CONFIG(id >= -1 && id < vocabulary, "generate: ", name, " is ", id, ", wanted 0 … ", vocabulary - 1,
                       " or -1");
  };
  check_optional("pad_id", options.pad_id);
  check_optional("forced_first", options.forced_first);
  check_optional("forced_last", options.forced_last);
  FOVEA_CHECK_CONFIG(!model.has_encoder() || (options.start_id >= 0 && options.start_id < vocabulary),
                     "generate: start_id is ", options.start_id, ", wanted 0 … ", vocabulary - 1,
                     "; an encoder-decoder needs the token that its targets start with");
}

// Rows of one length: padding before (`left`) or after the prompt.
at::Tensor batch_of(const std::vector<std::vector<int64_t>>& prompts, int64_t longest, int64_t padding, bool left) {
  std::vector<int64_t> ids(prompts.size() * longest, padding);
  for (size_t row = 0; row < prompts.size(); ++row)
    std::copy(prompts[row].begin(), prompts[row].end(),
              ids.begin() + row * longest + (left ? longest - prompts[row].size() : 0));
  return at::tensor(ids, at::kLong).view({int64_t(prompts.size()), longest});  // [B, longest]
}

}  // namespace

at::Tensor integers(const std::vector<int64_t>& values, at::Device device) {
  return at::tensor(values, at::kLong).to(device);
}

int64_t room_after(const GenerativeModelImpl& model, int64_t prompt_length) {
  return model.max_positions() - (model.has_encoder() ? 1 : prompt_length) + 1;
}

void check_call(const GenerativeModelImpl& model, const std::vector<std::vector<int64_t>>& prompts,
                const GenerateOptions& options) {
  options.check();
  FOVEA_CHECK_KIND(ErrorKind::kArgument, !model.is_training(),
                   "generate: the model is in training mode, where dropout is active; call eval() first");
  check_ids(model, options);
  for (size_t row = 0; row < prompts.size(); ++row) check_prompt(model, row, prompts[row]);
}

Prefill prefill(const GenerativeModelImpl& model, const std::vector<std::vector<int64_t>>& prompts,
                const GenerateOptions& options) {
  std::vector<int64_t> lengths;
  for (const auto& prompt : prompts) lengths.push_back(int64_t(prompt.size()));
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  const bool left = !model.has_encoder();
  const at::Device device = device_of(model);
  // What fills a source never counts; 0 is in every vocabulary.
  const at::Tensor ids = batch_of(prompts, longest, model.has_encoder() ? 0 : options.padding(), left).to(device);
  Prefill out;
  if (model.has_encoder()) {
    out.state = model.begin(ids, integers(lengths, device));
    out.logits = model.step(at::full_like(ids.narrow(1, 0, 1), options.start_id), out.state, true);
  } else {
    out.state = model.begin();
    std::vector<int64_t> starts;
    for (int64_t length : lengths) starts.push_back(longest - length);
    if (std::any_of(starts.begin(), starts.end(), [](int64_t start) { return start > 0; }))
      out.state.start = integers(starts, device);
    out.logits = model.step(ids, out.state, true);
  }
  return out;
}

}  // namespace fovea
