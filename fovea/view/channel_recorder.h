// Listens to the channel attentions of a model while it sees one picture and keeps what they weigh.
//
//   ChannelRecorder recorder("cnn", pixels);
//   model->encode({.images = …});                    // one forward pass of this picture, on this thread
//   write_page("look.html", recorder.finish());
//
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/base/probe.h"
#include "fovea/view/record.h"

namespace fovea {

// From its construction until finish(). Weights of channels [1, C] become a map of one row over the channels; weights
// of places [1, Y, X] one of one row over the places of the picture; coordinate attention's row and column weights
// their product, a head for each channel.
class ChannelRecorder {
 public:
  // pixels: uint8 [1 or 3, Y, X].
  ChannelRecorder(std::string model, at::Tensor pixels);
  // Ends listening. Error(kArgument) where no channel attention gave weights.
  AttentionRecord finish();

 private:
  // Errors name the module: several pictures, places that do not divide the picture.
  void take(std::string_view name, const at::Tensor& weights);
  void add(std::string name, int64_t keys, const at::Tensor& weights);
  int64_t channels(int64_t count);                // the sequence of so many
  int64_t places(int64_t rows, int64_t columns);  // likewise

  AttentionRecord record_;
  at::Tensor pixels_, rows_;  // rows_ [C, Y]: of a coordinate attention whose column weights come next
  std::map<std::vector<int64_t>, int64_t> known_;  // sequences by size
  Probe probe_;                                    // last: it must stop before the record goes
};

}  // namespace fovea
