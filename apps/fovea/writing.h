// Texts in, texts out: what `fovea generate` and `fovea translate` share. Prompts from the command line, a file or
// standard input, in batches; the answers as they are written, as lines, or as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <istream>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "apps/fovea/command_line.h"
#include "apps/fovea/machine.h"
#include "apps/fovea/model_folder.h"
#include "apps/fovea/rolling.h"
#include "fovea/generate/generate.h"

namespace fovea {

struct Writing {
  virtual ~Writing() = default;
  // The options that both verbs have.
  void declare_common(CommandLine& line);
  // Reads the prompts, writes the answers; the exit code.
  int run();

  // Error for a model that this verb is not for.
  virtual void check_model(const ModelFolder&, const GenerativeModelImpl&) const {}

  std::vector<std::string> prompts;
  std::string prompts_file;
  bool no_prompt = false;   // do not repeat the prompt before the text
  bool one_window = false;  // end where a decoder has no more positions

  struct Prompt {
    std::string text, source;  // where it came from, for errors
    std::vector<int64_t> ids;
  };

  void write_lines(const ModelFolder& folder, const GenerativeModelImpl& model, std::istream& lines,
                   const std::string& source, int64_t together);
  void write_pool(const ModelFolder& folder, const GenerativeModelImpl& model, std::vector<Prompt> pool,
                  int64_t together);
  void write_batch(const ModelFolder& folder, const GenerativeModelImpl& model, std::vector<Prompt> batch);
  GenerateResult run_model(const ModelFolder& folder, const GenerativeModelImpl& model,
                           const std::vector<std::vector<int64_t>>& ids, const TextCallback& on_text) const;
  void show_prompt(const GenerativeModelImpl& model, const Prompt& prompt) const;
  void show_result(const ModelFolder& folder, const GenerativeModelImpl& model, const Prompt& prompt,
                   const GenerateResult& result, size_t at, int64_t seed) const;
  nlohmann::json as_json(const Prompt& prompt, const GenerateResult& result, size_t row, int64_t seed,
                         double load) const;

  std::string folder_path;
  int64_t batch_size = 0;  // 0: as texts come
  bool json = false, quiet = false;
  ThreadsOption threads;
  GenerateOptions options;
  std::function<GenerateOptions(const GenerateOptions& under)> typed;  // options over those of the folder
};

}  // namespace fovea
