// SPDX-License-Identifier: Apache-2.0
#include "fovea/io/json.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/base/utf8.h"
#include "fovea/io/files.h"

namespace fovea {
namespace {

using nlohmann::json;

// The head of a text that may be long, cut at a whole character.
std::string shorten(const std::string& text, size_t most) {
  if (text.size() <= most) return text;
  return text.substr(0, complete_utf8_prefix(std::string_view(text).substr(0, most))) + "…";
}

// Builds the value while parsing. Unlike nlohmann's own builder it refuses what it would silently resolve: a key given
// twice (the last would win) and nesting without end.
class Builder : public json::json_sax_t {
 public:
  Builder(std::string_view text, std::string_view source, json& root) : text_(text), source_(source), root_(root) {}

  bool null() override { return add(nullptr), true; }
  bool boolean(bool value) override { return add(value), true; }
  bool number_integer(int64_t value) override { return add(value), true; }
  bool number_unsigned(uint64_t value) override { return add(value), true; }
  bool number_float(double value, const std::string&) override { return add(value), true; }
  bool string(std::string& value) override { return add(std::move(value)), true; }
  bool binary(json::binary_t&) override { return false; }  // not in text
  bool start_object(size_t) override { return open(json::object()); }
  bool end_object() override { return open_.pop_back(), true; }
  bool start_array(size_t) override { return open(json::array()); }
  bool end_array() override { return open_.pop_back(), true; }

  bool key(std::string& name) override {
    auto& object = open_.back()->get_ref<json::object_t&>();
    const auto [place, added] = object.emplace(std::move(name), nullptr);
    FOVEA_CHECK_INPUT(added, source_, ": key \"", shorten(place->first, 80), "\" is given twice in one object");
    slot_ = &place->second;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const json::exception& error) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error …"
    std::string message = error.what();
    if (const size_t end = message.find("] "); message.starts_with("[") && end != message.npos)
      message.erase(0, end + 2);
    if (const size_t end = message.find(": "); message.starts_with("parse error") && end != message.npos)
      message.erase(0, end + 2);
    const std::string_view before = text_.substr(0, std::min(text_.size(), std::max<size_t>(position, 1) - 1));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const size_t column = before.size() - (before.rfind('\n') + 1) + 1;  // npos + 1 is 0
    throw Error(ErrorKind::kInput, detail::concat(source_, ":", line, ":", column, ": ", shorten(message, 200)));
  }

 private:
  json& add(json value) {
    if (open_.empty()) return root_ = std::move(value);
    if (open_.back()->is_object()) return *slot_ = std::move(value);
    auto& array = open_.back()->get_ref<json::array_t&>();
    return array.emplace_back(std::move(value));
  }
  bool open(json container) {
    FOVEA_CHECK_INPUT(open_.size() < 500, source_, ": more than 500 objects or lists inside each other");
    open_.push_back(&add(std::move(container)));
    return true;
  }

  std::string_view text_, source_;
  json& root_;
  std::vector<json*> open_;  // an element's container does not grow while the element is open: no pointer goes stale
  json* slot_ = nullptr;
};

std::string describe(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    case json::value_t::string:
      return "the string \"" + shorten(value.get_ref<const std::string&>(), 60) + "\"";
    case json::value_t::array:
      return "a list";
    case json::value_t::object:
      return "a section";
    case json::value_t::number_float:
      return "the number " + detail::concat(value.get<double>());
    default:
      return "the integer " + value.dump();
  }
}

bool fits_int64(const json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= uint64_t{std::numeric_limits<int64_t>::max()};
  return value.is_number_integer();
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> out;
  for (size_t begin = 0; begin <= text.size() && !text.empty();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const size_t first = std::min(part.find_first_not_of(' '), part.size());
    out.push_back(part.substr(first, part.find_last_not_of(' ') + 1 - first));
    begin = end + 1;
  }
  return out;
}

// `1,2,3`: false where a part is not an integer.
bool parse_integers(const std::string& text, std::vector<int64_t>& out) {
  for (const auto& part : split_at_commas(text)) {
    const char* end = part.data() + part.size();
    const auto result = std::from_chars(part.data(), end, out.emplace_back());
    if (result.ec != std::errc() || result.ptr != end) return false;
  }
  return true;
}

// A misspelt name of the same section, else such a name of another one, else all that the section knows.
std::string suggest_key(const std::string& key, const std::vector<std::string>& known) {
  const size_t leaf = key.rfind('.') + 1;  // npos + 1 is 0
  const std::string name = key.substr(leaf);
  std::vector<std::string> here, elsewhere;  // names without their section
  for (const auto& path : known) {
    const bool same_section = path.rfind('.') + 1 == leaf && path.compare(0, leaf, key, 0, leaf) == 0;
    (same_section ? here : elsewhere).push_back(path.substr(path.rfind('.') + 1));
  }
  std::string near = nearest(name, here);
  if (!near.empty()) return "; did you mean \"" + key.substr(0, leaf) + near + "\"?";
  if (near = nearest(name, elsewhere); !near.empty())
    for (const auto& path : known)
      if (path == near || path.ends_with("." + near)) return "; did you mean \"" + path + "\"?";
  return suggestion(name, here);
}

}  // namespace

json parse_json(std::string_view text, std::string_view source) {
  check_utf8(text, source);
  json root;
  Builder builder(text, source, root);
  json::sax_parse(text.begin(), text.end(), &builder);
  return root;
}

json read_json(const std::filesystem::path& path, std::string_view what) {
  return parse_json(read_text(path, what), path.native());
}

std::string dump_json(const json& value, int indent) {
  return value.dump(indent, ' ', false, json::error_handler_t::replace);
}

JsonConfigReader::JsonConfigReader(const json& object, ConfigOrigin origin)
    : origin_(std::move(origin)), level_{&object, ""} {
  if (!object.is_object()) throw Error(origin_.kind, origin_.where("") + ": wanted an object, got " + describe(object));
}

JsonConfigReader::JsonConfigReader(const json& object, const std::string& source)
    : JsonConfigReader(object, ConfigOrigin{.where = [source](const std::string&) { return source; }, .typed = {}}) {}

// The value of a field, or null where the field keeps its own.
const json* JsonConfigReader::find(std::string_view name) {
  known_.push_back(level_.prefix + std::string(name));
  const auto found = level_.object->find(name);
  return found == level_.object->end() || found->is_null() ? nullptr : &*found;
}

const std::string* JsonConfigReader::typed(std::string_view name) const {
  const auto found = origin_.typed.find(level_.prefix + std::string(name));
  return found == origin_.typed.end() ? nullptr : &found->second;
}

void JsonConfigReader::fail_type(std::string_view name, std::string_view wanted, const json& got) const {
  const std::string key = level_.prefix + std::string(name);
  throw Error(origin_.kind,
              detail::concat(origin_.where(key), ": \"", key, "\": wanted ", wanted, ", got ", describe(got)));
}

void JsonConfigReader::field(std::string_view name, bool& value, std::string_view) {
  const json* found = find(name);
  if (found == nullptr) return;
  if (!found->is_boolean()) fail_type(name, "true or false", *found);
  value = found->get<bool>();
}

void JsonConfigReader::field(std::string_view name, int64_t& value, std::string_view) {
  const json* found = find(name);
  if (found == nullptr) return;
  if (!fits_int64(*found)) fail_type(name, "an integer", *found);
  value = found->get<int64_t>();
}

void JsonConfigReader::field(std::string_view name, double& value, std::string_view) {
  const json* found = find(name);
  if (found == nullptr) return;
  if (!found->is_number()) fail_type(name, "a number", *found);
  value = found->get<double>();
}

void JsonConfigReader::field(std::string_view name, std::string& value, std::string_view) {
  const json* found = find(name);
  if (found == nullptr) return;
  if (const std::string* text = typed(name)) {
    value = *text;
    return;
  }
  if (!found->is_string()) fail_type(name, "a string", *found);
  value = found->get<std::string>();
}

void JsonConfigReader::field(std::string_view name, std::vector<int64_t>& value, std::string_view) {
  const json* found = find(name);
  if (found == nullptr) return;
  std::vector<int64_t> list;
  if (!found->is_array()) {
    const std::string* text = typed(name);
    if (text == nullptr || !parse_integers(*text, list)) fail_type(name, "a list of integers", *found);
  } else {
    for (const json& element : *found) {
      if (!fits_int64(element)) fail_type(name, "a list of integers", element);
      list.push_back(element.get<int64_t>());
    }
  }
  value = std::move(list);
}

void JsonConfigReader::field(std::string_view name, std::vector<std::string>& value, std::string_view) {
  const json* found = find(name);
  if (found == nullptr) return;
  if (const std::string* text = typed(name); text != nullptr && !found->is_array()) {
    value = split_at_commas(*text);
    return;
  }
  if (!found->is_array()) fail_type(name, "a list of strings", *found);
  std::vector<std::string> list;
  for (const json& element : *found) {
    if (!element.is_string()) fail_type(name, "a list of strings", element);
    list.push_back(element.get<std::string>());
  }
  value = std::move(list);
}

void JsonConfigReader::section(std::string_view name, const std::function<void(FieldVisitor&)>& fields) {
  static const json kEmpty = json::object();
  const json* found = find(name);
  if (found != nullptr && !found->is_object()) fail_type(name, "a section", *found);
  const Level outer = level_;
  level_ = {found != nullptr ? found : &kEmpty, outer.prefix + std::string(name) + "."};
  fields(*this);
  level_ = outer;
}

void JsonConfigReader::refuse_unknown_keys() const { refuse_unknown_keys(*level_.object, ""); }

void JsonConfigReader::refuse_unknown_keys(const json& object, const std::string& prefix) const {
  for (const auto& [name, value] : object.items()) {
    const std::string key = prefix + name;
    if (std::find(known_.begin(), known_.end(), key) == known_.end())
      throw Error(origin_.kind,
                  detail::concat(origin_.where(key), ": unknown key \"", key, "\"", suggest_key(key, known_)));
    if (value.is_object()) refuse_unknown_keys(value, key + ".");
  }
}

JsonConfigWriter::JsonConfigWriter(json& object) : object_(object) {
  if (object_.is_null()) object_ = json::object();
}

void JsonConfigWriter::field(std::string_view name, bool& value, std::string_view) {
  object_[std::string(name)] = value;
}
void JsonConfigWriter::field(std::string_view name, int64_t& value, std::string_view) {
  object_[std::string(name)] = value;
}
void JsonConfigWriter::field(std::string_view name, double& value, std::string_view) {
  object_[std::string(name)] = value;
}
void JsonConfigWriter::field(std::string_view name, std::string& value, std::string_view) {
  object_[std::string(name)] = value;
}
void JsonConfigWriter::field(std::string_view name, std::vector<int64_t>& value, std::string_view) {
  object_[std::string(name)] = value;
}
void JsonConfigWriter::field(std::string_view name, std::vector<std::string>& value, std::string_view) {
  object_[std::string(name)] = value;
}
void JsonConfigWriter::section(std::string_view name, const std::function<void(FieldVisitor&)>& fields) {
  JsonConfigWriter inner(object_[std::string(name)]);
  fields(inner);
}

}  // namespace fovea
