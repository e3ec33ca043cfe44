// `fovea generate`: lets a model go on with a text, or answer one (encoder-decoder), as it is written.
// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/commands/registry.h"
#include "apps/fovea/writing.h"

namespace fovea {
namespace {

struct Generate : Writing {
  void declare(CommandLine& line) {
    line.option("-p,--prompt", "TEXT", prompts,
                "text to go on with (may be repeated); without: lines of standard input, empty ones are passed over");
    line.option("--prompts", "FILE", prompts_file, "a prompt a line; empty lines are passed over");
    line.flag("--no-prompt", no_prompt, "do not repeat the prompt before the text");
    line.flag("--one-window", one_window,
              "end where the model has no more positions, instead of going on from the newest half");
    declare_common(line);
  }
};

}  // namespace

void register_commands_generate(CommandsRegistry& registry) {
  registry.add("generate",
               command<Generate>("let a model go on with a text",
                                 "fovea generate --model runs/kjv/best --prompt \"And God said\" --max-new-tokens 200 "
                                 "--temperature 0.8 --seed 1\n"
                                 "fovea generate --model runs/kjv/best --prompts prompts.txt --json > texts.jsonl"));
}

}  // namespace fovea
