// Attention sees a set: permuting the input permutes the output and changes nothing else, so "dog bites man" and "man
// bites dog" mean the same. Every position encoding breaks that, each in its own way.
// SPDX-License-Identifier: Apache-2.0
#include <fovea/fovea.h>

#include <map>

#include "show.h"

using namespace fovea;

namespace {

// One layer of attention; the same weights whatever the encoding.
Attention layer(const std::string& position) {
  at::manual_seed(3);
  Attention attn({.width = 32, .heads = 4, .position = position, .positions = {.max_positions = 16}});
  attn->eval();
  return attn;
}

Tensor embed(const std::vector<std::string>& words) {
  static std::map<std::string, Tensor> table;
  std::vector<Tensor> rows;
  for (const auto& word : words) rows.push_back(table.try_emplace(word, at::randn({32})).first->second);
  return at::stack(rows).unsqueeze(0);  // [1, T, C]
}

}  // namespace

int main() {
  at::manual_seed(1);
  const at::NoGradGuard no_grad;
  const Tensor x = at::randn({1, 6, 32}), order = at::tensor({4, 0, 5, 2, 1, 3});
  const Tensor permuted = x.index_select(1, order);

  std::printf("%-12s %28s %34s\n", "position", "permute, then attend, against", "\"dog bites man\" against");
  std::printf("%-12s %28s %34s\n", "encoding", "attend, then permute", "\"man bites dog\", mean of outputs");
  for (const char* name : {"none", "sinusoidal", "learned", "rope", "alibi", "t5_bias"}) {
    Attention attn = layer(name);
    const double moved = difference(attn->forward(permuted), attn->forward(x).index_select(1, order));
    const double told_apart = difference(attn->forward(embed({"dog", "bites", "man"})).mean(1),
                                         attn->forward(embed({"man", "bites", "dog"})).mean(1));
    std::printf("%-12s %28.2e %34.2e\n", name, moved, told_apart);
    if (std::string(name) == "none") {
      claim(moved < 1e-5 && told_apart < 1e-5, "without positions attention cannot tell one order from another");
    } else if (std::string(name) == "alibi") {
      claim(moved > 1e-4 && told_apart < 1e-5, "distances show, direction does not: backwards is the same to ALiBi");
    } else {
      claim(moved > 1e-4 && told_apart > 1e-4, "the order shows");
    }
  }

  // A causal mask alone carries order too: the first token sees one key, the last one all.
  Attention attn = layer("none");
  const AttendInput causal{.mask = masks::causal()};
  const double moved = difference(attn->forward(permuted, causal), attn->forward(x, causal).index_select(1, order));
  std::printf("%-12s %28.2e\n", "none, causal", moved);
  claim(moved > 1e-4, "a causal mask is a weak position encoding of its own");
}
