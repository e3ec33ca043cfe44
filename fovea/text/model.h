// What turns a word into tokens. A model is an added file: derive, and name it in components.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace fovea::text {

// Consecutive tokens: ids, and how many bytes of the word each covers. Points into the workspace.
struct TokenRun {
  const uint32_t* ids = nullptr;
  const uint32_t* sizes = nullptr;  // 0: the same bytes as the token before
  size_t count = 0;
};

class Model {
 public:
  // Scratch memory and caches of one running call; a call owns its workspace for as long as it runs.
  class Workspace {
   public:
    virtual ~Workspace() = default;
  };

  virtual ~Model() = default;
  virtual std::unique_ptr<Workspace> make_workspace() const = 0;
  // `word` must be valid UTF-8 (or, for a byte-level model, a cut of it). Safe to call from threads with a workspace
  // each.
  virtual TokenRun tokenize(std::string_view word, Workspace& workspace) const = 0;

  virtual std::optional<int64_t> token_to_id(std::string_view token) const = 0;
  virtual std::optional<std::string_view> id_to_token(int64_t id) const = 0;
  virtual size_t size() const = 0;     // tokens
  virtual int64_t end_id() const = 0;  // one past the largest id
  virtual std::string unknown_token() const { return {}; }
  // Whether tokens of this id are spelled as the text spells them, not as the vocabulary does.
  virtual bool spelled_by_text(int64_t /*id*/) const { return false; }

  // Appends the model's section of tokenizer.json, an object.
  virtual void write_json(std::string& out) const = 0;
};

}  // namespace fovea::text
