// The first page's twenty lines, with what they promise checked behind them.
// SPDX-License-Identifier: Apache-2.0
#include <fovea/fovea.h>

#include "show.h"

using namespace fovea;

int main() {
  at::manual_seed(1);
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "fovea_readme_model";

  // Attention is one call; masks, biases and dropout are values given to it. Eight query heads share two key heads.
  const Tensor q = at::randn({2, 8, 64, 32}), k = at::randn({2, 2, 64, 32}), v = at::randn({2, 2, 64, 32});
  const Tensor lengths = at::tensor({64, 50});
  const Tensor y = attention(q, k, v, {.mask = masks::causal() & masks::padding(lengths)});  // [2, 8, 64, 32]

  // A rule of your own is a lambda. What it learns gets its gradient.
  const Tensor strength = at::full({8}, 0.1).requires_grad_();
  const Score decay = scores::add({{"strength", strength}}, [](auto p, int64_t, int64_t h, int64_t query, int64_t key) {
    return -p[0][h] * std::abs(query - key);
  });
  attention(q, k, v, {.score = decay}).square().sum().backward();  // fills strength.grad()

  // A model is a folder that Python reads too: GPT2LMHeadModel.from_pretrained(folder) has the same logits.
  const Gpt2 model(Gpt2Config{.vocab_size = 100, .positions = 64, .width = 64, .layers = 2, .heads = 4});
  save_pretrained(*model, folder);
  const GenerativeModel loaded = load_generative_model(folder);
  const GenerateResult text = generate(*loaded, {{1, 2, 3}}, {.max_new_tokens = 20, .temperature = 0.8, .seed = 1});

  claim(y.sizes() == at::IntArrayRef{2, 8, 64, 32}, "attention gives [B, H, T, E]");
  claim(strength.grad().isfinite().all().item<bool>() && strength.grad().abs().min().item<double>() > 0,
        "every strength has a gradient");
  claim(text.rows[0].tokens.size() == 20, "the loaded model wrote twenty tokens");
  std::filesystem::remove_all(folder);
}
