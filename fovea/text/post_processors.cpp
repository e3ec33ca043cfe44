// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/text/post_processor.h"
#include "fovea/text/unicode.h"
#include "fovea/text/utf8_step.h"

namespace fovea::text {
namespace {

// Blanks at either end of a token in GPT-2's alphabet, where U+0120 is the blank.
bool is_blank(char32_t c) { return c == 0x120 || is_white_space(c); }

int64_t leading_blanks(std::string_view token) {
  int64_t count = 0;
  for (const char *p = token.data(), *end = p + token.size(); p < end && is_blank(next_character(p));) ++count;
  return count;
}

int64_t trailing_blanks(std::string_view token) {
  int64_t count = 0;
  for (const char* p = token.data() + token.size(); p > token.data(); ++count) {
    p = previous_character(p);
    if (!is_blank(character_at(p))) break;
  }
  return count;
}

// Takes the blanks that belong to byte-level tokens out of their offsets.
void trim_offsets(Encoding& encoding, bool add_prefix_space) {
  for (size_t i = 0; i < encoding.offsets.size(); ++i) {
    auto& [begin, end] = encoding.offsets[i];
    int64_t leading = leading_blanks(encoding.tokens[i]);
    const int64_t trailing = trailing_blanks(encoding.tokens[i]);
    // A single blank of the first token was not in the text.
    if (add_prefix_space && leading == 1 && (i == 0 || begin == 0)) leading = 0;
    begin = std::min(begin + leading, end);
    if (trailing > 0 && end >= trailing) end = std::max(end - trailing, begin);
  }
}

class ByteLevelTrimmer : public PostProcessor {
 public:
  ByteLevelTrimmer(bool trim, bool add_prefix_space) : trim_(trim), add_prefix_space_(add_prefix_space) {}
  void process(std::vector<Encoding>& parts, bool, bool detailed) const override {
    if (!trim_ || !detailed) return;
    for (Encoding& part : parts) trim_offsets(part, add_prefix_space_);
  }

 private:
  bool trim_, add_prefix_space_;
};

// Special tokens around one text and around two.
class Template : public PostProcessor {
 public:
  struct Item {
    int sequence = -1;  // 0, 1; -1: special tokens
    std::vector<SpecialToken> tokens;
    int64_t type_id = 0;
  };
  Template(std::vector<Item> single, std::vector<Item> pair) : single_(std::move(single)), pair_(std::move(pair)) {}

  size_t added_tokens(bool pair) const override {
    size_t count = 0;
    for (const Item& item : pair ? pair_ : single_) count += item.tokens.size();
    return count;
  }

  void process(std::vector<Encoding>& parts, bool add_special_tokens, bool detailed) const override {
    std::vector<Encoding> out;
    for (const Item& item : parts.size() == 2 ? pair_ : single_) {
      if (item.sequence >= 0) {
        Encoding& part = parts[static_cast<size_t>(item.sequence)];
        if (detailed) set_type(part, item.type_id);
        out.push_back(std::move(part));
      } else if (add_special_tokens) {
        out.emplace_back();
        for (const SpecialToken& token : item.tokens) append_special(out.back(), token, item.type_id, detailed);
      }
    }
    parts = std::move(out);
  }

 private:
  std::vector<Item> single_, pair_;
};

std::vector<Template::Item> read_template_items(Fields& fields, std::string_view key,
                                                const std::map<std::string, std::vector<SpecialToken>>& special) {
  std::vector<Template::Item> items;
  bool used[2] = {};
  const nlohmann::json& list = fields.array(key);
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fields.where(key) + "[" + std::to_string(i) + "]";
    Fields choice(list[i], where);
    const bool is_special = choice.has("SpecialToken");
    const std::string kind = is_special ? "SpecialToken" : "Sequence";
    Fields body(choice.at(kind), where + "." + kind);
    Template::Item item;
    item.type_id = body.integer("type_id");
    const std::string id = body.string("id");
    if (is_special) {
      const auto found = special.find(id);
      FOVEA_CHECK_INPUT(found != special.end(), where, ": special_tokens has no \"", id, "\"");
      item.tokens = found->second;
    } else {
      FOVEA_CHECK_INPUT(id == "A" || (id == "B" && key == "pair"), where, ": there is no text \"", id, "\" here");
      item.sequence = id == "B";
      FOVEA_CHECK_INPUT(!std::exchange(used[item.sequence], true), where, ": the text \"", id, "\" comes twice");
    }
    body.finish();
    choice.finish();
    items.push_back(std::move(item));
  }
  FOVEA_CHECK_INPUT(used[0] && (key == "single" || used[1]), fields.where(key), ": wanted every text in it");
  return items;
}

std::vector<SpecialToken> read_special_token(const nlohmann::json& object, const std::string& where) {
  Fields fields(object, where);
  fields.ignore("id");
  const nlohmann::json& ids = fields.array("ids");
  const nlohmann::json& tokens = fields.array("tokens");
  FOVEA_CHECK_INPUT(ids.size() == tokens.size(), where, ": ", ids.size(), " ids for ", tokens.size(), " tokens");
  std::vector<SpecialToken> out;
  for (size_t i = 0; i < ids.size(); ++i) {
    FOVEA_CHECK_INPUT(ids[i].is_number_unsigned() && ids[i].get<uint64_t>() <= INT32_MAX && tokens[i].is_string(),
                      where, ": wanted ids and strings");
    out.push_back({tokens[i].get<std::string>(), ids[i].get<int64_t>()});
  }
  fields.finish();
  return out;
}

class ProcessorSequence : public PostProcessor {
 public:
  explicit ProcessorSequence(std::vector<std::unique_ptr<PostProcessor>> stages) : stages_(std::move(stages)) {}
  size_t added_tokens(bool pair) const override {
    size_t count = 0;
    for (const auto& stage : stages_) count += stage->added_tokens(pair);
    return count;
  }
  void process(std::vector<Encoding>& parts, bool add_special_tokens, bool detailed) const override {
    for (const auto& stage : stages_) stage->process(parts, add_special_tokens, detailed);
  }

 private:
  std::vector<std::unique_ptr<PostProcessor>> stages_;
};

// RoBERTa's <s> A </s> </s> B </s>, with the blanks out of the offsets.
class RobertaProcessor : public PostProcessor {
 public:
  RobertaProcessor(SpecialToken begin, SpecialToken end, bool trim, bool add_prefix_space)
      : template_({{-1, {begin}}, {0}, {-1, {end}}}, {{-1, {begin}}, {0}, {-1, {end, end}}, {1}, {-1, {end}}}),
        trimmer_(trim, add_prefix_space) {}
  size_t added_tokens(bool pair) const override { return template_.added_tokens(pair); }
  void process(std::vector<Encoding>& parts, bool add_special_tokens, bool detailed) const override {
    trimmer_.process(parts, add_special_tokens, detailed);
    template_.process(parts, add_special_tokens, detailed);
  }

 private:
  Template template_;
  ByteLevelTrimmer trimmer_;
};

// ["[SEP]", 102]
SpecialToken read_token_pair(Fields& fields, std::string_view key) {
  const nlohmann::json& pair = fields.at(key);
  const bool fits = pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_number_unsigned() &&
                    pair[1].get<uint64_t>() <= INT32_MAX;
  if (!fits) fields.fail(key, "a token and its id");
  return {pair[0].get<std::string>(), pair[1].get<int64_t>()};
}

}  // namespace

std::unique_ptr<PostProcessor> read_byte_level_trimmer(Fields& fields) {
  fields.ignore("use_regex");
  return std::make_unique<ByteLevelTrimmer>(fields.boolean("trim_offsets"), fields.boolean("add_prefix_space"));
}

std::unique_ptr<PostProcessor> read_template(Fields& fields) {
  std::map<std::string, std::vector<SpecialToken>> special;
  const nlohmann::json& objects = fields.at("special_tokens");
  if (!objects.is_object()) fields.fail("special_tokens", "an object");
  for (const auto& [name, object] : objects.items())
    special[name] = read_special_token(object, fields.where("special_tokens") + "." + name);
  auto single = read_template_items(fields, "single", special);
  auto pair = read_template_items(fields, "pair", special);
  return std::make_unique<Template>(std::move(single), std::move(pair));
}

std::unique_ptr<PostProcessor> read_processor_sequence(Fields& fields) {
  const nlohmann::json& list = fields.array("processors");
  std::vector<std::unique_ptr<PostProcessor>> stages;
  int adding = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fields.where("processors") + "[" + std::to_string(i) + "]";
    stages.push_back(read_post_processor(list[i], where));
    FOVEA_CHECK_INPUT(stages.back() != nullptr, where, ": wanted an object, got null");
    if (stages.back()->added_tokens(true) > 0) ++adding;
    FOVEA_CHECK_INPUT(adding < 2, where, ": a second stage that adds tokens is not supported");
  }
  return std::make_unique<ProcessorSequence>(std::move(stages));
}

std::unique_ptr<PostProcessor> read_bert_processor(Fields& fields) {
  const SpecialToken separator = read_token_pair(fields, "sep"), first = read_token_pair(fields, "cls");
  using Items = std::vector<Template::Item>;
  return std::make_unique<Template>(Items{{-1, {first}}, {0}, {-1, {separator}}},
                                    Items{{-1, {first}}, {0}, {-1, {separator}}, {1, {}, 1}, {-1, {separator}, 1}});
}

std::unique_ptr<PostProcessor> read_roberta_processor(Fields& fields) {
  const SpecialToken separator = read_token_pair(fields, "sep"), first = read_token_pair(fields, "cls");
  return std::make_unique<RobertaProcessor>(first, separator, fields.boolean("trim_offsets"),
                                            fields.boolean("add_prefix_space"));
}

}  // namespace fovea::text
