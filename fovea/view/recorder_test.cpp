// SPDX-License-Identifier: Apache-2.0
#include "fovea/view/recorder.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "fovea/base/error.h"

namespace fovea {
namespace {

// What an attention layer does for a probe.
void emit(const char* stack, int64_t layer, const char* module, const at::Tensor& weights) {
  const ProbeScope outer(stack), middle("layers", layer), inner(module);
  if (Probe::wants("weights")) Probe::emit("weights", weights);
}

at::Tensor weights(int64_t heads, int64_t rows, int64_t columns) {
  return at::softmax(at::randn({1, heads, rows, columns}), -1);
}

template <class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Recorder, KeepsEveryLayerInOrderWithItsExactWeights) {
  Recorder recorder("toy", {"a", "b", "c"});
  const at::Tensor first = weights(2, 3, 3), second = weights(4, 3, 3).to(at::kBFloat16);
  emit("decoder", 0, "attention", first);
  emit("decoder", 1, "attention", second);
  emit("decoder", 1, "feed_forward", at::zeros({1}));
  const AttentionRecord record = recorder.finish();
  EXPECT_EQ(record.model, "toy");
  ASSERT_EQ(record.maps.size(), 2u);
  EXPECT_EQ(record.maps[0].name, "decoder.layers.0.attention.weights");
  EXPECT_TRUE(record.maps[0].weights.equal(first[0]));
  EXPECT_EQ(record.maps[1].weights.scalar_type(), at::kFloat);
  EXPECT_TRUE(record.maps[1].weights.equal(second[0].to(at::kFloat)));
}

TEST(Recorder, KnowsWhoLooksAtWhom) {
  Recorder recorder("toy", {"a", "b", "c"}, {"x", "y"});
  emit("encoder", 0, "attention", weights(2, 3, 3));
  emit("decoder", 0, "attention", weights(2, 2, 2));
  emit("decoder", 0, "cross_attention", weights(2, 2, 3));
  const auto record = recorder.finish();
  ASSERT_EQ(record.maps.size(), 3u);
  EXPECT_EQ(std::pair(record.maps[0].queries, record.maps[0].keys), (std::pair<int64_t, int64_t>(0, 0)));
  EXPECT_EQ(std::pair(record.maps[1].queries, record.maps[1].keys), (std::pair<int64_t, int64_t>(1, 1)));
  EXPECT_EQ(std::pair(record.maps[2].queries, record.maps[2].keys), (std::pair<int64_t, int64_t>(1, 0)));
  EXPECT_EQ(record.sequences[0].name, "source");
  EXPECT_EQ(record.sequences[1].name, "target");
}

TEST(Recorder, StopsListeningWhenFinished) {
  Recorder recorder("toy", {"a"});
  emit("decoder", 0, "attention", weights(1, 1, 1));
  recorder.finish();
  const ProbeScope scope("attention");
  EXPECT_FALSE(Probe::wants("weights"));
}

TEST(Recorder, KeepsACopy) {
  Recorder recorder("toy", {"a"});
  const at::Tensor reused = at::ones({1, 1, 1, 1});
  emit("decoder", 0, "attention", reused);
  reused.fill_(7);
  EXPECT_EQ(recorder.finish().maps[0].weights.item<float>(), 1);
}

TEST(Recorder, RefusesWhatIsNotOnePassOfItsText) {
  const auto record = [](std::vector<at::Tensor> layers) {
    Recorder recorder("toy", {"a", "b"});
    for (const auto& layer : layers) emit("decoder", 0, "attention", layer);
    recorder.finish();
  };
  EXPECT_EQ(error_of([&] { record({}); }), "recorder: no layer gave attention weights while it listened");
  EXPECT_EQ(error_of([&] {
              record({at::zeros({2, 1, 2, 2})});
            }),
            "recorder: decoder.layers.0.attention.weights is [2, 1, 2, 2]; wanted [1, H, T, S], one text at a time");
  EXPECT_EQ(
      error_of([&] {
        record({at::zeros({1, 1, 2, 3})});
      }),
      "recorder: decoder.layers.0.attention.weights is [1, 1, 2, 3]; the text has 2 tokens, wanted as many on axis 3");
  EXPECT_EQ(
      error_of([&] {
        record({at::zeros({1, 1, 2, 2}), at::zeros({1, 1, 2, 2})});
      }),
      "recorder: decoder.layers.0.attention.weights is [1, 1, 2, 2] and came a second time; wanted one forward pass");
}

}  // namespace
}  // namespace fovea
