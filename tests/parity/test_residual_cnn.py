# SPDX-License-Identifier: Apache-2.0
"""The residual network with each channel attention against its definition in PyTorch: states, logits, loss, every gradient,
the count of its multiplications; and a run of the recipe's kind, from pictures to a page of what it weighs."""

import base64
import json
import math
import os
import subprocess

import numpy
import pytest
import torch
from common import ROOT, assert_close, parity
from PIL import Image
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode
from twins.channel import COORDINATE, Cbam, Coordinate, Eca, SqueezeExcitation, layer

COMMAND = os.environ.get("FOVEA_COMMAND", str(ROOT / "build/release/bin/fovea"))


class NormedConvolution(nn.Module):
    def __init__(self, channels, to, kernel, stride):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, to, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(to)

    def forward(self, x):
        return self.norm(self.conv(x))


class Block(nn.Module):
    def __init__(self, channels, to, stride, attention):
        super().__init__()
        self.first, self.second = NormedConvolution(channels, to, 3, stride), NormedConvolution(to, to, 3, 1)
        self.skip = NormedConvolution(channels, to, 1, stride) if to != channels else None
        self.attention = attention(to)

    def forward(self, x):
        y = self.second(F.relu(self.first(x)))
        if self.attention:
            y, _ = self.attention(y)
        return F.relu(y + (self.skip(x) if self.skip else x))


class ResidualCnn(nn.Module):
    def __init__(self, channels, width, stages, blocks, labels, attention):
        super().__init__()
        self.stem, self.blocks, now = NormedConvolution(channels, width, 3, 1), nn.ModuleList(), width
        for stage in range(stages):
            for i in range(blocks):
                halves = stage > 0 and i == 0
                self.blocks.append(Block(now, now * (2 if halves else 1), 2 if halves else 1, attention))
                now *= 2 if halves else 1
        self.classifier = nn.Linear(now, labels)

    def forward(self, x):
        x = F.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return x, self.classifier(x.mean((2, 3)))


REDUCTION = 3
hidden = lambda channels: channels // REDUCTION


def eca_kernel(channels):
    """Wang et al. 2020, equation 12: the nearest odd number."""
    t = int((math.log2(channels) + 1) / 2)
    return t if t % 2 else t + 1


# our name: the definition for so many channels, its parameters by ours
ATTENTIONS = {
    "none": (lambda channels: None, {}),
    "squeeze_excitation": (lambda c: SqueezeExcitation(c, hidden(c)), {**layer("down", "down"), **layer("up", "up")}),
    "eca": (lambda c: Eca(eca_kernel(c)), {"weight": "conv.weight"}),
    "cbam": (lambda c: Cbam(c, hidden(c)), {**layer("down", "mlp.0"), **layer("up", "mlp.2"), "spatial": "conv.weight"}),
    "coordinate": (lambda c: Coordinate(c, hidden(c)),
                   {**COORDINATE, "norm_weight": "norm.weight", "norm_bias": "norm.bias", "norm_mean": "norm.running_mean",
                    "norm_variance": "norm.running_var"}),
}
CONV = {"weight": "conv.weight", "norm_weight": "norm.weight", "norm_bias": "norm.bias", "norm_mean": "norm.running_mean",
        "norm_variance": "norm.running_var"}


def names_of(theirs, attention):
    """Our name of each tensor that is stored: theirs."""
    out = {"stem." + a: "stem." + b for a, b in CONV.items()} | {f"classifier.output.{p}": f"classifier.{p}" for p in ("weight", "bias")}
    for i, block in enumerate(theirs.blocks):
        for part in ("first", "second", "skip") if block.skip else ("first", "second"):
            out |= {f"blocks.{i}.{part}.{a}": f"blocks.{i}.{part}.{b}" for a, b in CONV.items()}
        out |= {f"blocks.{i}.attention.{a}": f"blocks.{i}.attention.{b}" for a, b in ATTENTIONS[attention][1].items()}
    return out


def make(attention, folder, channels, size, width, stages, blocks):
    torch.manual_seed(sum(map(ord, attention)))
    theirs = ResidualCnn(channels, width, stages, blocks, 4, ATTENTIONS[attention][0]).eval()
    tensors = dict(theirs.named_parameters()) | dict(theirs.named_buffers())
    with torch.no_grad():
        for name, t in tensors.items():
            if t.is_floating_point():
                t.add_(torch.rand_like(t) * 0.3)  # variances stay above 0
    # A 1 x 1 convolution of an attention is a linear layer.
    flat = lambda ours, t: t[:, :, 0, 0] if ".attention." in ours and t.dim() == 4 and t.shape[2:] == (1, 1) else t
    names = names_of(theirs, attention)
    folder.mkdir()
    save_file({ours: flat(ours, tensors[its].detach()).contiguous() for ours, its in names.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({
        "model_type": "residual_cnn", "image_size": list(size), "channels": channels, "width": width, "stages": stages, "blocks": blocks,
        "channel_attention": attention, "attention": {"reduction": REDUCTION}, "labels": ["a", "b", "c", "d"]}))
    return theirs, names, flat


@pytest.mark.parametrize("channels, size, width, stages, blocks", [(1, (12, 8), 6, 3, 1), (3, (5, 7), 9, 1, 2)])
@pytest.mark.parametrize("attention", ATTENTIONS)
def test_states_logits_loss_and_every_gradient(attention, channels, size, width, stages, blocks, tmp_path):
    theirs, names, flat = make(attention, tmp_path / "model", channels, size, width, stages, blocks)
    images, labels = torch.randn(3, channels, *size), torch.tensor([3, 0, 1])
    ours = parity("forward", tmp_path / "model", {"images": images, "labels": labels})
    maps, logits = theirs(images)
    loss = F.cross_entropy(logits, labels)
    assert_close(ours["hidden"], maps.flatten(2).transpose(1, 2), 1e-5, "hidden")
    assert_close(ours["logits"], logits, 1e-5, "logits")
    assert_close(ours["loss"], loss.reshape(1), 1e-5, "loss")
    loss.backward()
    gradients = {name: p.grad for name, p in theirs.named_parameters()}
    wanted = {ours_name: flat(ours_name, gradients[its]) for ours_name, its in names.items() if its in gradients}
    assert {"grad." + name for name in names} == {name for name in ours if name.startswith("grad.")}
    assert not any(ours["grad." + name].any() for name in names if name not in wanted)  # running means
    for name, gradient in wanted.items():
        assert_close(ours["grad." + name], gradient, 1e-4, name)


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_multiplications_are_those_that_pytorch_counts(attention, tmp_path):
    theirs, _, _ = make(attention, tmp_path / "model", 1, (12, 8), 6, 3, 1)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        theirs(torch.randn(1, 1, 12, 8))
    facts = json.loads(subprocess.run([COMMAND, "inspect", tmp_path / "model", "--json"], check=True, capture_output=True).stdout)
    assert 2 * facts["model"]["multiply_adds"] == counter.get_total_flops()
    assert facts["model"]["parameters"] == sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_from_pictures_to_a_page(attention, tmp_path):
    """Two classes, bright above and bright below; what was learned is kept with its running means."""
    rng = numpy.random.default_rng(1)
    for i in range(80):
        image = rng.integers(0, 120, (8, 8)) + numpy.repeat([100, 0] if i % 2 else [0, 100], 4)[:, None]
        path = tmp_path / ("train" if i < 60 else "test") / ("sky" if i % 2 else "snow") / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.astype(numpy.uint8)).save(path)
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(f"""
[data]
kind = "images"
train = ["{tmp_path}/train"]
validation = ["{tmp_path}/test"]
[model]
type = "residual_cnn"
image_size = [8]
width = 8
stages = 2
channel_attention = "{attention}"
attention.reduction = 2
[optim]
learning_rate = 0.01
batch_size = 10
[train]
out = "{tmp_path}/run"
steps = 60
validate_every = 30
""")
    fovea = lambda *args: subprocess.run([COMMAND, *map(str, args)], capture_output=True, text=True, timeout=120)
    done = fovea("train", recipe, "--quiet")
    assert done.returncode == 0, done.stderr
    best = tmp_path / "run/best"
    assert json.loads(fovea("eval", "--model", best, "--data", tmp_path / "test", "--json").stdout)["accuracy"] > 0.9
    look = fovea("attend", "--model", best, next((tmp_path / "test/sky").iterdir()), "--json", "-o", tmp_path / "look.html")
    if attention == "none":
        assert look.returncode != 0 and "no channel attention" in look.stderr
        return
    record = json.loads(look.stdout)
    leaves = {"squeeze_excitation": {"weights"}, "eca": {"weights"}, "cbam": {"channel_weights", "spatial_weights"}, "coordinate": {"place_weights"}}
    assert {m["name"].split(".")[-1] for m in record["maps"]} == leaves[attention]
    for m in record["maps"]:
        weights = numpy.frombuffer(base64.b64decode(m["data"]), "<f4").reshape(m["shape"])
        assert m["gates"] and m["shape"][2] == len(record["sequences"][m["keys"]]["tokens"])
        assert ((weights > 0) & (weights < 1)).all()
    assert (tmp_path / "look.html").stat().st_size > 10_000
