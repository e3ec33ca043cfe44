// BERT and its relatives by their promises; their numbers are held against transformers in tests/parity/test_bert.py.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/bert.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "fovea/models/pretrained.h"
#include "fovea/models/registry.h"
#include "tests/gradient_check.h"

namespace fovea {
namespace {

const std::vector<std::string> kBertHeads{"none",       "masked_lm",        "pretraining",       "next_sentence",
                                          "classifier", "token_classifier", "question_answering"};

BertConfig bert_config(const std::string& head, const std::string& type = "bert") {
  BertConfig c{.type = type, .head = head, .vocab_size = 13, .positions = 16, .width = 12, .layers = 2, .heads = 3};
  if (type == "distilbert") c.segments = 0;
  if (head == "classifier" || head == "token_classifier") c.labels = {"a", "b", "c"};
  return c;
}

Bert wide_bert(const std::string& head, const std::string& type = "bert") {
  at::manual_seed(5);
  Bert model(bert_config(head, type));
  const torch::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.add_(at::randn_like(parameter), 0.2);
  model->to(torch::kDouble);
  model->eval();
  return model;
}

Tensor bert_ids(int64_t rows, int64_t columns) {
  return at::arange(rows * columns).mul(7).add(3).remainder(12).add(1).view({rows, columns});
}
Tensor longs(std::vector<int64_t> values) { return at::tensor(values, at::kLong); }
bool bert_near(const Tensor& a, const Tensor& b) { return at::allclose(a, b, 1e-9, 1e-9); }

TEST(BertModel, ARowDoesNotDependOnItsMatesNorOnTheSideOfItsPadding) {
  const torch::NoGradGuard no_grad;
  for (const std::string type : {"bert", "roberta", "distilbert"}) {
    for (const std::string& head : kBertHeads) {
      if (type != "bert" && (head == "pretraining" || head == "next_sentence")) continue;
      const auto model = wide_bert(head, type);
      const auto ids = bert_ids(3, 8);
      const auto alone = model->forward({.ids = ids.slice(0, 1, 2).slice(1, 0, 5)})[0];
      const auto right = model->forward({.ids = ids, .lengths = longs({8, 5, 1})})[1];
      const auto shifted = ids.index_put({longs({1})}, at::roll(ids[1], 2));  // its tokens in slots 2 … 6
      const auto left = model->forward({.ids = shifted, .lengths = longs({8, 5, 1}), .start = longs({0, 2, 7})})[1];
      const bool rows = model->head() == "classifier";
      EXPECT_TRUE(bert_near(rows ? right : right.slice(0, 0, 5), alone)) << type << ' ' << head;
      EXPECT_TRUE(bert_near(rows ? left : left.slice(0, 2, 7), alone)) << type << ' ' << head;
    }
  }
}

TEST(BertModel, PaddingHasNoPartInAnyLoss) {
  for (const std::string& head : kBertHeads) {
    if (head == "none") continue;
    auto model = wide_bert(head);
    const auto ids = bert_ids(2, 8), longer = at::cat({ids, at::full({2, 3}, 11, at::kLong)}, 1);
    Batch batch{.ids = ids, .lengths = longs({8, 5})};
    if (head == "question_answering") {
      batch.labels = longs({1, 7, 0, 4}).view({2, 2});
    } else if (model->head() == "classifier") {
      batch.labels = longs({1, 0});
    } else {
      batch.labels = bert_ids(2, 8).remainder(3);
      batch.labels[1].slice(0, 5).fill_(kIgnore);
    }
    if (head == "pretraining") batch.next_sentence = longs({0, 1});
    const auto loss = model->loss(batch);
    Batch padded = batch;
    padded.ids = longer;
    if (batch.labels.size(-1) == 8) padded.labels = at::cat({batch.labels, at::full({2, 3}, kIgnore, at::kLong)}, 1);
    const auto again = model->loss(padded);
    EXPECT_TRUE(bert_near(loss.sum, again.sum)) << head;
    EXPECT_EQ(loss.count, again.count) << head;
    EXPECT_GT(loss.sum.item<double>(), 0) << head;
  }
}

TEST(BertModel, PackedTextsEqualSingleOnes) {
  const torch::NoGradGuard no_grad;
  auto model = wide_bert("masked_lm");
  const auto ids = bert_ids(1, 7);
  const auto packed = model->forward({.ids = ids,
                                      .documents = longs({0, 0, 0, 1, 1, 1, 1}).unsqueeze(0),
                                      .positions = longs({0, 1, 2, 0, 1, 2, 3}).unsqueeze(0)});
  EXPECT_TRUE(bert_near(packed.slice(1, 0, 3), model->forward({.ids = ids.slice(1, 0, 3)})));
  EXPECT_TRUE(bert_near(packed.slice(1, 3, 7), model->forward({.ids = ids.slice(1, 3, 7)})));
}

// It is told by a slot of padding, on whichever side that stands; a batch without slots is given one.
TEST(BertModel, ARowWithoutTokensIsClassifiedAsAnyPadding) {
  const torch::NoGradGuard no_grad;
  for (const std::string type : {"bert", "roberta", "distilbert"}) {
    auto model = wide_bert("classifier", type);
    const auto ids = bert_ids(2, 5);
    ids[1].fill_(0);  // the padding's id
    const auto right = model->forward({.ids = ids, .lengths = longs({5, 0})});
    EXPECT_TRUE(bert_near(model->forward({.ids = ids, .lengths = longs({5, 0}), .start = longs({0, 5})}), right));
    EXPECT_TRUE(bert_near(model->forward({.ids = ids, .start = longs({0, 5})}), right)) << type;
    const auto none = at::zeros({2, 0}, at::kLong);
    for (const Tensor& lengths : {Tensor(), longs({0, 0})}) {
      const auto empty = model->forward({.ids = none, .lengths = lengths, .start = lengths});
      EXPECT_TRUE(bert_near(empty, right[1].expand({2, 3}))) << type;
    }
    EXPECT_EQ(model->loss({.ids = none, .labels = longs({1, 0})}).count, 2) << type;
    for (const int64_t T : {0, 4})
      EXPECT_EQ(model->forward({.ids = at::zeros({0, T}, at::kLong)}).sizes(), (std::vector<int64_t>{0, 3})) << type;
  }
  EXPECT_EQ(wide_bert("none")->pooled({.ids = at::zeros({2, 0}, at::kLong)}).sizes(), (std::vector<int64_t>{2, 12}));
}

TEST(BertModel, EmptyBatchesAndWrongCalls) {
  const torch::NoGradGuard no_grad;
  auto model = wide_bert("masked_lm");
  EXPECT_EQ(model->forward({.ids = at::zeros({0, 4}, at::kLong)}).sizes(), (std::vector<int64_t>{0, 4, 13}));
  EXPECT_EQ(model->forward({.ids = at::zeros({2, 0}, at::kLong)}).sizes(), (std::vector<int64_t>{2, 0, 13}));
  const auto nothing = model->loss({.ids = bert_ids(1, 4), .labels = at::full({1, 4}, kIgnore, at::kLong)});
  EXPECT_EQ(nothing.count, 0);
  EXPECT_EQ(nothing.mean().item<double>(), 0);
  const auto says = [](const std::function<void()>& call, const char* part) {
    const auto message = error_of(call);
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says([&] { model->forward({.ids = at::zeros({1, 17}, at::kLong)}); }, "17 tokens does not fit the 16 positions");
  says(
      [&] {
        model->forward({.ids = bert_ids(1, 3), .type_ids = longs({0, 1, 2}).unsqueeze(0)});
      },
      "wanted [1, 3] of 0 … 1");
  says([&] { model->forward({.labels = longs({1})}); }, "no ids");
  says([&] { model->loss({.ids = bert_ids(1, 3)}); }, "no labels");
  says([&] { model->pooled({.ids = bert_ids(1, 3)}); }, "no pooler");
  says([&] { wide_bert("none")->loss({.ids = bert_ids(1, 3), .labels = longs({1})}); }, "without a head");
  says(
      [&] {
        wide_bert("question_answering")->loss({.ids = bert_ids(1, 3), .labels = longs({0, 1}).unsqueeze(0)}, 0.1);
      },
      "label smoothing");
}

TEST(BertModel, BadConfigurations) {
  const auto says = [](BertConfig c, const char* part) {
    const auto message = error_of([&] { Bert{c}; });
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  says(bert_config("masked_ml"), "did you mean \"masked_lm\"");
  says(bert_config("pretraining", "roberta"), "unknown head \"pretraining\"");
  says(bert_config("masked_lm", "bret"), "did you mean \"bert\"");
  BertConfig c = bert_config("classifier");
  c.problem = "single_label_clasification";
  says(c, "did you mean \"single_label_classification\"");
  c = bert_config("classifier");
  c.labels.clear();
  says(c, "names of its labels");
  c = bert_config("masked_lm");
  c.head_dropout = 0.1;
  says(c, "no head_dropout");
  c = bert_config("masked_lm", "roberta");
  c.pad_token_id = 13;
  says(c, "pad_token_id is 13");
  c = bert_config("masked_lm");
  c.segments = 0;
  says(c, "segments is 0");
  c = bert_config("masked_lm");
  c.heads = 5;
  says(c, "5");
}

TEST(BertModel, ConfigJsonThereAndBack) {
  for (const std::string type : {"bert", "roberta", "xlm-roberta", "camembert", "distilbert"}) {
    for (const std::string& head : kBertHeads) {
      if (type != "bert" && (head == "pretraining" || head == "next_sentence")) continue;
      const auto json = Bert(bert_config(head, type))->config();
      EXPECT_EQ(make_model(json)->config(), json) << type << ' ' << head;
    }
  }
  auto json = Bert(bert_config("token_classifier"))->config();
  json.erase("model_type");  // the architecture is enough
  json.erase("id2label");
  json["num_labels"] = 4;
  const auto model = std::dynamic_pointer_cast<BertImpl>(make_model(json));
  EXPECT_EQ(model->labels(), (std::vector<std::string>{"LABEL_0", "LABEL_1", "LABEL_2", "LABEL_3"}));
  json["id2label"] = {{"0", "a"}, {"2", "b"}};
  EXPECT_NE(error_of([&] { make_model(json); }).find("no text for \"1\""), std::string::npos);
}

BertConfig linformer_config(const std::string& head, const std::string& sharing) {
  BertConfig c = bert_config(head, "linformer");
  c.projected = 3;
  c.sharing = sharing;
  return c;
}

TEST(BertModel, ALinformerIsBertWithProjectedKeys) {
  const torch::NoGradGuard no_grad;
  for (const std::string head : {"masked_lm", "classifier", "token_classifier", "none"}) {
    for (const std::string sharing : {"none", "heads", "key_value", "layers"}) {
      at::manual_seed(3);
      Bert model(linformer_config(head, sharing));
      model->eval();
      const auto json = model->config();
      EXPECT_EQ(json["model_type"], "linformer");
      EXPECT_EQ(make_model(json)->config(), json);
      std::set<std::string> named;
      for (const auto& name : model->tensor_names())
        for (const auto& ours : name.ours) named.insert(ours);
      for (const auto& own : own_names(*model)) EXPECT_TRUE(named.count(own.ours[0])) << own.stored;

      const int64_t T = 6;
      const auto ids = at::arange(T).view({1, T}), alone = model->encode({.ids = ids});
      const auto padded = at::cat({ids, at::zeros({1, 3}, at::kLong)}, 1);
      const auto right = model->encode({.ids = padded, .lengths = at::tensor({T}, at::kLong)});
      EXPECT_TRUE(at::allclose(right.slice(1, 0, T), alone, 1e-4, 1e-5)) << head << sharing;
      const auto left = model->encode({.ids = padded.roll(3, 1), .start = at::tensor({int64_t{3}}, at::kLong)});
      EXPECT_TRUE(at::allclose(left.slice(1, 3), alone, 1e-4, 1e-5)) << head << sharing;
    }
  }
  EXPECT_NE(error_of([] { Bert(linformer_config("masked_lm", "head")); }).find("did you mean \"heads\""),
            std::string::npos);
  BertConfig none = linformer_config("masked_lm", "heads");
  none.projected = 0;
  EXPECT_NE(error_of([&] { Bert{none}; }).find("projected is 0"), std::string::npos);
}

TEST(BertModel, ScoresAreWhatTheProblemSays) {
  const auto logits = at::tensor({1.0, -2.0, 0.5}, at::kDouble);
  BertConfig c = bert_config("classifier");
  const auto scores = [&](const char* problem) {
    c.problem = problem;
    return Bert(c)->scores(logits).to(at::kDouble);
  };
  EXPECT_TRUE(at::allclose(scores(""), at::softmax(logits, 0)));
  EXPECT_TRUE(at::allclose(scores("multi_label_classification"), at::sigmoid(logits)));
  EXPECT_TRUE(at::allclose(scores("regression"), logits));
}

}  // namespace
}  // namespace fovea
