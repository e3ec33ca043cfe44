# SPDX-License-Identifier: Apache-2.0
"""fovea train and eval on labelled texts and hidden words; what they write, in transformers."""
import json
import random
import re

import pytest
import torch
from test_command import fovea, good
from test_encoder_command import WORDS, make
from tokenizers import Tokenizer
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, BertForMaskedLM, BertModel

RECIPE = """
[data]
kind = "labels"
train = ["train.tsv"]
validation = ["validation.tsv"]
[tokenizer]
type = "words"
[model]
type = "bert"
width = 32
layers = 1
heads = 2
positions = 48
initializer_range = 0.1
[optim]
learning_rate = 5e-3
batch_size = 8
[train]
out = "run"
steps = 120
validate_every = 60
"""
CLASSES = {"dark": "night", "light": "light", "made": "created"}


def table(draw, count):
    """Each class has a word of its own among others, which all have."""
    lines = []
    for label, word in draw.choices(list(CLASSES.items()), k=count):
        words = draw.choices("in the and was good day water".split(), k=draw.randrange(2, 9))
        words.insert(draw.randrange(len(words)), word)
        lines.append(f"{label}\t{' '.join(words)}\n")
    return "".join(lines)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("training")
    draw = random.Random(4)
    for name, count in {"train": 240, "validation": 60, "test": 90}.items():
        (folder / f"{name}.tsv").write_text(table(draw, count))
    (folder / "text.txt").write_text("".join(" ".join(WORDS[i % 4 : i % 4 + 8]) + "\n" for i in range(200)))
    (folder / "recipe.toml").write_text(RECIPE)
    good("train", "recipe.toml", cwd=folder)
    make(BertModel, folder / "bare")
    make(BertForMaskedLM, folder / "words")
    return folder


def rows(folder, name="test.tsv"):
    return [line.split("\t") for line in (folder / name).read_text().splitlines()]


def test_what_was_trained_is_a_classifier_in_transformers(work):
    model = AutoModelForSequenceClassification.from_pretrained(work / "run/best").eval()
    assert model.config.id2label == {i: name for i, name in enumerate(sorted(CLASSES))}
    tokenizer = Tokenizer.from_file(str(work / "run/best/tokenizer.json"))
    facts = json.loads(good("eval", "--model", "run/best", "--data", "test.tsv", "--json", cwd=work))
    confusion, losses = [[0] * 3 for _ in range(3)], []
    with torch.no_grad():
        for label, text in rows(work):
            logits = model(torch.tensor([tokenizer.encode(text).ids])).logits[0]
            truth = model.config.label2id[label]
            confusion[truth][int(logits.argmax())] += 1
            losses.append(-logits.log_softmax(-1)[truth].item())
    assert facts["confusion"] == confusion and facts["texts"] == 90
    assert facts["loss"] == pytest.approx(sum(losses) / 90, abs=1e-4)
    right = sum(confusion[i][i] for i in range(3))
    assert facts["accuracy"] == pytest.approx(right / 90) and right > 80
    scores = [2 * confusion[i][i] / (sum(confusion[i]) + sum(row[i] for row in confusion)) for i in range(3)]
    assert facts["macro_f1"] == pytest.approx(sum(scores) / 3)
    assert [c["f1"] for c in facts["classes"]] == pytest.approx(scores)
    assert [c["label"] for c in facts["classes"]] == sorted(CLASSES)
    low, high = facts["accuracy_interval"]
    assert low <= facts["accuracy"] <= high


def test_the_table_for_people(work):
    text = good("eval", "--model", "run/best", "--data", "test.tsv", cwd=work)
    assert re.search(r"^accuracy +[01]\.\d{4}  \(95 %: ", text, re.M)
    assert re.search(r"^is \\ taken for +dark +light +made$", text, re.M), text


def test_classify_agrees_with_eval(work):
    out = [json.loads(line)["label"] for line in good("classify", "--model", "run/best", "--json", *(t for _, t in rows(work)), cwd=work).splitlines()]
    facts = json.loads(good("eval", "--model", "run/best", "--data", "test.tsv", "--batch-size", "7", "--json", cwd=work))
    assert facts["accuracy"] == pytest.approx(sum(have == want for have, (want, _) in zip(out, rows(work))) / 90)


def test_the_label_may_stand_last(work):
    (work / "last.tsv").write_text("".join(f"{text}\t{label}\n" for label, text in rows(work)))
    facts = json.loads(good("eval", "--model", "run/best", "--data", "last.tsv", "--label-column", "last", "--json", cwd=work))
    first = json.loads(good("eval", "--model", "run/best", "--data", "test.tsv", "--json", cwd=work))
    facts.pop("seconds"), first.pop("seconds")
    assert facts == first


def test_odd_but_good_files(work):
    """A byte order mark, Windows' line ends, empty lines, blanks inside a label."""
    ask = lambda file: {**json.loads(good("eval", "--model", "run/best", "--data", file, "--json", cwd=work)), "seconds": 0}
    lines = (work / "test.tsv").read_text().splitlines()
    (work / "odd.tsv").write_bytes(b"\xef\xbb\xbf" + "\r\n\r\n".join(lines).encode())
    assert ask("odd.tsv") == ask("test.tsv")
    (work / "named.tsv").write_text((work / "train.tsv").read_text().replace("made\t", "made by hand\t"))
    good("train", "recipe.toml", "data.train=named.tsv", "data.validation=[]", "train.steps=2", "train.out=named", cwd=work)
    assert json.loads((work / "named/best/config.json").read_text())["id2label"] == {"0": "dark", "1": "light", "2": "made by hand"}


def test_long_texts_are_cut_as_the_saved_tokenizer_says(work):
    good("train", "recipe.toml", "data.context=6", "data.cut_longer=true", "train.out=cut", "train.steps=60", cwd=work)
    tokenizer = Tokenizer.from_file(str(work / "cut/best/tokenizer.json"))
    assert tokenizer.truncation["max_length"] == 6
    model = AutoModelForSequenceClassification.from_pretrained(work / "cut/best").eval()
    facts = json.loads(good("eval", "--model", "cut/best", "--data", "test.tsv", "--json", cwd=work))
    with torch.no_grad():
        losses = [-model(torch.tensor([tokenizer.encode(text).ids])).logits[0].log_softmax(-1)[model.config.label2id[label]].item() for label, text in rows(work)]
    assert facts["texts"] == 90 and facts["loss"] == pytest.approx(sum(losses) / 90, abs=1e-4)
    record = json.loads(good("attend", "--model", "cut/best", "night and day and night and day", "--json", cwd=work))
    assert len(record["sequences"][0]["tokens"]) == 6


@pytest.mark.parametrize("start", ["bare", "words"])
def test_a_folders_encoder_gets_a_new_head(work, start):
    good("train", "recipe.toml", f"train.init={start}", f"train.out=from-{start}", "optim.learning_rate=2e-3", "train.steps=240", cwd=work)
    facts = json.loads(good("eval", "--model", f"from-{start}/best", "--data", "test.tsv", "--json", cwd=work))
    assert facts["accuracy"] > 0.8
    model = AutoModelForSequenceClassification.from_pretrained(work / f"from-{start}/best")
    assert model.config.num_labels == 3 and model.config.num_hidden_layers == 2


@pytest.mark.parametrize("kind", ["labels", "masked"])
def test_a_run_with_fewer_steps_goes_on_as_if_it_had_not_ended(work, kind):
    data = {"labels": "train.tsv", "masked": "text.txt"}[kind]
    run = ["train", "recipe.toml", f"data.kind={kind}", f"data.train={data}", f"data.validation={data}", "train.validate_every=15",
           "optim.batch_tokens=200", "schedule.name=constant"]
    good(*run, f"train.out=whole-{kind}", "train.steps=30", cwd=work)
    good(*run, f"train.out=parts-{kind}", "train.steps=17", cwd=work)
    good(*run, f"train.out=parts-{kind}", "train.steps=30", cwd=work)
    whole, parts = ((work / f"{name}-{kind}/last/model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert whole == parts


def test_masked_words(work):
    settings = ["data.kind=masked", "data.train=text.txt", "data.validation=text.txt", "train.out=masked", "train.steps=200", "train.validate_every=100"]
    good("train", "recipe.toml", *settings, cwd=work)
    ask = ["eval", "--model", "masked/best", "--data", "text.txt", "--json"]
    facts = json.loads(good(*ask, cwd=work))
    assert facts["accuracy"] > 0.8 and facts["perplexity"] < 3
    lines = (work / "text.txt").read_text().splitlines()
    assert facts["tokens"] == sum(max(1, round(0.15 * len(line.split()))) for line in lines)
    again = json.loads(good(*ask, cwd=work))
    assert {**again, "seconds": 0} == {**facts, "seconds": 0}  # the same words are hidden
    tokenizer = Tokenizer.from_file(str(work / "masked/best/tokenizer.json"))
    encoding = tokenizer.encode("in the [MASK] god created heaven and earth")
    model = AutoModelForMaskedLM.from_pretrained(work / "masked/best").eval()
    with torch.no_grad():
        place = model(torch.tensor([encoding.ids])).logits[0, encoding.tokens.index("[MASK]")].softmax(-1)
    best, = json.loads(good("fill-mask", "--model", "masked/best", "-k", "1", "--json", "in the [MASK] god created heaven and earth", cwd=work))
    assert best["id"] == int(place.argmax()) and best["score"] == pytest.approx(place.max().item(), abs=1e-4)


BAD = {
    "unknown label": ("train", ["data.validation=other.tsv"], 3, 'other.tsv:2: the model knows no label "lihgt"; did you mean "light"'),
    "one class": ("train", ["data.train=one.tsv"], 3, 'one.tsv: all 2 texts have the label "light"'),
    "missing column": ("train", ["data.train=column.tsv"], 3, "column.tsv:2: one column"),
    "label last": ("train", ["data.train=last-column.tsv"], 3, "last-column.tsv: each of the 4 texts has a label of its own"),
    "empty split": ("train", ["data.validation=[]", "data.validation_fraction=0.001"], 3, "leave one side empty"),
    "empty file": ("train", ["data.train=empty.tsv"], 3, "empty.tsv: holds no texts"),
    "GB18030": ("train", ["data.train=chinese.tsv"], 3, "chinese.tsv.*GB18030"),
    "blank beside a label": ("train", ["data.train=blank.tsv"], 3, r'blank\.tsv:2: the label " light" begins or ends with a blank'),
    "empty text": ("train", ["data.train=silent.tsv"], 3, r"silent\.tsv:2: the text is empty"),
    "too long": ("train", ["data.context=6"], 3, r"train\.tsv:\d+: the text has \d+ tokens, rows have 6; .*data\.cut_longer.*data\.drop_longer"),
    "cut to nothing": ("train", ["data.context=2", "data.cut_longer=true"], 2, "no room beside the 2 around each text"),
    "all too long": ("train", ["data.context=3", "data.drop_longer=true"], 3, r"all \d+ texts are longer than the 3 tokens"),
    "pairs for one segment": ("train", ["data.validation=pairs.tsv"], 3, r"pairs\.tsv:1: a pair of texts; the model reads single ones"),
    "eval: pairs for one segment": ("eval", ["--model", "run/best", "--data", "pairs.tsv"], 3, r"pairs\.tsv:1: a pair"),
    "classify: pairs for one segment": ("classify", ["--model", "run/best", "--pairs", "night\tday"], 3, "a pair of texts"),
    "eval: beams": ("eval", ["--model", "run/best", "--data", "test.tsv", "--beams", "-3"], 2, "--beams is -3"),
    "cut what has no labels": ("train", ["data.kind=masked", "data.cut_longer=true", "data.train=text.txt", "data.validation=text.txt"], 2, "data.cut_longer is for"),
    "eval: too long": ("eval", ["--model", "run/best", "--data", "long.tsv"], 3, r"long\.tsv:2: the text has 62 tokens"),
    "a decoder": ("train", ["model.type=llama"], 2, "an encoder such as bert"),
    "eval: unknown label": ("eval", ["--model", "run/best", "--data", "other.tsv"], 3, "other.tsv:2"),
    "eval: another kind": ("eval", ["--model", "run/best", "--data", "text.txt", "--kind", "masked"], 2, 'head "masked_lm"; .*head "classifier"'),
    "eval: no head": ("eval", ["--model", "bare", "--data", "test.tsv", "--kind", "labels"], 2, 'head "classifier"; .*head "none"'),
    "eval: unknown kind": ("eval", ["--model", "run/best", "--data", "test.tsv", "--kind", "label"], 2, "label"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(work, name):
    for file, content in {"blank.tsv": "dark\tnight\n light\tday\n", "silent.tsv": "dark\tnight\nlight\t\n", "long.tsv": f"dark\ta\nlight\t{'day ' * 60}\n", "other.tsv": "light\tday\nlihgt\tday\n", "one.tsv": "light\ta\nlight\tb\n", "column.tsv": "light\ta\ndark\n", "empty.tsv": "\n", "pairs.tsv": "dark\tnight\tnight\nlight\tday\tday\n",
                          "last-column.tsv": "a\tx\nb\tx\nc\ty\nd\ty\n"}.items():
        (work / file).write_text(content)
    (work / "chinese.tsv").write_bytes("好\t保存文件，请稍候。\n坏\t无法保存文件。\n".encode("gb18030"))
    verb, arguments, code, message = BAD[name]
    if verb == "train":
        arguments = ["recipe.toml", "train.out=bad", *arguments]
    done = fovea(verb, *arguments, cwd=work)
    text = done.stderr.decode()
    assert done.returncode == code and re.search(message, text), text
