// JSON of this room: strings written, and a typed reader of the small objects that describe a tokenizer's components.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea::text {

// `text` quoted and escaped. Must be valid UTF-8.
std::string json_string(std::string_view text);

// One object of tokenizer.json. Every error is Error(kInput) and names the file and the path, "pre_tokenizer.pattern".
// A key that nobody asked for is an error of finish(): it might change what the component does.
class Fields {
 public:
  // `where` names the object in messages: "tokenizer.json: decoder". `object` must outlive this.
  Fields(const nlohmann::json& object, std::string where);

  const std::string& where() const { return where_; }
  std::string where(std::string_view key) const { return where_ + "." + std::string(key); }

  bool has(std::string_view key);                  // present and not null
  const nlohmann::json& at(std::string_view key);  // must be present
  bool boolean(std::string_view key);
  bool boolean(std::string_view key, bool otherwise);
  int64_t integer(std::string_view key);  // 0 or more
  int64_t integer(std::string_view key, int64_t otherwise);
  std::string string(std::string_view key);
  std::string string(std::string_view key, std::string otherwise);
  const nlohmann::json& array(std::string_view key);
  void ignore(std::string_view key) { asked_.emplace_back(key); }

  void finish() const;
  [[noreturn]] void fail(std::string_view key, std::string_view wanted) const;

 private:
  const nlohmann::json* find(std::string_view key);

  const nlohmann::json& object_;
  std::string where_;
  std::vector<std::string> asked_;
};

}  // namespace fovea::text
