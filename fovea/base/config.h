// A configuration lists its fields once; readers, writers, printers and comparison visit it.
//
//   struct OptimOptions {
//     double learning_rate = 3e-4;
//     void visit(FieldVisitor& v) { v.field("learning_rate", learning_rate, "peak step size"); }
//   };
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace fovea {

class FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;
  virtual void field(std::string_view name, bool& value, std::string_view help = "") = 0;
  virtual void field(std::string_view name, int64_t& value, std::string_view help = "") = 0;
  virtual void field(std::string_view name, double& value, std::string_view help = "") = 0;
  virtual void field(std::string_view name, std::string& value, std::string_view help = "") = 0;
  virtual void field(std::string_view name, std::vector<int64_t>& value, std::string_view help = "") = 0;
  virtual void field(std::string_view name, std::vector<std::string>& value, std::string_view help = "") = 0;
  // Nested fields: a TOML table, a JSON object.
  virtual void section(std::string_view name, const std::function<void(FieldVisitor&)>& fields) = 0;
};

template <class Config>
void visit_section(FieldVisitor& visitor, std::string_view name, Config& config) {
  visitor.section(name, [&](FieldVisitor& inner) { config.visit(inner); });
}

}  // namespace fovea
