// `fovea translate`: answers each text by another, with an encoder-decoder: a translation, a summary.
// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/commands/registry.h"
#include "apps/fovea/writing.h"
#include "fovea/base/check.h"

namespace fovea {
namespace {

struct Translate : Writing {
  void declare(CommandLine& line) {
    line.positional("TEXT", prompts,
                    "texts to translate; without: lines of standard input, empty ones are passed over");
    line.option("--file", "FILE", prompts_file, "a text a line; empty lines are passed over");
    declare_common(line);
  }
  void check_model(const ModelFolder& folder, const GenerativeModelImpl& model) const override {
    FOVEA_CHECK_INPUT(model.has_encoder(), folder.path.native(), ": a ", model.type(),
                      " model goes on with a text; translate wants an encoder-decoder (fovea generate runs this one)");
  }
};

}  // namespace

void register_commands_translate(CommandsRegistry& registry) {
  registry.add("translate",
               command<Translate>("answer each text by another: translate, summarise",
                                  "fovea translate --model runs/en_zh/best \"Save the file first.\" --beams 4\n"
                                  "fovea translate --model runs/en_zh/best --file texts.txt --json > answers.jsonl"));
}

}  // namespace fovea
