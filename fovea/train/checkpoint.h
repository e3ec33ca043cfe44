// What a checkpoint holds beside the model: everything that makes a resumed run equal to one that never stopped.
//
//   config.json, model.safetensors, tokenizer.json   the model folder (preprocessor_config.json for images)
//   training/state.json                              TrainState
//   training/optimizer.safetensors                   the optimiser's moments, `generator`: LibTorch's generator, U8,
//   and
//                                                    `memory.<i>`: what the model carries from batch to batch
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "fovea/data/dataset.h"
#include "fovea/data/image_processor.h"
#include "fovea/models/model.h"
#include "fovea/text/tokenizer.h"
#include "fovea/train/optimizer.h"

namespace fovea {

struct TrainState {
  int64_t step = 0;    // updates done
  int64_t tokens = 0;  // labels learned from
  double seconds = 0;  // of all runs together
  LoaderState data;
  std::string data_fingerprint;        // of the training data, hexadecimal
  std::string validation_fingerprint;  // likewise; "" without validation
  int64_t validated_step = -1;         // the newest validation's
  double best_loss = 0;                // of step best_step; −1: none yet
  int64_t best_step = -1;
  int64_t validations_without_best = 0;  // since then
  int64_t journal_bytes = 0;             // length of the journal that belongs to this state
  int64_t threads = 0;                   // results are equal bit for bit for the same number only
  void visit(FieldVisitor& visitor);
};

struct CheckpointParts {
  Model model;
  const Tokenizer* tokenizer;  // may be null
  AdamW* optimizer;
  const ImageProcessor* prepare = nullptr;  // may be null
};

// Fills a folder that exists.
void write_checkpoint(const std::filesystem::path& folder, const TrainState& state, const CheckpointParts& parts);
// Error(kInput) naming the file for anything missing or misshaped.
TrainState read_state(const std::filesystem::path& folder);
// Puts weights, moments and LibTorch's generator back.
void read_checkpoint(const std::filesystem::path& folder, const CheckpointParts& parts);

}  // namespace fovea
