// From files to a trained folder: every kind of data with the real models, and the errors of bad input.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/parts.h"

#include <cmath>

#include "fovea/base/utf8.h"
#include "fovea/loss/evaluate.h"
#include "fovea/models/pretrained.h"
#include "fovea/train/journal.h"
#include "fovea/train/toy_model_test.h"

namespace fovea {
namespace {

class Parts : public toy::Recipe {
 protected:
  Parts()
      : Recipe(
            "[model]\ntype=\"gpt2\"\nwidth=16\nlayers=1\nheads=2\npositions=24\ndropout=0.1\n"
            "[optim]\nlearning_rate=0.01\nbatch_size=4\n[train]\nsteps=12\nvalidate_every=6\n"
            "validate_batch_size=4\n") {}
  // A text of `lines` lines with a few different letters.
  static std::string text(int64_t lines) {
    const char* words[] = {"light", "and", "the", "earth", "was", "dark", "ness"};
    std::string out;
    for (int64_t i = 0; i < lines; ++i) {
      for (int64_t j = 0; j <= random_below(6, 1, 0, uint64_t(i)); ++j)
        out += std::string(j ? " " : "") + words[random_below(7, 1, uint64_t(i), uint64_t(j))];
      out += "\n";
    }
    return out;
  }
};

TEST_F(Parts, CharactersOfAText) {
  const auto o = options({"data.train=" + file("a.txt", text(60)), "data.validation_fraction=0.2"});
  const TrainParts parts = load_train_parts(o);
  EXPECT_DOUBLE_EQ(parts.characters_per_token, 1);
  EXPECT_EQ(parts.model->vocab_size(), parts.tokenizer->end_id());
  EXPECT_EQ(parts.train->longest_row(), 24);
  const TrainResult result = Trainer(parts, o).run();
  EXPECT_LT(result.best_loss, std::log(double(parts.model->vocab_size())));
  EXPECT_NEAR(*result.best_bits_per_character, result.best_loss / std::log(2.0), 1e-12);

  const Model model = load_pretrained_model(best_);
  const Tokenizer tokenizer = Tokenizer::load(best_);
  const auto measured = load_measured_data(*model, tokenizer, {.files = {file("b.txt", text(30))}});
  EXPECT_EQ(measured.characters, int64_t(text(30).size()) - 1);
  EXPECT_EQ(measured.data->token_count(), measured.characters);
  // Lines whose first token nothing stands before: it is no label, and a line of one is none at all.
  const auto lines =
      load_measured_data(*model, tokenizer, {.kind = "lines", .files = {file("c.txt", "and\na\nthe\n")}});
  EXPECT_EQ(lines.data->token_count(), 4);
  EXPECT_EQ(lines.characters, 4);
  EXPECT_TRUE(std::isfinite(evaluate(*model, *measured.data)->loss));
}

TEST_F(Parts, TheSameRecipeGivesTheSameModel) {
  const auto o = options({"data.train=" + file("a.txt", text(60))});
  at::manual_seed(1);
  const auto a = load_train_parts(o);
  at::manual_seed(2);
  const auto b = load_train_parts(o);
  for (size_t i = 0; i < a.model->parameters().size(); ++i)
    EXPECT_TRUE(at::equal(a.model->parameters()[i], b.model->parameters()[i]));
  EXPECT_EQ(a.train->fingerprint(), b.train->fingerprint());
}

TEST_F(Parts, AResumedModelEqualsOneThatNeverStopped) {
  at::set_num_threads(2);
  expect_exact_resume({"data.train=" + file("a.txt", text(60)), "data.validation_fraction=0.2"}, 5);
}

TEST_F(Parts, BytePairsAndPackedLines) {
  const auto o =
      options({"data.kind=lines", "data.train=" + file("a.txt", text(80)), "data.validation=" + file("b.txt", text(20)),
               "tokenizer.type=bpe", "tokenizer.vocab_size=300"});
  const TrainParts parts = load_train_parts(o);
  const Batch batch = parts.train->batch(0, 0);
  EXPECT_EQ(batch.ids[0][0].item<int64_t>(), *parts.tokenizer->bos_id());
  EXPECT_TRUE(batch.documents.defined());
  EXPECT_GT(parts.characters_per_token, 1);
  EXPECT_TRUE(std::isfinite(Trainer(parts, o).run().best_loss));
}

TEST_F(Parts, PairsForAnEncoderDecoder) {
  std::string table;
  for (int i = 0; i < 40; ++i) table += "in " + std::to_string(i) + "\tout " + std::to_string(i * 3) + "\n";
  const std::vector<std::string> settings = {"data.kind=pairs",
                                             "data.train=" + file("a.tsv", table),
                                             "data.validation_fraction=0.1",
                                             "model.type=transformer",
                                             "model.encoder_layers=1",
                                             "model.decoder_layers=1"};
  TomlConfig toml = TomlConfig::parse(
      "[model]\nwidth=16\nheads=2\nhidden=32\npositions=24\n[train]\nsteps=6\nvalidate_every=3\n", "recipe");
  for (const auto& setting : settings) toml.override_with(setting);
  toml.override_with("train.out=\"" + (folder_ / "run").string() + "\"");
  TrainOptions o;
  toml.fill(o);
  const TrainParts parts = load_train_parts(o);
  EXPECT_EQ(parts.model->config()["bos_token_id"], *parts.tokenizer->bos_id());
  EXPECT_EQ(parts.validation->batch(0, 0).target_ids.size(0), 4);
  EXPECT_EQ(parts.train->token_count() + parts.validation->token_count(), 4 * 6 + 30 * 7 + 6 * 8);  // and their ends
  EXPECT_TRUE(std::isfinite(Trainer(parts, o).run().best_loss));
  EXPECT_EQ(load_pretrained_model(best_)->type(), "transformer");

  o.source_tokenizer = {.type = "bpe", .vocab_size = 270};
  const TrainParts apart = load_train_parts(o);
  const Tokenizer reads = apart.tokenizer->source();
  EXPECT_EQ(apart.model->source_vocab_size(), reads.end_id());
  EXPECT_EQ(apart.model->vocab_size(), apart.tokenizer->end_id());
  EXPECT_LT(apart.tokenizer->end_id(), 20);  // the letters of "out", digits, a blank and four special ones
  EXPECT_FALSE(apart.model->config()["shared_embeddings"].get<bool>());
  const Batch batch = apart.train->batch(0, 0);
  const int64_t length = batch.lengths[0].item<int64_t>();
  EXPECT_EQ(batch.ids[0][length - 1].item<int64_t>(), *reads.eos_id());
  EXPECT_NE(*reads.eos_id(), *apart.tokenizer->eos_id());
  o.train.out = (folder_ / "apart").string();
  EXPECT_TRUE(std::isfinite(Trainer(apart, o).run().best_loss));
  const Tokenizer saved = Tokenizer::load(folder_ / "apart" / "best");
  EXPECT_EQ(saved.source().to_json(), reads.to_json());
  EXPECT_EQ(saved.to_json(), apart.tokenizer->to_json());
  o.source_tokenizer.type.clear();

  o.data.context = 5;
  toy::expect_error([&] { load_train_parts(o); }, ErrorKind::kInput, "a.tsv:1: the pair has 6 tokens, rows have 5");
  o.data.context = 6, o.data.drop_longer = true, o.data.validation_fraction = 0;
  EXPECT_LT(load_train_parts(o).train->token_count(), parts.train->token_count());
  o.data.kind = "text";
  toy::expect_error([&] { load_train_parts(o); }, ErrorKind::kConfig, "is \"text\", a transformer model reads pairs");
}

TEST_F(Parts, GoingOnFromAModelFolder) {
  const auto first = options({"data.train=" + file("a.txt", text(60))});
  Trainer(load_train_parts(first), first).run();
  expect_error({"data.train=" + file("a.txt", text(60)), "train.init=" + best_.parent_path().string()},
               ErrorKind::kInput, "is the folder of a training run; the model is " + best_.string());
  auto o = options({"data.train=" + file("a.txt", text(60)), "train.init=" + best_.string(), "train.freeze=decoder.*"});
  const TrainParts parts = load_train_parts(o);
  EXPECT_TRUE(at::equal(parts.model->parameters()[0], load_pretrained_model(best_)->parameters()[0]));
  o.train.out = (folder_ / "second").string();
  Trainer(parts, o).run();
  const auto a = load_pretrained_model(best_)->named_parameters(),
             b = load_pretrained_model(folder_ / "second" / "best")->named_parameters();
  EXPECT_TRUE(at::equal(a["decoder.layers.0.attention.query.weight"], b["decoder.layers.0.attention.query.weight"]));
  EXPECT_FALSE(at::equal(a["embedding.weight"], b["embedding.weight"]));
}

TEST_F(Parts, BadInput) {
  const std::string good = "data.train=" + file("a.txt", text(60));
  expect_error({}, ErrorKind::kConfig, "data.train is empty");
  expect_error({"data.train=" + (folder_ / "b.txt").string()}, ErrorKind::kInput, "b.txt: no such training text");
  expect_error({"data.train=" + file("empty.txt", "\n \n")}, ErrorKind::kInput, "empty.txt: the text is empty");
  expect_error({"data.train=" + file("short.txt", "ab")}, ErrorKind::kInput, "short.txt: the text has 2 tokens");
  expect_error({"data.train=" + file("latin.txt", "caf\xe9 au lait")}, ErrorKind::kInput,
               "latin.txt: invalid UTF-8 at byte 3");
  expect_error({good, "data.validation_fraction=0.0001"}, ErrorKind::kInput, "the validation split is empty");
  expect_error({good, "data.validation=" + file("none.txt", "")}, ErrorKind::kInput, "none.txt: the text is empty");
  expect_error({good, "data.context=25"}, ErrorKind::kConfig, "positions");
  expect_error({good, "model.heads=3"}, ErrorKind::kConfig, "heads");
  expect_error({good, "model.heads=0"}, ErrorKind::kConfig, "heads");
  expect_error({good, "train.init=" + (folder_ / "nothing").string()}, ErrorKind::kInput,
               "nothing: no such model folder");
  expect_error({good, "tokenizer.type=bpe", "tokenizer.vocab_size=255"}, ErrorKind::kConfig, "vocab_size 255");
  expect_error({"data.train=" + file("a.tsv", "a\tb\n"), "data.kind=pairs"}, ErrorKind::kConfig,
               "is \"pairs\", a gpt2 model reads text or lines");
}

}  // namespace
}  // namespace fovea
