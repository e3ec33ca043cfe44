// JSON files behind a few functions, and visited configurations (base/config.h) from and to JSON objects.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/config.h"

namespace fovea {

// Error(kInput) `config.json:3:14: …` with line and column; `source` names the text. Beyond nlohmann's own checks: a
// key given twice in one object and nesting deeper than 500 are errors.
nlohmann::json parse_json(std::string_view text, std::string_view source);
// read_text + parse_json.
nlohmann::json read_json(const std::filesystem::path& path, std::string_view what = "file");

// indent -1: one line. Bytes that are not UTF-8 become U+FFFD; NaN and infinity become null, as JSON has neither.
std::string dump_json(const nlohmann::json& value, int indent = -1);

enum class UnknownKeys { kError, kIgnore };

// Fills visited fields from an object. Absent keys and nulls leave a field as it is. A double takes integers too.
// Errors are Error(kInput) that name source, dotted key, wanted and got. `object` must outlive the reader.
class JsonConfigReader : public FieldVisitor {
 public:
  JsonConfigReader(const nlohmann::json& object, std::string source);
  ~JsonConfigReader() override;

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
  struct State;
  const nlohmann::json* find(std::string_view name);
  std::unique_ptr<State> state_;
};

// Builds an object from visited fields, in no particular order (nlohmann sorts keys).
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
void fill_from_json(Config& config, const nlohmann::json& object, std::string source,
                    UnknownKeys unknown = UnknownKeys::kError) {
  JsonConfigReader reader(object, std::move(source));
  config.visit(reader);
  if (unknown == UnknownKeys::kError) reader.refuse_unknown_keys();
}

// Sets the visited fields in `object` and leaves its other keys alone.
template <class Config>
void write_to_json(Config config, nlohmann::json& object) {
  JsonConfigWriter writer(object);
  config.visit(writer);
}

}  // namespace fovea
