// What `fovea eval` measures beside the loss: classes, hidden words, translations, texts that a decoder writes. Each as
// the fields of docs/json.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/fovea/model_folder.h"
#include "fovea/loss/bootstrap.h"
#include "fovea/loss/evaluate.h"
#include "fovea/loss/words.h"

namespace fovea {

nlohmann::ordered_json class_facts(const Predictions& of, const std::vector<std::string>& labels,
                                   const BootstrapOptions& draws);
nlohmann::ordered_json hidden_word_facts(const Predictions& of, const BootstrapOptions& draws);
// `words` "": as the right texts look.
nlohmann::ordered_json translation_facts(const std::vector<std::string>& texts, const std::vector<std::string>& wanted,
                                         const std::string& words, const BootstrapOptions& draws);
nlohmann::ordered_json diversity_facts(const std::vector<std::string>& texts, const std::string& words);

struct Translations {
  std::vector<std::string> texts, wanted;
};
// Answers the sources of tables of pairs; nothing where a signal asked to stop.
std::optional<Translations> translate_pairs(const ModelFolder& folder, const GenerativeModelImpl& model,
                                            const std::vector<std::string>& files, const GenerateOptions& options,
                                            int64_t batch_size);
// `count` texts that go on from places of the files (kind lines: from the first halves of lines), each place's first 16
// tokens given; without these.
std::optional<std::vector<std::string>> write_samples(const ModelFolder& folder, const GenerativeModelImpl& model,
                                                      const std::string& kind, const std::vector<std::string>& files,
                                                      const GenerateOptions& options, int64_t count,
                                                      int64_t batch_size);

// The table that a person reads: a line for each number, then the classes and who was taken for whom.
std::string facts_table(const nlohmann::ordered_json& facts);

}  // namespace fovea
