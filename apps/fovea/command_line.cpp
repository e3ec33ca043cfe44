// SPDX-License-Identifier: Apache-2.0
#include "apps/fovea/command_line.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <sstream>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/base/utf8.h"

namespace fovea {
namespace {

// So many positionals that CLI11 never thinks it has enough; its own "any number" would split words at brackets.
constexpr int kPlenty = 1 << 20;
constexpr size_t kHelpColumn = 28;

template <class Number>
Number to_number(const std::string& option, const std::string& text, const char* wanted) {
  Number out{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  FOVEA_CHECK_CONFIG(error == std::errc() && end == text.data() + text.size(), option, " is \"", text, "\", wanted ",
                     wanted);
  return out;
}
constexpr const char* kWhole = "a whole number";

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) out.push_back(part);
  return out;
}

std::vector<std::string> choices_of(const std::string& kind) {
  const bool words = kind.find('|') != std::string::npos &&
                     std::none_of(kind.begin(), kind.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  return words ? split(kind, '|') : std::vector<std::string>();
}

// The long name, which messages use.
std::string long_name(const std::string& names) { return names.substr(names.find_last_of(',') + 1); }

// CLI11 would take the next word as the value of "--prompt=".
std::vector<std::string> with_empty_values(const std::vector<std::string>& arguments) {
  std::vector<std::string> out;
  bool options = true;
  for (const std::string& word : arguments) {
    options = options && word != "--";
    const bool empty_value = options && word.starts_with("--") && word.find('=') == word.size() - 1;
    out.push_back(empty_value ? word.substr(0, word.size() - 1) : word);
    if (empty_value) out.emplace_back();
  }
  return out;
}

class OptionMaker : public FieldVisitor {
 public:
  explicit OptionMaker(CommandLine& line) : line_(line) {}

  void field(std::string_view name, bool& value, std::string_view help) override {
    line_.flag(option(name), value, std::string(help));
  }
  void field(std::string_view name, int64_t& value, std::string_view help) override {
    line_.option(option(name), "N", value, with_default(help, std::to_string(value)));
  }
  void field(std::string_view name, double& value, std::string_view help) override {
    line_.option(option(name), "X", value, with_default(help, detail::concat(value)));
  }
  void field(std::string_view name, std::string& value, std::string_view help) override {
    line_.option(option(name), "TEXT", value, with_default(help, value));
  }
  void field(std::string_view name, std::vector<int64_t>& value, std::string_view help) override {
    line_.option(option(name), "N,N…", value, std::string(help));
  }
  void field(std::string_view name, std::vector<std::string>& value, std::string_view help) override {
    line_.option(option(name), "TEXT", value, std::string(help) + " (may be repeated)");
  }
  void section(std::string_view name, const std::function<void(FieldVisitor&)>& fields) override {
    const std::string outer = prefix_;
    prefix_ += std::string(name) + "-";
    fields(*this);
    prefix_ = outer;
  }

 private:
  std::string option(std::string_view name) const {
    std::string out = "--" + prefix_ + std::string(name);
    std::replace(out.begin(), out.end(), '_', '-');
    return out;
  }
  static std::string with_default(std::string_view help, const std::string& value) {
    return std::string(help) + (value.empty() ? "" : " [" + value + "]");
  }
  CommandLine& line_;
  std::string prefix_;
};

}  // namespace

struct CommandLine::Parts {
  std::string verb, summary, example;
  CLI::App app;
  std::vector<OptionInfo> options;
};

CommandLine::CommandLine(const std::string& verb, const std::string& summary, const std::string& example)
    : parts_(new Parts{verb, summary, example, CLI::App(summary, "fovea " + verb), {}}) {
  parts_->options.push_back({{"-h", "--help"}, "", "show this and end"});
}
CommandLine::CommandLine(CommandLine&&) noexcept = default;
CommandLine::~CommandLine() = default;

void CommandLine::flag(const std::string& names, bool& value, const std::string& help) {
  parts_->app.add_flag_function(names, [&value](int64_t count) { value = count > 0; })->disable_flag_override();
  parts_->options.push_back({split(names, ','), "", help});
}

void CommandLine::add(const std::string& names, const std::string& kind, const std::string& help, Need need, bool list,
                      Take take) {
  const auto callback = [take = std::move(take)](const CLI::results_t& values) { return take(values), true; };
  CLI::Option* option = parts_->app.add_option(names, CLI::callback_t(callback));
  option->type_name(kind)->required(need == Need::kRequired);
  option->multi_option_policy(list ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
  const bool positional = option->get_positional();
  if (positional && list) option->expected(kPlenty, CLI::detail::expected_max_vector_size);
  parts_->options.push_back({split(names, ','), kind, help, positional, positional && list});
}

void CommandLine::option(const std::string& names, const std::string& kind, std::string& value, const std::string& help,
                         Need need) {
  add(names, kind, help, need, false, [&value, names, choices = choices_of(kind)](const Values& given) {
    FOVEA_CHECK_CONFIG(choices.empty() || std::count(choices.begin(), choices.end(), given[0]), long_name(names),
                       " is \"", given[0], "\"", suggestion(given[0], choices));
    value = given[0];
  });
}

void CommandLine::option(const std::string& names, const std::string& kind, int64_t& value, const std::string& help) {
  add(names, kind, help, Need::kOptional, false,
      [&value, names](const Values& given) { value = to_number<int64_t>(long_name(names), given[0], kWhole); });
}

void CommandLine::option(const std::string& names, const std::string& kind, double& value, const std::string& help) {
  add(names, kind, help, Need::kOptional, false,
      [&value, names](const Values& given) { value = to_number<double>(long_name(names), given[0], "a number"); });
}

void CommandLine::option(const std::string& names, const std::string& kind, std::vector<std::string>& value,
                         const std::string& help) {
  add(names, kind, help, Need::kOptional, true, [&value](const Values& given) { value = given; });
}

void CommandLine::option(const std::string& names, const std::string& kind, std::vector<int64_t>& value,
                         const std::string& help) {
  add(names, kind, help, Need::kOptional, true, [&value, names](const Values& given) {
    value.clear();
    for (const std::string& text : given)
      for (const std::string& part : split(text, ','))
        value.push_back(to_number<int64_t>(long_name(names), part, kWhole));
  });
}

void CommandLine::positional(const std::string& kind, std::string& value, const std::string& help, Need need) {
  add(kind, kind, help, need, false, [&value](const Values& given) { value = given[0]; });
}

void CommandLine::positional(const std::string& kind, std::vector<std::string>& value, const std::string& help) {
  add(kind, kind, help, Need::kOptional, true, [&value](const Values& given) { value = given; });
}

void CommandLine::fields(const std::function<void(FieldVisitor&)>& visit) {
  OptionMaker maker(*this);
  visit(maker);
}

bool CommandLine::given(const std::string& name) const { return parts_->app.count(name) > 0; }

CommandLine::Parsed CommandLine::parse(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = with_empty_values(arguments);
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  try {
    parts_->app.parse(std::move(words));
  } catch (const CLI::CallForHelp&) {
    return Parsed::kHelp;
  } catch (const CLI::ParseError& error) {
    refuse_leftovers();
    const std::string message = error.what();
    const size_t flag = message.find(" was given a disallowed flag override");
    throw Error(ErrorKind::kConfig,
                flag == std::string::npos ? message : "--" + message.substr(0, flag) + " takes no value");
  }
  return Parsed::kRun;
}

// An unknown option explains more than what is missing because of it.
void CommandLine::refuse_leftovers() const {
  std::vector<std::string> known;
  for (const OptionInfo& option : parts_->options)
    if (!option.positional) known.insert(known.end(), option.names.begin(), option.names.end());
  for (const std::string& word : parts_->app.remaining()) {
    if (word == "--") continue;
    if (word.starts_with("-") && word.size() > 1) {
      const std::string name = word.substr(0, word.find('='));
      const std::string near = nearest(name, known);
      throw Error(ErrorKind::kConfig,
                  "unknown option \"" + name + "\"" + (near.empty() ? "" : "; did you mean \"" + near + "\"?"));
    }
  }
  for (const std::string& word : parts_->app.remaining())
    FOVEA_CHECK_CONFIG(word == "--", "unexpected argument \"", word, "\"");
}

std::vector<std::string> OptionInfo::choices() const { return choices_of(kind); }

std::vector<OptionInfo> CommandLine::options() const { return parts_->options; }

std::string CommandLine::help() const {
  std::string usage = "Usage: fovea " + parts_->verb + " [options]";
  std::string listed;
  for (const OptionInfo& option : parts_->options) {
    const CLI::Option* known = parts_->app.get_option(option.names.back());
    std::string left;
    for (const std::string& name : option.names) left += (left.empty() ? "" : ", ") + name;
    if (!option.positional && !option.kind.empty()) left += " " + option.kind;
    if (option.positional) {
      usage += " " + (known->get_required() ? left : "[" + left + (option.many ? " …]" : "]"));
    } else if (known->get_required()) {
      usage += " " + left.substr(left.find("--"));
    }
    const size_t columns = count_code_points(left) + 2;
    left = "  " + left +
           (columns + 2 > kHelpColumn ? "\n" + std::string(kHelpColumn, ' ') : std::string(kHelpColumn - columns, ' '));
    listed += left + option.help + "\n";
  }
  std::string examples;
  for (const std::string& line : split(parts_->example, '\n')) examples += "  " + line + "\n";
  return "fovea " + parts_->verb + ": " + parts_->summary + "\n\n" + usage + "\n\n" + listed + "\nExample:\n" +
         examples;
}

}  // namespace fovea
