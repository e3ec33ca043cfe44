// Cross entropy against LibTorch's and against the definition, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/cross_entropy.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

#include "fovea/base/error.h"
#include "fovea/data/batch.h"

namespace fovea {
namespace {

using torch::indexing::Slice;

struct Case {
  at::Tensor logits, labels;
};

Case make_case(at::ScalarType type = at::kFloat) {
  torch::manual_seed(3);
  at::Tensor logits = torch::randn({2, 5, 7}, at::TensorOptions(type)) * 2;
  at::Tensor labels = torch::randint(0, 7, {2, 5}, at::kLong);
  labels[0][1] = kIgnore;
  labels[1][4] = kIgnore;
  return {logits.requires_grad_(), labels};
}

TEST(CrossEntropy, EqualsLibTorchWithAndWithoutSmoothing) {
  for (const double smoothing : {0.0, 0.1, 1.0}) {
    const Case c = make_case();
    const CrossEntropySum ours = cross_entropy_sum(c.logits, c.labels, smoothing);
    EXPECT_EQ(ours.count, 8);
    ours.sum.backward();
    const at::Tensor grad = c.logits.grad().clone();
    c.logits.mutable_grad() = {};
    const auto options =
        torch::nn::functional::CrossEntropyFuncOptions().ignore_index(-100).label_smoothing(smoothing).reduction(
            torch::kMean);
    const at::Tensor theirs =
        torch::nn::functional::cross_entropy(c.logits.reshape({-1, 7}), c.labels.reshape(-1), options);
    (theirs * 8).backward();
    EXPECT_NEAR(ours.sum.item<double>() / 8, theirs.item<double>(), 1e-6);
    EXPECT_TRUE(torch::allclose(grad, c.logits.grad(), 1e-5, 1e-7));
  }
}

TEST(CrossEntropy, FollowsTheStatedDefinition) {
  const Case c = make_case(at::kDouble);
  const double smoothing = 0.2;
  const at::Tensor log_p = torch::log_softmax(c.logits.detach(), -1);
  double want = 0;
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t t = 0; t < 5; ++t) {
      const int64_t label = c.labels[b][t].item<int64_t>();
      if (label == kIgnore) continue;
      want -= (1 - smoothing) * log_p[b][t][label].item<double>() + smoothing / 7 * log_p[b][t].sum().item<double>();
    }
  EXPECT_NEAR(cross_entropy_sum(c.logits, c.labels, smoothing).sum.item<double>(), want, 1e-12);
}

TEST(CrossEntropy, LabelsThatDoNotCountGetNoGradient) {
  const Case c = make_case();
  cross_entropy_sum(c.logits, c.labels, 0.1).sum.backward();
  EXPECT_EQ(c.logits.grad()[0][1].abs().max().item<float>(), 0);
  EXPECT_GT(c.logits.grad()[0][2].abs().max().item<float>(), 0);
}

TEST(CrossEntropy, NothingThatCountsIsZero) {
  const at::Tensor logits = torch::randn({3, 4}).requires_grad_();
  const CrossEntropySum loss = cross_entropy_sum(logits, torch::full({3}, kIgnore, at::kLong));
  EXPECT_EQ(loss.count, 0);
  EXPECT_EQ(loss.sum.item<float>(), 0);
  loss.sum.backward();
  EXPECT_EQ(logits.grad().abs().max().item<float>(), 0);
  EXPECT_EQ(cross_entropy_sum(torch::empty({0, 4}), torch::empty({0}, at::kLong)).count, 0);
}

TEST(CrossEntropy, HalfWidthLogitsAreWidened) {
  const Case c = make_case();
  const at::Tensor narrow = c.logits.detach().to(at::kBFloat16);
  const at::Tensor sum = cross_entropy_sum(narrow, c.labels).sum;
  EXPECT_EQ(sum.scalar_type(), at::kFloat);
  EXPECT_EQ(sum.item<float>(), cross_entropy_sum(narrow.to(at::kFloat), c.labels).sum.item<float>());
}

void expect_error(const at::Tensor& logits, const at::Tensor& labels, double smoothing, const std::string& part) {
  try {
    cross_entropy_sum(logits, labels, smoothing);
    ADD_FAILURE() << "no error; wanted: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kArgument);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(CrossEntropy, ErrorsNameWhatIsWrong) {
  const at::Tensor logits = torch::zeros({2, 3, 4}), labels = torch::zeros({2, 3}, at::kLong);
  expect_error(logits, torch::zeros({3, 2}, at::kLong), 0, "labels have shape [3, 2]");
  expect_error(logits, labels.to(at::kFloat), 0, "labels are Float");
  expect_error(logits.to(at::kLong), labels, 0, "logits are Long");
  expect_error(logits, labels + 4, 0, "label 4 at place 0 is outside the vocabulary 0 … 3");
  expect_error(logits, labels - 1, 0, "label -1");
  expect_error(logits, labels, 1.5, "label_smoothing is 1.5");
}

}  // namespace
}  // namespace fovea
