// config.json, up to the model it describes.
// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "fovea/io/json.h"
#include "fovea/models/registry.h"
#include "tests/fuzz/fuzz.h"

namespace fovea::fuzz {
namespace {

constexpr const char* kGpt2 = R"({"model_type": "gpt2", "vocab_size": 60, "n_positions": 16, "n_embd": 8, "n_layer": 2,
"n_head": 2, "n_inner": null, "activation_function": "gelu_new", "resid_pdrop": 0.1, "embd_pdrop": 0.1,
"attn_pdrop": 0.1, "layer_norm_epsilon": 1e-05, "initializer_range": 0.02, "tie_word_embeddings": true,
"scale_attn_weights": true})";
constexpr const char* kBare = R"({"architectures": ["GPT2LMHeadModel"], "vocab_size": 9, "n_embd": 4, "n_layer": 1,
"n_head": 1, "n_inner": 3})";
constexpr const char* kTransformer = R"({"model_type": "transformer", "vocab_size": 11, "source_vocab_size": 12,
"shared_embeddings": false, "width": 8, "encoder_layers": 1, "decoder_layers": 2, "heads": 2, "hidden": 16,
"positions": 32, "activation": "relu", "dropout": 0.1, "attention_dropout": 0.0, "pre_norm": true, "tied": false,
"eps": 1e-5, "bos_token_id": 1})";
constexpr const char* kVit = R"({"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 8,
"num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12, "hidden_act": "gelu", "image_size": [12, 8],
"patch_size": 4, "num_channels": 3, "qkv_bias": true, "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.0,
"attention_probs_dropout_prob": 0.1, "id2label": {"0": "cat", "1": "dog"}, "problem_type": null,
"interpolate_pos_encoding": true, "pooler_output_size": 8, "pooler_act": "tanh"})";

constexpr const char* kRoberta = R"({"model_type": "roberta", "architectures": ["RobertaForSequenceClassification"],
"vocab_size": 12, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12,
"hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "max_position_embeddings": 14,
"type_vocab_size": 1, "layer_norm_eps": 1e-05, "pad_token_id": 1, "classifier_dropout": null, "num_labels": 3,
"problem_type": "regression", "is_decoder": false})";
constexpr const char* kDistilBert = R"({"architectures": ["DistilBertForMaskedLM"], "vocab_size": 12, "dim": 8,
"n_layers": 1, "n_heads": 2, "hidden_dim": 12, "activation": "gelu", "dropout": 0.1, "attention_dropout": 0.0,
"max_position_embeddings": 9, "qa_dropout": 0.1, "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": false,
"tie_word_embeddings": true})";

constexpr const char* kLongformer = R"({"model_type": "longformer", "architectures": ["LongformerForQuestionAnswering"],
"vocab_size": 12, "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 12,
"hidden_act": "gelu", "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "max_position_embeddings": 14,
"type_vocab_size": 1, "layer_norm_eps": 1e-05, "pad_token_id": 1, "sep_token_id": 2, "attention_window": [2, 4]})";
constexpr const char* kBigBird = R"({"model_type": "big_bird", "architectures": ["BigBirdForPreTraining"],
"vocab_size": 12, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12,
"hidden_act": "gelu_new", "max_position_embeddings": 14, "type_vocab_size": 2, "attention_type": "block_sparse",
"block_size": 2, "num_random_blocks": 1, "use_bias": false, "rescale_embeddings": true, "sep_token_id": 3})";

// Sizes that are neither small nor absurd would only take time and memory; absurd ones are the library's to refuse.
void keep_small(nlohmann::json& value) {
  if (value.is_structured())
    for (auto& element : value) keep_small(element);
  if (value.is_number_integer() && value > 16 && value < (int64_t{1} << 40)) value = value.get<int64_t>() % 16;
}

}  // namespace

static Target model_config_target() {
  return {.corpus = {kGpt2, kBare, kTransformer, kVit, kRoberta, kDistilBert, kLongformer, kBigBird},
          .words = {"\"n_embd\": ", "\"n_layer\": ", "\"width\": ", "\"heads\": ", "\"vocab_size\": ", "\"swiglu\"",
                    "false", "0.5", "\"ViTModel\"", "\"image_size\": ", "\"pad_token_id\": ", "\"BertForPreTraining\"",
                    "\"ForTokenClassification\"", "\"distilbert\""},
          .read = [](const std::string& input) {
            nlohmann::json config = parse_json(input, "config.json");
            keep_small(config);
            for (const char* size : {"vocab_size",
                                     "n_positions",
                                     "n_embd",
                                     "n_layer",
                                     "n_head",
                                     "width",
                                     "encoder_layers",
                                     "decoder_layers",
                                     "heads",
                                     "hidden",
                                     "hidden_size",
                                     "num_hidden_layers",
                                     "num_attention_heads",
                                     "intermediate_size",
                                     "image_size",
                                     "patch_size",
                                     "dim",
                                     "n_layers",
                                     "n_heads",
                                     "hidden_dim",
                                     "max_position_embeddings"})
              if (config.is_object() && config.value(size, nlohmann::json()).is_null())
                config[size] = 4;  // not GPT-2's
            const Model model = make_model(config);
            expect(make_model(model->config())->config() == model->config(),
                   "the model's own config.json makes another model");
          }};
}

static const Registered model_config("model_config", model_config_target);

}  // namespace fovea::fuzz
