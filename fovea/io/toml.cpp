// The TOML becomes a JSON object plus a map from dotted key to place; JsonConfigReader does the rest.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/io/toml.h"

// Damaged text can reach the parser's assertions; behind each stands an ordinary error, which is what we want. (With NDEBUG
// they would become assumptions.)
#undef NDEBUG
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/io/files.h"

namespace fovea {

using nlohmann::json;

namespace {

constexpr std::string_view kCommandLine = "command line";

std::string at_line(std::string_view source, const toml::source_region& region) {
  return detail::concat(source, ":", region.begin.line);
}

// The end of the string that starts at `begin`, or of its line where it has none.
size_t end_of_string(std::string_view text, size_t begin) {
  const char quote = text[begin];
  const bool multi_line = text.substr(begin, 3) == std::string(3, quote);
  const std::string close(multi_line ? 3 : 1, quote);
  size_t i = begin + close.size();
  while (i < text.size() && text.substr(i, close.size()) != close) {
    if (text[i] == '\n' && !multi_line) return i;
    i += text[i] == '\\' && quote == '"' ? 2 : 1;
  }
  i = std::min(i + close.size(), text.size());
  while (multi_line && i < text.size() && text[i] == quote) ++i;  // up to two quotes may touch the closing ones
  return i;
}

// toml++ 3.3 runs into undefined behaviour (is_non_ascii_horizontal_whitespace) on letters such as é or か outside
// strings and comments, where TOML allows ASCII alone. Returns where such a thing stands, or npos. A quote in an
// unexpected place counts too: there the parser would not see a string.
size_t find_stray_text(std::string_view text) {
  char before = '\n';  // the last character that is not blank
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
    } else if (c == '"' || c == '\'') {
      if (std::string_view("\n=[,.{").find(before) == std::string_view::npos) return i;
      before = c;
      i = end_of_string(text, i);
    } else {
      if (static_cast<unsigned char>(c) >= 0x80) return i;
      if (c != ' ' && c != '\t' && c != '\r') before = c;
      ++i;
    }
  }
  return std::string_view::npos;
}

toml::table parse_toml(std::string_view text, std::string_view source) {
  if (const size_t stray = find_stray_text(text); stray != text.npos) {
    const auto line = 1 + std::count(text.begin(), text.begin() + stray, '\n');
    size_t end = stray;
    const bool is_ascii = decode_utf8(text, end) < 0x80;
    throw Error(ErrorKind::kConfig, detail::concat(source, ":", line, ": unexpected ", text.substr(stray, end - stray),
                                                   is_ascii ? "" : " outside quotes"));
  }
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorKind::kConfig, detail::concat(at_line(source, error.source()), ":", error.source().begin.column,
                                                   ": ", error.description()));
  }
}

// `where` (optional) receives the place of every key, dotted.
class Converter {
 public:
  Converter(std::string_view source, std::map<std::string, std::string>* where) : source_(source), where_(where) {}

  json convert(const toml::node& node, const std::string& key) {
    switch (node.type()) {
      case toml::node_type::table:
        return convert_table(*node.as_table(), key);
      case toml::node_type::array: {
        json out = json::array();
        for (const auto& element : *node.as_array()) out.push_back(convert(element, key));
        return out;
      }
      case toml::node_type::string:
        return node.as_string()->get();
      case toml::node_type::integer:
        return node.as_integer()->get();
      case toml::node_type::floating_point:
        return node.as_floating_point()->get();
      case toml::node_type::boolean:
        return node.as_boolean()->get();
      default:
        throw Error(ErrorKind::kConfig, detail::concat(at_line(source_, node.source()), ": \"", key,
                                                       "\" is a date or time; put it in quotes to mean a text"));
    }
  }

 private:
  json convert_table(const toml::table& table, const std::string& prefix) {
    json out = json::object();
    for (const auto& [name, value] : table) {
      const std::string key = (prefix.empty() ? "" : prefix + ".") + std::string(name.str());
      // A table made by a dotted key has no place of its own; its key does.
      if (where_ != nullptr) (*where_)[key] = at_line(source_, name.source());
      out[std::string(name.str())] = convert(value, key);
    }
    return out;
  }

  std::string_view source_;
  std::map<std::string, std::string>* where_;
};

std::string_view trim(std::string_view text) {
  const size_t first = std::min(text.find_first_not_of(" \t"), text.size());
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

// A value as TOML writes it, or nothing.
std::optional<json> parse_value(std::string_view text) {
  if (text.find('\n') != text.npos) return std::nullopt;  // would be more than a value
  try {
    const toml::table table = parse_toml(detail::concat("value = ", text), kCommandLine);
    return Converter(kCommandLine, nullptr).convert(*table.get("value"), "value");
  } catch (const Error&) {  // no TOML, or a date: typed without quotes it is a text
    return std::nullopt;
  }
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04X", byte);
      out += escape;
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string format(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;  // the shortest that reads back equal
  std::string out(digits, end);
  if (const size_t zero = out.find("e-0"); zero != out.npos) out.erase(zero + 2, 1);  // 3e-04 -> 3e-4
  return out.find_first_of(".e") == out.npos ? out + ".0" : out;
}

std::string bare_or_quoted(std::string_view name) {
  const auto bare = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-'; };
  return !name.empty() && std::all_of(name.begin(), name.end(), bare) ? std::string(name) : quote(name);
}

// One table: its own lines come first, as TOML wants, then its sections.
class Dumper : public FieldVisitor {
 public:
  explicit Dumper(std::string path) : path_(std::move(path)) {}

  void field(std::string_view name, bool& value, std::string_view help) override {
    add(name, value ? "true" : "false", help);
  }
  void field(std::string_view name, int64_t& value, std::string_view help) override {
    add(name, std::to_string(value), help);
  }
  void field(std::string_view name, double& value, std::string_view help) override { add(name, format(value), help); }
  void field(std::string_view name, std::string& value, std::string_view help) override {
    add(name, quote(value), help);
  }
  void field(std::string_view name, std::vector<int64_t>& value, std::string_view help) override {
    add_list(
        name, value, [](int64_t element) { return std::to_string(element); }, help);
  }
  void field(std::string_view name, std::vector<std::string>& value, std::string_view help) override {
    add_list(name, value, quote, help);
  }
  void section(std::string_view name, const std::function<void(FieldVisitor&)>& fields) override {
    Dumper inner((path_.empty() ? "" : path_ + ".") + bare_or_quoted(name));
    fields(inner);
    sections_ += inner.text();
  }

  std::string text() const {
    size_t width = 0;
    for (const auto& [assignment, help] : lines_) width = std::max(width, std::min<size_t>(assignment.size(), 40));
    std::string out = path_.empty() ? "" : "\n[" + path_ + "]\n";
    for (const auto& [assignment, help] : lines_) {
      out += assignment;
      if (!help.empty()) out.append(width > assignment.size() ? width - assignment.size() : 0, ' ') += "  # " + help;
      out += '\n';
    }
    return out + sections_;
  }

 private:
  void add(std::string_view name, const std::string& value, std::string_view help) {
    std::string comment(help);
    std::replace(comment.begin(), comment.end(), '\n', ' ');
    lines_.emplace_back(bare_or_quoted(name) + " = " + value, comment);
  }
  template <class Element, class Format>
  void add_list(std::string_view name, const std::vector<Element>& list, Format format_one, std::string_view help) {
    std::string out;
    for (const auto& element : list) out += (out.empty() ? "" : ", ") + format_one(element);
    add(name, "[" + out + "]", help);
  }

  std::string path_;
  std::vector<std::pair<std::string, std::string>> lines_;  // "key = value", help
  std::string sections_;
};

}  // namespace

struct TomlConfig::Tree {
  json root = json::object();
  std::map<std::string, std::string> where;  // dotted key -> "configs/kjv.toml:7"
  std::map<std::string, std::string> typed;  // dotted key -> unquoted text of an override
  std::string source = "configuration";

  std::string place(const std::string& key) const {
    const auto found = where.find(key);
    return found == where.end() ? source : found->second;
  }
};

TomlConfig::TomlConfig() : tree_(std::make_unique<Tree>()) {}
TomlConfig::TomlConfig(TomlConfig&&) noexcept = default;
TomlConfig& TomlConfig::operator=(TomlConfig&&) noexcept = default;
TomlConfig::~TomlConfig() = default;

TomlConfig TomlConfig::read(const std::filesystem::path& path) {
  std::string text;
  try {
    text = read_text(path, "configuration");
  } catch (const Error& error) {
    throw Error(error.kind() == ErrorKind::kInput ? ErrorKind::kConfig : error.kind(), error.what());
  }
  return parse(text, path.native());
}

TomlConfig TomlConfig::parse(std::string_view text, std::string source) {
  TomlConfig out;
  out.tree_->source = source;
  out.tree_->root = Converter(source, &out.tree_->where).convert(parse_toml(text, source), "");
  return out;
}

void TomlConfig::override_with(std::string_view assignment) {
  const size_t equals = assignment.find('=');
  const std::string key(trim(assignment.substr(0, std::min(equals, assignment.size()))));
  FOVEA_CHECK_CONFIG(equals != assignment.npos, kCommandLine, ": \"", assignment, "\" is not of the form key=value");
  const size_t invalid = find_invalid_utf8(assignment);
  FOVEA_CHECK_CONFIG(invalid == assignment.npos, kCommandLine, ": invalid UTF-8 at byte ", invalid, " of \"", key,
                     "=…\"");

  json* node = &tree_->root;
  for (size_t begin = 0, end = 0; end < key.size() || begin == 0; begin = end + 1) {
    end = std::min(key.find('.', begin), key.size());
    const std::string name = key.substr(begin, end - begin);
    FOVEA_CHECK_CONFIG(!name.empty(), kCommandLine, ": \"", key, "\" has an empty part");
    FOVEA_CHECK_CONFIG(node->is_object(), kCommandLine, ": unknown key \"", key, "\": \"", key.substr(0, begin - 1),
                       "\" is a value, not a section (", tree_->place(key.substr(0, begin - 1)), ")");
    const bool is_new = !node->contains(name);
    node = &(*node)[name];
    if (is_new) *node = json::object(), tree_->where[key.substr(0, end)] = kCommandLine;
    if (end == key.size()) break;
  }
  FOVEA_CHECK_CONFIG(!node->is_object() || node->empty(), kCommandLine, ": \"", key,
                     "\" is a section; set its fields one by one, as in ", key, ".", node->begin().key(), "=…");

  const std::string text(trim(assignment.substr(equals + 1)));
  const auto value = parse_value(text);
  *node = value.value_or(json(text));
  tree_->where[key] = kCommandLine;
  if (value && value->is_string()) {
    tree_->typed.erase(key);
  } else {
    tree_->typed[key] = text;
  }
}

void TomlConfig::fill(const Visit& visit, UnknownKeys unknown) const {
  JsonConfigReader reader(tree_->root, {.kind = ErrorKind::kConfig,
                                        .where = [this](const std::string& key) { return tree_->place(key); },
                                        .typed = tree_->typed});
  visit(reader);
  if (unknown == UnknownKeys::kError) reader.refuse_unknown_keys();
}

std::string dump_toml(const TomlConfig::Visit& visit) {
  Dumper dumper("");
  visit(dumper);
  std::string text = dumper.text();
  if (text.starts_with('\n')) text.erase(0, 1);
  return text;
}

}  // namespace fovea
