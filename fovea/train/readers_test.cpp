// Encoders from files to a trained folder: classes, pairs, masked words, a new head on a folder's encoder, exact
// resume, and the errors of bad input.
// SPDX-License-Identifier: Apache-2.0
#include <set>

#include "fovea/data/labels.h"
#include "fovea/io/files.h"
#include "fovea/loss/classification.h"
#include "fovea/loss/evaluate.h"
#include "fovea/models/pretrained.h"
#include "fovea/models/text_encoder.h"
#include "fovea/train/parts.h"
#include "fovea/train/toy_model_test.h"

namespace fovea {
namespace {

class Readers : public toy::Recipe {
 protected:
  Readers()
      : Recipe(
            "[data]\nkind=\"labels\"\n[tokenizer]\ntype=\"words\"\n"
            "[model]\ntype=\"bert\"\nwidth=16\nlayers=1\nheads=2\npositions=24\ninitializer_range=0.1\n"
            "[optim]\nlearning_rate=0.01\nbatch_size=8\n[train]\nsteps=80\nvalidate_every=40\n") {}
  // "good" where a sunny word is among others, else "bad".
  static std::string labelled(int64_t lines, uint64_t seed = 1, bool last = false) {
    const char* words[] = {"the", "a", "day", "was", "it", "and", "rain", "fog", "sun", "joy"};
    std::string out;
    for (int64_t i = 0; i < lines; ++i) {
      std::string text;
      const bool good = i % 2 == 0;
      const int64_t length = 2 + random_below(8, seed, 0, uint64_t(i)),
                    place = random_below(length, seed, 1, uint64_t(i));
      for (int64_t t = 0; t < length; ++t) {
        const int64_t plain = random_below(6, seed, 2 + uint64_t(i), uint64_t(t));
        text += std::string(t ? " " : "") + words[t == place ? plain % 2 + (good ? 8 : 6) : plain];
      }
      const std::string label = good ? "good" : "bad";
      out += last ? text + "\t" + label + "\n" : label + "\t" + text + "\n";
    }
    return out;
  }
  TextEncoder trained(const TrainOptions& o) {
    Trainer(load_train_parts(o), o).run();
    return TextEncoder::load(best_);
  }
  std::string train_file() { return "data.train=" + file("train.tsv", labelled(200)); }
  std::string test_file() { return "data.validation=" + file("test.tsv", labelled(60, 5)); }
};

TEST_F(Readers, AClassifierLearnsAndIsMeasured) {
  const TextEncoder encoder = trained(options({train_file(), test_file()}));
  EXPECT_EQ(encoder.model->labels(), (std::vector<std::string>{"bad", "good"}));
  EXPECT_EQ(encoder.model->config()["id2label"]["1"], "good");
  EXPECT_EQ(encoder.classify(TextEncoder::Texts{"it was the joy", "and a rain was"})[1].label, "bad");

  const auto measured = load_measured_data(*encoder.model, encoder.tokenizer,
                                           {.kind = "labels", .files = {(folder_ / "test.tsv").string()}});
  EXPECT_EQ(measured.data->token_count(), 60);
  const auto found = predict(*encoder.model, *measured.data);
  EXPECT_GT(found->accuracy(), 0.95);
  EXPECT_EQ(found->truth.size(), 60u);
  const auto evaluation = evaluate(*encoder.model, *measured.data);
  EXPECT_LT(evaluation->loss, 0.3);
  EXPECT_NEAR(found->evaluation.loss, evaluation->loss, 1e-6);
  EXPECT_EQ(found->evaluation.tokens, evaluation->tokens);
  // As the encoder classifies them one by one.
  const auto texts = read_labels(folder_ / "test.tsv");
  int64_t right = 0;
  for (const auto& text : texts) right += encoder.classify(TextEncoder::Texts{text.text})[0].label == text.label;
  EXPECT_NEAR(found->accuracy(), double(right) / 60, 1e-12);
}

TEST_F(Readers, TheLabelMayStandLast) {
  const auto o = options({"data.train=" + file("a.tsv", labelled(40, 1, true)), "data.label_column=last",
                          "data.validation_fraction=0.25"});
  const TrainParts parts = load_train_parts(o);
  EXPECT_EQ(parts.train->token_count(), 30);
  EXPECT_EQ(parts.validation->token_count(), 10);
}

TEST_F(Readers, ValidationIsDrawnFromAllClasses) {
  std::string sorted;
  for (int i = 0; i < 40; ++i) sorted += (i < 20 ? "good\tsun\n" : "bad\train\n");
  const auto o = options({"data.train=" + file("sorted.tsv", sorted), "data.validation_fraction=0.5"});
  const TrainParts parts = load_train_parts(o), again = load_train_parts(o);
  std::set<int64_t> seen;
  for (int64_t i = 0; i < parts.validation->batch_count(0); ++i) {
    const Tensor labels = parts.validation->batch(0, i).labels;
    for (int64_t n = 0; n < labels.numel(); ++n) seen.insert(labels[n].item<int64_t>());
  }
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_EQ(parts.validation->fingerprint(), again.validation->fingerprint());
}

TEST_F(Readers, LongTextsMayBeCutForGood) {
  const auto o = options({train_file(), test_file(), "data.context=6", "data.cut_longer=true"});
  const TrainParts parts = load_train_parts(o);
  EXPECT_EQ(parts.train->token_count(), 200);
  EXPECT_EQ(parts.train->longest_row(), 6);
  const TextEncoder encoder = trained(o);  // what was saved cuts likewise
  EXPECT_EQ(encoder.tokenizer.ids("the day was it and a rain fog sun").size(), 6u);
  const auto measured = load_measured_data(*encoder.model, encoder.tokenizer,
                                           {.kind = "labels", .files = {(folder_ / "test.tsv").string()}});
  EXPECT_EQ(measured.data->token_count(), 60);
  const auto shorter = load_measured_data(
      *encoder.model, encoder.tokenizer,
      {.kind = "labels", .files = {(folder_ / "test.tsv").string()}, .context = 4, .cut_longer = true});
  EXPECT_EQ(shorter.data->longest_row(), 4);
  expect_error({"data.kind=masked", train_file(), "data.cut_longer=true"}, ErrorKind::kConfig,
               "data.cut_longer is for");
}

TEST_F(Readers, PairsHaveTwoSegments) {
  std::string table;
  for (int i = 0; i < 20; ++i) table += (i % 2 ? "same\tday\tday\n" : "other\tday\tsun\n");
  const TrainParts parts = load_train_parts(options({"data.train=" + file("pairs.tsv", table)}));
  const Batch batch = parts.train->batch(0, 0);
  EXPECT_EQ(batch.type_ids.max().item<int64_t>(), 1);
  EXPECT_EQ(batch.ids[0][0].item<int64_t>(), *parts.tokenizer->token_to_id("[CLS]"));
  EXPECT_EQ(parts.model->config()["type_vocab_size"], 2);
  EXPECT_TRUE(std::isfinite(parts.model->loss(batch).sum.item<double>()));
}

TEST_F(Readers, OtherTokenizers) {
  for (const char* type : {"characters", "bpe"}) {
    const auto o = options(
        {train_file(), std::string("tokenizer.type=") + type, "tokenizer.vocab_size=300", "model.positions=64"});
    const TrainParts parts = load_train_parts(o);
    const auto ids = parts.tokenizer->ids("the [MASK]");
    EXPECT_EQ(ids.front(), *parts.tokenizer->token_to_id("[CLS]"));
    EXPECT_EQ(ids.back(), *parts.tokenizer->token_to_id("[SEP]"));
    EXPECT_TRUE(parts.tokenizer->mask_id().has_value());
    EXPECT_EQ(parts.model->config()["pad_token_id"], *parts.tokenizer->pad_id());
  }
}

TEST_F(Readers, MaskedWordsThenClasses) {
  std::string text;
  for (int i = 0; i < 120; ++i) text += i % 2 ? "the sun was joy and day\n" : "a fog was rain and night\n";
  const auto first =
      options({"data.kind=masked", "data.train=" + file("text.txt", text), "data.validation_fraction=0.2",
               "train.steps=400", "train.validate_every=400", "model.dropout=0"});
  const TextEncoder words = trained(first);
  EXPECT_EQ(words.model->head(), "masked_lm");
  EXPECT_EQ(words.fill_mask("the sun was [MASK] and day", 1)[0].token, "joy");
  const auto measured =
      load_measured_data(*words.model, words.tokenizer, {.kind = "masked", .files = {(folder_ / "text.txt").string()}});
  const auto found = predict(*words.model, *measured.data);
  EXPECT_GT(found->accuracy(), 0.6);
  EXPECT_NEAR(found->evaluation.loss, evaluate(*words.model, *measured.data)->loss, 1e-5);

  const auto path = (folder_ / "words").string();
  std::filesystem::copy(best_, path, std::filesystem::copy_options::recursive);
  const auto second = options({train_file(), "train.init=" + path, "train.existing=replace"});
  const TrainParts parts = load_train_parts(second);
  const auto a = words.model->named_parameters(), b = parts.model->named_parameters();
  EXPECT_TRUE(at::equal(a["embedding.weight"], b["embedding.weight"]));
  EXPECT_TRUE(at::equal(a["encoder.layers.0.feed_forward.up.weight"], b["encoder.layers.0.feed_forward.up.weight"]));
  EXPECT_FALSE(b.contains("words.bias"));
  EXPECT_TRUE(at::equal(b["classifier.output.weight"],
                        load_train_parts(second).model->named_parameters()["classifier.output.weight"]));
  const TextEncoder classes = trained(second);
  EXPECT_EQ(classes.model->head(), "classifier");

  // Going on with the same classes keeps the head; with others it begins anew.
  std::filesystem::copy(best_, folder_ / "classes", std::filesystem::copy_options::recursive);
  const std::string init = "train.init=" + (folder_ / "classes").string();
  const auto kept = load_train_parts(options({train_file(), init})).model->named_parameters();
  EXPECT_TRUE(
      at::equal(kept["classifier.output.weight"], classes.model->named_parameters()["classifier.output.weight"]));
  const auto other =
      load_train_parts(options({"data.train=" + file("other.tsv", "x\tday\ny\tsun\nz\tfog\nx\train\n"), init}));
  EXPECT_EQ(std::dynamic_pointer_cast<EncoderModelImpl>(other.model)->labels().size(), 3u);
}

TEST_F(Readers, AResumedRunEqualsOneThatNeverStopped) {
  for (const std::string kind : {"labels", "masked"})
    expect_exact_resume({"data.train=" + file("data-" + kind, labelled(100)), "data.kind=" + kind,
                         "data.validation_fraction=0.2", "train.steps=40"},
                        17, kind);
}

TEST_F(Readers, BadInput) {
  const std::string train = train_file();
  expect_error({"data.train=" + file("one.tsv", "good\ta\ngood\tb\n")}, ErrorKind::kInput,
               "one.tsv: all 2 texts have the label \"good\"");
  expect_error({"data.train=" + file("column.tsv", "good\ta\nbad\n")}, ErrorKind::kInput, "column.tsv:2: one column");
  expect_error({"data.train=" + file("last.tsv", labelled(20, 1, true))}, ErrorKind::kInput,
               "last.tsv: each of the 20 texts has a label of its own");
  expect_error({train, "data.validation=" + file("v.tsv", "good\ta\ngod\tb\n")}, ErrorKind::kInput,
               "v.tsv:2: the model knows no label \"god\"; did you mean \"good\"?");
  expect_error({train, "data.validation=" + file("w.tsv", "a day\tgood\n")}, ErrorKind::kInput,
               "w.tsv:1: the model knows no label \"a day\"; it seems to stand in the other column");
  expect_error({train, "data.validation=" + file("none.tsv", "\n")}, ErrorKind::kInput, "none.tsv: holds no texts");
  expect_error({train, "data.validation_fraction=0.001"}, ErrorKind::kInput, "0.1 % of 200 texts leave one side empty");
  expect_error({train, "data.context=4"}, ErrorKind::kInput, "tokens, rows have 4");
  EXPECT_LT(load_train_parts(options({train, "data.context=8", "data.drop_longer=true"})).train->token_count(), 200);
  expect_error({train, "model.type=gpt2"}, ErrorKind::kConfig, "an encoder such as bert does");
  expect_error({"data.kind=text",
                "data.train=" + file("a.txt", "the day was long and the sun was high and joy and fog and rain")},
               ErrorKind::kConfig, "does not predict the next token");
  expect_error({train, "data.label_column=middle"}, ErrorKind::kConfig, "data.label_column");
  expect_error({"data.kind=masked", "data.train=" + file("blank.txt", " \n")}, ErrorKind::kInput, "the text is empty");
  expect_error({"data.kind=masked", "data.train=" + file("b.txt", "a day\n"), "data.context=2"}, ErrorKind::kConfig,
               "no room for a token beside the 2");
}

}  // namespace
}  // namespace fovea
