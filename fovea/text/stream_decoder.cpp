// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "fovea/base/utf8.h"
#include "fovea/text/pipeline.h"
#include "fovea/text/tokenizer.h"

namespace fovea {

struct StreamDecoder::State {
  std::shared_ptr<const text::Pipeline> pipeline;
  bool skip_special_tokens;
  std::string pending;                   // local decoders: bytes of an unfinished character
  std::vector<text::DecodedPart> parts;  // others: all tokens so far, decoded again each time
  size_t shown = 0;                      // bytes of their text already returned

  bool local() const { return pipeline->decoder != nullptr && pipeline->decoder->local(); }
};

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special_tokens)
    : state_(std::make_unique<State>(State{tokenizer.pipeline_, skip_special_tokens, {}, {}})) {}
StreamDecoder::~StreamDecoder() = default;
StreamDecoder::StreamDecoder(StreamDecoder&&) noexcept = default;
StreamDecoder& StreamDecoder::operator=(StreamDecoder&&) noexcept = default;

std::string StreamDecoder::push(int64_t id) {
  State& state = *state_;
  text::DecodedPart part = state.pipeline->part(id);
  if (state.skip_special_tokens && state.pipeline->is_special(id)) return {};
  if (!state.local()) {
    const bool settled = state.pipeline->decoder == nullptr || state.pipeline->decoder->settled(part);
    state.parts.push_back(std::move(part));
    if (!settled) return {};
    const std::string text = state.pipeline->join(state.parts);
    const size_t from = std::exchange(state.shown, text.size());
    return text.substr(std::min(from, text.size()));
  }
  std::vector<text::DecodedPart> parts;
  parts.push_back(std::move(part));
  state.pipeline->decoder->apply(parts);
  for (const auto& decoded : parts) state.pending += decoded.text;
  const size_t ready = complete_utf8_prefix(state.pending);
  std::string out = text::mend_utf8(std::string_view(state.pending).substr(0, ready));
  state.pending.erase(0, ready);
  return out;
}

std::string StreamDecoder::flush() {
  State& state = *state_;
  std::string out = text::mend_utf8(std::exchange(state.pending, {}));
  if (!state.local()) {
    const std::string text = state.pipeline->join(std::exchange(state.parts, {}));
    out = text.substr(std::min(state.shown, text.size()));
    state.shown = 0;
  }
  return out;
}

}  // namespace fovea
