// What every model offers: its configuration, its tensor names in Hugging Face's words, its loss; and for those that
// write, logits with a cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fovea/attention/cache.h"
#include "fovea/data/batch.h"

namespace fovea {

using at::Tensor;

// Sum over the labels that count, so that batches of unequal size average by token.
struct LossSum {
  Tensor sum;  // scalar, differentiable
  int64_t count = 0;
  Tensor mean() const;
};

// One stored tensor and the parameters it holds; both directions of the checkpoint go through it.
struct TensorName {
  std::string stored;                // name in model.safetensors
  std::vector<std::string> ours;     // paths of parameters or buffers: one, or several that `stored` holds side by side
  std::vector<std::string> aliases;  // other stored names of the same (tied) tensor; read, not written
  bool transposed = false;           // stored [in, out] (GPT-2's Conv1D), ours [out, in]
  bool optional = false;             // a file may lack it: see ModelImpl::leave_out
};

class ModelImpl;
// Every parameter and buffer under its own path, a shared one under its first: for models whose folder is ours alone.
std::vector<TensorName> own_names(const ModelImpl& model);

class ModelImpl : public torch::nn::Module {
 public:
  // The registry's name ("gpt2", "transformer").
  virtual std::string type() const = 0;
  // The content of config.json, in Hugging Face's words; make_model(config) builds an equal model.
  virtual nlohmann::json config() const = 0;
  virtual std::vector<TensorName> tensor_names() const = 0;
  // Stored names that mean nothing (mask buffers), as globs.
  virtual std::vector<std::string> harmless_names() const { return {}; }
  // An outer prefix of stored names that files may lack ("transformer." of a bare GPT-2), or "".
  virtual std::string outer_prefix() const { return ""; }

  // Called after loading with the optional stored names that the file lacks: the model drops the parts they belong to.
  virtual void leave_out(const std::vector<std::string>&) {}

  // Initial weights as the model's paper has them; draws from LibTorch's generator.
  virtual void initialize() = 0;
  // What the loss compares with batch.labels: logits [B, T, V] (encoder-decoder: [B, U, V]).
  virtual Tensor forward(const Batch& batch) const;
  virtual LossSum loss(const Batch& batch, double label_smoothing = 0) = 0;

  // The model carries something from one call of loss() to the next, where a batch goes on where the one before ended:
  // it wants its text in streams (data/windows.h). Training and evaluation mode carry apart.
  virtual bool keeps_memory() const { return false; }
  // What training carries: a checkpoint holds it, so that a resumed run goes on with it.
  virtual std::vector<Tensor> memory() const { return {}; }
  virtual void set_memory(const std::vector<Tensor>&) {}

  virtual int64_t vocab_size() const = 0;
  virtual int64_t source_vocab_size() const { return vocab_size(); }  // of what an encoder-decoder's encoder reads
  virtual int64_t max_positions() const = 0;  // longest sequence; a very large number where there is no limit
  int64_t parameter_count() const;            // distinct numbers, tied ones once
};

// A model that writes text token by token.
class GenerativeModelImpl : public ModelImpl {
 public:
  // Encoder-decoder: encodes the source [B, S] (lengths [B]) and returns the state of an empty target. Decoder only:
  // the arguments stay undefined.
  virtual DecoderState begin(const Tensor& source = {}, const Tensor& source_lengths = {}) const = 0;
  virtual bool has_encoder() const = 0;
  // ids [B, T], the tokens after those the state holds -> logits [B, T, V] (`last_only`: [B, 1, V]); appends to the
  // state.
  virtual Tensor step(const Tensor& ids, DecoderState& state, bool last_only = false) const = 0;
};

// A model that reads: a vector for every token or image patch, and what its head makes of them.
class EncoderModelImpl : public ModelImpl {
 public:
  // The last hidden states, [B, T, C].
  virtual Tensor encode(const Batch& batch) const = 0;
  // What forward() returns: "none" the hidden states [B, T, C], "masked_lm" [B, T, V], "classifier" [B, N],
  // "token_classifier" [B, T, N], "question_answering" [B, T, 2] (start and end of the answer).
  virtual std::string head() const = 0;
  virtual int64_t segments() const { return 1; }  // kinds of text that a row may hold: 2 where it reads pairs
  // Names of a classifier's N classes, in order.
  virtual std::vector<std::string> labels() const { return {}; }
  // Multiplications by weights that one image takes, each with its addition, of a model that counts them.
  virtual std::optional<int64_t> multiply_adds() const { return std::nullopt; }
  // What a classifier's logits [..., N] mean: probabilities, or for regression the numbers themselves.
  virtual Tensor scores(const Tensor& logits) const;
  // The same encoder, its weights copied, under another head of the names above; `labels` are a classifier's. Parts
  // that this model lacks, and always the classifier, begin anew: drawn from LibTorch's generator. Error(kConfig) for a
  // head that the model cannot have.
  virtual std::shared_ptr<EncoderModelImpl> with_head(const std::string& head,
                                                      const std::vector<std::string>& labels) const;

 protected:
  // For with_head: the other's parameters and buffers of the same name and shape, all but its classifier's; its mode.
  void take_encoder(const EncoderModelImpl& other);
};

using Model = std::shared_ptr<ModelImpl>;
using EncoderModel = std::shared_ptr<EncoderModelImpl>;
using GenerativeModel = std::shared_ptr<GenerativeModelImpl>;

}  // namespace fovea
