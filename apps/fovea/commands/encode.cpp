// `fovea encode`: a vector for each text, or for each of its tokens.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/core/Tensor.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "apps/fovea/commands/registry.h"
#include "apps/fovea/exit_codes.h"
#include "apps/fovea/machine.h"
#include "apps/fovea/model_folder.h"
#include "apps/fovea/output.h"
#include "apps/fovea/signals.h"
#include "apps/fovea/text_input.h"
#include "fovea/base/check.h"

namespace fovea {
namespace {

std::vector<float> numbers_of(const at::Tensor& vector) {
  const at::Tensor row = vector.to(at::kCPU, at::kFloat).contiguous();
  const auto at = row.accessor<float, 1>();
  std::vector<float> out(size_t(at.size(0)));
  for (size_t i = 0; i < out.size(); ++i) out[i] = at[int64_t(i)];
  return out;
}

struct Encode {
  std::string folder_path, pool;
  bool normalize = false, json = false;
  TextInput input;
  ThreadsOption threads;

  void declare(CommandLine& line) {
    line.option("-m,--model", "DIR", folder_path, "model folder", Need::kRequired);
    input.declare(line);
    line.option("--pool", "mean|cls|none", pool,
                "mean of all tokens, the first token, or every token [as the folder says, else mean]");
    line.flag("--normalize", normalize, "scale vectors to length 1, also where the folder does not say so");
    line.flag("--json", json, "one JSON object a text (docs/json.md)");
    threads.declare(line);
  }

  int run() {
    FOVEA_CHECK_CONFIG(pool.empty() || pool == "mean" || pool == "cls" || pool == "none", "--pool is \"", pool,
                       "\", wanted mean, cls or none");
    FOVEA_CHECK_CONFIG(!normalize || pool != "none", "--normalize is for --pool mean and cls");
    threads.apply();
    TextEncoder encoder = open_text_encoder(folder_path);
    if (!pool.empty() && pool != "none") encoder.pool = pool;
    encoder.normalize = encoder.normalize || normalize;
    input.each(256, [&](const std::vector<TextLine>& lines) { write(encoder, lines); });
    return StopSignals::wanted() ? kExitInterrupted : 0;
  }

  void write(const TextEncoder& encoder, const std::vector<TextLine>& lines) const {
    std::vector<std::string> texts;
    for (const TextLine& line : lines) {
      check_text(encoder, line.text, line.source);
      texts.push_back(line.text);
    }
    std::vector<at::Tensor> vectors;  // of each text, [C] or [T, C]
    if (pool == "none") {
      vectors = encoder.embed_tokens(texts);
    } else {
      vectors = encoder.embed(texts).unbind(0);
    }
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::vector<std::string> tokens = encoder.tokenizer.encode(texts[i], {.pad = false}).tokens;
      std::vector<std::vector<float>> rows;
      for (const at::Tensor& row : pool == "none" ? vectors[i].unbind(0) : std::vector{vectors[i]})
        rows.push_back(numbers_of(row));
      if (json) {
        output().json(
            {{"tokens", tokens}, {"embedding", pool == "none" ? nlohmann::json(rows) : nlohmann::json(rows[0])}});
      } else {
        for (size_t t = 0; t < rows.size(); ++t)
          output().line(detail::concat(pool == "none" ? tokens[t] + "\t" : "", joined(rows[t])));
        if (pool == "none") output().line("");
      }
    }
    output().flush();
  }

  static std::string joined(const std::vector<float>& row) {
    std::string out;
    for (const float x : row) {
      char text[32];
      std::snprintf(text, sizeof text, "%.6g", double(x));
      out.append(out.empty() ? "" : " ").append(text);
    }
    return out;
  }
};

}  // namespace

void register_commands_encode(CommandsRegistry& registry) {
  registry.add("encode", command<Encode>("a vector for each text, or for each of its tokens",
                                         "fovea encode --model .cache/data/minilm --json \"That is a happy person\""));
}

}  // namespace fovea
