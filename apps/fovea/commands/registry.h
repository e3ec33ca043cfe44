// What a file in commands/ registers: a verb of the command.
//
//   struct Count {
//     std::string file;
//     void declare(CommandLine& line) { line.positional("FILE", file, "text to count"); }
//     int run() { … return 0; }
//   };
//   void register_commands_count(CommandsRegistry& registry) {
//     registry.add("count", command<Count>("count characters", "fovea count notes.txt"));
//   }
//
// Results go to output(), everything else to stderr; errors are thrown (main.cpp turns them into exit codes).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "apps/fovea/command_line.h"
#include "fovea/base/registry.h"

namespace fovea {

struct CommandEntry {
  std::string summary;  // one line, for the list of verbs
  std::string example;  // lines one can type as they stand, for --help
  // Adds the verb's options to its command line; what it returns runs after parsing and gives the exit code.
  std::function<std::function<int()>(CommandLine&)> declare;
};

struct CommandsRegistry : Registry<CommandEntry> {
  CommandsRegistry() : Registry("command") {}
};

const CommandsRegistry& commands_registry();

template <class Command>
CommandEntry command(std::string summary, std::string example) {
  return {std::move(summary), std::move(example), [](CommandLine& line) -> std::function<int()> {
            const auto state = std::make_shared<Command>();
            state->declare(line);
            return [state] { return state->run(); };
          }};
}

}  // namespace fovea
