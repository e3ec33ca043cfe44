// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <set>

#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/text/tokenizer_file.h"
#include "fovea/text/training.h"
#include "fovea/text/utf8_step.h"

namespace fovea {

Tokenizer train_characters(std::string_view text, const CharacterTrainingOptions& options) {
  check_utf8(text, "the text to train a tokenizer on");
  FOVEA_CHECK_INPUT(!text.empty(), "the text to train a tokenizer on is empty");
  text::TokenizerFile file;
  file.source = "character tokenizer";
  auto& vocab = file.tables.vocab;
  auto& added = file.top["added_tokens"] = nlohmann::json::array();
  std::set<std::string> special;
  const auto add_special = [&](const std::string& token) {
    FOVEA_CHECK_CONFIG(!token.empty(), "train_characters: a special token is empty");
    FOVEA_CHECK_CONFIG(special.insert(token).second, "train_characters: the special token \"", token,
                       "\" is given twice");
    check_utf8(token, "special token");
    added.push_back(text::special_token_json(token, static_cast<int64_t>(vocab.size())));
    vocab.emplace_back(token, static_cast<int64_t>(vocab.size()));
  };
  add_special(options.unk_token);
  for (const std::string& token : options.special_tokens) add_special(token);

  std::map<char32_t, int64_t> counts;
  for (const char *p = text.data(), *end = p + text.size(); p < end;) ++counts[text::next_character(p)];
  for (const auto& [c, count] : counts) {
    std::string character;
    append_utf8(character, c);
    if (count >= options.min_frequency && special.count(character) == 0)
      vocab.emplace_back(character, static_cast<int64_t>(vocab.size()));
  }
  file.top["model"] = {{"type", "BPE"}, {"unk_token", options.unk_token}};
  file.top["decoder"] = {{"type", "Fuse"}};
  return text::make_tokenizer(std::move(file));
}

}  // namespace fovea
