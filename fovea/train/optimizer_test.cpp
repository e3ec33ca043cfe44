// AdamW equals its definition; decay spares what it should; state goes through a file; freezing by name.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/optimizer.h"

#include <cmath>

#include "fovea/train/toy_model_test.h"
#include "fovea/train/train_step.h"

namespace fovea {
namespace {

OptimOptions options() {
  OptimOptions out;
  out.weight_decay = 0.1;
  out.beta1 = 0.8;
  out.beta2 = 0.95;
  out.clip = 0;
  out.no_decay = {};
  return out;
}

std::vector<NamedParameter> parameters(uint64_t seed) {
  at::manual_seed(seed);
  std::vector<NamedParameter> out;
  for (const auto& [name, shape] : std::vector<std::pair<std::string, std::vector<int64_t>>>{
           {"a.weight", {5, 300}}, {"a.bias", {5}}, {"norm.weight", {5}}, {"embedding.weight", {7, 5}}})
    out.push_back({name, at::randn(shape).requires_grad_()});
  return out;
}

void set_gradients(const std::vector<NamedParameter>& parameters, int64_t step) {
  at::manual_seed(uint64_t(100 + step));
  for (const auto& parameter : parameters) {
    at::Tensor value = parameter.value;
    value.mutable_grad() = at::randn(value.sizes());
  }
}

// Loshchilov & Hutter 2019, algorithm 2, in f64. LibTorch's own: tests/parity, by the training curves of transformers.
TEST(AdamW, EqualsItsDefinition) {
  const auto ours = parameters(1);
  AdamW optimizer(ours, options());
  std::vector<at::Tensor> values, means, squares;
  for (const auto& parameter : ours) {
    values.push_back(parameter.value.detach().to(at::kDouble).clone());
    means.push_back(at::zeros_like(values.back()));
    squares.push_back(at::zeros_like(values.back()));
  }
  for (int64_t step = 0; step < 20; ++step) {
    const double rate = 0.01 * double(step + 1);
    set_gradients(ours, step);
    for (size_t i = 0; i < ours.size(); ++i) {
      const at::Tensor gradient = ours[i].value.grad().to(at::kDouble);
      if (values[i].dim() >= 2) values[i] *= 1 - rate * 0.1;
      means[i] = 0.8 * means[i] + 0.2 * gradient;
      squares[i] = 0.95 * squares[i] + 0.05 * gradient.square();
      const at::Tensor mean = means[i] / (1 - std::pow(0.8, double(step + 1)));
      const at::Tensor square = squares[i] / (1 - std::pow(0.95, double(step + 1)));
      values[i] -= rate * mean / (square.sqrt() + 1e-8);
    }
    optimizer.step(rate);
    for (size_t i = 0; i < ours.size(); ++i)
      EXPECT_TRUE(at::allclose(ours[i].value.to(at::kDouble), values[i], 1e-5, 1e-6))
          << ours[i].name << " at step " << step;
  }
}

TEST(AdamW, DecaySparesBiasesNormsAndNamedParameters) {
  OptimOptions settings = options();
  settings.no_decay = {"*embedding*"};
  const AdamW optimizer(parameters(1), settings);
  EXPECT_TRUE(optimizer.decays("a.weight"));
  EXPECT_FALSE(optimizer.decays("a.bias"));
  EXPECT_FALSE(optimizer.decays("norm.weight"));
  EXPECT_FALSE(optimizer.decays("embedding.weight"));
  EXPECT_THROW(optimizer.decays("b.weight"), Error);
}

TEST(AdamW, WithoutGradientsNothingMoves) {
  const auto values = parameters(2);
  AdamW optimizer(values, options());
  optimizer.step(0.1);
  set_gradients({values[0]}, 0);
  const at::Tensor before = values[1].value.detach().clone();
  optimizer.step(0.1);
  EXPECT_TRUE(at::equal(values[1].value, before));
  EXPECT_FALSE(at::equal(values[0].value, parameters(2)[0].value));
  optimizer.zero_grad();
  EXPECT_FALSE(values[0].value.grad().defined());
}

TEST(AdamW, ClipsTheGlobalNorm) {
  const auto values = parameters(3);
  OptimOptions settings = options();
  settings.clip = 2;
  AdamW optimizer(values, settings);
  set_gradients(values, 0);
  double squares = 0;
  for (const auto& [name, value] : values) squares += value.grad().square().sum().item<double>();
  EXPECT_NEAR(optimizer.clip_gradients(), std::sqrt(squares), 1e-4);
  EXPECT_NEAR(optimizer.clip_gradients(), 2, 1e-4);
  settings.clip = 0;
  EXPECT_NEAR(AdamW(values, settings).clip_gradients(), 2, 1e-4);  // 0: measured, not changed
}

using AdamWFile = toy::Folder;

TEST_F(AdamWFile, StateGoesThroughAFile) {
  const auto a = parameters(4), b = parameters(4);
  AdamW first(a, options()), second(b, options());
  for (int64_t step = 0; step < 5; ++step) set_gradients(a, step), first.step(0.1);
  write_safetensors(folder_ / "state.safetensors", first.state());
  second.load(SafetensorsFile(folder_ / "state.safetensors"));
  const at::NoGradGuard no_grad;
  for (size_t i = 0; i < a.size(); ++i) at::Tensor(b[i].value).copy_(a[i].value);
  for (int64_t step = 5; step < 8; ++step) {
    set_gradients(a, step), first.step(0.1);
    set_gradients(b, step), second.step(0.1);
  }
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::equal(a[i].value, b[i].value)) << a[i].name;
}

TEST_F(AdamWFile, AStateThatDoesNotFitIsNamed) {
  AdamW optimizer(parameters(4), options());
  NamedTensors state = optimizer.state();
  state[0].second = at::zeros({2});
  write_safetensors(folder_ / "state.safetensors", state);
  toy::expect_error([&] { optimizer.load(SafetensorsFile(folder_ / "state.safetensors")); }, ErrorKind::kInput,
                    "state.safetensors: tensor \"exp_avg.a.weight\"");
  state.erase(state.begin());
  write_safetensors(folder_ / "state.safetensors", state);
  EXPECT_THROW(optimizer.load(SafetensorsFile(folder_ / "state.safetensors")), Error);
}

class TiedImpl : public torch::nn::Module {
 public:
  TiedImpl() {
    inner_ = register_module("inner", std::make_shared<torch::nn::Module>());
    const at::Tensor shared = inner_->register_parameter("weight", at::zeros({2, 2}));
    register_parameter("copy", shared);
    register_parameter("own", at::zeros({2}));
  }

 private:
  std::shared_ptr<torch::nn::Module> inner_;
};

TEST(Parameters, TiedOnesCountOnce) {
  TiedImpl module;
  EXPECT_EQ(module.named_parameters().size(), 3u);
  EXPECT_EQ(distinct_parameters(module).size(), 2u);
}

TEST(Parameters, FreezeByName) {
  const auto values = parameters(1);
  freeze_parameters(values, {"a.*", "norm.weight"});
  EXPECT_FALSE(values[0].value.requires_grad());
  EXPECT_FALSE(values[2].value.requires_grad());
  EXPECT_TRUE(values[3].value.requires_grad());
  EXPECT_EQ(AdamW(values, options()).state().size(), 3u);
  toy::expect_error([&] { freeze_parameters(values, {"b.*"}); }, ErrorKind::kConfig,
                    "train.freeze: \"b.*\" matches no parameter");
  toy::expect_error([&] { freeze_parameters(values, {"*"}); }, ErrorKind::kConfig, "leaves no parameter to learn");
}

// Losses are averaged by token: unequal batches give the gradient of their union.
TEST(TrainStep, AccumulationEqualsTheLargeBatch) {
  const auto tokens = toy::stream(400, 3);
  const auto batch = [&](int64_t rows, int64_t context, int64_t skip) {
    const std::vector<TokenId> part(tokens.begin() + skip, tokens.begin() + skip + rows * context + 1);
    return TokenWindows(part, {.context = context, .batch_size = rows, .order = WindowOrder::kConsecutive}).batch(0, 0);
  };
  std::vector<Batch> small = {batch(1, 24, 0), batch(3, 24, 24), batch(2, 24, 96)};
  small[1].labels[1].narrow(0, 5, 19).fill_(kIgnore);
  small[1].tokens -= 19;
  Batch large;
  large.ids = at::cat({small[0].ids, small[1].ids, small[2].ids});
  large.labels = at::cat({small[0].labels, small[1].labels, small[2].labels});
  large.tokens = small[0].tokens + small[1].tokens + small[2].tokens;

  const auto run = [](const std::vector<Batch>& batches, std::vector<at::Tensor>& gradients) {
    const auto model = toy::model(8, /*dropout=*/0);
    AdamW optimizer(distinct_parameters(*model), {.clip = 0.05});
    const StepOutcome out = train_step(*model, batches, optimizer, {1, 0.01, 0.1});
    for (const auto& [name, value] : distinct_parameters(*model)) gradients.push_back(value.grad());
    return out;
  };
  std::vector<at::Tensor> a, b;
  const StepOutcome one = run({large}, a), three = run(small, b);
  EXPECT_NEAR(one.loss, three.loss, 1e-6);
  EXPECT_NEAR(one.grad_norm, three.grad_norm, 1e-6);
  EXPECT_EQ(one.tokens, three.tokens);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(at::allclose(a[i], b[i], 1e-5, 1e-7));
}

TEST(TrainStep, ALossThatIsNotFiniteChangesNothing) {
  const auto model = toy::model();
  AdamW optimizer(distinct_parameters(*model), {});
  Batch batch = toy::parts().train->batch(0, 0);
  const at::Tensor before = distinct_parameters(*model)[0].value.detach().clone();
  model->factor = INFINITY;
  toy::expect_error([&] { train_step(*model, {batch}, optimizer, {7, 0.1}); }, ErrorKind::kDiverged, "at step 7");
  EXPECT_TRUE(at::equal(distinct_parameters(*model)[0].value, before));
  batch.labels.fill_(kIgnore), batch.tokens = 0;
  toy::expect_error([&] { train_step(*model, {batch}, optimizer, {7, 0.1}); }, ErrorKind::kArgument, "no label");
}

}  // namespace
}  // namespace fovea
