// A training recipe and overrides: what is accepted is dumped and read to the same settings.
// SPDX-License-Identifier: Apache-2.0
#include "fovea/io/toml.h"

#include <sstream>

#include "fovea/base/error.h"
#include "fovea/train/options.h"
#include "tests/fuzz/fuzz.h"

namespace fovea::fuzz {
namespace {

constexpr const char* kRecipe = R"(# comment
[data]
kind = "text"
train = ["a.txt", 'b.txt']
[model]
type = "gpt2"
width = 128
layers = 0x4
[optim]
learning_rate = 4e-3
no_decay = ["*bias", """*norm*"""]
[schedule]
name = "cosine"
[train]
out = "runs/é"
max_minutes = 1_0.5
)";
constexpr const char* kDotted = R"(model.type = "transformer"
model . "pre_norm" = true
data = { kind = "pairs", train = [ "a", ], context = +64 }
optim.eps = 1e-8
train.out = "\u00e9\t"
)";

TrainOptions options_of(const TomlConfig& toml) {
  TrainOptions options;
  toml.fill(options);
  options.check();
  return options;
}

}  // namespace

static Target toml_target() {
  return {.corpus = {kRecipe, kDotted},
          .words = {"[a.b]", "[[a]]", "a.a.", "[[", "= {a = ", "\"\"\"", "'''", "inf", "nan", "0x",
                    "1979-05-27T07:32:00Z", "[model]", "gpt2", "transformer"},
          .read = [](const std::string& input) {
            const TomlConfig toml = TomlConfig::parse(input, "recipe.toml");
            const TrainOptions options = options_of(toml);
            const TrainOptions again = options_of(TomlConfig::parse(dump_toml(options), "dumped"));
            expect(differing_keys(options, again).empty(), "other settings when dumped and read again");
            // Each line as an override of the same recipe.
            try {
              TomlConfig overridden = TomlConfig::parse(input, "recipe.toml");
              std::istringstream lines(input);
              for (std::string line; std::getline(lines, line);) overridden.override_with("data." + line);
              options_of(overridden);
            } catch (const Error&) {
            }
          }};
}

static const Registered toml("toml", toml_target);

}  // namespace fovea::fuzz
