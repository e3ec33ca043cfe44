// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <utility>

#include "fovea/text/decoder.h"

namespace fovea::text {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Words with blanks between them, their continuations joined on; `cleanup` takes out the blanks before punctuation and
// inside English contractions, token by token as the package does.
class WordPieceDecoder : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}

  void apply(std::vector<DecodedPart>& parts) const override {
    for (size_t i = 0; i < parts.size(); ++i) {
      std::string& text = parts[i].text;
      if (i > 0) text = text.starts_with(prefix_) ? text.substr(prefix_.size()) : " " + text;
      if (cleanup_) clean(text);
    }
  }
  bool local() const override { return false; }  // the first token has no blank

 private:
  static void clean(std::string& text) {
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kRules = {{{" .", "."},
                                                                                              {" ?", "?"},
                                                                                              {" !", "!"},
                                                                                              {" ,", ","},
                                                                                              {" ' ", "'"},
                                                                                              {" n't", "n't"},
                                                                                              {" 'm", "'m"},
                                                                                              {" do not", " don't"},
                                                                                              {" 's", "'s"},
                                                                                              {" 've", "'ve"},
                                                                                              {" 're", "'re"}}};
    for (const auto& [from, to] : kRules) replace_all(text, from, to);
  }

  std::string prefix_;
  bool cleanup_;
};

}  // namespace

std::unique_ptr<Decoder> read_wordpiece_decoder(Fields& fields) {
  std::string prefix = fields.string("prefix");
  return std::make_unique<WordPieceDecoder>(std::move(prefix), fields.boolean("cleanup"));
}

}  // namespace fovea::text
