// Metaspace, sentencepiece's way with blanks: each becomes a visible character that starts the word behind it, and a
// text may get one in front. As a decoder the way back.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"
#include "fovea/base/utf8.h"
#include "fovea/text/decoder.h"
#include "fovea/text/pre_tokenizer.h"

namespace fovea::text {
namespace {

enum class PrependScheme { kAlways, kFirst, kNever };

struct MetaspaceOptions {
  std::string replacement;  // one character
  PrependScheme prepend = PrependScheme::kAlways;
  bool split = true;
};

class MetaspaceSplitter : public PreTokenizer {
 public:
  explicit MetaspaceSplitter(MetaspaceOptions options) : options_(std::move(options)) {}

  void split(const Piece& piece, bool tracked, PieceSink& next) const override {
    AlignedText text(piece, tracked);
    std::vector<Piece::Range> blanks;
    for (size_t at = piece.text.find(' '); at != std::string_view::npos; at = piece.text.find(' ', at + 1))
      blanks.push_back({at, at + 1});
    text.replace(blanks, options_.replacement);
    if (wants_prefix(piece) && !text.text().starts_with(options_.replacement)) text.prepend(options_.replacement);
    const Piece all = text.piece();
    size_t begin = 0;
    while (options_.split && begin < all.text.size()) {
      const size_t end = std::min(all.text.find(options_.replacement, begin + 1), all.text.size());
      next.take(all.part(begin, end));
      begin = end;
    }
    if (!options_.split) next.take(all);
  }

  bool needs_spans() const override { return options_.prepend == PrependScheme::kFirst; }

 private:
  bool wants_prefix(const Piece& piece) const {
    if (options_.prepend == PrependScheme::kFirst) return piece.span(0, piece.text.size()).begin == 0;
    return options_.prepend == PrependScheme::kAlways;
  }

  MetaspaceOptions options_;
};

class MetaspaceDecoder : public Decoder {
 public:
  explicit MetaspaceDecoder(MetaspaceOptions options) : options_(std::move(options)) {}

  void apply(std::vector<DecodedPart>& parts) const override {
    for (size_t i = 0; i < parts.size(); ++i) {
      // As in the package, the first token loses all of them.
      const bool first = i == 0 && options_.prepend != PrependScheme::kNever;
      const size_t blanks = first ? 0 : 1;
      std::string& text = parts[i].text;
      for (size_t at = text.find(options_.replacement); at != std::string::npos;
           at = text.find(options_.replacement, at + blanks))
        text.replace(at, options_.replacement.size(), blanks, ' ');
    }
  }
  bool local() const override { return options_.prepend == PrependScheme::kNever; }

 private:
  MetaspaceOptions options_;
};

MetaspaceOptions read_metaspace(Fields& fields) {
  static const std::vector<std::string> kSchemes = {"always", "first", "never"};
  MetaspaceOptions options;
  options.replacement = fields.string("replacement");
  if (count_code_points(options.replacement) != 1) fields.fail("replacement", "one character");
  const std::string scheme = fields.string("prepend_scheme", "always");
  const auto found = std::find(kSchemes.begin(), kSchemes.end(), scheme);
  FOVEA_CHECK_INPUT(found != kSchemes.end(), fields.where("prepend_scheme"), ": unknown scheme \"", scheme, "\"",
                    suggestion(scheme, kSchemes));
  options.prepend = static_cast<PrependScheme>(found - kSchemes.begin());
  options.split = fields.boolean("split", true);
  fields.ignore("str_rep");  // older files repeat the replacement
  FOVEA_CHECK_INPUT(fields.boolean("add_prefix_space", true) || options.prepend == PrependScheme::kNever,
                    fields.where("add_prefix_space"), ": is false, but prepend_scheme is \"", scheme, "\"");
  return options;
}

}  // namespace

std::unique_ptr<PreTokenizer> read_metaspace_splitter(Fields& fields) {
  return std::make_unique<MetaspaceSplitter>(read_metaspace(fields));
}

std::unique_ptr<Decoder> read_metaspace_decoder(Fields& fields) {
  return std::make_unique<MetaspaceDecoder>(read_metaspace(fields));
}

}  // namespace fovea::text
