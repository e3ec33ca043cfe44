// SPDX-License-Identifier: Apache-2.0
#include "fovea/base/probe.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace fovea {

struct Probe::Entry {
  std::string pattern;
  Listener listener;
};

namespace {

thread_local const ProbeScope* innermost = nullptr;
// Weak, so that a Probe destroyed on another thread simply stops listening.
thread_local std::vector<std::weak_ptr<void>> listeners;

}  // namespace

Probe::Probe(std::shared_ptr<Entry> entry) : entry_(std::move(entry)) {}
Probe::Probe(Probe&&) noexcept = default;
Probe& Probe::operator=(Probe&&) noexcept = default;
Probe::~Probe() = default;

Probe Probe::on(std::string pattern, Listener listener) {
  auto entry = std::make_shared<Entry>(Entry{std::move(pattern), std::move(listener)});
  listeners.push_back(entry);
  return Probe(std::move(entry));
}

bool Probe::listening() {
  return std::any_of(listeners.begin(), listeners.end(), [](const auto& weak) { return !weak.expired(); });
}

bool Probe::wants(std::string_view leaf) {
  if (listeners.empty()) return false;
  std::erase_if(listeners, [](const auto& weak) { return weak.expired(); });
  const std::string name = ProbeScope::path(leaf);
  return std::any_of(listeners.begin(), listeners.end(), [&](const auto& weak) {
    const auto entry = std::static_pointer_cast<Entry>(weak.lock());
    return entry && glob_match(entry->pattern, name);
  });
}

void Probe::emit(std::string_view leaf, const at::Tensor& value) {
  if (listeners.empty()) return;
  const std::string name = ProbeScope::path(leaf);
  const auto snapshot = listeners;  // a listener may add or remove probes
  for (const auto& weak : snapshot) {
    const auto entry = std::static_pointer_cast<Entry>(weak.lock());
    if (entry && glob_match(entry->pattern, name)) entry->listener(name, value);
  }
}

ProbeScope::ProbeScope(const char* name, int64_t index) : name_(name), index_(index), outer_(innermost) {
  innermost = this;
}
ProbeScope::~ProbeScope() { innermost = outer_; }

std::string ProbeScope::path(std::string_view leaf) {
  std::string out(leaf);
  for (const ProbeScope* scope = innermost; scope != nullptr; scope = scope->outer_) {
    std::string part = scope->name_;
    if (scope->index_ >= 0) part += '.' + std::to_string(scope->index_);
    out = part + '.' + out;
  }
  return out;
}

bool glob_match(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = std::string_view::npos, resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++, resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p, ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1, t = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace fovea
