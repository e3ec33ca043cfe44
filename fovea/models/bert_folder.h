// What Hugging Face's folders call the parts of BERT and its relatives: fields of config.json, names of tensors, and
// the few things in which the families differ.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "fovea/models/bert.h"

namespace fovea {

std::vector<std::string> bert_types();
std::vector<std::string> bert_architectures(const std::string& type);

// Error(kConfig) for an unknown type or head, and for a head that the type or the labels do not fit. Fills in the
// labels of the next sentence.
void check_bert_config(BertConfig& config);
bool bert_has_segments(const std::string& type);
// Keys and values are projected: a linformer.
bool bert_projects(const std::string& type);
// Rows of the position table before position 0: RoBERTa counts from its padding token's id on.
int64_t bert_position_offset(const BertConfig& config);
// `dropout`: the one before a classifier, which RoBERTa applies to the first token as well.
PoolerOptions bert_pooler(const BertConfig& config, double dropout);
std::string bert_words_activation(const BertConfig& config);

BertConfig read_bert_config(const nlohmann::json& json, const std::string& type);
nlohmann::json write_bert_config(const BertConfig& config);
std::vector<TensorName> bert_tensor_names(const BertConfig& config);
std::vector<std::string> bert_harmless_names(const BertConfig& config);
std::string bert_outer_prefix(const BertConfig& config);

}  // namespace fovea
