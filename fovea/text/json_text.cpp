// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/json_text.h"

#include <algorithm>
#include <cstdio>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"

namespace fovea::text {

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20) {
          out += c;
        } else {
          char code[8];
          std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
          out += code;
        }
    }
  }
  return out += '"';
}

Fields::Fields(const nlohmann::json& object, std::string where) : object_(object), where_(std::move(where)) {
  FOVEA_CHECK_INPUT(object.is_object(), where_, ": wanted an object, got ", object.type_name());
}

const nlohmann::json* Fields::find(std::string_view key) {
  asked_.emplace_back(key);
  const auto found = object_.find(std::string(key));
  return found == object_.end() ? nullptr : &*found;
}

void Fields::fail(std::string_view key, std::string_view wanted) const {
  const auto found = object_.find(std::string(key));
  throw Error(ErrorKind::kInput, detail::concat(where(key), ": wanted ", wanted, ", got ",
                                                found == object_.end() ? "nothing" : found->type_name()));
}

bool Fields::has(std::string_view key) {
  const nlohmann::json* value = find(key);
  return value != nullptr && !value->is_null();
}

const nlohmann::json& Fields::at(std::string_view key) {
  const nlohmann::json* value = find(key);
  FOVEA_CHECK_INPUT(value != nullptr, where_, ": \"", key, "\" is missing");
  return *value;
}

bool Fields::boolean(std::string_view key) {
  const nlohmann::json& value = at(key);
  if (!value.is_boolean()) fail(key, "true or false");
  return value.get<bool>();
}

bool Fields::boolean(std::string_view key, bool otherwise) { return has(key) ? boolean(key) : otherwise; }

int64_t Fields::integer(std::string_view key) {
  const nlohmann::json& value = at(key);
  const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t{INT64_MAX}
                                               : value.is_number_integer() && value.get<int64_t>() >= 0;
  if (!fits) fail(key, "a whole number that is not negative");
  return value.get<int64_t>();
}

int64_t Fields::integer(std::string_view key, int64_t otherwise) { return has(key) ? integer(key) : otherwise; }

std::string Fields::string(std::string_view key) {
  const nlohmann::json& value = at(key);
  if (!value.is_string()) fail(key, "a string");
  return value.get<std::string>();
}

std::string Fields::string(std::string_view key, std::string otherwise) {
  return has(key) ? string(key) : std::move(otherwise);
}

const nlohmann::json& Fields::array(std::string_view key) {
  const nlohmann::json& value = at(key);
  if (!value.is_array()) fail(key, "a list");
  return value;
}

void Fields::finish() const {
  for (const auto& [key, value] : object_.items()) {
    if (std::find(asked_.begin(), asked_.end(), key) != asked_.end()) continue;
    throw Error(ErrorKind::kInput,
                detail::concat(where_, ": the field \"", key, "\" is not supported", suggestion(key, asked_)));
  }
}

}  // namespace fovea::text
