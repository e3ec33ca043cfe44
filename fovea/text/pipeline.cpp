// SPDX-License-Identifier: Apache-2.0
#include "fovea/text/pipeline.h"

#include <algorithm>
#include <utility>

#include "fovea/base/check.h"
#include "fovea/base/utf8.h"
#include "fovea/text/utf8_step.h"

namespace fovea::text {

std::unique_ptr<Model::Workspace> WorkspacePool::take(const Model& model) {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto workspace = std::move(idle_.back());
      idle_.pop_back();
      return workspace;
    }
  }
  return model.make_workspace();
}

void WorkspacePool::give_back(std::unique_ptr<Model::Workspace> workspace) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(workspace));
}

namespace {

// Byte spans to code points, walking along with them: they rise, but for the few that a normaliser has reordered.
class CodePointCounter {
 public:
  explicit CodePointCounter(std::string_view text) : text_(text) {}
  std::pair<int64_t, int64_t> convert(const Span& span) {
    // A span that starts inside a character (a byte-level token) covers that character.
    const int64_t begin = starts_before(std::min(span.begin + 1, text_.size()));
    const int64_t end = starts_before(std::min(span.end, text_.size()));
    return {span.begin >= text_.size() ? end : begin - 1, end};
  }

 private:
  // Characters that start before byte `to`.
  int64_t starts_before(size_t to) {
    for (; at_ < to; ++at_) count_ += starts_character(text_[at_]);
    for (; at_ > to; --at_) count_ -= starts_character(text_[at_ - 1]);
    return count_;
  }

  std::string_view text_;
  size_t at_ = 0;
  int64_t count_ = 0;
};

}  // namespace

// One text on its way to tokens.
class Pipeline::Run : public PieceSink {
 public:
  Run(const Pipeline& pipeline, bool detailed)
      : pipeline_(pipeline),
        detailed_(detailed),
        tracked_(detailed || (pipeline.pre_tokenizer != nullptr && pipeline.pre_tokenizer->needs_spans())),
        workspace_(pipeline.pool_.take(*pipeline.model)) {}
  ~Run() { pipeline_.pool_.give_back(std::move(workspace_)); }

  Encoding run(std::string_view text, int64_t type_id) {
    const Piece whole{text};
    if (pipeline_.added.any_raw()) {
      pipeline_.added.cut_raw(
          whole, [this](const Piece& piece) { normalize(piece); },
          [this](const AddedToken& token, const Piece& piece) { add(token, piece); });
    } else if (!text.empty()) {
      normalize(whole);
    }
    if (detailed_) describe(text, type_id);
    return std::move(out_);
  }

  void take(const Piece& word) override {
    const TokenRun tokens = pipeline_.model->tokenize(word.text, *workspace_);
    out_.ids.insert(out_.ids.end(), tokens.ids, tokens.ids + tokens.count);
    if (!detailed_) return;
    out_.word_ids.insert(out_.word_ids.end(), tokens.count, words_++);
    size_t at = 0;
    for (size_t i = 0; i < tokens.count; ++i) {
      const size_t size = tokens.sizes[i];
      spans_.push_back(size > 0 ? word.span(at, at + size) : spans_.back());
      if (pipeline_.model->spelled_by_text(tokens.ids[i]))
        spellings_.emplace_back(spans_.size() - 1, word.text.substr(at, size));
      at += size;
    }
  }

 private:
  void normalize(const Piece& piece) {
    if (pipeline_.normalizer == nullptr) return cut(piece);
    AlignedText text(piece, tracked_);
    pipeline_.normalizer->apply(text);
    if (!text.text().empty()) cut(text.piece());
  }

  void cut(const Piece& piece) {
    if (!pipeline_.added.any_normalized()) return split(piece);
    pipeline_.added.cut_normalized(
        piece, [this](const Piece& part) { split(part); },
        [this](const AddedToken& token, const Piece& part) { add(token, part); });
  }

  void split(const Piece& piece) {
    if (pipeline_.pre_tokenizer == nullptr) return take(piece);
    pipeline_.pre_tokenizer->split(piece, tracked_, *this);
  }

  void add(const AddedToken& token, const Piece& piece) {
    if (detailed_) {
      spellings_.emplace_back(out_.ids.size(), piece.text);
      spans_.push_back(piece.span(0, piece.text.size()));
      out_.word_ids.push_back(words_++);
    }
    out_.ids.push_back(token.id);
  }

  // The columns that follow from ids and spans.
  void describe(std::string_view text, int64_t type_id) {
    CodePointCounter counter(text);
    const size_t count = out_.ids.size();
    out_.offsets.reserve(count);
    out_.tokens.reserve(count);
    for (const Span& span : spans_) out_.offsets.push_back(counter.convert(span));
    for (const int64_t id : out_.ids) out_.tokens.emplace_back(pipeline_.spelling(id));
    for (auto& [index, spelling] : spellings_) out_.tokens[index] = std::move(spelling);
    out_.type_ids.assign(count, type_id);
    out_.attention_mask.assign(count, 1);
    out_.special_tokens_mask.assign(count, 0);
  }

  const Pipeline& pipeline_;
  bool detailed_, tracked_;
  std::unique_ptr<Model::Workspace> workspace_;
  Encoding out_;
  int64_t words_ = 0;
  std::vector<Span> spans_;
  std::vector<std::pair<size_t, std::string>> spellings_;  // where not by the vocabulary: added tokens and the like
};

Encoding Pipeline::encode(std::string_view text, int64_t type_id, bool detailed) const {
  check_utf8(text, "the text to tokenize");
  return Run(*this, detailed).run(text, type_id);
}

Encoding Pipeline::encode_all(const std::vector<std::string_view>& texts, const EncodeOptions& options,
                              bool detailed) const {
  std::vector<Encoding> parts;
  for (size_t i = 0; i < texts.size(); ++i) parts.push_back(encode(texts[i], static_cast<int64_t>(i), detailed));
  const bool special = options.add_special_tokens && post_processor != nullptr;
  if (truncation && options.truncate) {
    const size_t around = special ? post_processor->added_tokens(texts.size() > 1) : 0;
    truncate(*truncation, around, parts, source + ": truncation");
  }
  if (post_processor != nullptr) post_processor->process(parts, options.add_special_tokens, detailed);
  Encoding out;
  for (Encoding& part : parts) {
    if (out.ids.empty()) {
      out = std::move(part);
    } else {
      append(out, part);
    }
  }
  if (padding && options.pad) pad(*padding, out, detailed);
  return out;
}

DecodedPart Pipeline::part(int64_t id) const {
  if (const AddedToken* token = added.find(id)) return {token->content, true};
  const auto token = model->id_to_token(id);
  FOVEA_CHECK_KIND(ErrorKind::kArgument, token, "decode: the id ", id, " has no token; ", source, " has ids up to ",
                   end_id - 1);
  return {std::string(*token)};
}

bool Pipeline::is_special(int64_t id) const {
  const AddedToken* token = added.find(id);
  // A token that a Unigram vocabulary has twice has two ids.
  if (token == nullptr) token = added.find(spelling(id));
  return token != nullptr && token->special;
}

std::string Pipeline::join(std::vector<DecodedPart> parts) const {
  if (decoder != nullptr) decoder->apply(parts);
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (decoder == nullptr && i > 0) out += ' ';
    out += parts[i].text;
  }
  return mend_utf8(out);
}

std::optional<int64_t> Pipeline::token_to_id(std::string_view token) const {
  if (const AddedToken* found = added.find(token)) return found->id;
  return model->token_to_id(token);
}

std::string_view Pipeline::spelling(int64_t id) const {
  if (const auto token = model->id_to_token(id)) return *token;
  const AddedToken* token = added.find(id);
  return token == nullptr ? std::string_view() : std::string_view(token->content);
}

std::optional<std::string> Pipeline::id_to_token(int64_t id) const {
  const std::string_view token = spelling(id);
  if (token.empty()) return std::nullopt;
  return std::string(token);
}

}  // namespace fovea::text
