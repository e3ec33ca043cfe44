// Reading config.json field by field: absent fields keep their default, a wrong type names the field, and a field that
// changes the result in a way we do not build is an error, not a guess.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "fovea/base/check.h"
#include "fovea/io/json.h"

namespace fovea {

// The value of `key`, or `value` where it is absent or null. T: bool, int64_t, double, std::string.
template <class T>
T config_value(const nlohmann::json& config, const char* key, T value) {
  JsonConfigReader(config, "config.json").field(key, value);
  return value;
}

// Throws unless `key` is absent or has the only value we build.
template <class T>
void require_config(const nlohmann::json& config, const char* key, T only) {
  const T value = config_value(config, key, only);
  FOVEA_CHECK_INPUT(value == only, "config.json: \"", key, "\": ", nlohmann::json(value).dump(),
                    " is not supported, only ", nlohmann::json(only).dump());
}

// A size that must be positive.
inline int64_t config_size(const nlohmann::json& config, const char* key, int64_t fallback) {
  const int64_t value = config_value(config, key, fallback);
  FOVEA_CHECK_INPUT(value > 0, "config.json: \"", key, "\" is ", value, ", wanted a positive number");
  return value;
}

// Rows and columns; one number stands for both. `what` is used in the message.
inline std::array<int64_t, 2> image_axes(const char* what, const std::vector<int64_t>& size) {
  FOVEA_CHECK_CONFIG(size.size() == 1 || size.size() == 2, what, " has ", size.size(),
                     " numbers, wanted 1, or 2 (rows and columns)");
  return {size.front(), size.back()};
}

// Two classes of one name cannot be told apart.
inline void check_labels(const std::vector<std::string>& labels) {
  std::set<std::string> seen;
  for (const std::string& label : labels)
    FOVEA_CHECK_CONFIG(seen.insert(label).second, "two classes have the name \"", label, "\"");
}

// The names of a classifier's classes, in order: `id2label`, or LABEL_0 … for `num_labels` (2 where that is absent).
inline std::vector<std::string> config_labels(const nlohmann::json& config) {
  const auto names = config.value("id2label", nlohmann::json());
  FOVEA_CHECK_INPUT(names.is_null() || (names.is_object() && !names.empty()),
                    R"(config.json: "id2label": wanted {"0": "name", …})");
  const int64_t count = names.is_null() ? config_size(config, "num_labels", 2) : int64_t(names.size());
  FOVEA_CHECK_INPUT(count <= 1 << 20, "config.json: ", count, " labels, wanted at most ", 1 << 20);
  std::vector<std::string> out;
  for (int64_t i = 0; i < count; ++i) {
    const std::string key = std::to_string(i);
    FOVEA_CHECK_INPUT(names.is_null() || (names.contains(key) && names[key].is_string()),
                      "config.json: \"id2label\" has ", count, " labels but no text for \"", i, "\"");
    out.push_back(names.is_null() ? "LABEL_" + key : names[key].get<std::string>());
  }
  check_labels(out);
  return out;
}

// The inverse: `id2label` and `label2id`.
inline void write_config_labels(const std::vector<std::string>& labels, nlohmann::json& config) {
  for (size_t i = 0; i < labels.size(); ++i) {
    config["id2label"][std::to_string(i)] = labels[i];
    config["label2id"][labels[i]] = i;
  }
}

}  // namespace fovea
