// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/rope_json.h"

#include <algorithm>
#include <set>

#include "fovea/models/config_json.h"

namespace fovea {
namespace {

// The fields of a scaling, beside those of every one, with Hugging Face's names.
struct RopeField {
  const char* name;
  double RopeScaling::*value;
};
const std::vector<RopeField>& rope_fields(const std::string& type) {
  static const std::vector<RopeField> none,
      yarn{{"attention_factor", &RopeScaling::attention_factor},
           {"beta_fast", &RopeScaling::beta_fast},
           {"beta_slow", &RopeScaling::beta_slow},
           {"mscale", &RopeScaling::mscale},
           {"mscale_all_dim", &RopeScaling::mscale_all}},
      llama3{{"low_freq_factor", &RopeScaling::low_frequency}, {"high_freq_factor", &RopeScaling::high_frequency}};
  return type == "yarn" ? yarn : type == "llama3" ? llama3 : none;
}

// The table that holds the scaling; older folders have it beside `rope_theta`.
const nlohmann::json& rope_table(const nlohmann::json& config) {
  static const nlohmann::json empty = nlohmann::json::object();
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto found = config.find(key);
    if (found == config.end() || found->is_null() || found->empty()) continue;
    FOVEA_CHECK_INPUT(found->is_object(), "config.json: \"", key, "\" is ", found->dump(), ", wanted an object");
    return *found;
  }
  return empty;
}

}  // namespace

void read_rope(const nlohmann::json& config, int64_t positions, double& base, RopeScaling& scaling) {
  const nlohmann::json& table = rope_table(config);
  base = config_value(table, "rope_theta", config_value(config, "rope_theta", base));
  const std::string type = config_value(table, "rope_type", config_value(table, "type", std::string("default")));
  std::set<std::string> known{"rope_theta", "rope_type", "type", "partial_rotary_factor"};
  require_config(table, "partial_rotary_factor", 1.0);
  require_config(config, "partial_rotary_factor", 1.0);
  scaling = {};
  if (type != "default") {
    scaling.type = type;
    scaling.original_positions = config_value(config, "original_max_position_embeddings",
                                              config_value(table, "original_max_position_embeddings", positions));
    if (type == "dynamic") scaling.original_positions = positions;
    scaling.factor = config_value(table, "factor", double(positions) / double(scaling.original_positions));
    scaling.truncate = config_value(table, "truncate", true);
    known.insert({"factor", "original_max_position_embeddings", "truncate"});
    for (const RopeField& field : rope_fields(type)) {
      scaling.*field.value = config_value(table, field.name, scaling.*field.value);
      known.insert(field.name);
    }
  }
  for (const auto& [key, value] : table.items())
    FOVEA_CHECK_INPUT(known.count(key) > 0 || value.is_null(), "config.json: \"", key, "\" of rope type \"", type,
                      "\" is not supported");
}

void write_rope(nlohmann::json& config, double base, const RopeScaling& scaling) {
  const bool scaled = scaling.type != "none";
  nlohmann::json table{{"rope_theta", base}, {"rope_type", scaled ? scaling.type : "default"}};
  if (scaled) table["factor"] = scaling.factor;
  // Zeros stand for what the other fields tell.
  for (const RopeField& field : rope_fields(scaling.type))
    if (scaling.*field.value != 0) table[field.name] = scaling.*field.value;
  if (scaling.type == "yarn" || scaling.type == "llama3")
    table["original_max_position_embeddings"] = scaling.original_positions;
  if (scaling.type == "yarn") table["truncate"] = scaling.truncate;
  config["rope_parameters"] = table;
}

}  // namespace fovea
