// JSON files behind a few functions, and visited configurations (base/config.h) from and to JSON objects.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/config.h"
#include "fovea/base/error.h"

namespace fovea {

// Error(kInput) `config.json:3:14: …` with line and column (in bytes); `source` names the text. Beyond the grammar: a
// key given twice in one object and nesting deeper than 500 are errors.
nlohmann::json parse_json(std::string_view text, std::string_view source);
// read_text + parse_json.
nlohmann::json read_json(const std::filesystem::path& path, std::string_view what = "file");

// indent -1: one line. Bytes that are not UTF-8 become U+FFFD; NaN and infinity become null, as JSON has neither.
std::string dump_json(const nlohmann::json& value, int indent = -1);

enum class UnknownKeys { kError, kIgnore };

// Where the values of a configuration come from, for errors.
struct ConfigOrigin {
  ErrorKind kind = ErrorKind::kInput;
  // What an error about a dotted key begins with: "config.json", "configs/kjv.toml:7", "command line".
  std::function<std::string(const std::string& key)> where;
  // Values typed without quotes on a command line, by dotted key: a string field takes the text itself, a list splits
  // it at commas.
  std::map<std::string, std::string> typed;
};

// Fills visited fields from an object. Absent keys and nulls leave a field as it is. A double takes integers too.
// Errors name source, dotted key, wanted and got. `object` must outlive the reader.
class JsonConfigReader : public FieldVisitor {
 public:
  JsonConfigReader(const nlohmann::json& object, ConfigOrigin origin);
  JsonConfigReader(const nlohmann::json& object, const std::string& source);

  void field(std::string_view name, bool& value, std::string_view help = "") override;
  void field(std::string_view name, int64_t& value, std::string_view help = "") override;
  void field(std::string_view name, double& value, std::string_view help = "") override;
  void field(std::string_view name, std::string& value, std::string_view help = "") override;
  void field(std::string_view name, std::vector<int64_t>& value, std::string_view help = "") override;
  void field(std::string_view name, std::vector<std::string>& value, std::string_view help = "") override;
  void section(std::string_view name, const std::function<void(FieldVisitor&)>& fields) override;

  // After the visit: throws for a key that no field asked for, with the nearest name.
  void refuse_unknown_keys() const;

 private:
  struct Level {  // the object being visited and where it stands: "" or "optim."
    const nlohmann::json* object;
    std::string prefix;
  };
  const nlohmann::json* find(std::string_view name);
  const std::string* typed(std::string_view name) const;
  [[noreturn]] void fail_type(std::string_view name, std::string_view wanted, const nlohmann::json& got) const;
  void refuse_unknown_keys(const nlohmann::json& object, const std::string& prefix) const;

  ConfigOrigin origin_;
  Level level_;
  std::vector<std::string> known_;  // dotted keys of all fields and sections seen
};

// Sets visited fields in an object; its other keys stay.
class JsonConfigWriter : public FieldVisitor {
 public:
  explicit JsonConfigWriter(nlohmann::json& object);

  void field(std::string_view name, bool& value, std::string_view help = "") override;
  void field(std::string_view name, int64_t& value, std::string_view help = "") override;
  void field(std::string_view name, double& value, std::string_view help = "") override;
  void field(std::string_view name, std::string& value, std::string_view help = "") override;
  void field(std::string_view name, std::vector<int64_t>& value, std::string_view help = "") override;
  void field(std::string_view name, std::vector<std::string>& value, std::string_view help = "") override;
  void section(std::string_view name, const std::function<void(FieldVisitor&)>& fields) override;

 private:
  nlohmann::json& object_;
};

template <class Config>
void fill_from_json(Config& config, const nlohmann::json& object, const std::string& source,
                    UnknownKeys unknown = UnknownKeys::kError) {
  JsonConfigReader reader(object, source);
  config.visit(reader);
  if (unknown == UnknownKeys::kError) reader.refuse_unknown_keys();
}

template <class Config>
void write_to_json(Config config, nlohmann::json& object) {
  JsonConfigWriter writer(object);
  config.visit(writer);
}

}  // namespace fovea
