// A name -> factory table. Entries register by an explicit call (generated for ▣ folders): a static initialiser in an
// archive would be dropped by the linker.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fovea/base/check.h"
#include "fovea/base/nearest.h"

namespace fovea {

template <class Entry>
class Registry {
 public:
  explicit Registry(std::string kind) : kind_(std::move(kind)) {}

  void add(const std::string& name, Entry entry) {
    const bool added = entries_.emplace(name, std::move(entry)).second;
    FOVEA_ASSERT(added, kind_, " \"", name, "\" is registered twice");
  }
  // Throws Error(kConfig) that suggests the nearest name.
  const Entry& at(const std::string& name) const {
    const auto found = entries_.find(name);
    FOVEA_CHECK_CONFIG(found != entries_.end(), "unknown ", kind_, " \"", name, "\"", suggestion(name, names()));
    return found->second;
  }
  bool contains(const std::string& name) const { return entries_.count(name) > 0; }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [name, entry] : entries_) out.push_back(name);
    return out;
  }
  const std::map<std::string, Entry>& entries() const { return entries_; }

 private:
  std::string kind_;
  std::map<std::string, Entry> entries_;
};

}  // namespace fovea
