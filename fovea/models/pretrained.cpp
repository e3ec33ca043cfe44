// SPDX-License-Identifier: Apache-2.0
#include "fovea/models/pretrained.h"

#include <ATen/ATen.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "fovea/base/probe.h"
#include "fovea/io/json.h"
#include "fovea/models/registry.h"
#include "fovea/ops/fresh.h"

namespace fovea {
namespace {

std::string old_norm_name(const std::string& name) {
  const auto swap = [&](const char* end, const char* old) {
    return name.substr(0, name.size() - std::string(end).size()) + old;
  };
  if (name.ends_with(".weight")) return swap(".weight", ".gamma");
  if (name.ends_with(".bias")) return swap(".bias", ".beta");
  return name;
}

// Finds stored names in a file that may lack the model's outer prefix, wear one of its own, or use old norm names.
class NameFinder {
 public:
  NameFinder(const SafetensorsFolder& file, std::string prefix) : file_(file), prefix_(std::move(prefix)) {}

  // The file's spelling of a stored name, or "".
  std::string find(const std::string& stored) const {
    for (const auto& name : {stored, old_norm_name(stored)}) {
      if (file_.contains(name)) return name;
      if (!prefix_.empty() && name.starts_with(prefix_) && file_.contains(name.substr(prefix_.size())))
        return name.substr(prefix_.size());
      for (const char* extra : {"module.", "model.", "_orig_mod."})
        if (file_.contains(extra + name)) return extra + name;
    }
    return "";
  }

 private:
  const SafetensorsFolder& file_;
  std::string prefix_;
};

std::string shape_text(at::IntArrayRef shape) {
  std::ostringstream out;
  out << shape;
  return out.str();
}

// The parameters of `name` as they are stored: side by side along the output axis, transposed where the file is.
Tensor join_parameters(const TensorName& name, const std::vector<Tensor>& parts) {
  Tensor whole = parts.size() == 1 ? parts[0] : at::cat(parts, 0);
  return name.transposed ? whole.t() : whole;
}

void copy_parameters(const TensorName& name, const Tensor& stored, const std::vector<Tensor>& parts) {
  const Tensor whole = name.transposed ? stored.t() : stored;
  int64_t row = 0;
  for (auto part : parts) {
    part.copy_(parts.size() == 1 ? whole : whole.narrow(0, row, part.size(0)));
    row += part.size(0);
  }
}

std::vector<int64_t> stored_shape(const TensorName& name, const std::vector<Tensor>& parts) {
  std::vector<int64_t> shape = parts[0].sizes().vec();
  for (size_t i = 1; i < parts.size(); ++i) shape[0] += parts[i].size(0);
  if (name.transposed) std::swap(shape[0], shape[1]);
  return shape;
}

std::map<std::string, Tensor> tensors_by_name(const ModelImpl& model) {
  std::map<std::string, Tensor> out;
  for (const auto& list : {model.named_parameters(), model.named_buffers()})
    for (const auto& item : list) out.emplace(item.key(), item.value());
  return out;
}

std::vector<Tensor> parameters_of(const TensorName& name, const std::map<std::string, Tensor>& all) {
  std::vector<Tensor> out;
  for (const auto& ours : name.ours) {
    const auto found = all.find(ours);
    FOVEA_ASSERT(found != all.end(), "the model has no parameter \"", ours, "\"");
    out.push_back(found->second);
  }
  return out;
}

}  // namespace

std::string LoadReport::text() const {
  std::ostringstream out;
  const auto list = [&](const char* what, const std::vector<std::string>& names) {
    if (names.empty()) return;
    out << (out.tellp() > 0 ? "; " : "") << names.size() << ' ' << what << ": ";
    for (size_t i = 0; i < std::min<size_t>(names.size(), 5); ++i) out << (i ? ", " : "") << names[i];
    if (names.size() > 5) out << ", …";
  };
  list("missing", missing);
  list("unexpected", unexpected);
  list("of another shape or type", misshaped);
  return out.str();
}

LoadReport load_weights(ModelImpl& model, const SafetensorsFolder& file) {
  const at::NoGradGuard no_gradient;
  const NameFinder finder(file, model.outer_prefix());
  const auto parameters = tensors_by_name(model);
  LoadReport report;
  std::set<std::string> used;
  std::vector<std::string> absent;
  for (const TensorName& name : model.tensor_names()) {
    std::string found;
    std::vector<std::string> spellings{name.stored};
    spellings.insert(spellings.end(), name.aliases.begin(), name.aliases.end());
    for (const auto& spelling : spellings) {
      const std::string here = finder.find(spelling);
      if (here.empty()) continue;
      used.insert(here);
      if (found.empty()) {
        found = here;
      } else {
        FOVEA_CHECK_INPUT(
            at::equal(file.tensor(found), file.tensor(here)), file.path().string(), ": \"", found, "\" and \"", here,
            "\" are one tensor in this model (\"tie_word_embeddings\": true in config.json) but differ in the file");
      }
    }
    if (found.empty()) {
      (name.optional ? absent : report.missing).push_back(name.stored);
      continue;
    }
    const auto parts = parameters_of(name, parameters);
    const auto wanted = stored_shape(name, parts);
    if (const auto type = file.info(found).dtype; !at::isFloatingType(type)) {
      report.misshaped.push_back(found + ": " + std::string(safetensors_dtype(type)) +
                                 ", wanted floating-point numbers");
    } else if (file.info(found).shape != wanted) {
      report.misshaped.push_back(found + ": file " + shape_text(file.info(found).shape) + ", model " +
                                 shape_text(wanted));
    } else {
      copy_parameters(name, file.tensor(found), parts);
    }
  }
  const auto harmless = model.harmless_names();
  for (const auto& name : file.names()) {
    bool known = used.count(name) > 0;
    for (const auto& pattern : harmless) known = known || glob_match(pattern, name);
    if (!known) report.unexpected.push_back(name);
  }
  if (!absent.empty()) model.leave_out(absent);
  return report;
}

void check_tokenizer_fits(const ModelImpl& model, const Tokenizer& tokenizer, const std::string& where) {
  const auto check = [&](const char* which, int64_t ids, int64_t held) {
    FOVEA_CHECK_INPUT(ids <= held, where, ": the ", which, "tokenizer has ids up to ", ids - 1,
                      ", the model's vocabulary has ", held, " tokens; the tokenizer does not fit the model");
  };
  check("", tokenizer.end_id(), model.vocab_size());
  if (tokenizer.has_source()) return check("sources' ", tokenizer.source().end_id(), model.source_vocab_size());
  FOVEA_CHECK_INPUT(model.source_vocab_size() == model.vocab_size(), where,
                    ": source_tokenizer.json is missing; the model reads ", model.source_vocab_size(),
                    " tokens and writes ", model.vocab_size());
}

void check_model_folder(const std::filesystem::path& folder) {
  FOVEA_CHECK_INPUT(is_folder(folder), folder.string(),
                    ": no such model folder (wanted config.json and model.safetensors in it)");
  const bool run = !path_exists(folder / "config.json") && path_exists(folder / "best" / "config.json");
  FOVEA_CHECK_INPUT(!run, folder.string(), " is the folder of a training run; the model is ",
                    (folder / "best").string());
}

Model load_pretrained_model(const std::filesystem::path& folder) {
  check_model_folder(folder);
  const Undrawn file_fills_it;
  const Model model = make_model(read_json(folder / "config.json", "model configuration"));
  const LoadReport report = load_weights(*model, SafetensorsFolder(folder));
  FOVEA_CHECK_INPUT(report.good(), folder.string(), ": the weights do not fit config.json: ", report.text());
  model->eval();
  return model;
}

GenerativeModel load_generative_model(const std::filesystem::path& folder) {
  const Model model = load_pretrained_model(folder);
  const auto out = std::dynamic_pointer_cast<GenerativeModelImpl>(model);
  FOVEA_CHECK_INPUT(out != nullptr, folder.string(), ": a ", model->type(), " model does not generate text");
  return out;
}

NamedTensors stored_tensors(const ModelImpl& model, const std::function<Tensor(const Tensor&)>& of) {
  const at::NoGradGuard no_gradient;
  const auto parameters = tensors_by_name(model);
  NamedTensors out;
  for (const TensorName& name : model.tensor_names()) {
    std::vector<Tensor> parts;
    for (const auto& parameter : parameters_of(name, parameters)) parts.push_back(of(parameter));
    out.emplace_back(name.stored, join_parameters(name, parts));
  }
  return out;
}

void save_pretrained(const ModelImpl& model, const std::filesystem::path& folder, uint64_t max_shard_bytes) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  FOVEA_CHECK_KIND(ErrorKind::kSystem, !error, folder.string(), ": cannot make the folder: ", error.message());
  write_safetensors_folder(folder, stored_tensors(model, [](const Tensor& parameter) { return parameter; }),
                           max_shard_bytes);
  write_file(folder / "config.json", dump_json(model.config(), 2) + "\n");
}

}  // namespace fovea
