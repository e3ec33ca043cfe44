// SPDX-License-Identifier: Apache-2.0
#include "fovea/train/checkpoint.h"

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <system_error>

#include "fovea/base/check.h"
#include "fovea/io/files.h"
#include "fovea/io/json.h"
#include "fovea/io/safetensors.h"
#include "fovea/models/pretrained.h"

namespace fovea {
namespace {

namespace fs = std::filesystem;

at::Tensor generator_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  return generator.get_state();
}

void set_generator_state(const at::Tensor& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(state.clone());
}

std::string memory_name(size_t i) { return "memory." + std::to_string(i); }

}  // namespace

void TrainState::visit(FieldVisitor& v) {
  v.field("step", step);
  v.field("tokens", tokens);
  v.field("seconds", seconds);
  visit_section(v, "data", data);
  v.field("data_fingerprint", data_fingerprint);
  v.field("validation_fingerprint", validation_fingerprint);
  v.field("validated_step", validated_step);
  v.field("best_loss", best_loss);
  v.field("best_step", best_step);
  v.field("validations_without_best", validations_without_best);
  v.field("journal_bytes", journal_bytes);
  v.field("threads", threads);
}

void write_checkpoint(const fs::path& folder, const TrainState& state, const CheckpointParts& parts) {
  save_pretrained(*parts.model, folder);
  if (parts.tokenizer) parts.tokenizer->save(folder);
  if (parts.prepare) parts.prepare->save(folder);
  std::error_code code;
  fs::create_directory(folder / "training", code);
  FOVEA_CHECK_KIND(ErrorKind::kSystem, !code, (folder / "training").native(),
                   ": cannot make the folder: ", code.message());
  NamedTensors tensors = parts.optimizer->state();
  tensors.emplace_back("generator", generator_state());
  const std::vector<at::Tensor> memory = parts.model->memory();
  for (size_t i = 0; i < memory.size(); ++i) tensors.emplace_back(memory_name(i), memory[i].contiguous());
  write_safetensors(folder / "training" / "optimizer.safetensors", tensors);
  nlohmann::json object = nlohmann::json::object();
  write_to_json(state, object);
  write_file(folder / "training" / "state.json", dump_json(object, 2) + "\n");
}

TrainState read_state(const fs::path& folder) {
  const fs::path path = folder / "training" / "state.json";
  TrainState state;
  fill_from_json(state, read_json(path, "training state"), path.native());
  return state;
}

void read_checkpoint(const fs::path& folder, const CheckpointParts& parts) {
  const LoadReport report = load_weights(*parts.model, SafetensorsFolder(folder));
  FOVEA_CHECK_INPUT(report.good(), folder.native(), ": the checkpoint's weights do not fit the model: ", report.text());
  const SafetensorsFile file(folder / "training" / "optimizer.safetensors");
  parts.optimizer->load(file);
  set_generator_state(file.tensor("generator"));
  std::vector<at::Tensor> memory;
  for (size_t i = 0; file.contains(memory_name(i)); ++i) memory.push_back(file.tensor(memory_name(i)).clone());
  parts.model->set_memory(memory);
}

}  // namespace fovea
