// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/text/byte_alphabet.h"
#include "fovea/text/decoder.h"
#include "fovea/text/pattern.h"
#include "fovea/text/utf8_step.h"

namespace fovea::text {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Characters of GPT-2's alphabet back to bytes. What is not spelled in it stands for itself.
class ByteLevelDecoder : public Decoder {
 public:
  void apply(std::vector<DecodedPart>& parts) const override {
    for (DecodedPart& part : parts) {
      if (part.literal) continue;
      if (auto bytes = alphabet_to_bytes(part.text)) part.text = std::move(*bytes);
    }
  }
};

class Fuse : public Decoder {
 public:
  void apply(std::vector<DecodedPart>& parts) const override {
    DecodedPart all;
    for (const DecodedPart& part : parts) all.text += part.text;
    parts.assign(1, std::move(all));
  }
};

class ReplaceDecoder : public Decoder {
 public:
  ReplaceDecoder(Pattern pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(std::vector<DecodedPart>& parts) const override {
    for (DecodedPart& part : parts) {
      std::string out;
      size_t done = 0;
      while (done < part.text.size()) {
        const Pattern::Match match = pattern_.find(part.text, done);
        if (match.begin == Pattern::npos) break;
        out.append(part.text, done, match.begin - done).append(content_);
        done = match.end;
      }
      part.text = out.append(part.text, done);
    }
  }

 private:
  Pattern pattern_;
  std::string content_;
};

// Runs of "<0xE4>" become the characters they spell, or one U+FFFD a byte where they spell none.
class ByteFallback : public Decoder {
 public:
  void apply(std::vector<DecodedPart>& parts) const override {
    std::vector<DecodedPart> out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (find_invalid_utf8(bytes) == std::string::npos) {
        out.push_back({bytes});
      } else {
        for (size_t i = 0; i < bytes.size(); ++i) out.push_back({std::string(kReplacement)});
      }
      bytes.clear();
    };
    for (DecodedPart& part : parts) {
      if (const auto byte = byte_of(part.text)) {
        bytes.push_back(static_cast<char>(*byte));
      } else {
        flush();
        out.push_back(std::move(part));
      }
    }
    flush();
    parts = std::move(out);
  }
  bool local() const override { return false; }
  // One bad byte spoils the whole run.
  bool settled(const DecodedPart& last) const override { return !byte_of(last.text); }

 private:
  static std::optional<uint8_t> byte_of(const std::string& token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
    uint8_t value = 0;
    const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, value, 16);
    if (error != std::errc() || end != token.data() + 5) return std::nullopt;
    return value;
  }
};

// Takes up to `start` and `stop` copies of a character off the ends of each part.
class StripDecoder : public Decoder {
 public:
  StripDecoder(std::string content, int64_t start, int64_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void apply(std::vector<DecodedPart>& parts) const override {
    for (DecodedPart& part : parts) {
      std::string_view text = part.text;
      for (int64_t i = 0; i < start_ && text.starts_with(content_); ++i) text.remove_prefix(content_.size());
      for (int64_t i = 0; i < stop_ && text.ends_with(content_); ++i) text.remove_suffix(content_.size());
      part.text = std::string(text);
    }
  }

 private:
  std::string content_;
  int64_t start_, stop_;
};

// The end-of-word mark becomes a blank, the last one nothing.
class BpeDecoder : public Decoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(std::vector<DecodedPart>& parts) const override {
    for (size_t i = 0; i < parts.size(); ++i) {
      const size_t blanks = i + 1 < parts.size() ? 1 : 0;
      std::string& text = parts[i].text;
      for (size_t at = text.find(suffix_); at != std::string::npos; at = text.find(suffix_, at + blanks))
        text.replace(at, suffix_.size(), blanks, ' ');
    }
  }
  bool local() const override { return false; }

 private:
  std::string suffix_;
};

class DecoderSequence : public Decoder {
 public:
  DecoderSequence(std::vector<std::unique_ptr<Decoder>> stages, bool local)
      : stages_(std::move(stages)), local_(local) {}
  void apply(std::vector<DecodedPart>& parts) const override {
    for (const auto& stage : stages_) stage->apply(parts);
  }
  bool local() const override { return local_; }
  bool settled(const DecodedPart& last) const override {
    return std::all_of(stages_.begin(), stages_.end(), [&](const auto& stage) { return stage->settled(last); });
  }

 private:
  std::vector<std::unique_ptr<Decoder>> stages_;
  bool local_;
};

}  // namespace

std::unique_ptr<Decoder> read_byte_level_decoder(Fields& fields) {
  // The three options mean something to the other components of this name only.
  for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) fields.ignore(key);
  return std::make_unique<ByteLevelDecoder>();
}

std::unique_ptr<Decoder> read_fuse(Fields&) { return std::make_unique<Fuse>(); }

std::unique_ptr<Decoder> read_replace_decoder(Fields& fields) {
  Fields pattern(fields.at("pattern"), fields.where("pattern"));
  const bool regex = pattern.has("Regex");
  const std::string text = pattern.string(regex ? "Regex" : "String");
  pattern.finish();
  Pattern parsed = regex ? Pattern::parse(text, pattern.where()) : Pattern::literal(text, pattern.where());
  return std::make_unique<ReplaceDecoder>(std::move(parsed), fields.string("content"));
}

std::unique_ptr<Decoder> read_byte_fallback(Fields&) { return std::make_unique<ByteFallback>(); }

std::unique_ptr<Decoder> read_strip_decoder(Fields& fields) {
  std::string content = fields.string("content");
  if (count_code_points(content) != 1) fields.fail("content", "one character");
  const int64_t start = fields.integer("start"), stop = fields.integer("stop");
  return std::make_unique<StripDecoder>(std::move(content), start, stop);
}

std::unique_ptr<Decoder> read_bpe_decoder(Fields& fields) {
  std::string suffix = fields.string("suffix");
  if (suffix.empty()) fields.fail("suffix", "a string that is not empty");
  return std::make_unique<BpeDecoder>(std::move(suffix));
}

std::unique_ptr<Decoder> read_decoder_sequence(Fields& fields) {
  const nlohmann::json& list = fields.array("decoders");
  std::vector<std::unique_ptr<Decoder>> stages;
  bool local = true;
  std::string last;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fields.where("decoders") + "[" + std::to_string(i) + "]";
    stages.push_back(read_decoder(list[i], where));
    FOVEA_CHECK_INPUT(stages.back() != nullptr, where, ": wanted an object, got null");
    const auto type = list[i]["type"].get<std::string>();
    // Its bytes are characters only once all are joined, which comes last.
    FOVEA_CHECK_INPUT(last != "ByteLevel" || type == "Fuse", where, ": a stage behind ByteLevel is not supported");
    local = local && stages.back()->local() && (last != "Fuse" || type == "Fuse");
    if (last != "ByteLevel") last = type;
  }
  return std::make_unique<DecoderSequence>(std::move(stages), local);
}

std::string mend_utf8(std::string_view bytes) {
  if (find_invalid_utf8(bytes) == std::string_view::npos) return std::string(bytes);
  std::string out;
  while (!bytes.empty()) {
    const size_t valid = std::min(find_invalid_utf8(bytes), bytes.size());
    out.append(bytes.substr(0, valid));
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    // The longest start of a character: what could still have been completed, had it ended here.
    size_t bad = 1;
    while (bad < 3 && bad < bytes.size() && complete_utf8_prefix(bytes.substr(0, bad + 1)) == 0) ++bad;
    out.append(kReplacement);
    bytes.remove_prefix(bad);
  }
  return out;
}

}  // namespace fovea::text
