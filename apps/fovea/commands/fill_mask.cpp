// `fovea fill-mask`: what a masked language model puts in place of a mask.
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "apps/fovea/commands/registry.h"
#include "apps/fovea/exit_codes.h"
#include "apps/fovea/machine.h"
#include "apps/fovea/model_folder.h"
#include "apps/fovea/output.h"
#include "apps/fovea/signals.h"
#include "apps/fovea/terminal.h"
#include "apps/fovea/text_input.h"
#include "fovea/base/check.h"

namespace fovea {
namespace {

struct FillMask {
  std::string folder_path;
  int64_t top_k = 5;
  bool json = false;
  TextInput input;
  ThreadsOption threads;

  void declare(CommandLine& line) {
    line.option("-m,--model", "DIR", folder_path, "model folder", Need::kRequired);
    input.declare(line);
    line.option("-k,--top-k", "N", top_k, "tokens for each mask, best first [5]");
    line.flag("--json", json, "one JSON array a text (docs/json.md)");
    threads.declare(line);
  }

  int run() {
    FOVEA_CHECK_CONFIG(top_k >= 1, "--top-k is ", top_k, ", wanted 1 or more");
    threads.apply();
    const TextEncoder encoder = open_text_encoder(folder_path);
    FOVEA_CHECK_INPUT(encoder.model->head() == "masked_lm", folder_path,
                      ": the model does not fill masks; its head is \"", encoder.model->head(), "\"");
    const std::string mask = encoder.mask_token();
    input.each(64, [&](const std::vector<TextLine>& lines) {
      TextEncoder::Texts texts;
      for (const auto& [text, source] : lines) {
        check_text(encoder, text, source);
        FOVEA_CHECK_INPUT(text.find(mask) != std::string::npos, source, ": the text has no ", mask, " to fill");
        texts.push_back(text);
      }
      for (const auto& filled : encoder.fill_masks(texts, top_k)) show(filled);
      output().flush();
    });
    return StopSignals::wanted() ? kExitInterrupted : 0;
  }

  void show(const std::vector<FilledMask>& filled) const {
    if (json) {
      nlohmann::json list = nlohmann::json::array();
      for (const FilledMask& f : filled)
        list.push_back({{"mask", f.mask}, {"token", f.token}, {"id", f.id}, {"score", f.score}});
      return output().json(list);
    }
    for (const FilledMask& f : filled)
      output().line(detail::concat(f.mask + 1, "\t", fixed(f.score, 4), "\t", f.token));
  }
};

}  // namespace

void register_commands_fill_mask(CommandsRegistry& registry) {
  registry.add("fill-mask", command<FillMask>("what a masked language model puts in place of a mask",
                                              "fovea fill-mask --model models/bert \"In the [MASK] God created.\""));
}

}  // namespace fovea
