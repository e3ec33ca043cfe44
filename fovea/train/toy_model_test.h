// For tests only: a model of a few hundred numbers, with dropout, that trains in microseconds, and data to go with it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "fovea/base/error.h"
#include "fovea/data/random.h"
#include "fovea/data/windows.h"
#include "fovea/io/files.h"
#include "fovea/io/toml.h"
#include "fovea/models/model.h"
#include "fovea/ops/cross_entropy.h"
#include "fovea/train/parts.h"
#include "fovea/train/trainer.h"

namespace fovea::toy {

// Predicts the next token from the present one: embedding, scale, dropout, output.
class BigramImpl : public ModelImpl {
 public:
  explicit BigramImpl(int64_t vocabulary, int64_t width = 8, double dropout = 0.1) : dropout_(dropout) {
    embedding_ = register_parameter("embedding_weight", at::empty({vocabulary, width}));
    scale_ = register_parameter("scale", at::empty({width}));
    output_ = register_parameter("output", at::empty({vocabulary, width}));
    bias_ = register_parameter("bias", at::empty({vocabulary}));
    initialize();
  }
  void initialize() override {
    const at::NoGradGuard no_grad;
    embedding_.normal_();
    scale_.fill_(1);
    output_.normal_(0, 0.3);
    bias_.zero_();
  }
  LossSum loss(const Batch& batch, double label_smoothing = 0) override {
    Tensor hidden = at::embedding(embedding_, batch.ids) * scale_;  // [B, T, C]
    hidden = at::dropout(hidden, dropout_, is_training());
    const Tensor logits = at::linear(hidden, output_, bias_) * factor;  // [B, T, V]
    ++losses;
    const auto out = cross_entropy_sum(logits, batch.labels, label_smoothing);
    return {out.sum, out.count};
  }
  std::string type() const override { return "bigram"; }
  nlohmann::json config() const override { return {{"model_type", "bigram"}}; }
  std::vector<TensorName> tensor_names() const override {
    std::vector<TensorName> out;
    for (const auto& item : named_parameters()) out.push_back({.stored = item.key(), .ours = {item.key()}});
    return out;
  }
  int64_t vocab_size() const override { return embedding_.size(0); }
  int64_t max_positions() const override { return 64; }

  double factor = 1;   // infinity makes the loss one that is not finite
  int64_t losses = 0;  // calls of loss()

 private:
  double dropout_;
  Tensor embedding_, scale_, output_, bias_;
};

constexpr int64_t kVocabulary = 11;

inline std::shared_ptr<BigramImpl> model(int64_t width = 8, double dropout = 0.1) {
  at::manual_seed(11);
  return std::make_shared<BigramImpl>(kVocabulary, width, dropout);
}

// A stream in which the next token is mostly the present one plus three.
inline std::vector<TokenId> stream(int64_t size, uint64_t seed) {
  std::vector<TokenId> out{0};
  while (int64_t(out.size()) < size) {
    const uint64_t i = out.size();
    const bool jump = random_below(4, seed, 0, i) == 0;
    out.push_back(TokenId(jump ? random_below(kVocabulary, seed, 1, i) : (out.back() + 3) % kVocabulary));
  }
  return out;
}

inline TrainParts parts(std::shared_ptr<BigramImpl> of = model()) {
  TrainParts out;
  out.model = std::move(of);
  out.train = std::make_shared<TokenWindows>(stream(700, 1), WindowOptions{.context = 16, .batch_size = 4, .seed = 5});
  out.validation = std::make_shared<TokenWindows>(
      stream(200, 2), WindowOptions{.context = 16, .batch_size = 8, .order = WindowOrder::kConsecutive});
  out.characters_per_token = 2;
  return out;
}

inline TrainOptions options(const std::filesystem::path& out) {
  TrainOptions o;
  o.optim.learning_rate = 0.02;
  o.schedule = {.name = "cosine", .warmup = 5, .min_ratio = 0.1};
  o.train.out = out.string();
  o.train.steps = 40;
  o.train.validate_every = 10;
  o.train.checkpoint_every = 7;
  return o;
}

// A folder of the test's own, removed at its end; LibTorch uses one thread meanwhile.
class Folder : public ::testing::Test {
 protected:
  Folder() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::temp_directory_path() /
              ("fovea_" + std::string(info->test_suite_name()) + "_" + info->name() + "_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
    at::set_num_threads(1);  // waking threads costs more than these models' sums
  }
  ~Folder() override {
    at::set_num_threads(threads_);
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path folder_;

 private:
  int threads_ = at::get_num_threads();
};

template <class Call>
void expect_error(Call call, ErrorKind kind, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "no error; wanted: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(int(error.kind()), int(kind)) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

// Sets a flag after some steps, as a signal handler would.
struct Stopper : TrainObserver {
  explicit Stopper(int64_t steps) : left(steps) {}
  void stepped(const StepReport&) override { flag = --left == 0; }
  int64_t left;
  std::atomic<bool> flag = false;
};

// Trains in `out`, as a new process would: until the end, or stopped after some steps.
inline TrainResult train(const TrainParts& parts, const TrainOptions& options, int64_t stop_after = -1) {
  Trainer trainer(parts, options);
  Stopper stopper(stop_after);
  trainer.observe(&stopper);
  trainer.stop_on(&stopper.flag);
  return trainer.run();
}

// What a recipe and files in the test's folder come to.
class Recipe : public Folder {
 protected:
  explicit Recipe(std::string recipe) : recipe_(std::move(recipe)) {}
  std::string file(const std::string& name, const std::string& bytes) {
    write_file(folder_ / name, bytes);
    return (folder_ / name).native();
  }
  // `settings` as on the command line; `train.out` is the folder's "run" unless they say otherwise.
  TrainOptions options(const std::vector<std::string>& settings) {
    TomlConfig toml = TomlConfig::parse(recipe_, "recipe");
    toml.override_with("train.out=\"" + (folder_ / "run").native() + "\"");
    for (const auto& setting : settings) toml.override_with(setting);
    TrainOptions out;
    toml.fill(out);
    out.check();
    return out;
  }
  void expect_error(const std::vector<std::string>& settings, ErrorKind kind, const std::string& part) {
    toy::expect_error([&] { load_train_parts(options(settings)); }, kind, part);
  }
  // A run that is stopped and goes on ends with the model of one that never stopped.
  void expect_exact_resume(const std::vector<std::string>& settings, int64_t stop_after, const std::string& kind = "") {
    const auto run = [&](const char* name, int64_t steps) {
      TrainOptions o = options(settings);
      o.train.out = (folder_ / (kind + name)).native();
      return train(load_train_parts(o), o, steps).end;
    };
    run("whole", -1);
    EXPECT_EQ(run("parts", stop_after), TrainEnd::kInterrupted);
    EXPECT_EQ(run("parts", -1), TrainEnd::kFinished);
    EXPECT_EQ(read_file(folder_ / (kind + "whole") / "last" / "model.safetensors"),
              read_file(folder_ / (kind + "parts") / "last" / "model.safetensors"))
        << kind;
  }
  std::filesystem::path best_ = folder_ / "run" / "best";

 private:
  std::string recipe_;
};

}  // namespace fovea::toy
