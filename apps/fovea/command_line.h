// The options of one verb, on a CLI11 parser: texts are taken literally (CLI11 would split "[MASK]" and drop "{}"),
// numbers are checked, and every mistake is an Error(kConfig) that names the option and the nearest known one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "fovea/base/config.h"

namespace fovea {

enum class Need { kOptional, kRequired };

// What help and completion know of an option.
struct OptionInfo {
  std::vector<std::string> names;  // "--model", "-o"; for a positional its kind
  std::string kind;                // "" flag; "DIR", "FILE", "N" …; "bash|zsh|fish": one of these words (lower case)
  std::string help;
  bool positional = false;
  bool many = false;  // a positional that takes all words that are left
  std::vector<std::string> choices() const;
};

class CommandLine {
 public:
  CommandLine(const std::string& verb, const std::string& summary, const std::string& example);
  CommandLine(CommandLine&&) noexcept;
  ~CommandLine();

  // `names`: "--seed" or "-o,--out". The variable keeps its value where the option is not given, and must live as long
  // as parse() runs. The last one counts when an option is given twice; a list takes one value each time it is given.
  void flag(const std::string& names, bool& value, const std::string& help);
  void option(const std::string& names, const std::string& kind, std::string& value, const std::string& help,
              Need need = Need::kOptional);
  void option(const std::string& names, const std::string& kind, int64_t& value, const std::string& help);
  void option(const std::string& names, const std::string& kind, double& value, const std::string& help);
  void option(const std::string& names, const std::string& kind, std::vector<std::string>& value,
              const std::string& help);
  // Whole numbers: one or several, separated by commas, each time.
  void option(const std::string& names, const std::string& kind, std::vector<int64_t>& value, const std::string& help);
  // Words without an option: one, or all there are.
  void positional(const std::string& kind, std::string& value, const std::string& help, Need need = Need::kRequired);
  void positional(const std::string& kind, std::vector<std::string>& value, const std::string& help);
  // An option for every visited field: "max_new_tokens" becomes --max-new-tokens.
  void fields(const std::function<void(FieldVisitor&)>& visit);

  bool given(const std::string& name) const;  // "--seed" stood on the command line

  enum class Parsed { kRun, kHelp };
  Parsed parse(const std::vector<std::string>& arguments);
  std::string help() const;
  std::vector<OptionInfo> options() const;

 private:
  using Values = std::vector<std::string>;
  using Take = std::function<void(const Values&)>;
  struct Parts;
  void add(const std::string& names, const std::string& kind, const std::string& help, Need need, bool list, Take take);
  void refuse_leftovers() const;

  std::unique_ptr<Parts> parts_;
};

}  // namespace fovea
