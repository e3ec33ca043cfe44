// Reading config.json field by field: absent fields keep their default, a wrong type names the field, and a field that
// changes the result in a way we do not build is an error, not a guess.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

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

}  // namespace fovea
