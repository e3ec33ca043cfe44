// Text to token ids and back, as the `tokenizer.json` of a model's folder says.
//
//   const Tokenizer tokenizer = Tokenizer::load("runs/kjv/best");
//   std::vector<int64_t> ids = tokenizer.ids("In the beginning");
//   std::string text = tokenizer.decode(ids);
//
// What a file asks for and we do not have is an error that names it; nothing is done "nearly". Text that is not UTF-8
// is Error(kInput) with the position of the bad byte.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea {

class Tokenizer;
namespace text {
struct Pipeline;
struct TokenizerFile;
Tokenizer make_tokenizer(TokenizerFile file);
}  // namespace text

// All vectors have one entry for each token.
struct Encoding {
  std::vector<int64_t> ids;
  std::vector<std::string> tokens;                   // as the vocabulary spells them
  std::vector<std::pair<int64_t, int64_t>> offsets;  // [begin, end) in code points of the text it came from; (0, 0)
                                                     // for tokens that are not in the text
  std::vector<int64_t> word_ids;                     // the word of its text that a token belongs to, as the
                                                     // pre-tokenizer cut it; -1 for tokens that were added around it
  std::vector<int64_t> type_ids;                     // 0 first text, 1 second, or as the file's template says
  std::vector<int64_t> attention_mask;               // 0 for padding
  std::vector<int64_t> special_tokens_mask;          // 1 for tokens that were added around the text
};

struct EncodeOptions {
  bool add_special_tokens = true;  // what the file's post-processor puts around the text
  bool truncate = true;            // as the file says, if it does
  bool pad = true;                 // as the file says; a file that pads a batch to its longest pads nothing here
};

// A movable, cheaply copied value. All const functions may be called from several threads at once.
class Tokenizer {
 public:
  // From a folder (tokenizer.json, or in older ones vocab.json + merges.txt or vocab.txt; and source_tokenizer.json, if
  // there is one) or the path of a tokenizer.json.
  static Tokenizer load(const std::filesystem::path& path);
  // From the contents of a tokenizer.json; `source` names it in errors.
  static Tokenizer from_json(std::string_view json, std::string_view source = "tokenizer.json");

  // Writes the same files into a folder (made if need be), or tokenizer.json's content to a path that ends in ".json".
  void save(const std::filesystem::path& path) const;
  std::string to_json() const;

  // Where what an encoder reads has a vocabulary of its own, the tokenizer of that; else this same one.
  Tokenizer source() const;
  bool has_source() const { return source_ != nullptr; }
  Tokenizer with_source(const Tokenizer& source) const;
  Tokenizer without_source() const { return Tokenizer(pipeline_); }

  Encoding encode(std::string_view text, const EncodeOptions& options = {}) const;
  // Two texts that belong together, as a question and its context.
  Encoding encode_pair(std::string_view first, std::string_view second, const EncodeOptions& options = {}) const;
  // The ids of encode(text, options), without the cost of the rest.
  std::vector<int64_t> ids(std::string_view text, const EncodeOptions& options = {}) const;

  // Always valid UTF-8: bytes that form no character become U+FFFD. Error(kArgument) for an id without a token.
  std::string decode(const std::vector<int64_t>& ids, bool skip_special_tokens = true) const;

  std::optional<int64_t> token_to_id(std::string_view token) const;
  std::optional<std::string> id_to_token(int64_t id) const;
  // Tokens with those added to the model's vocabulary. Ids may have gaps: end_id() is one past the largest.
  int64_t vocab_size() const;
  int64_t end_id() const;
  bool is_special(int64_t id) const;

  // The token of a role: as tokenizer_config.json in the folder says, else as tokenizer.json shows, else by the usual
  // names ("<s>", "</s>", "<|endoftext|>", "<pad>", "<unk>", "[MASK]" …) among the special tokens.
  std::optional<int64_t> bos_id() const;
  std::optional<int64_t> eos_id() const;
  std::optional<int64_t> pad_id() const;
  std::optional<int64_t> unk_id() const;
  std::optional<int64_t> mask_id() const;

 private:
  friend class StreamDecoder;
  friend Tokenizer text::make_tokenizer(text::TokenizerFile file);
  explicit Tokenizer(std::shared_ptr<const text::Pipeline> pipeline) : pipeline_(std::move(pipeline)) {}
  std::shared_ptr<const text::Pipeline> pipeline_;
  std::shared_ptr<const text::Pipeline> source_;  // null: the same
};

// Text of tokens as they come, never half a character:
//
//   StreamDecoder stream(tokenizer);
//   for (int64_t id : …) std::cout << stream.push(id);
//   std::cout << stream.flush();
//
// All that was returned, joined, is Tokenizer::decode of all ids pushed.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens = true);
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;

  // The text that has become final with this id; may be empty.
  std::string push(int64_t id);
  // What is left, unfinished characters as U+FFFD. The stream then starts anew.
  std::string flush();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Code-point offsets of `text`, as Encoding has them, as byte offsets. Error(kArgument) for an offset beyond the text.
std::pair<size_t, size_t> byte_offsets(std::string_view text, std::pair<int64_t, int64_t> code_points);
std::vector<std::pair<size_t, size_t>> byte_offsets(std::string_view text,
                                                    const std::vector<std::pair<int64_t, int64_t>>& code_points);

}  // namespace fovea
