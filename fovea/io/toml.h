// Recipes: a TOML file plus overrides from the command line fill visited configurations (base/config.h), and back.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "fovea/base/config.h"
#include "fovea/io/json.h"

namespace fovea {

// All errors are Error(kConfig) and name where the value stands: `configs/kjv.toml:7: …` or `command line: …`.
class TomlConfig {
 public:
  using Visit = std::function<void(FieldVisitor&)>;

  TomlConfig();  // empty: defaults and overrides only
  TomlConfig(TomlConfig&&) noexcept;
  TomlConfig& operator=(TomlConfig&&) noexcept;
  ~TomlConfig();
  static TomlConfig read(const std::filesystem::path& path);
  static TomlConfig parse(std::string_view text, std::string source);

  // "optim.learning_rate=3e-4": beats the file; the last one for a key wins. The value is TOML; where that fails, or
  // the field is a string, the text itself (model.position=rope). Lists may go without brackets: data.files=a.txt,b.txt
  void override_with(std::string_view assignment);

  // Sets every visited field that the file or an override names; the others keep their values. A double takes integers.
  // Unknown keys: `configs/kjv.toml:7: unknown key "optim.leaning_rate"; did you mean "optim.learning_rate"?`
  void fill(const Visit& visit, UnknownKeys unknown = UnknownKeys::kError) const;
  template <class Config>
  requires requires(Config& config, FieldVisitor& visitor) { config.visit(visitor); }
  void fill(Config& config, UnknownKeys unknown = UnknownKeys::kError) const {
    fill([&](FieldVisitor& visitor) { config.visit(visitor); }, unknown);
  }

 private:
  struct Tree;
  std::unique_ptr<Tree> tree_;
};

// Every field with its value, sections as tables, help as trailing comments. TomlConfig reads it back to equal values.
std::string dump_toml(const TomlConfig::Visit& visit);
template <class Config>
requires requires(Config& config, FieldVisitor& visitor) { config.visit(visitor); }
std::string dump_toml(Config config) {
  return dump_toml([&](FieldVisitor& visitor) { config.visit(visitor); });
}

}  // namespace fovea
