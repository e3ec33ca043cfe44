// The JSON reader: what it accepts is written and read to the same value.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/io/json.h"

#include <nlohmann/json.hpp>

#include "tests/fuzz/fuzz.h"

namespace fovea::fuzz {

static Target json_target() {
  return {.corpus = {R"({"model_type": "gpt2", "n_embd": 64, "eps": 1e-5, "tied": true, "names": ["a", "\u00e9\n", ""],
               "none": null})",
                     R"([[[[{"a": [{"b": [-1, 0.5, 12345678901234567890, "\ud83d\ude00"]}]}]]]])", "\"text\"", " -0 ",
                     "{}"},
          .words = {},
          .read = [](const std::string& input) {
            const nlohmann::json value = parse_json(input, "input");
            for (const int indent : {-1, 2})
              expect(parse_json(dump_json(value, indent), "again") == value, "another value when read again");
          }};
}

static const Registered json("json", json_target);

}  // namespace fovea::fuzz
