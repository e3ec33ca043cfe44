# SPDX-License-Identifier: Apache-2.0
"""fovea train, eval and translate on pairs: a small language of fourteen words, its tokenizer in the package, bad input."""
import json
import random
import re

import pytest
import sacrebleu
from test_command import fovea, good
from tokenizers import Tokenizer

WORDS = dict(zip("open close save the file window red blue line of new old and page".split(), "开关存这件窗红蓝行的新旧和页"))
RECIPE = """
[data]
kind = "pairs"
train = ["train.tsv"]
validation = ["validation.tsv"]
[tokenizer]
type = "bpe"
vocab_size = 360
isolate = "\\\\p{Lo}"
[model]
type = "transformer"
width = 32
encoder_layers = 1
decoder_layers = 1
heads = 2
hidden = 64
positions = 32
pre_norm = true
dropout = 0
[optim]
learning_rate = 1e-2
batch_size = 0
batch_tokens = 200
label_smoothing = 0.1
[train]
out = "run"
steps = 450
validate_every = 150
"""


def table(draw, count):
    """Word for word, the other way round."""
    lines = []
    for _ in range(count):
        words = draw.choices(list(WORDS), k=draw.randrange(2, 7))
        lines.append(f"{' '.join(words)}\t{''.join(WORDS[w] for w in reversed(words))}。\n")
    return "".join(lines)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("translation")
    draw = random.Random(6)
    for name, count in {"train": 600, "validation": 40, "test": 60}.items():
        (folder / f"{name}.tsv").write_text(table(draw, count))
    (folder / "recipe.toml").write_text(RECIPE)
    good("train", "recipe.toml", cwd=folder)
    return folder


def pairs(work):
    return [line.split("\t") for line in (work / "test.tsv").read_text().splitlines()]


def test_it_learns_and_is_measured_as_sacrebleu_measures(work):
    facts = json.loads(good("eval", "--model", "run/best", "--data", "test.tsv", "--beams", "3", "--json", cwd=work))
    texts = [source for source, _ in pairs(work)]
    answers = [json.loads(line)["text"] for line in good("translate", "--model", "run/best", "--beams", "3", "--json", *texts, cwd=work).splitlines()]
    wanted = sacrebleu.corpus_bleu(answers, [[target for _, target in pairs(work)]], tokenize="zh").score
    assert facts["bleu"] == pytest.approx(wanted, abs=1e-6) and facts["bleu_words"] == "zh" and facts["texts"] == 60
    assert facts["bleu"] > 60, answers[:5]


def test_texts_of_a_file_run_by_length_and_come_in_order(work):
    sources = [source for source, _ in pairs(work)]
    (work / "sources.txt").write_text("\n".join(sources) + "\n")
    command = ["translate", "--model", "run/best", "--json"]
    for options in ([], ["--beams", "2", "--results", "2"]):
        of_file = [json.loads(line) for line in good(*command, *options, "--file", "sources.txt", "--batch-size", "8", cwd=work).splitlines()]
        each = 2 if options else 1
        assert len(of_file) == each * len(sources)
        alone = [json.loads(line) for line in good(*command, *options, *sources[:6], cwd=work).splitlines()]
        assert [row["text"] for row in of_file[: len(alone)]] == [row["text"] for row in alone]
        piped = good(*command, *options, "--batch-size", "8", cwd=work, stdin="\n".join(sources).encode())
        assert [json.loads(line)["text"] for line in piped.splitlines()] == [row["text"] for row in of_file]
    assert [row["seed"] for row in (json.loads(line) for line in good(*command, "--seed", "5", "--file", "sources.txt", cwd=work).splitlines())] == \
        list(range(5, 5 + len(sources)))


def test_each_chinese_character_is_a_token_here_and_in_the_package(work):
    tokenizer = Tokenizer.from_file(str(work / "run/best/tokenizer.json"))
    for _, target in pairs(work)[:20]:
        ids = json.loads(good("tokenize", "--model", "run/best", "--json", target, cwd=work))["ids"]
        assert ids == tokenizer.encode(target).ids and len(ids) == len(target)
        assert tokenizer.decode(ids) == target


def test_attention_from_target_to_source(work):
    record = json.loads(good("attend", "--model", "run/best", "save the file", "--json", cwd=work))
    assert [s["name"] for s in record["sequences"]] == ["source", "target"]
    assert {(m["queries"], m["keys"]) for m in record["maps"]} == {(0, 0), (1, 1), (1, 0)}


def test_a_run_with_fewer_steps_goes_on_as_if_it_had_not_ended(work):
    run = ["train", "recipe.toml", "train.validate_every=15", "schedule.name=constant", "model.dropout=0.1"]
    good(*run, "train.out=whole", "train.steps=30", cwd=work)
    good(*run, "train.out=parts", "train.steps=17", cwd=work)
    good(*run, "train.out=parts", "train.steps=30", cwd=work)
    whole, parts = ((work / f"{name}/last/model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert whole == parts


def test_each_side_may_have_a_vocabulary_of_its_own(work):
    """Pieces of words on the one side, characters on the other: both in the folder, the sources' in a file of its own."""
    apart = ["source_tokenizer.type=bpe", "source_tokenizer.vocab_size=300", "tokenizer.type=characters", "train.out=apart"]
    good("train", "recipe.toml", *apart, cwd=work)
    source, target = (Tokenizer.from_file(str(work / f"apart/best/{name}.json")) for name in ("source_tokenizer", "tokenizer"))
    assert source.encode("save the").tokens == ["save", "Ġthe"]
    assert target.get_vocab_size() == len("".join(WORDS.values()) + "。") + 4
    config = json.loads((work / "apart/best/config.json").read_text())
    assert (config["source_vocab_size"], config["vocab_size"]) == (source.get_vocab_size(), target.get_vocab_size())
    assert not config["shared_embeddings"]
    facts = json.loads(good("eval", "--model", "apart/best", "--data", "test.tsv", "--beams", "3", "--json", cwd=work))
    assert facts["bleu"] > 60
    record = json.loads(good("attend", "--model", "apart/best", "save the", "--json", cwd=work))
    assert record["sequences"][0]["tokens"] == ["save", " the", "</s>"]
    assert json.loads(good("inspect", "apart/best", "--json", cwd=work))["problems"] == []
    good("train", "recipe.toml", "train.init=apart/best", "train.out=further", "train.steps=2", "train.validate_every=0", cwd=work)
    assert (work / "further/best/source_tokenizer.json").read_bytes() == (work / "apart/best/source_tokenizer.json").read_bytes()
    (work / "apart/best/source_tokenizer.json").write_text((work / "run/best/tokenizer.json").read_text())
    done = fovea("translate", "--model", "apart/best", "save", cwd=work)
    assert done.returncode == 3 and b"the sources' tokenizer has ids up to" in done.stderr
    (work / "apart/best/source_tokenizer.json").unlink()
    for verb in (["translate", "--model", "apart/best", "save"], ["inspect", "apart/best"], ["train", "recipe.toml", "train.init=apart/best", "train.out=blind"]):
        done = fovea(*verb, cwd=work)
        assert done.returncode == 3 and b"source_tokenizer.json is missing" in done.stderr + done.stdout
    path = "source_tokenizer.path=further/best"
    good("train", "recipe.toml", "source_tokenizer.type=file", path, "train.out=same", "train.steps=1", "train.validate_every=0", cwd=work)
    assert (work / "same/best/source_tokenizer.json").read_bytes() == (work / "further/best/source_tokenizer.json").read_bytes()


BAD = {
    "missing column": ("train", ["data.train=column.tsv"], 3, r"column\.tsv:2: one column; wanted source<TAB>target"),
    "third column": ("train", ["data.train=third.tsv"], 3, r"third\.tsv:1: 3 columns"),
    "empty target": ("train", ["data.train=silent.tsv"], 3, r"silent\.tsv:3: the target column is empty"),
    "too long": ("train", ["data.train=long.tsv"], 3, r"long\.tsv:2: the pair has \d+ tokens, rows have 32; in training, data\.drop_longer"),
    "no pairs": ("train", ["data.train=empty.tsv"], 3, r"empty\.tsv: holds no pairs"),
    "empty split": ("train", ["data.validation=[]", "data.validation_fraction=0.0001"], 3, "leave one side empty"),
    "GB18030": ("train", ["data.train=chinese.tsv"], 3, r"chinese\.tsv.*GB18030"),
    "a model with one vocabulary": ("train", ["t5.toml"], 2, "a t5 model has one vocabulary for both sides; leave source_tokenizer out"),
    "no type": ("train", ["source_tokenizer.vocab_size=300"], 2, "source_tokenizer.type is empty"),
    "all too long": ("train", ["data.context=2", "data.drop_longer=true"], 3, r"all \d+ pairs are longer than the 2 tokens"),
    "no such tokenizer": ("train", ["source_tokenizer.type=bpee"], 2, "source_tokenizer.type is \"bpee\".*bpe"),
    "a bad pattern": ("train", ['tokenizer.isolate="("'], 2, "isolate"),
    "eval: missing column": ("eval", ["--model", "run/best", "--data", "column.tsv"], 3, r"column\.tsv:2"),
    "eval: too long": ("eval", ["--model", "run/best", "--data", "long.tsv"], 3, r"long\.tsv:2"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(work, name):
    for file, content in {"column.tsv": "open\t开\nclose\n", "third.tsv": "a\tb\tc\n", "silent.tsv": "a\tb\n\nc\t\n",
                          "long.tsv": f"open\t开\nsave\t{'存' * 40}\n", "empty.tsv": "\n",
                          "t5.toml": RECIPE.partition("[model]")[0] + '[source_tokenizer]\ntype = "words"\n[model]\ntype = "t5"\n'}.items():
        (work / file).write_text(content)
    (work / "chinese.tsv").write_bytes("save the file\t保存文件，请稍候。\n".encode("gb18030"))
    verb, arguments, code, message = BAD[name]
    if verb == "train":
        arguments = [*([] if arguments[0].endswith(".toml") else ["recipe.toml"]), "train.out=bad", *arguments]
    done = fovea(verb, *arguments, cwd=work)
    text = done.stderr.decode()
    assert done.returncode == code and re.search(message, text), text


def test_odd_but_good_files(work):
    """A byte order mark, Windows' line ends, empty lines."""
    ask = lambda file: {**json.loads(good("eval", "--model", "run/best", "--data", file, "--loss-only", "--json", cwd=work)), "seconds": 0}
    lines = (work / "test.tsv").read_text().splitlines()
    (work / "odd.tsv").write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join(lines).encode())
    assert ask("odd.tsv") == ask("test.tsv")
