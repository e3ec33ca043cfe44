// Cross-attention: queries from one sequence, keys and values from another. A toy translation with hand-made meanings
// shows the alignment; then the module, whose keys and values are computed once for a whole generation.
// SPDX-License-Identifier: Apache-2.0
#include <fovea/fovea.h>

#include "show.h"

using namespace fovea;

int main() {
  at::manual_seed(1);
  const at::NoGradGuard no_grad;

  // French as it stands in the sentence, the last slot is padding; the target in English. Axes of the meaning space:
  // article, colour, animal, action.
  const std::vector<std::string> source{"le", "chat", "noir", "dort", "<pad>"}, target{"the", "black", "cat", "sleeps"};
  const Tensor meaning = at::eye(4);
  const Tensor keys = at::cat({meaning.index_select(0, at::tensor({0, 2, 1, 3})), at::full({1, 4}, 9.0)});  // [S, D]
  const Tensor queries = 6 * meaning + 0.3 * at::randn({4, 4});                                             // [T, D]
  const auto one_head = [](const Tensor& x) { return x.view({1, 1, x.size(0), x.size(1)}); };

  const AttentionResult found =
      attention_detailed(one_head(queries), one_head(keys), one_head(keys),
                         {.mask = masks::padding(at::full({1}, 4, at::kLong))});  // weights [1, 1, T, S]
  std::printf("%-10s", "");
  for (const auto& word : source) std::printf(" %7s", word.c_str());
  show("", found.weights, target);
  const Tensor best = found.weights.argmax(-1).view({-1});
  for (int64_t t = 0; t < 4; ++t)
    std::printf("  %-7s <- %s\n", target[size_t(t)].c_str(), source[size_t(best[t].item<int64_t>())].c_str());
  claim(at::equal(best, at::tensor({0, 2, 1, 3}, at::kLong)),
        "each word finds its translation; \"chat noir\" and \"black cat\" cross");
  claim(found.weights.select(-1, 4).eq(0).all().item<bool>(),
        "padding gets a weight of exactly 0, however well its key would match");

  // The module: a decoder of width 12 looks at an encoder of width 20; lengths need not agree either.
  Attention cross({.width = 12, .heads = 3, .memory_width = 20});
  const Tensor memory = at::randn({2, 7, 20}), x = at::randn({2, 4, 12});
  const Mask real = masks::padding(at::tensor({7, 5}));
  const Tensor whole = cross->forward(x, {.memory = memory, .mask = real});  // [2, 4, 12]
  std::printf("\nmemory [2, 7, 20], x [2, 4, 12] -> [%ld, %ld, %ld]\n", long(whole.size(0)), long(whole.size(1)),
              long(whole.size(2)));

  // Decoding: the first step fills the cache, later ones project their query only.
  LayerCache cache;
  std::vector<Tensor> steps;
  for (int64_t t = 0; t < 4; ++t)
    steps.push_back(cross->forward(x.narrow(1, t, 1), {.memory = memory, .mask = real, .cache = &cache}));
  claim(cache.length() == 7, "the cache holds the source's keys once");
  claim(difference(at::cat(steps, 1), whole) < 1e-5, "step by step equals all at once");

  // Every output is a mean of the source's values: a source of equal rows leaves nothing to choose.
  const Tensor flat = cross->forward(x, {.memory = memory.slice(1, 0, 1).expand({2, 7, 20})});
  claim(difference(flat.slice(1, 0, 1).expand_as(flat), flat) < 1e-5,
        "where all keys are alike, every query gets the same answer");
}
