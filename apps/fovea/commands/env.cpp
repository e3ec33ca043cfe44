// `fovea env`: what this build and this machine are, for a bug report or a script.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <nlohmann/json.hpp>

#include "apps/fovea/commands/registry.h"
#include "apps/fovea/machine.h"
#include "apps/fovea/output.h"
#include "fovea/kernels/dispatch.h"
#include "fovea/attention/variants/registry.h"
#include "fovea/masks/registry.h"
#include "fovea/models/registry.h"
#include "fovea/positions/registry.h"
#include "fovea/scores/registry.h"

namespace fovea {
namespace {

std::string joined(const nlohmann::json& values) {
  if (!values.is_array()) return values.is_string() ? values.get<std::string>() : values.dump();
  std::string out;
  for (const auto& value : values) out += (out.empty() ? "" : " ") + value.get<std::string>();
  return out;
}

struct Env {
  bool json = false;
  ThreadsOption threads;

  void declare(CommandLine& line) {
    line.flag("--json", json, "one JSON object");
    threads.declare(line);
  }

  nlohmann::ordered_json facts() const {
    nlohmann::ordered_json out;
    out["version"] = FOVEA_VERSION;
    out["libtorch"] = TORCH_VERSION;
    out["compiler"] = __VERSION__;
    out["cpu"] = processor_name();
    out["features"] = processor_features();
    out["libtorch_isa"] = at::get_cpu_capability();
    out["threads"] = at::get_num_threads();
    out["attention"] = nlohmann::ordered_json::array({"kernel", "reference"});  // fastest first
    out["isa"] = isa().name;
    out["isa_refused"] = nlohmann::ordered_json::array();
    for (const Isa* other : all_isas()) {
      if (other == &isa()) continue;
      if (const std::string lacks = isa_lacks(*other); !lacks.empty())
        out["isa_refused"].push_back(other->name + (" (lacks " + lacks + ")"));
      else if (const std::string reason = isa_passed_over(*other); !reason.empty())
        out["isa_refused"].push_back(other->name + (" (" + reason + ")"));
    }
    out["models"] = models_registry().names();
    out["masks"] = masks_registry().names();
    out["scores"] = scores_registry().names();
    out["positions"] = positions_registry().names();
    out["variants"] = variants_registry().names();
    out["commands"] = commands_registry().names();
    return out;
  }

  int run() {
    threads.apply();
    const auto all = facts();
    if (json) {
      output().line(all.dump());
      return 0;
    }
    for (const auto& [name, value] : all.items())
      output().line(name + std::string(14 - std::min<size_t>(name.size(), 13), ' ') + joined(value));
    return 0;
  }
};

}  // namespace

void register_commands_env(CommandsRegistry& registry) {
  registry.add("env", command<Env>("what this build and this machine are", "fovea env\nfovea env --json"));
}

}  // namespace fovea
