// Every intermediate has a name and passes a probe; listeners are plain functions; nobody listening costs one load.
//
//   auto probe = Probe::on("*.attention.weights", [](std::string_view name, const at::Tensor& w) { … });
//
// Names are paths: each module opens a ProbeScope for the part it runs ("decoder", "layers.3", "attention").
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace at {
class Tensor;
}

namespace fovea {

class Probe {
 public:
  using Listener = std::function<void(std::string_view name, const at::Tensor& value)>;
  // Calls `listener` for every intermediate whose name matches `pattern` ('*' any run of characters, '?' one), on this
  // thread only, until the returned object is destroyed.
  [[nodiscard]] static Probe on(std::string pattern, Listener listener);

  Probe(Probe&&) noexcept;
  Probe& operator=(Probe&&) noexcept;
  ~Probe();

  // True when a listener wants "<current scope>.<leaf>": ask before computing what only a probe needs.
  static bool wants(std::string_view leaf);
  static bool listening();  // someone wants something, on this thread
  static void emit(std::string_view leaf, const at::Tensor& value);

 private:
  struct Entry;
  explicit Probe(std::shared_ptr<Entry> entry);
  std::shared_ptr<Entry> entry_;
};

// Names the part that runs until the end of the block. `name` (a string that outlives the scope) may be followed by an
// index: ProbeScope("layers", 3) is "layers.3".
class ProbeScope {
 public:
  explicit ProbeScope(const char* name, int64_t index = -1);
  ~ProbeScope();
  ProbeScope(const ProbeScope&) = delete;
  ProbeScope& operator=(const ProbeScope&) = delete;

 private:
  friend class Probe;
  static std::string path(std::string_view leaf);
  const char* name_;
  int64_t index_;
  const ProbeScope* outer_;
};

// '*' matches any run of characters, '?' one; also used to freeze parameters by name.
bool glob_match(std::string_view pattern, std::string_view text);

}  // namespace fovea
