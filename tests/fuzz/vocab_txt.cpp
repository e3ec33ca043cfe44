// BERT's older folder: vocab.txt and, behind a line of %, tokenizer_config.json.
// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/tokens.h"

namespace fovea::fuzz {

static Target vocab_txt_target() {
  const auto folder = scratch("bert");
  std::filesystem::create_directory(folder);
  const std::string vocab =
      "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nin\nthe\nbegin\n##ning\n,\ngod\ncreated\n1\n##2\n…\ne\né\n日\n##a\na\n";
  return {
      .corpus =
          {vocab + "%{\"do_lower_case\": true, \"strip_accents\": null, \"unk_token\": \"[UNK]\"}",
           vocab +
               "%{\"do_lower_case\": false, \"tokenize_chinese_chars\": false, \"mask_token\": {\"content\": \"a\"}}"},
      .words = {"\n", "##", "\n\n", "[UNK]", "\"cls_token\": ", "\"strip_accents\": "},
      .read = [folder](const std::string& input) {
        const size_t end = std::min(input.rfind('%'), input.size());
        put(folder / "vocab.txt", input.substr(0, end));
        put(folder / "tokenizer_config.json", end < input.size() ? input.substr(end + 1) : "{}");
        expect_consistent(Tokenizer::load(folder));
      }};
}

static const Registered vocab_txt("vocab_txt", vocab_txt_target);

}  // namespace fovea::fuzz
