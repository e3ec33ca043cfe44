// SPDX-License-Identifier: Apache-2.0
#include "fovea/view/recorder.h"

#include <algorithm>

#include "fovea/base/check.h"

namespace fovea {
namespace {

constexpr const char* kPattern = "*attention.weights";

// Which sequences a layer's queries and keys come from, by its name.
std::pair<int64_t, int64_t> axes_of(std::string_view name, size_t sequences) {
  if (sequences == 1) return {0, 0};
  if (glob_match("*cross*", name)) return {1, 0};
  if (glob_match("encoder.*", name) || glob_match("*.encoder.*", name)) return {0, 0};
  return {1, 1};
}

std::vector<std::string> patch_names(const AttentionRecord::Picture& picture) {
  const auto& [pixels, rows, columns, first] = picture;
  FOVEA_CHECK_KIND(ErrorKind::kArgument,
                   pixels.scalar_type() == at::kByte && pixels.dim() == 3 && rows > 0 && columns > 0 &&
                       pixels.size(1) % rows == 0 && pixels.size(2) % columns == 0,
                   "recorder: a picture of ", pixels.scalar_type(), " ", pixels.sizes(), " and ", rows, " x ", columns,
                   " patches; wanted Byte [channels, Y, X] of whole patches");
  std::vector<std::string> out = place_names(rows, columns);
  out.insert(out.begin(), "[class]");
  return out;
}

}  // namespace

Recorder::Recorder(std::string model, std::vector<std::string> tokens)
    : record_{std::move(model), {{"text", std::move(tokens), {}}}, {}},
      probe_(Probe::on(kPattern, [this](std::string_view name, const at::Tensor& weights) { take(name, weights); })) {}

Recorder::Recorder(std::string model, std::vector<std::string> source, std::vector<std::string> target)
    : record_{std::move(model), {{"source", std::move(source), {}}, {"target", std::move(target), {}}}, {}},
      probe_(Probe::on(kPattern, [this](std::string_view name, const at::Tensor& weights) { take(name, weights); })) {}

Recorder::Recorder(std::string model, AttentionRecord::Picture picture)
    : Recorder(std::move(model), patch_names(picture)) {
  record_.sequences[0].name = "picture";
  record_.sequences[0].picture = std::move(picture);
}

void Recorder::take(std::string_view name, const at::Tensor& weights) {
  const auto fail_unless = [&](bool condition, const auto&... parts) {
    FOVEA_CHECK_KIND(ErrorKind::kArgument, condition, "recorder: ", name, " is ", weights.sizes(), parts...);
  };
  fail_unless(weights.dim() == 4 && weights.size(0) == 1, "; wanted [1, H, T, S], one text at a time");
  const auto [queries, keys] = axes_of(name, record_.sequences.size());
  for (const auto& [axis, index] : {std::pair{2, queries}, std::pair{3, keys}}) {
    const auto& sequence = record_.sequences[index];
    fail_unless(weights.size(axis) == int64_t(sequence.tokens.size()), "; the ", sequence.name, " has ",
                sequence.tokens.size(), " tokens, wanted as many on axis ", axis);
  }
  const bool again =
      std::any_of(record_.maps.begin(), record_.maps.end(), [&](const auto& map) { return map.name == name; });
  fail_unless(!again, " and came a second time; wanted one forward pass");
  record_.maps.push_back(
      {std::string(name), queries, keys, weights.detach().select(0, 0).to(at::kCPU, at::kFloat).clone()});
}

AttentionRecord Recorder::finish() {
  { const Probe ended = std::move(probe_); }
  FOVEA_CHECK_KIND(ErrorKind::kArgument, !record_.maps.empty(),
                   "recorder: no layer gave attention weights while it listened");
  return std::move(record_);
}

std::vector<std::string> token_texts(const Tokenizer& tokenizer, const std::vector<int64_t>& ids) {
  StreamDecoder stream(tokenizer, /*skip_special_tokens=*/false);
  std::vector<std::string> out;
  for (const int64_t id : ids) out.push_back(stream.push(id));
  if (!out.empty()) out.back() += stream.flush();
  return out;
}

}  // namespace fovea
