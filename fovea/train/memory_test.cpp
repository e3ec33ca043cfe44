// A model that carries memory from batch to batch: a run stopped in the middle of a text and resumed equals one that
// never stopped, and measuring goes through the text with memory.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/io/files.h"
#include "fovea/loss/evaluate.h"
#include "fovea/models/registry.h"
#include "fovea/train/journal.h"
#include "fovea/train/parts.h"
#include "fovea/train/toy_model_test.h"

namespace fovea {
namespace {

Model remembering(int64_t memory) {
  at::manual_seed(11);
  return make_model({{"model_type", "transformer_xl"},
                     {"vocab_size", toy::kVocabulary},
                     {"width", 8},
                     {"layers", 2},
                     {"heads", 2},
                     {"hidden", 8},
                     {"memory", memory},
                     {"dropout", 0.1},
                     {"initializer_range", 0.3}});
}

std::shared_ptr<TokenWindows> streams(int64_t size, uint64_t seed, int64_t context, int64_t batch) {
  return std::make_shared<TokenWindows>(
      toy::stream(size, seed), WindowOptions{.context = context, .batch_size = batch, .order = WindowOrder::kStreams});
}

class Memory : public toy::Folder {
 protected:
  TrainResult go(const std::string& name, int64_t stop_after = -1) {
    TrainParts parts;
    parts.model = remembering(12);
    parts.train = streams(500, 1, 8, 4);  // an epoch is 16 steps
    parts.validation = streams(90, 2, 8, 3);
    return toy::train(parts, toy::options(folder_ / name), stop_after);
  }
};

TEST_F(Memory, AStoppedRunGoesOnWithIt) {
  go("whole");
  for (const int64_t stop : {1, 6, 10, 16, 17, 30}) {
    const std::string name = "stopped-" + std::to_string(stop);
    EXPECT_EQ(go(name, stop).step, stop);
    EXPECT_EQ(go(name).step, 40);
    for (const char* file : {"last/model.safetensors", "last/training/optimizer.safetensors", "best/model.safetensors"})
      EXPECT_EQ(read_file(folder_ / "whole" / file), read_file(folder_ / name / file)) << name << ' ' << file;
  }
}

TEST_F(Memory, MeasuringInSegmentsEqualsMeasuringAtOnce) {
  const auto model = remembering(100);
  model->eval();
  const double whole = evaluate(*model, *streams(90, 2, 89, 1))->loss;
  for (const int64_t context : {1, 7, 30})
    EXPECT_NEAR(evaluate(*model, *streams(90, 2, context, 1))->loss, whole, 1e-5) << context;
  EXPECT_GT(std::abs(evaluate(*remembering(0), *streams(90, 2, 7, 1))->loss - whole), 1e-3);
}

TEST_F(Memory, ItWantsStreams) {
  write_file(folder_ / "text.txt", std::string(300, 'a') + std::string(300, 'b'));
  TrainOptions options;
  options.data.train = {(folder_ / "text.txt").string()};
  options.data.context = 16;
  options.model.type = "transformer_xl";
  options.model.recipe = models_registry().at("transformer_xl").recipe();
  options.train.out = (folder_ / "run").string();
  toy::expect_error([&] { load_train_parts(options); }, ErrorKind::kConfig, "it wants data.windows = \"streams\"");
  options.data.windows = "streams";
  EXPECT_TRUE(load_train_parts(options).train->batch(0, 1).continues);
  options.data.context = 0;
  toy::expect_error([&] { load_train_parts(options); }, ErrorKind::kConfig, "the model has no limit of its own");
  options.data.context = 16;
  options.data.kind = "lines";
  toy::expect_error([&] { load_train_parts(options); }, ErrorKind::kConfig, "carries memory through one text");
}

}  // namespace
}  // namespace fovea
