# SPDX-License-Identifier: Apache-2.0
"""The recipes of configs/, and their twins in PyTorch: that fovea takes each, that a twin of each kind of data trains by its
run's recipe and is measured as ours is, and that what a twin does not know is refused."""
import contextlib
import copy
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import random
import re
import runpy
import shutil
import sys
import tomllib

import numpy
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from test_command import edited, fovea, good
from tokenizers import Tokenizer
from twins import recipe as twin

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*.toml"))
WORDS = "in the beginning god created heaven and earth light was good but night darkness".split()
REST = """
[optim]
learning_rate = 1e-2
batch_size = 4
[schedule]
warmup = 2
[train]
out = "run"
steps = 4
validate_every = 0
"""
BERT = """
[tokenizer]
type = "words"
[model]
type = "bert"
width = 16
layers = 1
heads = 2
positions = 32
"""
RECIPES = {
    "text": '[data]\nkind = "text"\ntrain = ["train.txt"]\n[model]\ntype = "gpt2"\nwidth = 16\nlayers = 1\nheads = 2\npositions = 16\n',
    "labels": '[data]\nkind = "labels"\ntrain = ["train.tsv"]\n' + BERT,
    "texts in pairs": '[data]\nkind = "labels"\nlabel_column = "last"\ntrain = ["both.tsv"]\n' + BERT,
    "masked": '[data]\nkind = "masked"\ntrain = ["train.txt"]\n' + BERT,
    "pairs": '[data]\nkind = "pairs"\ntrain = ["pairs.tsv"]\n[model]\ntype = "transformer"\nwidth = 16\nencoder_layers = 1\ndecoder_layers = 1\n'
             "heads = 2\nhidden = 32\npositions = 64\npre_norm = true\ndropout = 0.1\n",
    "images": '[data]\nkind = "images"\ntrain = ["train-images-idx3-ubyte"]\nflip = 0.5\nshift = 1\nerase = 0.5\n[model]\ntype = "vit"\n'
              "image_size = [28]\npatch_size = [14]\nwidth = 16\nlayers = 1\nheads = 2\n",
}
FILES = {"text": "train.txt", "labels": "train.tsv", "texts in pairs": "both.tsv", "masked": "train.txt", "pairs": "pairs.tsv",
         "images": "train-images-idx3-ubyte"}


def idx(path, array):
    path.write_bytes(bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.astype("uint8").tobytes())


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipes")
    draw = random.Random(1)
    some = lambda: " ".join(draw.choices(WORDS, k=draw.randrange(3, 9)))
    (folder / "train.txt").write_text("".join(some() + "\n" for _ in range(60)))
    (folder / "train.tsv").write_text("".join(f"{draw.choice(['day', 'night'])}\t{some()}\n" for _ in range(30)))
    (folder / "last.tsv").write_text("".join(f"{some()}\t{draw.choice(['day', 'night'])}\n" for _ in range(30)))
    (folder / "both.tsv").write_text("".join(f"{some()}\t{some()}\t{draw.choice(['day', 'night'])}\n" for _ in range(30)))
    (folder / "pairs.tsv").write_text("".join(f"{some()}\t{some()[:20]}\n" for _ in range(30)))
    numbers = numpy.random.default_rng(1)
    idx(folder / "train-images-idx3-ubyte", numbers.integers(0, 256, (20, 28, 28)))
    idx(folder / "train-labels-idx1-ubyte", numpy.arange(20) % 10)
    return folder


def ours(work, kind, *settings, name=None):
    """The folder of a run of fovea train, which is trained once."""
    name = name or kind.replace(" ", "-")
    if not (work / name).exists():
        (work / f"{name}.toml").write_text(RECIPES[kind] + REST)
        good("train", f"{name}.toml", f"train.out={name}", *settings, "--threads", "1", cwd=work)
    return work / name


def changed(work, run, name, changes):
    """A copy of a run whose recipe says otherwise."""
    shutil.copytree(run, work / name)
    text = (run / "config.toml").read_text()
    for key, value in changes.items():
        text, count = re.subn(rf"^{key} = \S+", f"{key} = {value}", text, flags=re.MULTILINE)
        assert count == 1
    (work / name / "config.toml").write_text(text)
    return work / name


def theirs(work, run):
    """The folder of its twin."""
    with contextlib.chdir(work):
        twin.main(run, f"{run}-twin", 1, 1)
    return work / f"{run}-twin"


def recipe_of(run):
    return tomllib.loads((run / "config.toml").read_text())


def data_of(work, run, kind):
    """What the twin reads for a run."""
    tokenizer, config = twin.read_tokenizer(run / "best/tokenizer.json", kind is twin.Labels), json.loads((run / "best/config.json").read_text())
    with contextlib.chdir(work):
        return kind(recipe_of(run), tokenizer, config)


# ---- Recipes --------------------------------------------------------------------------------------------------------

def test_a_misspelled_key_is_told(tmp_path):
    (tmp_path / "odd.toml").write_text((ROOT / "configs/kjv.toml").read_text().replace("positions", "positoins"))
    done = fovea("train", "odd.toml", "--dump-config", cwd=tmp_path)
    assert done.returncode == 2 and b'unknown key "model.positoins"' in done.stderr


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_fovea_takes_each_recipe(work, config):
    """Its keys and its model, on data of our own; FOVEA_FULL: on the recipe's, where they are."""
    ours(work, "labels")
    recipe = tomllib.loads(config.read_text())
    data, settings = recipe["data"], []
    kind = data.get("kind", "text")
    file = "last.tsv" if data.get("label_column") == "last" else FILES[kind]
    settings = [f'data.train=["{file}"]', f'data.validation=["{file}"]', *(["train.init=labels/best"] if "init" in recipe["train"] else [])]
    good("train", config, *settings, "--dry-run", "--threads", "1", cwd=work)
    named = [*data["train"], *data["validation"], *([recipe["train"]["init"]] if "init" in recipe["train"] else [])]
    if "FOVEA_FULL" in os.environ and all((ROOT / name).exists() for name in named):
        good("train", config, "--dry-run", cwd=ROOT)


def test_every_recipe_that_is_named_is_there():
    pages = [*(ROOT / "docs").glob("**/*.md"), ROOT / "README.md", ROOT / "TOUR.md"]
    named = {(page.name, name) for page in pages for name in re.findall(r"configs/(\w+\.toml)", page.read_text())}
    named |= {(page.name, name) for page in (ROOT / "docs/tasks").glob("*.md") for name in re.findall(r"\w+\.toml", page.read_text())}
    named |= {(path.name, name) for path in CONFIGS for name in re.findall(r"configs/(\w+\.toml)", path.read_text())}
    assert len(named) > 20
    missing = [(page, name) for page, name in sorted(named) if not (ROOT / "configs" / name).exists()]
    assert not missing


# ---- Twins ----------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind", RECIPES)
def test_a_twin_of_each_kind_is_measured_as_ours_is(work, kind):
    run, figures = ours(work, kind), []
    for folder in (run / "last", theirs(work, run.name)):
        column = ["--label-column", "last"] if kind == "texts in pairs" else []
        figures.append(json.loads(good("eval", "--model", folder, "--data", FILES[kind], *column, "--json", cwd=work)))
    assert figures[0].keys() == figures[1].keys()
    for key in ("kind", "texts", "images", "tokens"):  # the same data
        assert figures[0].get(key) == figures[1].get(key)
    # Four steps from random weights: the losses differ by little.
    assert figures[1]["loss"] == pytest.approx(figures[0]["loss"], rel=0.25) and figures[0]["loss"] != figures[1]["loss"]


def learning_names(run):
    """Our names of the parameters that learn: those that the optimizer keeps numbers of."""
    with safe_open(run / "last/training/optimizer.safetensors", "pt") as file:
        return {key.removeprefix("exp_avg.") for key in file.keys() if key.startswith("exp_avg.")}


NAMED = {"text": [("text", []), ("llama", ["model.type=llama"]),
                  ("qwen2", ["model.type=qwen2", "model.tied=false"]), ("mistral", ["model.type=mistral", "model.window=8"])],
         "labels": [("labels", [])], "masked": [("masked", []), ("untied bert", ["model.tied=false"])],
         "pairs": [("pairs", []), ("untied transformer", ["model.tied=false", "model.shared_embeddings=false", "model.pre_norm=false"])],
         "images": [("images", [])]}


@pytest.mark.parametrize("kind, name, settings", [(kind, *case) for kind, cases in NAMED.items() for case in cases],
                         ids=[name for cases in NAMED.values() for name, _ in cases])
def test_it_knows_our_names_of_its_parameters(work, kind, name, settings):
    run = ours(work, kind, *settings, name=name.replace(" ", "-"))
    model = twin.make_model(kind, json.loads((run / "best/config.json").read_text()), run / "best", "")
    assert {name for names in twin.our_names(model, kind) for name in names} == learning_names(run)


def moved(folder, since):
    """Stored names of what is not as it was."""
    now, then = (load_file(place / "model.safetensors") for place in (folder, since))
    return {name for name in now if not torch.equal(now[name], then[name])}


@pytest.mark.parametrize("freeze", [["embedding*", "encoder*"], ["*.query.*", "classifier*"]], ids=str)
def test_what_is_frozen_stays_and_the_rest_learns(work, freeze):
    before = ours(work, "labels") / "best"
    run = ours(work, "labels", "train.init=labels/best", f"train.freeze={json.dumps(freeze)}", name=f"frozen-{len(freeze[0])}")
    learns = moved(theirs(work, run.name), before)
    assert learns == moved(run / "last", before)
    if freeze[0] == "embedding*":
        assert learns == {"bert.pooler.dense.weight", "bert.pooler.dense.bias", "classifier.weight", "classifier.bias",
                          "bert.embeddings.token_type_embeddings.weight"}
    else:
        assert len(learns) > 10 and not any(".query." in name or name.startswith("classifier") for name in learns)


def test_batches_of_a_step_count_by_their_tokens(work, monkeypatch):
    """A batch of one row and one of three are as a batch of the four."""
    read, weights = twin.Text.epoch, []
    for cuts in ([4], [1, 3]):
        def epoch(self, draw):
            for inputs, labels in read(self, draw):
                if len(labels) == 4:
                    for rows, marks in zip(inputs["input_ids"].split(cuts), labels.split(cuts)):
                        yield {"input_ids": rows}, marks

        monkeypatch.setattr(twin.Text, "epoch", epoch)
        run = changed(work, ours(work, "text"), f"cut-{len(cuts)}", {"accumulate": len(cuts)})
        weights.append(load_file(theirs(work, run.name) / "model.safetensors"))
    for name, tensor in weights[0].items():
        torch.testing.assert_close(weights[1][name], tensor, rtol=0, atol=2e-4)


def test_decay_spares_what_ours_spares(work):
    for kind, spared in (("text", {"embedding.weight", "decoder.position.weight"}), ("pairs", {"target_embedding.weight"})):
        run = ours(work, kind)
        model = twin.make_model(kind, json.loads((run / "best/config.json").read_text()), run / "best", "")
        names = dict(zip(map(id, model.parameters()), twin.our_names(model, kind)))
        decayed, plain = (group["params"] for group in twin.parameter_groups(model, kind, recipe_of(run)))
        assert all(p.dim() >= 2 for p in decayed)
        assert {names[id(p)][0] for p in plain if p.dim() >= 2} == spared


def test_pairs_of_texts_have_types(work):
    run = ours(work, "texts in pairs")
    data, tokenizer = data_of(work, run, twin.Labels), Tokenizer.from_file(str(run / "best/tokenizer.json"))
    first, second, label = (work / "both.tsv").read_text().split("\n")[0].split("\t")
    ids, types, number = data.items[0]
    wanted = [tokenizer.encode(text, add_special_tokens=False).ids for text in (first, second)]
    around = tokenizer.encode("").ids
    assert ids == [around[0], *wanted[0], around[1], *wanted[1], around[1]] and number == ["day", "night"].index(label)
    assert types == [0] * (2 + len(wanted[0])) + [1] * (1 + len(wanted[1]))
    inputs, _ = next(data.epoch(random.Random(1)))
    assert inputs["token_type_ids"].max() == 1 and inputs["token_type_ids"].shape == inputs["input_ids"].shape


def test_longer_texts_are_cut_or_dropped(work):
    cut = ours(work, "labels", "data.context=7", "data.cut_longer=true", name="cut")
    dropped = changed(work, ours(work, "labels"), "dropped", {"context": 7, "drop_longer": "true"})
    for run, counts in ((cut, [30]), (dropped, range(4, 30))):
        lengths = [len(ids) for ids, *_ in data_of(work, run, twin.Labels).items]
        assert max(lengths) == 7 and len(lengths) in counts


def test_other_classes_get_another_head(work, tmp_path):
    init = ours(work, "labels") / "best"
    shutil.copytree(init, tmp_path / "others")
    edited(tmp_path / "others/config.json", id2label={"0": "bright", "1": "night"}, label2id={"bright": 0, "night": 1})
    old = load_file(init / "model.safetensors")
    for folder, kept in ((tmp_path / "others", False), (init, True)):
        model = twin.make_model("labels", None, folder, str(init))
        assert torch.equal(model.classifier.weight, old["classifier.weight"]) == kept
        assert torch.equal(model.bert.pooler.dense.weight, old["bert.pooler.dense.weight"])


# ---- What a twin does not know --------------------------------------------------------------------------------------

REFUSED = {
    'data.windows = "streams"': {"data": {"kind": "text", "windows": "streams"}},
    "data.validation_fraction = 0.1": {"data": {"validation_fraction": 0.1}},
    "data.resize = true": {"data": {"resize": True}},
    'data.kind = "lines"': {"data": {"kind": "lines"}},
    'schedule.name = "steps"': {"schedule": {"name": "steps"}},
    "optim.momentum = 0.9": {"optim": {"momentum": 0.9}},  # whatever comes to be
    "train.max_minutes = 5": {"train": {"max_minutes": 5}},
    "train.patience = 3": {"train": {"patience": 3}},
    'model.type = "roberta" for data.kind = "labels"': {"model": {"type": "roberta"}},
    'model.type = "decoder" for data.kind = "text"': {"data": {"kind": "text"}, "model": {"type": "decoder"}},
    'train.init for data.kind = "pairs"': {"data": {"kind": "pairs"}, "train": {"init": "somewhere"}},
    "folders of images: data.train names .": {"data": {"kind": "images", "train": ["."]}, "model": {"type": "vit"}},
}


@pytest.fixture(scope="module")
def whole(work):
    """A whole recipe that the twin knows."""
    return recipe_of(ours(work, "labels"))


@pytest.mark.parametrize("what", REFUSED)
def test_what_it_does_not_know_is_refused(whole, what):
    twin.check(whole)
    recipe = copy.deepcopy(whole)
    for section, values in REFUSED[what].items():
        recipe[section].update(values)
    with pytest.raises(SystemExit) as said:
        twin.check(recipe)
    assert str(said.value) == f"the twin knows no {what}"


def test_what_only_the_run_tells_is_refused(work):
    shutil.copytree(ours(work, "images"), work / "turned")  # as model.position_type = "rope_2d" writes it
    edited(work / "turned/best/config.json", model_type="fovea_vit")
    with pytest.raises(SystemExit, match='the twin knows no model.type = "fovea_vit" for data.kind = "images"'):
        theirs(work, "turned")
    changed(work, ours(work, "text"), "part", {"freeze": '["*.query.*"]'})
    with pytest.raises(SystemExit, match=r'the twin knows no train.freeze = \["\*\.query\.\*"\]: .*query.*, .*key.*, .*value.* are one parameter there'):
        theirs(work, "part")


def test_a_recipe_is_checked_before_training(work, monkeypatch):
    """recipe.py FILE.toml, as tools/twins calls it."""
    for name, changes in (("known", {"accumulate": 2, "freeze": '["encoder*"]'}), ("patient", {"patience": 2})):
        file = changed(work, ours(work, "labels"), name, changes) / "config.toml"
        monkeypatch.setattr(sys, "argv", [twin.__file__, str(file)])
        with pytest.raises(SystemExit, match="the twin knows no train.patience = 2") if name == "patient" else contextlib.nullcontext():
            runpy.run_path(twin.__file__, run_name="__main__")


def test_the_twins_that_pages_name_are_known(whole):
    pages = [*(ROOT / "docs").glob("**/*.md"), ROOT / "TOUR.md"]
    named = {name for page in pages for name in re.findall(r"tools/twins configs/(\w+\.toml)", page.read_text())}
    assert len(named) >= 5
    for name in named:
        recipe = tomllib.loads((ROOT / "configs" / name).read_text())
        twin.check({section: {**whole[section], **recipe.get(section, {})} for section in whole})


# ---- tools/twins ----------------------------------------------------------------------------------------------------

@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = importlib.machinery.SourceFileLoader("tool_twins", str(ROOT / "tools/twins"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("tool_twins", loader))
    loader.exec_module(module)
    return module


def test_test_data_stand_beside_validation(tool):
    data = {"kind": "images", "context": 0, "validation": ["my validation set/validation-images-idx3-ubyte", "more/validation"]}
    assert list(map(str, tool.measure_words(data, []))) == ["--data", "my validation set/test-images-idx3-ubyte", "--data", "more/test"]
    for files in ([], ["validation/dev.tsv"]):
        with pytest.raises(SystemExit, match="does not tell where the test data are; give --eval"):
            tool.measure_words({**data, "validation": files}, [])


def test_what_is_measured_follows_the_settings(tool):
    data = {"kind": "labels", "label_column": "last", "context": 64, "validation": ["validation.tsv"]}
    words = lambda words=(), **changes: list(map(str, tool.measure_words({**data, **changes}, list(words))))
    assert words() == ["--data", "test.tsv", "--label-column", "last"]
    assert words(["far.tsv", "--label-column", "first"]) == ["--data", "far.tsv", "--label-column", "first"]
    assert words(kind="text") == ["--data", "test.tsv", "--context", "64"]
    assert words(["a.txt", "--context", "32"], kind="text") == ["--data", "a.txt", "--context", "32"]


def test_settings_behind_the_dashes_reach_everything(tool, work, tmp_path, monkeypatch, capsys):
    """A path with blanks is one word; the column is the setting's, not the recipe's."""
    def run(*command):
        asked.append(list(map(str, command)))
        return good(*asked[-1][1:], cwd=work) if "--dump-config" in command else '{"accuracy": 0.5}' if "eval" in command else "1.0"

    asked = []
    monkeypatch.setattr(tool, "run", run)
    monkeypatch.setattr(tool, "training_seconds", lambda path: 2.0)
    monkeypatch.setattr(tool, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["twins", str(ROOT / "configs/sentiment.toml"), "--threads", "1", "--seeds", "3", "--",
                                      "data.label_column=first", 'data.validation=["a folder/validation.tsv"]', "train.steps=7"])
    tool.main()
    checks, trains, twins, *measured = asked[1:]
    assert checks[1:] == [str(tool.TWIN), str(tmp_path / "runs/twins/sentiment/recipe.toml")]
    assert tomllib.loads((tmp_path / "runs/twins/sentiment/recipe.toml").read_text())["train"]["steps"] == 7
    assert 'data.validation=["a folder/validation.tsv"]' in trains and "train.seed=3" in trains
    assert twins[-4:] == [str(tmp_path / "runs/twins/sentiment/ours-3"), str(tmp_path / "runs/twins/sentiment/twin-3"), "1", "3"]
    assert [words[words.index("--data") :] for words in measured] == [["--data", "a folder/test.tsv", "--label-column", "first", "--json"]] * 2
    assert "mean    twin  accuracy 0.5  training_seconds 1" in capsys.readouterr().out


def test_lines_begin_as_they_were_learned(tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPES["text"] + REST)
    (tmp_path / "train.txt").write_text("in the beginning\n\nlight was\n" * 20)
    good("train", "recipe.toml", "data.kind=lines", "train.out=lines", cwd=tmp_path)
    tokens = json.loads((tmp_path / "lines/best/tokenizer.json").read_text())["added_tokens"]
    begin = next(token["id"] for token in tokens if token["content"] == "<s>")
    written = json.loads(good("generate", "--model", "lines/best", "--prompt", "li", "--max-new-tokens", "2", "--json", cwd=tmp_path))
    assert written["prompt_tokens"][0] == begin and len(written["prompt_tokens"]) == 3
    facts = json.loads(good("eval", "--model", "lines/best", "--data", "train.txt", "--kind", "lines", "--samples", "3", "--max-new-tokens", "4", "--json", cwd=tmp_path))
    assert facts["samples"] == 3 and 0 <= facts["repetition"] <= 1
