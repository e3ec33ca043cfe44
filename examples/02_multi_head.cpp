// Several heads (Vaswani et al. 2017, section 3.2.2): each attends in its own slice of the channels. Heads are views of
// one projection, nothing is copied; the module equals the loop over heads written out.
// SPDX-License-Identifier: Apache-2.0
#include <fovea/fovea.h>

#include <cmath>

#include "show.h"

using namespace fovea;

int main() {
  constexpr int64_t T = 5, C = 16, H = 4, D = C / H;
  at::manual_seed(1);
  const at::NoGradGuard no_grad;
  Attention attn({.width = C, .heads = H});
  const Tensor x = at::randn({1, T, C});

  // By hand: one projection for all heads, then head h is channels h·D … (h + 1)·D − 1.
  const Tensor q = linear(attn->query, x), k = linear(attn->key, x), v = linear(attn->value, x);  // [1, T, C]
  std::vector<Tensor> outputs, weights;
  for (int64_t h = 0; h < H; ++h) {
    const auto head = [&](const Tensor& all) { return all.slice(-1, h * D, (h + 1) * D); };  // [1, T, D]
    weights.push_back(
        at::softmax(at::matmul(head(q), head(k).transpose(1, 2)) / std::sqrt(double(D)), -1));  // [1, T, T]
    outputs.push_back(at::matmul(weights[size_t(h)], head(v)));                                 // [1, T, D]
  }
  const Tensor by_hand = linear(attn->output, at::cat(outputs, -1));  // [1, T, C]

  // The module, with a listener on its weights.
  Tensor seen;
  const auto probe =
      Probe::on("*attention.weights", [&](std::string_view, const Tensor& w) { seen = w; });  // [1, H, T, T]
  const Tensor y = attn->forward(x);

  for (int64_t h = 0; h < H; ++h) {
    const std::string title = "head " + std::to_string(h) + ": row i is what token i looks at";
    show(title.c_str(), seen[0][h]);
    claim(difference(seen[0][h], weights[size_t(h)][0]) < 1e-6, "these are the weights computed by hand");
  }
  claim(difference(y, by_hand) < 1e-5, "the module equals the loop over heads");

  const Tensor heads = q.view({1, T, H, D}).transpose(1, 2);  // [1, H, T, D]
  claim(heads.is_alias_of(q), "splitting into heads is a view: no number moved");
  claim(difference(attention(heads, k.view({1, T, H, D}).transpose(1, 2), v.view({1, T, H, D}).transpose(1, 2)),
                   at::stack(outputs, 1)) < 1e-6,
        "the attention call takes such views as they are");

  // Grouped heads (Ainslie et al. 2023) are a number: four query heads share two key/value heads.
  Attention grouped({.width = C, .heads = H, .kv_heads = 2});
  std::printf("\nkey weights: %ld numbers with 4 key heads, %ld with 2\n", long(attn->key->weight.numel()),
              long(grouped->key->weight.numel()));
  claim(2 * grouped->key->weight.numel() == attn->key->weight.numel(), "half the key heads, half the key/value cache");
}
