// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/token_roles.h"

#include "fovea/models/config_json.h"

namespace fovea {
namespace {

bool is_token_id(const nlohmann::json& value) { return value.is_number_integer() && value.get<int64_t>() >= 0; }

std::vector<int64_t> role_ids(const nlohmann::json& config, const char* key, std::vector<int64_t> usual) {
  const auto found = config.find(key);
  if (found == config.end()) return usual;
  if (found->is_null() || *found == -1) return {};
  std::vector<int64_t> out;
  for (const auto& id : found->is_array() ? *found : nlohmann::json::array({*found})) {
    FOVEA_CHECK_INPUT(is_token_id(id), "config.json: \"", key, "\" is ", found->dump(),
                      ", wanted a token id or a list of them");
    out.push_back(id.get<int64_t>());
  }
  return out;
}

}  // namespace

int64_t read_token_id(const nlohmann::json& config, const char* key, int64_t usual) {
  const auto ids = role_ids(config, key, usual < 0 ? std::vector<int64_t>() : std::vector{usual});
  return ids.empty() ? -1 : ids.front();
}

nlohmann::json id_or_null(int64_t id) { return id < 0 ? nlohmann::json() : nlohmann::json(id); }

TokenRoles TokenRoles::read(const nlohmann::json& config, TokenRoles usual) {
  return {.bos = read_token_id(config, "bos_token_id", usual.bos),
          .eos = role_ids(config, "eos_token_id", usual.eos),
          .pad = read_token_id(config, "pad_token_id", usual.pad),
          .decoder_start = read_token_id(config, "decoder_start_token_id", usual.decoder_start)};
}

void TokenRoles::write(nlohmann::json& config) const {
  config["bos_token_id"] = id_or_null(bos);
  config["eos_token_id"] = eos.size() > 1 ? nlohmann::json(eos) : id_or_null(eos.empty() ? -1 : eos.front());
  config["pad_token_id"] = id_or_null(pad);
  if (config.value("is_encoder_decoder", false)) config["decoder_start_token_id"] = id_or_null(decoder_start);
}

}  // namespace fovea
