// SPDX-License-Identifier: Apache-2.0
#include "fovea/generate/seq2seq.h"

#include "fovea/generate/causal_lm.h"
#include "fovea/generate/folder_options.h"

namespace fovea {

Seq2Seq Seq2Seq::load(const std::filesystem::path& folder) {
  CausalLM parts = CausalLM::load(folder);
  FOVEA_CHECK_INPUT(parts.model->has_encoder(), folder.string(), ": a ", parts.model->type(),
                    " model has no encoder; load it as CausalLM");
  return {std::move(parts.model), std::move(parts.tokenizer), std::move(parts.defaults)};
}

void Seq2Seq::save(const std::filesystem::path& folder) const { CausalLM{model, tokenizer, {}}.save(folder); }

std::string Seq2Seq::generate(std::string_view source, const GenerateOptions& options) const {
  return generate_all({std::string(source)}, options).front();
}

std::vector<std::string> Seq2Seq::generate_all(const std::vector<std::string>& sources,
                                               const GenerateOptions& options) const {
  std::vector<std::vector<int64_t>> prompts;
  for (const std::string& source : sources) prompts.push_back(source_ids(tokenizer, options, source));
  const GenerateResult result = fovea::generate(*model, prompts, options, &tokenizer);
  std::vector<std::string> out;
  for (size_t row = 0; row < result.rows.size(); row += size_t(options.results)) out.push_back(result.rows[row].text);
  return out;
}

}  // namespace fovea
