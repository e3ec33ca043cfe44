// The fovea side of the model benchmarks: a process that waits for a word on stdin, does that piece of work once and answers
// with the seconds it took, so that it can alternate with a peer in Python. tools/bench.py drives it.
//
//   train      one step of the demo's model: forward, backward, clipping, AdamW
//   generate   64 greedy tokens after a prompt of 64, with the cache
// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <chrono>
#include <iostream>

#include "fovea/generate/generate.h"
#include "fovea/models/gpt2.h"
#include "fovea/train/optimizer.h"

using namespace fovea;

namespace {

// The shape of configs/kjv.toml.
constexpr int64_t kVocabulary = 64, kContext = 128, kBatch = 8;

Gpt2 demo_model() {
  return Gpt2(Gpt2Config{.vocab_size = kVocabulary, .positions = kContext, .width = 128, .layers = 4, .heads = 4, .residual_dropout = 0,
                         .embedding_dropout = 0, .attention_dropout = 0});
}

class Training {
 public:
  Training() : model_(demo_model()), optimizer_(distinct_parameters(*model_), {}) { model_->train(); }
  void step() {
    const Tensor tokens = at::randint(kVocabulary, {kBatch, kContext + 1}, at::kLong);
    optimizer_.zero_grad();
    const LossSum loss = model_->loss({.ids = tokens.slice(1, 0, kContext), .labels = tokens.slice(1, 1)});
    loss.mean().backward();
    optimizer_.clip_gradients();
    optimizer_.step(1e-3);
  }

 private:
  Gpt2 model_;
  AdamW optimizer_;
};

class Generation {
 public:
  Generation() : model_(demo_model()), prompt_(64, 7) { model_->eval(); }
  void run() { generate(*model_, {prompt_}, {.max_new_tokens = 64}); }

 private:
  Gpt2 model_;
  std::vector<int64_t> prompt_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) at::set_num_threads(std::stoi(argv[1]));
  at::manual_seed(1);
  Training training;
  Generation generation;
  for (std::string work; std::cin >> work;) {
    const auto begin = std::chrono::steady_clock::now();
    if (work == "train") {
      training.step();
    } else if (work == "generate") {
      generation.run();
    } else {
      std::cerr << "model_bench: unknown work \"" << work << "\"\n";
      return 2;
    }
    std::cout << std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() << std::endl;
  }
}
