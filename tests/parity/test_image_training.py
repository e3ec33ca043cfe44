# SPDX-License-Identifier: Apache-2.0
"""fovea train, eval, classify and attend on images; what they write, in transformers; a training curve that is theirs."""
import base64
import json
import re
import shutil

import numpy
import pytest
import torch
from PIL import Image
from test_command import edited, fovea, good
from transformers import AutoModelForImageClassification, ViTConfig, ViTForImageClassification
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

RECIPE = """
[data]
kind = "images"
train = ["train"]
validation = ["validation"]
flip = 0.5
shift = 1
[model]
type = "vit"
image_size = [12]
patch_size = [4]
channels = 1
width = 16
layers = 2
heads = 2
[optim]
learning_rate = 5e-3
batch_size = 8
[train]
out = "run"
steps = 80
validate_every = 40
"""
CLASSES = ["above", "below", "middle"]


def pictures(folder, count, seed):
    """A bright band where the class says, among noise."""
    draw = numpy.random.default_rng(seed)
    for i in range(count):
        label = i % 3
        pixels = draw.integers(0, 120, (12, 12))
        pixels[[slice(0, 4), slice(8, 12), slice(4, 8)][label]] += 110
        (folder / CLASSES[label]).mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels.astype("uint8")).save(folder / CLASSES[label] / f"{i}.png")


def idx(path, array):
    path.write_bytes(bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.astype("uint8").tobytes())


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    for name, count, seed in (("train", 90, 1), ("validation", 30, 2), ("test", 45, 3)):
        pictures(folder / name, count, seed)
    (folder / "recipe.toml").write_text(RECIPE)
    good("train", "recipe.toml", cwd=folder)
    return folder


def files(work, name="test"):
    return sorted((work / name).glob("*/*.png"))


def prepared(folder, paths, size=None):
    """As transformers' own processor of the folder makes them."""
    processor = ViTImageProcessorPil.from_pretrained(folder)
    return torch.stack([torch.as_tensor(numpy.asarray(processor(numpy.asarray(Image.open(p))[None], input_data_format="channels_first",
                                                                return_tensors="pt")["pixel_values"][0])) for p in paths])


def test_what_was_trained_is_a_classifier_in_transformers(work):
    model = AutoModelForImageClassification.from_pretrained(work / "run/best").eval()
    assert model.config.id2label == dict(enumerate(CLASSES)) and model.config.label2id == {c: i for i, c in enumerate(CLASSES)}
    with torch.no_grad():
        logits = model(prepared(work / "run/best", files(work))).logits
    facts = json.loads(good("eval", "--model", "run/best", "--data", "test", "--json", cwd=work))
    truth = torch.tensor([CLASSES.index(p.parent.name) for p in files(work)])
    confusion = [[0] * 3 for _ in CLASSES]
    for is_, taken in zip(truth, logits.argmax(-1)):
        confusion[is_][taken] += 1
    assert facts["images"] == 45 and facts["confusion"] == confusion and [c["label"] for c in facts["classes"]] == CLASSES
    assert facts["loss"] == pytest.approx(torch.nn.functional.cross_entropy(logits, truth).item(), abs=1e-4)
    assert facts["accuracy"] == pytest.approx((logits.argmax(-1) == truth).float().mean().item()) and facts["accuracy"] > 0.9
    low, high = facts["accuracy_interval"]
    assert low <= facts["accuracy"] <= high
    out = [json.loads(line) for line in good("classify", "--model", "run/best", "--json", *map(str, files(work)), cwd=work).splitlines()]
    for result, wanted in zip(out, logits.softmax(-1)):
        assert result["label"] == CLASSES[int(wanted.argmax())]
        assert result["scores"] == pytest.approx(dict(zip(CLASSES, wanted.tolist())), abs=1e-4)


def test_the_table_for_people(work):
    text = good("eval", "--model", "run/best", "--data", "test", cwd=work)
    assert re.search(r"^accuracy +[01]\.\d{4}  \(95 %: ", text, re.M) and re.search(r"^class +precision +recall +F1 +images$", text, re.M)
    assert re.search(r"^is \\ taken for +above +below +middle$", text, re.M), text


def test_idx_files_and_folders_are_the_same_images(work):
    paths = files(work)
    idx(work / "test-images-idx3-ubyte", numpy.stack([numpy.asarray(Image.open(p)) for p in paths]))
    idx(work / "test-labels-idx1-ubyte", numpy.array([CLASSES.index(p.parent.name) for p in paths]))
    ask = lambda data: {**json.loads(good("eval", "--model", "run/best", "--data", data, "--json", cwd=work)), "seconds": 0}
    assert ask("test-images-idx3-ubyte") == ask("test")
    one = good("classify", "--model", "run/best", f"test-images-idx3-ubyte:{len(paths) - 1}", cwd=work)
    assert one == good("classify", "--model", "run/best", str(paths[-1]), cwd=work)
    (work / "paths.txt").write_text("".join(f"{p}\n" for p in paths))
    many = good("classify", "--model", "run/best", "--file", "paths.txt", cwd=work).splitlines()
    assert len(many) == 45 and many[-1] + "\n" == one


def test_ten_steps_of_training_are_those_of_transformers(work, tmp_path):
    """The same weights, all images in each batch: losses, learning rates and weight decay as in PyTorch."""
    torch.manual_seed(5)
    config = ViTConfig(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, image_size=12, patch_size=4, num_channels=1,
                       id2label=dict(enumerate(CLASSES)), label2id={c: i for i, c in enumerate(CLASSES)})
    model = ViTForImageClassification(config)
    model.save_pretrained(tmp_path / "start")
    good("train", "recipe.toml", f"train.init={tmp_path}/start", f"train.out={tmp_path}/run", "train.steps=10", "optim.batch_size=90", "data.flip=0",
         "data.shift=0", "schedule.name=linear", "schedule.warmup=3", "optim.weight_decay=0.1", "optim.label_smoothing=0.1", cwd=work)
    have = [json.loads(line) for line in (tmp_path / "run/journal.jsonl").read_text().splitlines()]
    have = [line["loss"] for line in have if "event" not in line]
    images = prepared(tmp_path / "run/best", files(work, "train"))
    labels = torch.tensor([CLASSES.index(p.parent.name) for p in files(work, "train")])
    spared = lambda name, p: p.dim() < 2 or "embedding" in name or "position" in name
    groups = [{"params": [p for n, p in model.named_parameters() if spared(n, p) == plain], "weight_decay": 0.0 if plain else 0.1} for plain in (True, False)]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99), eps=1e-8)
    losses = []
    for step in range(10):
        for group in optimizer.param_groups:
            group["lr"] = 5e-3 * ((step + 1) / 3 if step < 3 else 1 - (step - 3) / 7)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images).logits, labels, label_smoothing=0.1)
        losses.append(loss.item())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    assert have == pytest.approx(losses, rel=2e-4) and losses[-1] < losses[0]


def test_a_run_with_fewer_steps_goes_on_as_if_it_had_not_ended(work):
    run = ["train", "recipe.toml", "data.erase=0.3", "model.dropout=0.1", "train.validate_every=15", "schedule.name=constant"]
    good(*run, "train.out=whole", "train.steps=30", cwd=work)
    good(*run, "train.out=parts", "train.steps=17", cwd=work)
    good(*run, "train.out=parts", "train.steps=30", cwd=work)
    whole, parts = ((work / f"{name}/last/model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert whole == parts


def test_attend_shows_the_picture_and_the_weights_of_transformers(work):
    path = files(work)[7]
    record = json.loads(good("attend", "--model", "run/best", str(path), "--json", cwd=work))
    picture, = record["sequences"]
    assert picture["tokens"][:3] == ["[class]", "1,1", "1,2"] and len(picture["tokens"]) == 10
    assert picture["picture"]["shape"] == [12, 12, 1] and picture["picture"]["patches"] == [3, 3]
    assert base64.b64decode(picture["picture"]["data"]) == numpy.asarray(Image.open(path)).tobytes()
    model = AutoModelForImageClassification.from_pretrained(work / "run/best", attn_implementation="eager").eval()
    with torch.no_grad():
        attentions = model(prepared(work / "run/best", [path]), output_attentions=True).attentions
    assert len(record["maps"]) == len(attentions) == 2
    for entry, wanted in zip(record["maps"], attentions):
        have = numpy.frombuffer(base64.b64decode(entry["data"]), "<f4").reshape(entry["shape"])
        numpy.testing.assert_allclose(have, wanted[0].numpy(), atol=1e-5)
    good("attend", "--model", "run/best", str(path), "-o", "look.html", cwd=work)
    assert '"picture"' in (work / "look.html").read_text()


BAD = {
    "broken image": ("train", ["data.train=broken"], 3, r"broken/below/1\.png: "),
    "cut off image": ("train", ["data.train=cut"], 3, r"cut/below/1\.png: "),
    "another size": ("train", ["data.train=sizes"], 3, r"sizes/below/1\.png: the image has 9 x 12 pixels, the model takes 12 x 12; .*data\.resize"),
    "one class": ("train", ["data.train=one"], 3, 'one: all 2 images are of the class "above"'),
    "no class": ("train", ["data.train=train/above"], 3, r"train/above/.*\.png: stands in no class's folder"),
    "empty class": ("train", ["data.train=hollow"], 3, "hollow/below: holds no pictures"),
    "another file": ("train", ["data.train=notes"], 3, r"notes/below/notes\.txt: wanted a \.png"),
    "unknown class": ("train", ["data.validation=other"], 3, r'other/abvoe/0\.png: the model knows no class "abvoe"; did you mean "above"'),
    "empty split": ("train", ["data.validation=[]", "data.validation_fraction=0.001"], 3, "train: 0.1 % of 90 images leave one side empty"),
    "no labels": ("train", ["data.train=lone-images"], 3, "lone-labels"),
    "two classes of one name": ("train", ['model.labels=["a", "a", "b"]', "data.train=far-images"], 2, 'two classes have the name "a"'),
    "eval: missing folder": ("eval", ["--model", "run/best", "--data", "nowhere"], 3, "nowhere: no such"),
    "classify: another size": ("classify", ["--model", "stiff", "sizes/below/1.png"], 3, r"sizes/below/1\.png: the image has 9 x 12 pixels, the model takes 12 x 12"),
    "attend: another size": ("attend", ["--model", "stiff", "sizes/below/1.png", "--json"], 3, r"sizes/below/1\.png: the image has 9 x 12"),
    "classify: a processor of another size": ("classify", ["--model", "wide", "sizes/below/1.png"], 3, "wide: preprocessor_config.json makes images of 20 x 20"),
    "classify: a processor of three channels": ("classify", ["--model", "coloured", "sizes/below/1.png"], 3, "coloured: preprocessor_config.json normalises 3 channels"),
    "missing folder": ("train", ["data.train=nowhere"], 3, "nowhere"),
    "a model that reads": ("train", ["reader.toml"], 2, "vit does"),
    "texts for a model that sees": ("train", ["data.kind=labels", "data.train=table.tsv", "data.validation=[]", "data.flip=0", "data.shift=0", "data.erase=0"], 2, "labelled or masked texts"),
    "flip": ("train", ["data.flip=1.5"], 2, "data.flip is 1.5"),
    "eval: unknown class": ("eval", ["--model", "run/best", "--data", "other"], 3, "other/abvoe"),
    "eval: another kind": ("eval", ["--model", "run/best", "--data", "table.tsv", "--kind", "labels"], 2, "a vit model reads images"),
    "eval: class out of range": ("eval", ["--model", "run/best", "--data", "far-images"], 3, "far-images:1: is of class 7, the model knows 3 classes"),
    "classify: missing": ("classify", ["--model", "run/best", "nowhere.png"], 3, "nowhere.png"),
    "classify: a text": ("classify", ["--model", "run/best", "table.tsv"], 3, "table.tsv: wanted a PNG or JPEG image"),
    "classify: beyond the last": ("classify", ["--model", "run/best", "far-images:2"], 3, "far-images:2: the file has 2 pictures"),
    "classify: pairs": ("classify", ["--model", "run/best", "--pairs", "a.png"], 2, "classifies images"),
    "attend: missing": ("attend", ["--model", "run/best", "nowhere.png", "--json"], 3, "nowhere.png"),
    "attend: target": ("attend", ["--model", "run/best", "a.png", "--json", "--target", "x"], 2, "--target is for an encoder-decoder"),
    "generate": ("generate", ["--model", "run/best", "--prompt", "a"], 3, "run/best"),
}


@pytest.fixture(scope="module")
def bad(work):
    for name, where in {"broken": "below/1.png", "cut": "below/1.png", "sizes": "below/1.png", "one": "above/1.png", "other": "abvoe/0.png"}.items():
        for file in ("above/0.png", where):
            (work / name / file).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(numpy.zeros((12, 12), "uint8")).save(work / name / file)
    (work / "broken/below/1.png").write_bytes(b"no picture")
    whole = (work / "cut/below/1.png").read_bytes()
    (work / "cut/below/1.png").write_bytes(whole[: len(whole) // 2])
    Image.fromarray(numpy.zeros((9, 12), "uint8")).save(work / "sizes/below/1.png")
    for name in ("hollow", "notes"):
        pictures(work / name, 1, 1)
        (work / name / "below").mkdir()
    (work / "notes/below/notes.txt").write_text("x")
    (work / "reader.toml").write_text('data.kind = "images"\ndata.train = ["train"]\nmodel.type = "bert"\n')
    (work / "table.tsv").write_text("a\tb\nc\td\na\te\n")
    for name, change in {"stiff": {"do_resize": False}, "wide": {"size": {"height": 20, "width": 20}}, "coloured": {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}}.items():
        shutil.copytree(work / "run/best", work / name)
        edited(work / name / "preprocessor_config.json", **change)
    idx(work / "lone-images", numpy.zeros((2, 12, 12)))
    idx(work / "far-images", numpy.zeros((2, 12, 12)))
    idx(work / "far-labels", numpy.array([0, 7]))
    return work


@pytest.mark.parametrize("name", BAD)
def test_bad_input(bad, name):
    verb, arguments, code, message = BAD[name]
    if verb == "train":
        arguments = [*(["recipe.toml"] if name != "a model that reads" else []), "train.out=bad", *arguments]
    done = fovea(verb, *arguments, cwd=bad)
    text = done.stderr.decode()
    assert done.returncode == code and re.search(message, text), text
    assert len([line for line in text.splitlines() if line.startswith("fovea")]) == 1, text
