// Reads a pattern into a tree. //
// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/text/pattern_tree.h"
#include "fovea/text/utf8_step.h"

namespace fovea::text {

namespace {

constexpr uint32_t kUnlimited = UINT32_MAX;

class Parser {
 public:
  Parser(std::string_view pattern, std::string_view source)
      : source_(source), whole_(pattern), p_(pattern.data()), end_(pattern.data() + pattern.size()) {}

  ParsedPattern parse() {
    Tree tree = parse_choice();
    if (p_ != end_) fail("has an unmatched \")\"");
    if (tree.nullable()) fail("can match nothing at all");
    return {std::move(tree), std::move(sets_)};
  }

  ParsedPattern literal() {
    Tree tree{Tree::kSequence};
    while (p_ != end_) tree.parts.push_back(single(next_character(p_)));
    return {std::move(tree), std::move(sets_)};
  }

 private:
  using Tree = PatternTree;
  using Greed = PatternGreed;

  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorKind::kInput, detail::concat(source_, ": the pattern \"", whole_, "\" ", what));
  }
  [[noreturn]] void unsupported(std::string_view construct) const {
    fail(detail::concat("uses ", construct, ", which is not supported"));
  }
  bool accept(std::string_view text) {
    if (!std::string_view(p_, static_cast<size_t>(end_ - p_)).starts_with(text)) return false;
    p_ += text.size();
    return true;
  }
  char32_t take() {
    if (p_ == end_) fail("ends too early");
    return next_character(p_);
  }

  Tree parse_choice() {
    if (++depth_ > 50) fail("nests more than 50 groups");
    Tree choice{Tree::kChoice};
    do choice.parts.push_back(parse_sequence());
    while (accept("|"));
    --depth_;
    return choice.parts.size() == 1 ? std::move(choice.parts[0]) : choice;
  }

  Tree parse_sequence() {
    Tree sequence{Tree::kSequence};
    last_letter_ = 0;
    while (p_ != end_ && *p_ != '|' && *p_ != ')') sequence.parts.push_back(parse_repeat());
    return sequence;
  }

  Tree parse_repeat() {
    Tree atom = parse_atom();
    uint32_t least = 0, most = kUnlimited;
    const bool interval = p_ != end_ && *p_ == '{';
    if (interval) {
      parse_interval(least, most);
    } else if (accept("?")) {
      most = 1;
    } else if (accept("+")) {
      least = 1;
    } else if (!accept("*")) {
      return atom;
    }
    Greed greed = Greed::kGreedy;
    // In Ruby's syntax {2}? and {2}+ are not lazy and possessive.
    if (accept("?")) greed = interval ? (unsupported("\"?\" after an interval"), greed) : Greed::kLazy;
    if (accept("+")) greed = interval ? (unsupported("\"+\" after an interval"), greed) : Greed::kPossessive;
    if (p_ != end_ && (*p_ == '*' || *p_ == '+' || *p_ == '?' || *p_ == '{')) unsupported("a repeat of a repeat");
    if (atom.kind == Tree::kLook) unsupported("a repeated look-ahead");
    if (atom.kind == Tree::kSet) {
      atom.least = least, atom.most = most, atom.greed = greed;
      return atom;
    }
    if (greed == Greed::kPossessive) unsupported("a possessive group");
    if (most > 1 && atom.nullable()) fail("repeats something that may be empty");
    Tree repeat{Tree::kRepeat, 0, least, most, greed, false, {}};
    repeat.parts.push_back(std::move(atom));
    return repeat;
  }

  void parse_interval(uint32_t& least, uint32_t& most) {
    const auto number = [&]() -> std::optional<uint32_t> {
      std::optional<uint32_t> value;
      for (; p_ != end_ && *p_ >= '0' && *p_ <= '9'; ++p_) {
        value = value.value_or(0) * 10 + static_cast<uint32_t>(*p_ - '0');
        if (*value > 1000) unsupported("an interval above 1000");
      }
      return value;
    };
    accept("{");
    const std::optional<uint32_t> first = number();
    std::optional<uint32_t> second = first;
    if (accept(",")) second = number().value_or(kUnlimited);
    const bool named = first || (second && *second != kUnlimited);
    if (!named || !second || !accept("}")) unsupported("a \"{\" that is not an interval (write \"\\{\")");
    least = first.value_or(0), most = *second;
    if (least > most || most == 0) unsupported("an interval that is empty or runs backwards");
  }

  Tree parse_atom() {
    const char32_t c = take();
    if (c == '(') return parse_group();
    if (c == '[') return parse_class();
    if (c == '\\') return parse_escape_atom();
    if (c == '.') {  // all but the line end
      CharacterSet set;
      set.ranges.push_back({'\n', '\n'});
      set.negated = true;
      return add(std::move(set));
    }
    if (c == '^' || c == '$') unsupported(std::string("the anchor \"") + static_cast<char>(c) + '"');
    if (c == '*' || c == '+' || c == '?') fail("repeats nothing");
    if (c == '{') unsupported("a \"{\" that is not an interval (write \"\\{\")");
    return single(c);
  }

  Tree parse_group() {
    const bool outer = ignore_case_;
    Tree tree;
    if (accept("?=") || accept("?!")) {
      tree.kind = Tree::kLook;
      tree.negative = p_[-1] == '!';
      tree.parts.push_back(parse_choice());
    } else if (accept("?i:")) {
      ignore_case_ = true;
      tree = parse_choice();
    } else if (accept("?-i:")) {
      ignore_case_ = false;
      tree = parse_choice();
    } else {
      if (!accept("?:") && accept("?")) unsupported("a group of the kind (?" + std::string(1, p_ == end_ ? ' ' : *p_));
      tree = parse_choice();
    }
    if (!accept(")")) fail("has an unmatched \"(\"");
    ignore_case_ = outer;
    return tree;
  }

  Tree parse_escape_atom() {
    CharacterSet set;
    if (const auto c = parse_escape(set)) return single(*c);
    return add(std::move(set));
  }

  Tree parse_class() {
    CharacterSet set;
    set.negated = accept("^");
    bool empty = true;
    while (!accept("]")) {
      if (p_ == end_) fail("has an unmatched \"[\"");
      if (accept("&&")) unsupported("an intersection of sets (\"&&\")");
      if (*p_ == '[') unsupported("a set inside a set");
      const std::optional<char32_t> first = class_item(set);
      empty = false;
      // "-" at the end stands for itself.
      if (!first || end_ - p_ < 2 || p_[0] != '-' || p_[1] == ']') {
        if (first) add_range(set, *first, *first);
        continue;
      }
      accept("-");
      if (*p_ == '[') unsupported("a set inside a set");
      const std::optional<char32_t> last = class_item(set);
      if (!last || *last < *first) fail("has a range that runs backwards or ends in a class");
      add_range(set, *first, *last);
    }
    if (empty) unsupported("an empty set or \"]\" as a set's first item");
    return add(std::move(set));
  }

  std::optional<char32_t> class_item(CharacterSet& set) {
    const char32_t c = take();
    return c == '\\' ? parse_escape(set) : c;
  }

  // A character, or nothing after adding a class to `set`.
  std::optional<char32_t> parse_escape(CharacterSet& set) {
    const char32_t c = take();
    constexpr std::string_view kNames = "nrtfvae", kValues = "\n\r\t\f\v\a\x1B", kClasses = "sSwWdDpP";
    const auto is_in = [&](std::string_view names) {
      return c < 0x80 && names.find(static_cast<char>(c)) != names.npos;
    };
    if (is_in(kNames)) return static_cast<char32_t>(kValues[kNames.find(static_cast<char>(c))]);
    if (c == 'x') return parse_hex();
    if (c == 'u') return parse_digits(4);
    if (is_in(kClasses)) {
      if (c == 's') set.white_space = true;
      if (c == 'S') set.not_white_space = true;
      if (c == 'w') set.word = true;
      if (c == 'W') set.not_word = true;
      if (c == 'd') set.categories |= *category_set("Nd");
      if (c == 'D') set.categories |= ~*category_set("Nd");
      if (c == 'p' || c == 'P') set.categories |= parse_property(c == 'P');
      return {};
    }
    const bool alphanumeric = c < 0x80 && c != '_' && is_word(c);
    if (alphanumeric) unsupported(std::string("\"\\") + static_cast<char>(c) + '"');
    return c;
  }

  char32_t parse_hex() {
    if (accept("{")) {
      const char32_t value = parse_digits(0);
      if (!accept("}")) fail("has an unfinished \"\\x{\"");
      return value;
    }
    const char32_t value = parse_digits(2);
    if (value > 0x7F) unsupported("\"\\x\" above 7f (write \"\\u\")");
    return value;
  }

  // `count` hexadecimal digits, or up to six where it is 0.
  char32_t parse_digits(int count) {
    char32_t value = 0;
    int digits = 0;
    for (; digits < (count == 0 ? 6 : count) && p_ != end_; ++digits, ++p_) {
      constexpr std::string_view kDigits = "0123456789abcdef0123456789ABCDEF";
      const size_t digit = kDigits.find(*p_);
      if (digit == kDigits.npos) break;
      value = value * 16 + static_cast<char32_t>(digit % 16);
    }
    if (digits == 0 || (count != 0 && digits != count) || value > 0x10FFFF) fail("has a malformed character number");
    return value;
  }

  CategorySet parse_property(bool negative) {
    if (!accept("{")) unsupported("\"\\p\" without braces");
    if (accept("^")) negative = !negative;
    const char* begin = p_;
    while (p_ != end_ && *p_ != '}') ++p_;
    const std::string_view name(begin, static_cast<size_t>(p_ - begin));
    if (!accept("}")) fail("has an unfinished \"\\p{\"");
    const auto set = category_set(name);
    if (!set) unsupported(detail::concat("\"\\p{", name, "}\""));
    const bool cased = (*set & kLetter) != 0 && (*set & kLetter) != kLetter;
    if (ignore_case_ && cased) unsupported("a category that depends on case inside (?i:…)");
    return negative ? ~*set : *set;
  }

  void add_range(CharacterSet& set, char32_t first, char32_t last) {
    set.ranges.push_back({first, last});
    if (!ignore_case_) return;
    if (last > 0x7F) unsupported("a character beyond ASCII inside (?i:…)");
    for (char32_t c = first; c <= last; ++c) {
      const char32_t lower = c | 0x20;
      if (lower < 'a' || lower > 'z') continue;
      set.ranges.push_back({c ^ 0x20, c ^ 0x20});
      if (lower == 's') set.ranges.push_back({0x17F, 0x17F});    // long s
      if (lower == 'k') set.ranges.push_back({0x212A, 0x212A});  // Kelvin
    }
  }

  Tree single(char32_t c) {
    CharacterSet set;
    add_range(set, c, c);
    check_ligatures(c);
    return add(std::move(set));
  }

  // Oniguruma lets "ss", "ff", "fi", "fl", "st" match one character (ß, ﬀ …) where case is ignored.
  void check_ligatures(char32_t c) {
    const char32_t lower = c < 0x80 ? c | 0x20 : c;
    const bool joined = (last_letter_ == 's' && (lower == 's' || lower == 't')) ||
                        (last_letter_ == 'f' && (lower == 'f' || lower == 'i' || lower == 'l'));
    if (ignore_case_ && joined) unsupported("letters inside (?i:…) that may be written as one character");
    last_letter_ = lower;
  }

  Tree add(CharacterSet set) {
    set.finish();
    sets_.push_back(std::move(set));
    Tree tree{Tree::kSet};
    tree.set = static_cast<uint32_t>(sets_.size() - 1);
    return tree;
  }

  std::string source_;
  std::string_view whole_;
  const char* p_;
  const char* end_;
  bool ignore_case_ = false;
  char32_t last_letter_ = 0;
  int depth_ = 0;
  std::vector<CharacterSet> sets_;
};

}  // namespace

ParsedPattern parse_pattern(std::string_view pattern, std::string_view source) {
  return Parser(pattern, source).parse();
}

ParsedPattern literal_pattern(std::string_view text) { return Parser(text, "").literal(); }

}  // namespace fovea::text
