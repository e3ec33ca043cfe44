// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/causal_lm.h"

#include "fovea/base/check.h"
#include "fovea/generate/folder_options.h"
#include "fovea/models/pretrained.h"

namespace fovea {

CausalLM CausalLM::load(const std::filesystem::path& folder) {
  CausalLM out{load_generative_model(folder), Tokenizer::load(folder), {}};
  check_tokenizer_fits(*out.model, out.tokenizer, folder.native());
  out.defaults = folder_options(folder, *out.model, out.tokenizer);
  return out;
}

void CausalLM::save(const std::filesystem::path& folder) const {
  save_pretrained(*model, folder);
  tokenizer.save(folder);
}

std::string CausalLM::generate(std::string_view prompt, GenerateOptions options) const {
  return stream(prompt, std::move(options), {});
}

std::string CausalLM::stream(std::string_view prompt, GenerateOptions options,
                             const std::function<void(std::string_view)>& on_piece) const {
  if (options.end_ids.empty()) options.end_ids = defaults.end_ids;
  if (options.end_ids.empty())
    if (const auto end = tokenizer.eos_id()) options.end_ids = {*end};
  TokenCallback on_token;
  if (on_piece) {
    on_token = [&](const TokenEvent& event) {
      if (!event.text.empty()) on_piece(event.text);
      return true;
    };
  }
  return fovea::generate(*model, {tokenizer.ids(prompt)}, options, &tokenizer, on_token).rows.front().text;
}

}  // namespace fovea
