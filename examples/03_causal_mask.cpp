// The mask that makes a language model honest. A boolean tensor alone does not say what true means, and PyTorch's own
// functions disagree; masks::allow and masks::block say it. Then: what leaks from the future without a mask.
// SPDX-License-Identifier: Apache-2.0
#include <fovea/fovea.h>

#include "show.h"

using namespace fovea;

int main() {
  constexpr int64_t T = 6, kChanged = 3;
  at::manual_seed(1);
  const at::NoGradGuard no_grad;
  const Tensor q = at::randn({1, 2, T, 8}), k = at::randn({1, 2, T, 8}), v = at::randn({1, 2, T, 8});

  const Tensor past = at::ones({T, T}, at::kBool).tril(), future = past.logical_not();
  std::printf("masks::causal(): row i is what token i may see\n%s", masks::causal().draw(T, T).c_str());
  const Tensor y = attention(q, k, v, {.mask = masks::causal()});
  claim(at::equal(y, attention(q, k, v, {.mask = masks::allow(past)})), "allow(past) is the same mask");
  claim(at::equal(y, attention(q, k, v, {.mask = masks::block(future)})), "block(future) is the same mask");
  claim(at::equal(y, attention(q, k, v, {.mask = ~masks::allow(future)})), "~allow(future) is the same mask");

  std::printf("\nthe wrong polarity, allow(future): everyone sees the future only, the last token nothing\n%s",
              masks::allow(future).draw(T, T).c_str());
  const Tensor wrong = attention(q, k, v, {.mask = masks::allow(future)});
  claim(!at::allclose(wrong, y), "it gives other numbers, and no error: hence the two names");
  claim(wrong.select(2, T - 1).eq(0).all().item<bool>(), "a row that sees nothing gives zeros, never NaN");

  std::printf("\ntwo new queries against five keys, causal: the last query stands at the last key\n%s",
              masks::causal().draw(2, 5).c_str());
  std::printf("a window of 3, two documents packed into one row, and both\n");
  const Mask window = masks::sliding_window(3), documents = masks::document(at::tensor({0, 0, 0, 1, 1, 1}));
  std::printf("%s\n%s\n%s", window.draw(T, T).c_str(), documents.draw(T, T).c_str(),
              (window & documents).draw(T, T).c_str());

  // A layer of a language model: change one token, see whose output moves.
  Attention layer({.width = 16, .heads = 2, .position = "rope"});
  const Tensor x = at::randn({1, T, 16});
  Tensor changed = x.clone();
  changed[0][kChanged] += 1;
  const auto moved = [&](const Mask& mask) {
    return (layer->forward(x, {.mask = mask}) - layer->forward(changed, {.mask = mask}))
        .abs()
        .amax(-1)
        .squeeze(0);  // [T]
  };
  const Tensor leaking = moved({}), sealed = moved(masks::causal());
  show("\ntoken 3 was changed; by how much each token's output moves", at::stack({leaking, sealed}),
       {"no mask", "causal"});
  claim(leaking.slice(0, 0, kChanged).min().item<double>() > 0,
        "without a mask all earlier tokens see it: they could copy the answer");
  claim(sealed.slice(0, 0, kChanged).eq(0).all().item<bool>(), "with it earlier outputs keep every bit");
  claim(sealed.slice(0, kChanged).min().item<double>() > 0, "later ones see the change");
}
