// Everything a user of the library wants, in one include. For users only: inside the library each file includes what it
// needs (tests/layout_test.cpp).
//
//   #include <fovea/fovea.h>
//   using namespace fovea;
//
//   Tensor y = attention(q, k, v, {.mask = masks::causal()});
//
// Left out, because they cost a compiler seconds and few need them: the JSON and TOML readers (fovea/io/json.h,
// fovea/io/toml.h) and the registries (fovea/<room>/registry.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

// IWYU pragma: begin_exports

// base: errors, the log callback, how memory is held, probes
#include "fovea/base/error.h"
#include "fovea/base/log.h"
#include "fovea/base/memory.h"
#include "fovea/base/probe.h"

// io: whole files, images, safetensors
#include "fovea/io/files.h"
#include "fovea/io/images.h"
#include "fovea/io/safetensors.h"
#include "fovea/io/safetensors_folder.h"

// text: tokenizers, and their training
#include "fovea/text/tokenizer.h"
#include "fovea/text/training.h"

// data: from tokens to batches
#include "fovea/data/augmentation.h"
#include "fovea/data/batch.h"
#include "fovea/data/dataset.h"
#include "fovea/data/image_processor.h"
#include "fovea/data/labelled_images.h"
#include "fovea/data/labels.h"
#include "fovea/data/masking.h"
#include "fovea/data/packing.h"
#include "fovea/data/padding.h"
#include "fovea/data/pairs.h"
#include "fovea/data/text_lines.h"
#include "fovea/data/windows.h"

// masks, scores, ops: attention as one call
#include "fovea/masks/all.h"
#include "fovea/masks/mask.h"
#include "fovea/ops/attention.h"
#include "fovea/ops/cross_entropy.h"
#include "fovea/scores/all.h"
#include "fovea/scores/score.h"

// layers, positions, attention, blocks, heads: modules
#include "fovea/attention/attention.h"
#include "fovea/attention/cache.h"
#include "fovea/attention/variants/all.h"
#include "fovea/attention/variants/variant.h"
#include "fovea/blocks/block.h"
#include "fovea/blocks/stack.h"
#include "fovea/channel/all.h"
#include "fovea/channel/channel_attention.h"
#include "fovea/heads/classifier.h"
#include "fovea/heads/masked_lm.h"
#include "fovea/heads/pooler.h"
#include "fovea/layers/activation.h"
#include "fovea/layers/dropout.h"
#include "fovea/layers/embedding.h"
#include "fovea/layers/feed_forward.h"
#include "fovea/layers/init.h"
#include "fovea/layers/linear.h"
#include "fovea/layers/norm.h"
#include "fovea/layers/patch_embedding.h"
#include "fovea/positions/all.h"
#include "fovea/positions/position.h"

// models: wiring, folders, what encoders are for
#include "fovea/models/all.h"
#include "fovea/models/image_encoder.h"
#include "fovea/models/model.h"
#include "fovea/models/pretrained.h"
#include "fovea/models/text_encoder.h"

// loss, generate, train, view: what stands on a model
#include "fovea/generate/causal_lm.h"
#include "fovea/generate/folder_options.h"
#include "fovea/generate/generate.h"
#include "fovea/generate/seq2seq.h"
#include "fovea/loss/classification.h"
#include "fovea/loss/evaluate.h"
#include "fovea/loss/text_scores.h"
#include "fovea/train/optimizer.h"
#include "fovea/train/options.h"
#include "fovea/train/parts.h"
#include "fovea/train/schedule.h"
#include "fovea/train/train_step.h"
#include "fovea/train/trainer.h"
#include "fovea/view/page.h"
#include "fovea/view/record.h"
#include "fovea/view/recorder.h"

// IWYU pragma: end_exports
