// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/bert_folder.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fovea/base/nearest.h"
#include "fovea/models/config_json.h"

namespace fovea {
namespace {

// Two ways of naming the same parts. BERT's and RoBERTa's:
struct BertWords {
  // config.json
  const char *width = "hidden_size", *layers = "num_hidden_layers", *heads = "num_attention_heads",
             *hidden = "intermediate_size", *activation = "hidden_act", *dropout = "hidden_dropout_prob",
             *attention_dropout = "attention_probs_dropout_prob", *classifier_dropout = "classifier_dropout";
  // tensors of a layer
  const char *layer = "encoder.layer.", *query = "attention.self.query", *key = "attention.self.key",
             *value = "attention.self.value", *output = "attention.output.dense",
             *attention_norm = "attention.output.LayerNorm", *up = "intermediate.dense", *down = "output.dense",
             *feed_forward_norm = "output.LayerNorm";
};
// DistilBERT's:
constexpr BertWords kDistilWords{.width = "dim",
                                 .layers = "n_layers",
                                 .heads = "n_heads",
                                 .hidden = "hidden_dim",
                                 .activation = "activation",
                                 .dropout = "dropout",
                                 .attention_dropout = "attention_dropout",
                                 .classifier_dropout = "seq_classif_dropout",
                                 .layer = "transformer.layer.",
                                 .query = "attention.q_lin",
                                 .key = "attention.k_lin",
                                 .value = "attention.v_lin",
                                 .output = "attention.out_lin",
                                 .attention_norm = "sa_layer_norm",
                                 .up = "ffn.lin1",
                                 .down = "ffn.lin2",
                                 .feed_forward_norm = "output_layer_norm"};

struct BertFamily {
  std::string type;     // config.json's model_type
  std::string classes;  // how its architectures begin
  std::string prefix;   // outer prefix of stored names
  BertWords words;
  // stored names of the masked words' head; its bias may be one of the output's or stand beside it
  std::string word_dense, word_norm, word_bias, word_output;
  std::string row_dense, row_output;  // of a classifier of rows; the first may
                                      // be the encoder's pooler
  int64_t pad_token_id = 0;
  bool distilled = false;               // no segments, no pooler, no next sentence
  bool robust = false;                  // positions after the padding's id; the masked words' activation is fixed
  bool own_dense = false;               // a classifier of rows has a dense layer of its own, with dropout before it
  std::string row_activation = "tanh";  // of that layer or the pooler; "": the encoder's
  std::string pooler = "pooler.dense", answers = "qa_outputs";
  bool own_file = false;  // its encoder is another: a model of its own
  bool projects = false;  // keys and values are projected to fewer rows
};

BertFamily roberta_family(const char* type, const char* classes) {
  return {.type = type,
          .classes = classes,
          .prefix = "roberta.",
          .word_dense = "lm_head.dense",
          .word_norm = "lm_head.layer_norm",
          .word_bias = "lm_head.bias",
          .word_output = "lm_head.decoder",
          .row_dense = "classifier.dense",
          .row_output = "classifier.out_proj",
          .pad_token_id = 1,
          .robust = true,
          .own_dense = true};
}

BertFamily longformer_family() {
  BertFamily out = roberta_family("longformer", "Longformer");
  out.prefix = "longformer.";
  out.words.classifier_dropout = nullptr;
  out.own_file = true;
  return out;
}

const std::vector<BertFamily>& bert_families() {
  static const std::vector<BertFamily> families = {{.type = "bert",
                                                    .classes = "Bert",
                                                    .prefix = "bert.",
                                                    .word_dense = "cls.predictions.transform.dense",
                                                    .word_norm = "cls.predictions.transform.LayerNorm",
                                                    .word_bias = "cls.predictions.bias",
                                                    .word_output = "cls.predictions.decoder",
                                                    .row_dense = "bert.pooler.dense",
                                                    .row_output = "classifier"},
                                                   roberta_family("roberta", "Roberta"),
                                                   roberta_family("xlm-roberta", "XLMRoberta"),
                                                   roberta_family("camembert", "Camembert"),
                                                   {.type = "distilbert",
                                                    .classes = "DistilBert",
                                                    .prefix = "distilbert.",
                                                    .words = kDistilWords,
                                                    .word_dense = "vocab_transform",
                                                    .word_norm = "vocab_layer_norm",
                                                    .word_bias = "vocab_projector.bias",
                                                    .word_output = "vocab_projector",
                                                    .row_dense = "pre_classifier",
                                                    .row_output = "classifier",
                                                    .distilled = true,
                                                    .row_activation = "relu"},
                                                   longformer_family(),
                                                   {.type = "linformer",
                                                    .classes = "Linformer",
                                                    .prefix = "linformer.",
                                                    .word_dense = "cls.predictions.transform.dense",
                                                    .word_norm = "cls.predictions.transform.LayerNorm",
                                                    .word_bias = "cls.predictions.bias",
                                                    .word_output = "cls.predictions.decoder",
                                                    .row_dense = "linformer.pooler.dense",
                                                    .row_output = "classifier",
                                                    .projects = true},
                                                   {.type = "big_bird",
                                                    .classes = "BigBird",
                                                    .prefix = "bert.",
                                                    .word_dense = "cls.predictions.transform.dense",
                                                    .word_norm = "cls.predictions.transform.LayerNorm",
                                                    .word_bias = "cls.predictions.bias",
                                                    .word_output = "cls.predictions.decoder",
                                                    .row_dense = "classifier.dense",
                                                    .row_output = "classifier.out_proj",
                                                    .own_dense = true,
                                                    .row_activation = "",
                                                    .pooler = "pooler",
                                                    .answers = "qa_classifier.qa_outputs",
                                                    .own_file = true}};
  return families;
}

const BertFamily& bert_family(const std::string& type) {
  for (const BertFamily& family : bert_families())
    if (family.type == type) return family;
  throw Error(ErrorKind::kConfig, "bert: unknown type \"" + type + "\"" + suggestion(type, bert_types()));
}

// How an architecture ends, and the head it means.
struct BertHead {
  std::string ending, head;
  std::vector<std::string> types{};  // that have it; none: all
};

bool bert_has(const BertHead& head, const std::string& type) {
  return head.types.empty() || std::find(head.types.begin(), head.types.end(), type) != head.types.end();
}

const std::vector<BertHead>& bert_heads() {
  static const std::vector<BertHead> heads = {{"Model", "none"},
                                              {"ForMaskedLM", "masked_lm"},
                                              {"ForPreTraining", "pretraining", {"bert", "big_bird"}},
                                              {"ForNextSentencePrediction", "next_sentence", {"bert"}},
                                              {"ForSequenceClassification", "classifier"},
                                              {"ForTokenClassification", "token_classifier"},
                                              {"ForQuestionAnswering", "question_answering"}};
  return heads;
}

bool bert_names_labels(const std::string& head) { return head == "classifier" || head == "token_classifier"; }

// config.json's field of the dropout before a head's classifier, or null where that has none of its own.
const char* head_dropout_field(const BertFamily& family, const std::string& head) {
  if (head == "classifier" || (head == "token_classifier" && !family.distilled)) return family.words.classifier_dropout;
  return head == "question_answering" && family.distilled ? "qa_dropout" : nullptr;
}

// The head that the first known of config.json's architectures has; without any the encoder alone.
std::string read_head(const nlohmann::json& json, const BertFamily& family) {
  const auto named = json.find("architectures");
  if (named == json.end() || named->empty()) return "none";
  for (const auto& architecture : *named)
    for (const BertHead& head : bert_heads())
      if (architecture == family.classes + head.ending && bert_has(head, family.type)) return head.head;
  std::string known;
  for (const auto& name : bert_architectures(family.type)) known += (known.empty() ? "" : ", ") + name;
  throw Error(ErrorKind::kInput,
              "config.json: \"architectures\": " + named->dump() + " is not supported; known are " + known);
}

}  // namespace

std::vector<std::string> bert_types() {
  std::vector<std::string> out;
  for (const BertFamily& family : bert_families())
    if (!family.own_file) out.push_back(family.type);
  return out;
}

std::vector<std::string> bert_architectures(const std::string& type) {
  std::vector<std::string> out;
  for (const BertHead& head : bert_heads())
    if (bert_has(head, type)) out.push_back(bert_family(type).classes + head.ending);
  return out;
}

void check_bert_config(BertConfig& c) {
  const BertFamily& family = bert_family(c.type);
  std::vector<std::string> known;
  for (const BertHead& head : bert_heads())
    if (bert_has(head, c.type)) known.push_back(head.head);
  const bool fits = std::find(known.begin(), known.end(), c.head) != known.end();
  FOVEA_CHECK_CONFIG(fits, c.type, ": unknown head \"", c.head, "\"", suggestion(c.head, known));
  FOVEA_CHECK_CONFIG(c.initializer_range >= 0, c.type, ": initializer_range is ", c.initializer_range,
                     ", wanted at least 0");
  FOVEA_CHECK_CONFIG(!family.distilled || c.segments == 0, c.type, ": segments is ", c.segments, ", it has none");
  FOVEA_CHECK_CONFIG(family.distilled || c.segments > 0, c.type, ": segments is ", c.segments, ", wanted at least 1");
  FOVEA_CHECK_CONFIG(!family.robust || (c.pad_token_id >= 0 && c.pad_token_id < c.vocab_size), c.type,
                     ": pad_token_id is ", c.pad_token_id, ", wanted a token's id: positions are counted from it on");
  FOVEA_CHECK_CONFIG(!c.head_dropout || head_dropout_field(family, c.head) != nullptr, c.type, ": a ", c.head,
                     " head has no head_dropout of its own");
  if (bert_names_labels(c.head)) {
    FOVEA_CHECK_CONFIG(!c.labels.empty(), c.type, ": a ", c.head, " needs the names of its labels");
  } else {
    c.labels.clear();
  }
  // As the original release names them.
  if (c.head == "next_sentence" || c.head == "pretraining") c.labels = {"isNext", "notNext"};
  if (family.distilled) c.pooler = false;
}

bool bert_has_segments(const std::string& type) { return !bert_family(type).distilled; }

bool bert_projects(const std::string& type) { return bert_family(type).projects; }

int64_t bert_position_offset(const BertConfig& c) { return bert_family(c.type).robust ? c.pad_token_id + 1 : 0; }

PoolerOptions bert_pooler(const BertConfig& c, double dropout) {
  const BertFamily& family = bert_family(c.type);
  const bool own = family.own_dense && c.head == "classifier";
  const std::string named = own || family.distilled ? family.row_activation : "tanh";
  return {.width = c.width, .activation = named.empty() ? c.activation : named, .dropout = own ? dropout : 0};
}

// RoBERTa's is fixed.
std::string bert_words_activation(const BertConfig& c) { return bert_family(c.type).robust ? "gelu" : c.activation; }

BertConfig read_bert_config(const nlohmann::json& j, const std::string& type) {
  const BertFamily& family = bert_family(config_value(j, "model_type", type));
  const BertWords& w = family.words;
  require_config(j, "is_decoder", false);
  require_config(j, "add_cross_attention", false);
  require_config(j, "position_embedding_type", std::string("absolute"));
  require_config(j, "sinusoidal_pos_embds", false);
  FOVEA_CHECK_INPUT(!j.contains("pruned_heads") || j["pruned_heads"].empty(),
                    "config.json: \"pruned_heads\": layers of unequal numbers "
                    "of heads are not supported");
  BertConfig c{.type = family.type, .head = read_head(j, family)};
  c.vocab_size = config_size(j, "vocab_size", c.vocab_size);
  c.width = config_size(j, w.width, c.width);
  c.layers = config_size(j, w.layers, family.distilled ? 6 : c.layers);
  c.heads = config_size(j, w.heads, c.heads);
  c.hidden = config_size(j, w.hidden, 3072);
  c.activation = config_value(j, w.activation, c.activation);
  c.dropout = config_value(j, w.dropout, c.dropout);
  c.attention_dropout = config_value(j, w.attention_dropout, c.attention_dropout);
  if (const char* field = head_dropout_field(family, c.head); field != nullptr) {
    const auto found = j.find(field);
    if (found != j.end() && !found->is_null()) {
      c.head_dropout = config_value(j, field, 0.0);
    } else if (family.distilled) {
      c.head_dropout = c.head == "classifier" ? 0.2 : 0.1;
    }
  }
  if (!family.distilled) c.eps = config_value(j, "layer_norm_eps", c.eps);
  c.segments = family.distilled ? 0 : config_size(j, "type_vocab_size", c.segments);
  c.initializer_range = config_value(j, "initializer_range", c.initializer_range);
  c.pad_token_id = config_value(j, "pad_token_id", family.pad_token_id);
  c.tied = config_value(j, "tie_word_embeddings", c.tied);
  c.pooler = !family.distilled;
  if (family.projects) {
    c.projected = config_size(j, "projected", c.projected);
    c.sharing = config_value(j, "sharing", c.sharing);
  }
  if (bert_names_labels(c.head)) c.labels = config_labels(j);
  if (c.head == "classifier") c.problem = config_value(j, "problem_type", std::string());
  check_bert_config(c);  // the padding's id, before it is counted from
  const int64_t rows = config_size(j, "max_position_embeddings", c.positions), offset = bert_position_offset(c);
  FOVEA_CHECK_INPUT(rows > offset, "config.json: \"max_position_embeddings\" is ", rows, ", wanted more than ", offset,
                    " (positions are counted from pad_token_id + 1 on)");
  c.positions = rows - offset;
  return c;
}

nlohmann::json write_bert_config(const BertConfig& c) {
  const BertFamily& family = bert_family(c.type);
  const BertWords& w = family.words;
  std::string architecture = family.classes;
  for (const BertHead& head : bert_heads())
    if (head.head == c.head) architecture += head.ending;
  nlohmann::json out{{"model_type", c.type},
                     {"architectures", {architecture}},
                     {"vocab_size", c.vocab_size},
                     {"max_position_embeddings", c.positions + bert_position_offset(c)},
                     {w.width, c.width},
                     {w.layers, c.layers},
                     {w.heads, c.heads},
                     {w.hidden, c.hidden},
                     {w.activation, c.activation},
                     {w.dropout, c.dropout},
                     {w.attention_dropout, c.attention_dropout},
                     {"initializer_range", c.initializer_range},
                     {"pad_token_id", c.pad_token_id},
                     {"tie_word_embeddings", c.tied}};
  if (!family.distilled) {
    out["layer_norm_eps"] = c.eps;
    out["type_vocab_size"] = c.segments;
  }
  if (family.projects) {
    out["projected"] = c.projected;
    out["sharing"] = c.sharing;
  }
  if (const char* field = head_dropout_field(family, c.head); field != nullptr && (c.head_dropout || family.distilled))
    out[field] = c.head_dropout.value_or(c.head == "classifier" ? c.dropout : 0);
  if (!c.problem.empty()) out["problem_type"] = c.problem;
  if (bert_names_labels(c.head)) write_config_labels(c.labels, out);
  return out;
}

std::vector<TensorName> bert_tensor_names(const BertConfig& c) {
  const BertFamily& family = bert_family(c.type);
  const BertWords& w = family.words;
  std::vector<TensorName> out;
  const auto both = [&](const std::string& stored, const std::string& ours) {
    for (const char* part : {".weight", ".bias"}) out.push_back({.stored = stored + part, .ours = {ours + part}});
  };
  const auto projection = [&](const std::string& stored, const std::string& ours) {
    both(stored, ours);
    if (!c.attention_bias) out.pop_back();
  };
  out.push_back({.stored = family.prefix + "embeddings.word_embeddings.weight", .ours = {"embedding.weight"}});
  const size_t words = out.size() - 1;
  out.push_back(
      {.stored = family.prefix + "embeddings.position_embeddings.weight", .ours = {"encoder.position.weight"}});
  if (c.segments > 0)
    out.push_back({.stored = family.prefix + "embeddings.token_type_embeddings.weight", .ours = {"segments.weight"}});
  both(family.prefix + "embeddings.LayerNorm", "encoder.embed_norm");
  for (int64_t i = 0; i < c.layers; ++i) {
    const std::string h = family.prefix + w.layer + std::to_string(i) + ".";
    const std::string l = "encoder.layers." + std::to_string(i) + ".";
    projection(h + w.query, l + "attention.query");
    projection(h + w.key, l + "attention.key");
    projection(h + w.value, l + "attention.value");
    both(h + w.output, l + "attention.output");
    if (family.projects) {
      const auto row_projection = [&](const std::string& stored, const std::string& ours) {
        out.push_back({.stored = stored, .ours = {l + "attention.variant." + ours}});
      };
      const bool of_all = c.sharing == "layers", apart = c.sharing == "none" || c.sharing == "heads";
      if (of_all && i == 0) row_projection(family.prefix + "encoder.projection", "key_projection");
      if (!of_all) row_projection(h + "attention.self.key_projection", "key_projection");
      if (apart) row_projection(h + "attention.self.value_projection", "value_projection");
    }
    both(h + w.attention_norm, l + "attention_norm");
    both(h + w.up, l + "feed_forward.up");
    both(h + w.down, l + "feed_forward.down");
    both(h + w.feed_forward_norm, l + "feed_forward_norm");
  }
  if (c.head == "none") {
    if (c.pooler) both(family.prefix + family.pooler, "pooler.dense");
    // The encoder alone is stored without the outer prefix.
    for (TensorName& name : out) {
      name.optional = name.ours[0].starts_with("pooler.");
      name.aliases = {name.stored};
      name.stored = name.stored.substr(family.prefix.size());
    }
  }
  if (c.head == "masked_lm" || c.head == "pretraining") {
    both(family.word_dense, "words.dense");
    both(family.word_norm, "words.norm");
    const std::string weight = family.word_output + ".weight", bias = family.word_output + ".bias";
    if (c.tied) {
      out[words].aliases = {weight};
      out.push_back({.stored = family.word_bias, .ours = {"words.bias"}, .aliases = {bias}});
      if (bias == family.word_bias) out.back().aliases.clear();
    } else {
      out.push_back({.stored = weight, .ours = {"words.weight"}});
      out.push_back({.stored = bias, .ours = {"words.bias"}});
    }
  }
  if (c.head == "classifier") {
    both(family.row_dense, "pooler.dense");
    both(family.row_output, "classifier.output");
  }
  if (c.head == "pretraining" || c.head == "next_sentence") {
    both(family.prefix + family.pooler, "pooler.dense");
    both("cls.seq_relationship", "classifier.output");
  }
  if (c.head == "token_classifier") both("classifier", "classifier.output");
  if (c.head == "question_answering") both(family.answers, "classifier.output");
  return out;
}

std::vector<std::string> bert_harmless_names(const BertConfig& c) {
  const BertFamily& family = bert_family(c.type);
  // Counters that older versions stored.
  std::vector<std::string> out{"*embeddings.position_ids", "*embeddings.token_type_ids"};
  // What pre-training leaves beside the head asked for.
  const bool pools = c.head == "none" || c.head == "pretraining" || c.head == "next_sentence" ||
                     (c.head == "classifier" && family.row_dense == family.prefix + "pooler.dense");
  if (!pools || !c.pooler) out.push_back("*" + family.pooler + ".*");
  if (c.head == "masked_lm") out.push_back("cls.seq_relationship.*");
  if (c.head == "none") out.insert(out.end(), {"cls.*", "lm_head.*", "vocab_*"});
  // Untied, the projection's own bias is the one that counts.
  if ((c.head == "masked_lm" || c.head == "pretraining") && !c.tied && family.word_bias != family.word_output + ".bias")
    out.push_back(family.word_bias);
  return out;
}

// A plain encoder's names have it only in the files of models with a head, where aliases find them.
std::string bert_outer_prefix(const BertConfig& c) { return c.head == "none" ? "" : bert_family(c.type).prefix; }

}  // namespace fovea
