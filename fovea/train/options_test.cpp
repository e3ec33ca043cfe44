// Recipes: read, overridden, checked, written and compared.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/options.h"

#include "fovea/io/files.h"
#include "fovea/io/toml.h"
#include "fovea/train/toy_model_test.h"

namespace fovea {
namespace {

class Recipe : public toy::Folder {
 protected:
  TrainOptions read(const std::string& text, const std::vector<std::string>& overrides = {}) {
    write_file(folder_ / "recipe.toml", text);
    return TrainOptions::from_toml(folder_ / "recipe.toml", overrides);
  }
  const std::string start_ = "[model]\ntype = \"gpt2\"\nwidth = 32\n[train]\nout = \"runs/x\"\n";
};

TEST_F(Recipe, FileThenOverrides) {
  const TrainOptions options = read(start_ + "steps = 7\nfreeze = [\"a.*\"]\n[optim]\nlearning_rate = 1e-2\n",
                                    {"optim.learning_rate=3e-3", "data.train=a.txt,b.txt"});
  EXPECT_EQ(options.train.steps, 7);
  EXPECT_EQ(options.optim.learning_rate, 3e-3);
  EXPECT_EQ(options.data.train, (std::vector<std::string>{"a.txt", "b.txt"}));
  EXPECT_EQ(options.train.freeze, std::vector<std::string>{"a.*"});
  EXPECT_EQ(options.model.recipe->config(99)["n_embd"], 32);
  EXPECT_EQ(options.model.recipe->config(99)["vocab_size"], 99);
}

TEST_F(Recipe, TheDumpReadsBackEqual) {
  const TrainOptions options = read(start_, {"optim.beta2=0.98", "schedule.name=linear", "model.layers=3"});
  const TrainOptions again = read(dump_toml(options));
  EXPECT_TRUE(differing_keys(options, again).empty());
  EXPECT_EQ(again.train.out, "runs/x");
}

TEST_F(Recipe, DifferingKeysAreNamed) {
  const TrainOptions a = read(start_);
  const TrainOptions b = read(start_, {"optim.clip=2", "model.width=64", "train.steps=9", "train.out=runs/y"});
  EXPECT_EQ(differing_keys(a, b), (std::vector<std::string>{"model.width", "optim.clip"}));
}

TEST_F(Recipe, SettingsThatWouldChangeNothingAreRefused) {
  const auto expect = [&](std::vector<std::string> assignments, const std::string& part) {
    toy::expect_error([&] { read(start_, assignments); }, ErrorKind::kConfig, part);
  };
  for (const char* of_images : {"flip=0.5", "shift=2", "erase=0.5", "resize=true"})
    expect({std::string("data.") + of_images}, "is for images; data.kind is \"text\"");
  expect({"data.label_column=last"}, "data.label_column is for labels; data.kind is \"text\"");
  expect({"data.drop_longer=true"}, "data.drop_longer is for pairs, labels; data.kind is \"text\"");
  expect({"optim.batch_tokens=100"}, "optim.batch_tokens is for pairs, labels, masked");
  expect({"data.kind=masked", "data.windows=streams"}, "data.windows is for text; data.kind is \"masked\"");
  expect({"data.kind=images", "data.context=5"}, "data.context is for text, lines, pairs");
  expect({"data.kind=images", "tokenizer.type=bpe"}, "tokenizer is for text, lines, pairs");
  expect({"train.init=runs/y", "model.layers=3"}, "model.layers: model and tokenizer are those of train.init = runs/y");
  expect({"train.init=runs/y", "tokenizer.type=words"}, "tokenizer.type: model and tokenizer are those of train.init");
  EXPECT_EQ(read(start_, {"train.init=runs/y"}).train.init,
            "runs/y");  // the recipe's own tables are passed over, and told
}

TEST_F(Recipe, ErrorsNameTheKey) {
  const auto expect = [&](const std::string& assignment, const std::string& part) {
    toy::expect_error([&] { read(start_, {assignment}); }, ErrorKind::kConfig, part);
  };
  expect("optim.leaning_rate=1", "did you mean \"optim.learning_rate\"?");
  expect("model.widht=1", "model.widht");
  expect("model.type=gpt", "unknown model \"gpt\"; did you mean \"gpt2\"?");
  expect("optim.learning_rate=0", "optim.learning_rate is 0, must be a number above 0");
  expect("optim.beta1=1", "optim.beta1 is 1");
  expect("optim.batch_size=0", "optim.batch_size is 0, must be at least 1");
  expect("optim.accumulate=0", "optim.accumulate is 0");
  expect("optim.label_smoothing=1.1", "optim.label_smoothing is 1.1, must be between 0 and 1");
  expect("schedule.name=cos", "schedule.name is \"cos\"");
  expect("train.steps=0", "train.steps is 0");
  expect("train.steps=many", "train.steps");
  expect("train.out=\"\"", "train.out is empty");
  expect("train.existing=keep", "train.existing is \"keep\"");
  expect("data.kind=texts", "data.kind is \"texts\"; did you mean \"text\"?");
  expect("tokenizer.type=file", "tokenizer.path is empty");
  toy::expect_error([&] { TrainOptions::from_toml(folder_ / "absent.toml"); }, ErrorKind::kConfig, "absent.toml");
}

TEST_F(Recipe, TheShippedRecipesAreGood) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FOVEA_SOURCE_DIR "/configs")) {
    const TrainOptions options = TrainOptions::from_toml(entry.path());
    EXPECT_FALSE(options.data.train.empty()) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 2);
}

}  // namespace
}  // namespace fovea
