// The verbs, from the files in commands/.
// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/commands/registry.h"

namespace fovea {

void register_all_commands(CommandsRegistry& registry);

const CommandsRegistry& commands_registry() {
  static const CommandsRegistry registry = [] {
    CommandsRegistry r;
    register_all_commands(r);
    return r;
  }();
  return registry;
}

}  // namespace fovea
