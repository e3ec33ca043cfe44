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

// Against the composition in f64; relative to the largest.
void expect_linear(at::ScalarType type, int64_t rows, int64_t vocabulary, double smoothing, double tolerance) {
  at::manual_seed(5);
  const auto draw = [&](at::IntArrayRef shape) { return at::randn(shape).to(type).requires_grad_(); };
  const at::Tensor hidden = draw({2, rows, 6}), weight = draw({vocabulary, 6});
  at::Tensor labels = at::randint(vocabulary, {2, rows}, at::kLong);
  labels[0][1] = kIgnore;
  const CrossEntropySum ours = linear_cross_entropy_sum(hidden, weight, labels, smoothing);
  (ours.sum * 0.25).backward();
  const at::Tensor h = hidden.detach().to(at::kDouble).requires_grad_(),
                   w = weight.detach().to(at::kDouble).requires_grad_();
  const CrossEntropySum wanted = cross_entropy_sum(at::linear(h, w), labels, smoothing);
  (wanted.sum * 0.25).backward();
  EXPECT_EQ(ours.count, 2 * rows - 1);
  EXPECT_EQ(ours.sum.scalar_type(), type == at::kDouble ? at::kDouble : at::kFloat);
  EXPECT_NEAR(ours.sum.item<double>(), wanted.sum.item<double>(), tolerance * wanted.sum.item<double>());
  const auto error = [](const at::Tensor& got, const at::Tensor& want) {
    return ((got.to(at::kDouble) - want).abs().max() / want.abs().max()).item<double>();
  };
  EXPECT_LE(error(hidden.grad(), h.grad()), tolerance);
  EXPECT_LE(error(weight.grad(), w.grad()), tolerance);
  EXPECT_EQ(hidden.grad().scalar_type(), type);
  EXPECT_EQ(weight.grad().scalar_type(), type);
}

TEST(LinearCrossEntropy, EqualsLogitsAndThenTheirLoss) {
  for (const double smoothing : {0.0, 0.1}) {
    expect_linear(at::kFloat, 9, 13, smoothing, 1e-5);
    expect_linear(at::kBFloat16, 9, 13, smoothing, 2e-2);  // logits and their gradient are rounded to 8 bits
    expect_linear(at::kDouble, 9, 13, smoothing, 1e-6);
  }
}

// LibTorch's own f32 product of a million terms is off by as much.
TEST(LinearCrossEntropy, RowsOfSeveralChunksAreOneLoss) { expect_linear(at::kFloat, 20, 1 << 20, 0, 5e-3); }

TEST(LinearCrossEntropy, ARetainedGraphGivesTheSameAgain) {
  at::manual_seed(5);
  const at::Tensor hidden = at::randn({7, 4}).requires_grad_(), weight = at::randn({5, 4}).requires_grad_();
  const at::Tensor sum = linear_cross_entropy_sum(hidden, weight, at::randint(5, {7}, at::kLong)).sum;
  const auto gradients = [&](double factor) {
    hidden.mutable_grad() = weight.mutable_grad() = at::Tensor();
    (sum * factor).backward({}, /*retain_graph=*/true);
    return std::pair(hidden.grad().clone(), weight.grad().clone());
  };
  const auto first = gradients(0.5), second = gradients(0.5), doubled = gradients(1);
  EXPECT_TRUE(first.first.equal(second.first) && first.second.equal(second.second));
  EXPECT_TRUE((2 * first.first).equal(doubled.first) && (2 * first.second).equal(doubled.second));
}

TEST(LinearCrossEntropy, WithoutGradientsItIsTheSameNumber) {
  at::manual_seed(5);
  const at::Tensor hidden = at::randn({7, 4}), weight = at::randn({5, 4}).requires_grad_(),
                   labels = at::randint(5, {7}, at::kLong);
  const at::Tensor with = linear_cross_entropy_sum(hidden, weight, labels).sum;
  const at::NoGradGuard guard;
  EXPECT_EQ(linear_cross_entropy_sum(hidden, weight, labels).sum.item<float>(), with.item<float>());
  EXPECT_EQ(linear_cross_entropy_sum(at::empty({0, 4}), weight, at::empty({0}, at::kLong)).sum.item<float>(), 0);
  EXPECT_THROW(linear_cross_entropy_sum(hidden, weight, labels + 5), Error);
  EXPECT_THROW(linear_cross_entropy_sum(hidden, at::randn({5, 3}), labels), Error);
  EXPECT_THROW(linear_cross_entropy_sum(hidden, weight.to(at::kDouble), labels), Error);
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
