# SPDX-License-Identifier: Apache-2.0
"""Adding a file is the whole change. Copies the tree, drops a toy header and source into every registry folder, configures,
and checks that the generated files list the toys and that the toys compile, each with its room's flags and without a
precompiled header. Nothing is linked: a full build is not needed to see that nothing else has to be edited."""
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FOVEA_BUILD") or ROOT / "build/release")
CORES = len(os.sched_getaffinity(0))
sys.path.insert(0, str(ROOT / "tools"))

import check_headers  # noqa: E402

HEAD = "// A toy.\n// SPDX-License-Identifier: Apache-2.0\n"


@dataclasses.dataclass
class Toy:
    room: str    # as in register_<room>_toy
    folder: str
    header: str  # the part in namespace fovea; "" where the folder's entries have no header
    source: str
    includes: tuple = ()  # of the header


TOYS = [
    Toy("masks", "fovea/masks", "namespace masks {\nMask toy();\n}", """
namespace { class ToyRule final : public MaskRule {
 public:
  bool allowed(int64_t, int64_t, int64_t q, int64_t k) const override { return (q + k) % 2 == 0; }
}; }
Mask masks::toy() { return Mask::leaf("toy"); }
void register_masks_toy(MasksRegistry& registry) {
  registry.add("toy", {.bind = [](auto&, auto&, auto&) -> MaskRulePtr { return std::make_shared<ToyRule>(); },
                       .samples = [](auto&) { return std::vector<Mask>{masks::toy()}; }});
}""", ("fovea/masks/mask.h",)),
    Toy("scores", "fovea/scores", "namespace scores {\nScore toy();\n}", """
namespace { class ToyVisitor final : public ScoreVisitor {
 public:
  void forward(const ScoreTile& t) const override {
    for (int64_t k = 0; k < t.keys; ++k)
      for (int64_t q = 0; q < t.queries; ++q) t.values[k * t.stride + q] += 1.0f;
  }
  void backward(const ScoreTile&, const ScoreTile&, float* const*) const override {}
}; }
Score scores::toy() { return Score::term("toy"); }
void register_scores_toy(ScoresRegistry& registry) {
  registry.add("toy", {.define = [](auto&, auto& scores, auto&, double, auto&) { return at::Tensor(scores); },
                       .bind = [](auto&, auto&, double, auto&) -> ScoreVisitorPtr { return std::make_shared<ToyVisitor>(); },
                       .samples = [](auto&) { return std::vector<Score>{scores::toy()}; },
                       .least_tensors = 0});
}""", ("fovea/scores/score.h",)),
    Toy("positions", "fovea/positions", """class ToyPositionImpl final : public PositionImpl {
 public:
  explicit ToyPositionImpl(const PositionOptions& options) : PositionImpl("toy", options) {}
};""", """
void register_positions_toy(PositionsRegistry& registry) {
  registry.add("toy", {.make = [](auto& options) { return std::make_shared<ToyPositionImpl>(options); }});
}""", ("fovea/positions/position.h",)),
    Toy("variants", "fovea/attention/variants", """class ToyVariantImpl final : public VariantImpl {
 public:
  Tensor attend(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& options) const override {
    return attention(query, key, value, options);
  }
  AttentionResult attend_detailed(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const AttentionOptions& options) const override {
    return attention_detailed(query, key, value, options);
  }
};""", """
void register_variants_toy(VariantsRegistry& registry) {
  registry.add("toy", {.make = [](auto&) { return std::make_shared<ToyVariantImpl>(); }});
}""", ("fovea/attention/variants/variant.h",)),
    Toy("channel", "fovea/channel", """class ToyChannelImpl final : public ChannelAttentionImpl {
 public:
  explicit ToyChannelImpl(const ChannelOptions& options) : ChannelAttentionImpl("toy", options) {}
  int64_t multiply_adds(int64_t, int64_t) const override { return 0; }  // it has no weights

 protected:
  Tensor attend(const Tensor& x) const override { return x * x.mean({2, 3}, true).sigmoid(); }
};""", """
void register_channel_toy(ChannelRegistry& registry) {
  registry.add("toy", {.make = [](auto& options) { return std::make_shared<ToyChannelImpl>(options); }});
}""", ("fovea/channel/channel_attention.h",)),
    Toy("models", "fovea/models", """class ToyModelImpl final : public ModelImpl {
 public:
  std::string type() const override { return "toy"; }
  nlohmann::json config() const override;
  std::vector<TensorName> tensor_names() const override { return {}; }
  void initialize() override {}
  LossSum loss(const Batch&, double) override { return {}; }
  int64_t vocab_size() const override { return 1; }
  int64_t max_positions() const override { return 1; }
};""", """
nlohmann::json ToyModelImpl::config() const { return {{"model_type", "toy"}}; }
namespace { class ToyRecipe : public ModelRecipe {
 public:
  void visit(FieldVisitor&) override {}
  nlohmann::json config(int64_t) const override { return ToyModelImpl().config(); }
}; }
void register_models_toy(ModelsRegistry& registry) {
  registry.add("toy", {.from_config = [](const nlohmann::json&) -> Model { return std::make_shared<ToyModelImpl>(); },
                       .recipe = [] { return std::make_unique<ToyRecipe>(); }});
}""", ("fovea/models/model.h", "nlohmann/json.hpp")),
    Toy("commands", "apps/fovea/commands", "", """
namespace { struct Toy {
  std::string word;
  void declare(CommandLine& line) { line.positional("WORD", word, "what to say"); }
  int run() { return 0; }
}; }
void register_commands_toy(CommandsRegistry& registry) { registry.add("toy", command<Toy>("say a word", "fovea toy hello")); }"""),
]


def drop(tree, toy):
    folder = tree / toy.folder
    assert folder.is_dir(), f"no folder {toy.folder}"
    includes = [f'#include "{toy.folder}/registry.h"']
    if toy.header:
        lines = "".join(f'#include {f"<{name}>" if name.startswith("nlohmann") else chr(34) + name + chr(34)}\n' for name in toy.includes)
        (folder / "toy.h").write_text(f"{HEAD}#pragma once\n{lines}namespace fovea {{\n{toy.header}\n}}\n")
        includes.insert(0, f'#include "{toy.folder}/toy.h"')
    (folder / "toy.cpp").write_text(HEAD + "\n".join(includes) + f"\nnamespace fovea {{{toy.source}\n}}\n")


def torch_folder():
    """Where the build under test found LibTorch's CMake package."""
    cache = BUILD / "CMakeCache.txt"
    found = cache.exists() and re.search(r"^Torch_DIR:PATH=(.+)$", cache.read_text(encoding="utf-8"), re.MULTILINE)
    assert found, f"{BUILD} is not configured; run tools/build first"
    return found[1]


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of the sources with all toys in it, configured in build/."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("the drill copies what git lists; this is no checkout")
    tree = tmp_path_factory.mktemp("drill")
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True)
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    for toy in TOYS:
        drop(tree, toy)
    # File by file: sources that are compiled together are not in compile_commands.json.
    options = {"CMAKE_BUILD_TYPE": "Release", "Torch_DIR": torch_folder(), "FOVEA_UNITY": "OFF", "FOVEA_BUILD_TESTS": "OFF",
               "FOVEA_BUILD_EXAMPLES": "OFF"}
    done = subprocess.run(["cmake", "-S", tree, "-B", tree / "build", "-G", "Ninja", *(f"-D{name}={value}" for name, value in options.items())],
                          capture_output=True, text=True, env={name: value for name, value in os.environ.items() if name != "FOVEA_TORCH"})
    assert done.returncode == 0, done.stdout + done.stderr
    return tree


def test_every_registry_folder_has_a_toy():
    """A folder is a registry when CMake is told so; a new one belongs in TOYS."""
    rooms = set()
    for path in [*ROOT.glob("cmake/*.cmake"), *ROOT.glob("apps/**/CMakeLists.txt"), *ROOT.glob("fovea/**/CMakeLists.txt")]:
        text = re.sub(r"#.*", "", path.read_text(encoding="utf-8"))
        for names in re.findall(r"foreach\(room ([^)]*)\)\s*fovea_registry\(\$\{room\}", text):
            rooms |= set(names.split())
        rooms |= set(re.findall(r"\bfovea_registry\((\w+) ", text))
    assert rooms == {toy.room for toy in TOYS}


@pytest.mark.parametrize("toy", TOYS, ids=lambda toy: toy.room)
def test_the_generated_files_list_it(tree, toy):
    generated = tree / "build/generated" / toy.folder
    source = (generated / "register_all.cpp").read_text()
    assert re.search(rf"^void register_{toy.room}_toy\(\w+&\);$", source, re.MULTILINE)
    assert f"  register_{toy.room}_toy(registry);" in source
    if toy.header:
        assert f'#include "{toy.folder}/toy.h"' in (generated / "all.h").read_text()


def test_they_compile_as_they_stand(tree):
    entries = {entry["file"]: entry for entry in json.loads((tree / "build/compile_commands.json").read_text())}

    def compile_room(toy):
        source, generated = tree / toy.folder / "toy.cpp", tree / "build/generated" / toy.folder / "register_all.cpp"
        for path in (source, generated):
            if str(path) not in entries:
                return f"{path} is not compiled"
        command = [*check_headers.flags_of(entries[str(source)]["command"]), "-O0", "-fsyntax-only", "-x", "c++", "-"]
        # Both in one unit: LibTorch's headers, which are nearly all of the time, are read once.
        done = subprocess.run(command, input=f'#include "{source}"\n#include "{generated}"\n', capture_output=True, text=True,
                              cwd=entries[str(source)]["directory"])
        return f"{source}\n{done.stderr}" if done.returncode else ""

    with concurrent.futures.ThreadPoolExecutor(CORES) as pool:
        errors = [error for error in pool.map(compile_room, TOYS) if error]
    assert not errors, "\n".join(errors)
