// Cross entropy against LibTorch's and against the definition, forward and backward.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/ops/cross_entropy.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "fovea/base/error.h"
#include "fovea/data/batch.h"

namespace fovea {
namespace {

struct Case {
  at::Tensor logits, labels;
};

Case make_case(at::ScalarType type = at::kFloat) {
  at::manual_seed(3);
  at::Tensor logits = at::randn({2, 5, 7}, at::TensorOptions(type)) * 2;
  at::Tensor labels = at::randint(0, 7, {2, 5}, at::kLong);
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
    c.logits.mutable_grad() = at::Tensor();
    const at::Tensor theirs = at::cross_entropy_loss(c.logits.reshape({-1, 7}), c.labels.reshape(-1), {},
                                                     at::Reduction::Mean, kIgnore, smoothing);
    (theirs * 8).backward();
    EXPECT_NEAR(ours.sum.item<double>() / 8, theirs.item<double>(), 1e-6);
    EXPECT_TRUE(at::allclose(grad, c.logits.grad(), 1e-5, 1e-7));
  }
}

TEST(CrossEntropy, FollowsTheStatedDefinition) {
  const Case c = make_case(at::kDouble);
  const double smoothing = 0.2;
  const at::Tensor log_p = at::log_softmax(c.logits.detach(), -1);
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
  const at::Tensor logits = at::randn({3, 4}).requires_grad_();
  const CrossEntropySum loss = cross_entropy_sum(logits, at::full({3}, kIgnore, at::kLong));
  EXPECT_EQ(loss.count, 0);
  EXPECT_EQ(loss.sum.item<float>(), 0);
  loss.sum.backward();
  EXPECT_EQ(logits.grad().abs().max().item<float>(), 0);
  EXPECT_EQ(cross_entropy_sum(at::empty({0, 4}), at::empty({0}, at::kLong)).count, 0);
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
  const at::Tensor logits = at::zeros({2, 3, 4}), labels = at::zeros({2, 3}, at::kLong);
  expect_error(logits, at::zeros({3, 2}, at::kLong), 0, "labels have shape [3, 2]");
  expect_error(logits, labels.to(at::kFloat), 0, "labels are Float");
  expect_error(logits.to(at::kLong), labels, 0, "logits are Long");
  expect_error(logits, labels + 4, 0, "label 4 at place 0 is outside the vocabulary 0 … 3");
  expect_error(logits, labels - 1, 0, "label -1");
  expect_error(logits, labels, 1.5, "label_smoothing is 1.5");
}

}  // namespace
}  // namespace fovea
