// SPDX-License-Identifier: Apache-2.0
#include "fovea/view/channel_recorder.h"

#include "fovea/base/check.h"

namespace fovea {
namespace {

std::vector<std::string> numbers_up_to(int64_t count) {
  std::vector<std::string> out;
  for (int64_t i = 1; i <= count; ++i) out.push_back(std::to_string(i));
  return out;
}

}  // namespace

ChannelRecorder::ChannelRecorder(std::string model, at::Tensor pixels)
    : record_{std::move(model), {{"picture", {"picture"}, {}}}, {}},
      pixels_(std::move(pixels)),
      probe_(Probe::on("*weights", [this](std::string_view name, const at::Tensor& weights) { take(name, weights); })) {
  FOVEA_CHECK_KIND(ErrorKind::kArgument, pixels_.scalar_type() == at::kByte && pixels_.dim() == 3,
                   "recorder: a picture of ", pixels_.scalar_type(), " ", pixels_.sizes(),
                   "; wanted Byte [channels, Y, X]");
}

int64_t ChannelRecorder::channels(int64_t count) {
  const auto [at, added] = known_.emplace(std::vector{count}, int64_t(record_.sequences.size()));
  if (added) record_.sequences.push_back({std::to_string(count) + " channels", numbers_up_to(count), {}});
  return at->second;
}

int64_t ChannelRecorder::places(int64_t rows, int64_t columns) {
  const auto [at, added] = known_.emplace(std::vector{rows, columns}, int64_t(record_.sequences.size()));
  if (added)
    record_.sequences.push_back({std::to_string(rows) + " x " + std::to_string(columns) + " places",
                                 place_names(rows, columns),
                                 AttentionRecord::Picture{pixels_, rows, columns, /*first=*/0}});
  return at->second;
}

void ChannelRecorder::add(std::string name, int64_t keys, const at::Tensor& weights) {
  record_.maps.push_back(
      {std::move(name), 0, keys, weights.detach().to(at::kCPU, at::kFloat).contiguous().clone(), /*gates=*/true});
}

void ChannelRecorder::take(std::string_view name, const at::Tensor& weights) {
  const size_t dot = name.rfind('.') + 1;  // 0 where there is none
  const std::string path(name.substr(0, dot)), leaf(name.substr(dot));
  if (leaf != "weights" && leaf != "channel_weights" && leaf != "spatial_weights" && leaf != "row_weights" &&
      leaf != "column_weights")
    return;
  const int64_t axes = leaf == "weights" || leaf == "channel_weights" ? 2 : 3;
  FOVEA_CHECK_KIND(ErrorKind::kArgument, weights.dim() == axes && weights.size(0) == 1, "recorder: ", name, " is ",
                   weights.sizes(), "; wanted ", axes, " axes and one picture at a time");
  const at::Tensor own = weights[0];
  if (axes == 2) return add(std::string(name), channels(own.size(0)), own.view({1, 1, -1}));
  if (leaf == "row_weights") {
    rows_ = own;  // [C, Y]
    return;
  }
  const bool product = leaf == "column_weights";
  FOVEA_CHECK_KIND(ErrorKind::kArgument, !product || rows_.defined(), "recorder: ", name,
                   " came without its row_weights");
  const at::Tensor all = product ? rows_.unsqueeze(2) * own.unsqueeze(1) : own.unsqueeze(0);  // [C or 1, Y, X]
  const int64_t Y = all.size(1), X = all.size(2);
  FOVEA_CHECK_KIND(ErrorKind::kArgument, pixels_.size(1) % Y == 0 && pixels_.size(2) % X == 0, "recorder: ", name,
                   " has ", Y, " x ", X, " places, a picture of ", pixels_.size(1), " x ", pixels_.size(2),
                   " pixels does not divide into them");
  add(product ? path + "place_weights" : std::string(name), places(Y, X), all.flatten(1).unsqueeze(1));
}

AttentionRecord ChannelRecorder::finish() {
  { const Probe ended = std::move(probe_); }
  FOVEA_CHECK_KIND(ErrorKind::kArgument, !record_.maps.empty(),
                   "recorder: no channel attention gave weights while it listened");
  return std::move(record_);
}

}  // namespace fovea
