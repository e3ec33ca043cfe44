// Which tokens open, end and fill texts, as config.json names them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace fovea {

// −1, or empty: there is none.
struct TokenRoles {
  int64_t bos = -1;
  std::vector<int64_t> eos;  // any of them ends a text
  int64_t pad = -1;
  int64_t decoder_start = -1;  // what the target of an encoder-decoder begins with

  // The roles that config.json names; one it says nothing of stays as in `usual`, null takes it away.
  static TokenRoles read(const nlohmann::json& config, TokenRoles usual);
  void write(nlohmann::json& config) const;  // decoder_start too where the config says is_encoder_decoder
};

// One id, or a list's first; absent: `usual`, null: −1. And the way back.
int64_t read_token_id(const nlohmann::json& config, const char* key, int64_t usual);
nlohmann::json id_or_null(int64_t id);

}  // namespace fovea
