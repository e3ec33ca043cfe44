// What a token of a long text costs: an attention layer of Longformer and of BigBird, forward and backward, on texts of
// 4,096 to 65,536 tokens, and a token that a decoder with linear attention writes behind as many. Linear means that
// time and memory per token stay. One JSON object a line.
//
//   length_bench THREADS [ROUNDS]
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "benchmarks/long_layers.h"
#include "fovea/base/log.h"
#include "fovea/models/decoder.h"

using namespace fovea;

namespace {

constexpr int64_t kLengths[] = {4096, 8192, 16384, 32768, 65536};

// The most memory that the process held, in bytes, since the last reset. Linux only; elsewhere 0.
int64_t peak_memory(bool reset) {
  if (reset) std::ofstream("/proc/self/clear_refs") << 5;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  return 0;
}

double seconds_of(const bench::LongLayer& layer, const Tensor& x) {
  const auto begin = std::chrono::steady_clock::now();
  layer.run(x);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void measure(const std::string& name, int64_t tokens, int rounds) {
  const bench::LongLayer layer = bench::long_layer(name, tokens);
  const Tensor x = at::randn({1, tokens, 768}).requires_grad_();
  const int64_t before = peak_memory(true);
  double best = seconds_of(layer, x);
  const int64_t extra = peak_memory(false) - before;
  for (int round = 0; round < rounds; ++round) best = std::min(best, seconds_of(layer, x));
  std::cout << nlohmann::json{{"layer", name},
                              {"tokens", tokens},
                              {"ms", best * 1e3},
                              {"us_per_token", best * 1e6 / double(tokens)},
                              {"extra_bytes_per_token", extra / tokens}}
                   .dump()
            << std::endl;
}

// A decoder in the size of configs/linear.toml writes 256 tokens behind a text of `tokens`.
void measure_writing(int64_t tokens, int rounds) {
  constexpr int64_t kVocabulary = 64, kWritten = 256;
  const at::NoGradGuard guard;
  Decoder model(DecoderConfig{.vocab_size = kVocabulary, .attention = "linear", .scale_embedding = true});
  model->eval();
  DecoderState read;
  model->step(at::randint(kVocabulary, {1, tokens}, at::kLong), read, /*last_only=*/true);
  double best = std::numeric_limits<double>::infinity();
  DecoderState state;
  for (int round = 0; round <= rounds; ++round) {
    state = read;
    const auto begin = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < kWritten; ++i)
      model->step(at::full({1, 1}, i % kVocabulary, at::kLong), state, /*last_only=*/true);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  int64_t bytes = 0;
  for (const LayerCache& cache : state.self) bytes += int64_t(cache.state().nbytes());
  std::cout << nlohmann::json{{"decoder", "linear attention"},
                              {"tokens", tokens},
                              {"us_per_written_token", best * 1e6 / kWritten},
                              {"state_bytes", bytes}}
                   .dump()
            << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: length_bench THREADS [ROUNDS]\n";
    return 2;
  }
  at::set_num_threads(std::stoi(argv[1]));
  at::manual_seed(1);
  bool refused = false;
  set_log_callback([&](std::string_view topic, std::string_view line) {
    // Longformer's few global queries are as wide as the model: the reference's matrix products are right for them.
    const bool left = topic == "dispatch" && line.find("reference") != std::string_view::npos &&
                      line.find("wider than") == std::string_view::npos;
    if (left && !refused) std::cerr << "length_bench: a call left the kernels: " << line << "\n";
    refused |= left;
  });
  const int rounds = argc > 2 ? std::stoi(argv[2]) : 3;
  for (const char* name : {"longformer", "bigbird"})
    for (const int64_t tokens : kLengths) measure(name, tokens, rounds);
  for (const int64_t tokens : kLengths) measure_writing(tokens, rounds);
  return refused ? 1 : 0;
}
