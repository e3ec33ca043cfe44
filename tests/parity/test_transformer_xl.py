# SPDX-License-Identifier: Apache-2.0
"""Transformer-XL against a definition written here from Dai et al. 2019, sections 3.2 and 3.3: losses of segments that go
on from each other, every gradient, steps of decoding with the memory as cache."""

import json
import math

import pytest
import torch
from common import assert_close, parity
from safetensors.torch import save_file
from torch.nn import functional as F

CONFIG = dict(model_type="transformer_xl", vocab_size=11, width=16, layers=3, heads=2, hidden=24, memory=7, activation="relu", eps=1e-5)


def weights(c):
    shapes = {"embedding.weight": (c["vocab_size"], c["width"])}
    for i in range(c["layers"]):
        at = f"decoder.layers.{i}."
        for name in ("query", "key", "value", "output", "position"):
            shapes[f"{at}attention.{name}.weight"] = (c["width"], c["width"])
        for name in ("content_bias", "distance_bias"):
            shapes[f"{at}attention.position.{name}"] = (c["heads"], c["width"] // c["heads"])
        shapes |= {f"{at}feed_forward.up.weight": (c["hidden"], c["width"]), f"{at}feed_forward.up.bias": (c["hidden"],),
                   f"{at}feed_forward.down.weight": (c["width"], c["hidden"]), f"{at}feed_forward.down.bias": (c["width"],)}
        for norm in ("attention_norm", "feed_forward_norm"):
            shapes |= {f"{at}{norm}.weight": (c["width"],), f"{at}{norm}.bias": (c["width"],)}
    if c.get("pre_norm"):
        shapes |= {"decoder.final_norm.weight": (c["width"],), "decoder.final_norm.bias": (c["width"],)}
    if not c.get("tied", True):
        shapes["head.weight"] = (c["vocab_size"], c["width"])
    # As a folder's reader has them: of f32, whatever they are computed in.
    return {name: (torch.randn(shape) / math.sqrt(shape[-1]) + ("norm.weight" in name)).double() for name, shape in shapes.items()}


def waves(n, width):
    angles = n.double().unsqueeze(-1) / 10000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.cat([angles.sin(), angles.cos()], -1)


def attend(h, seen, w, at, c):
    """The newest T of `seen` [B, S, C] are h: section 3.3, all relative terms."""
    H, d = c["heads"], c["width"] // c["heads"]
    split = lambda x: x.unflatten(-1, (H, d)).transpose(1, 2)
    q, k, v = split(h @ w[f"{at}query.weight"].T), split(seen @ w[f"{at}key.weight"].T), split(seen @ w[f"{at}value.weight"].T)
    T, S = q.shape[2], k.shape[2]
    back = (torch.arange(T) + S - T)[:, None] - torch.arange(S)[None, :]  # i − j
    hidden = back < 0
    if c.get("reach"):
        back = back.clamp(-c["reach"], c["reach"])
    r = (waves(back, c["width"]) @ w[f"{at}position.weight"].T).unflatten(-1, (H, d))
    u, vb = w[f"{at}position.content_bias"], w[f"{at}position.distance_bias"]
    scores = torch.einsum("bhtd,bhsd->bhts", q + u[:, None], k) + torch.einsum("bhtd,tshd->bhts", q + vb[:, None], r)
    weights = torch.softmax((scores / math.sqrt(d)).masked_fill(hidden, -math.inf), -1)
    return (weights @ v).transpose(1, 2).flatten(2) @ w[f"{at}output.weight"].T


def segment(ids, memory, w, c):
    """Logits, and the memory after it: the newest inputs of every layer, without gradient."""
    norm = lambda x, name: F.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], c["eps"])
    act = {"relu": F.relu, "gelu": F.gelu}[c["activation"]]
    h, after = w["embedding.weight"][ids] * math.sqrt(c["width"]), []
    for i in range(c["layers"]):
        at = f"decoder.layers.{i}."
        seen = torch.cat([memory[i], h], 1) if memory else h
        after.append(seen[:, max(0, seen.shape[1] - c["memory"]):].detach())
        feed = lambda x: F.linear(act(F.linear(x, w[f"{at}feed_forward.up.weight"], w[f"{at}feed_forward.up.bias"])),
                                  w[f"{at}feed_forward.down.weight"], w[f"{at}feed_forward.down.bias"])
        if c.get("pre_norm"):
            h = h + attend(norm(h, at + "attention_norm"), norm(seen, at + "attention_norm"), w, at + "attention.", c)
            h = h + feed(norm(h, at + "feed_forward_norm"))
        else:
            h = norm(h + attend(h, seen, w, at + "attention.", c), at + "attention_norm")
            h = norm(h + feed(h), at + "feed_forward_norm")
    if c.get("pre_norm"):
        h = norm(h, "decoder.final_norm")
    return h @ w["embedding.weight" if c.get("tied", True) else "head.weight"].T, after


def folder(path, c, w, dtype):
    save_file({name: value.detach().to(dtype) for name, value in w.items()}, path / "model.safetensors")
    (path / "config.json").write_text(json.dumps(c))
    return path


VARIANTS = {"paper": {}, "long_memory": {"memory": 100}, "short_memory": {"memory": 2}, "no_memory": {"memory": 0},
            "pre_norm": {"pre_norm": True, "activation": "gelu"}, "reach": {"reach": 4}, "untied": {"tied": False, "layers": 1}}


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-11), (torch.float32, 2e-5)], ids=["f64", "f32"])
@pytest.mark.parametrize("name", VARIANTS)
def test_losses_and_gradients_of_segments(name, dtype, tolerance, tmp_path):
    torch.manual_seed(len(name))
    c = CONFIG | VARIANTS[name]
    w = {name: value.requires_grad_() for name, value in weights(c).items()}
    ids = torch.randint(c["vocab_size"], (4, 3, 6))
    labels = torch.randint(c["vocab_size"], (4, 3, 6))
    labels[1, 0, 2:] = -100
    losses, memory = [], []
    for segment_ids, segment_labels in zip(ids, labels):
        logits, memory = segment(segment_ids, memory, w, c)
        loss = F.cross_entropy(logits.flatten(0, 1), segment_labels.flatten())
        loss.backward()
        losses.append(loss.detach())
    have = parity("segments", folder(tmp_path, c, w, dtype), {"ids": ids, "labels": labels}, *(["f64"] if dtype == torch.float64 else []))
    assert_close(have["losses"], torch.stack(losses), tolerance, "losses")
    assert len(have) == len(w) + 1
    for key, value in w.items():
        assert_close(have["grad." + key], value.grad, tolerance * 10, key)


@pytest.mark.parametrize("name", ["paper", "long_memory", "no_memory", "pre_norm"])
@pytest.mark.parametrize("prompt", [1, 5])
def test_decoding_sees_the_newest_states(name, prompt, tmp_path):
    torch.manual_seed(prompt)
    c = CONFIG | VARIANTS[name]
    w = weights(c)
    ids = torch.randint(c["vocab_size"], (2, 20))
    logits, memory = segment(ids[:, :prompt], [], w, c)
    steps = [logits]
    for t in range(prompt, ids.shape[1]):
        logits, memory = segment(ids[:, t:t + 1], memory, w, c)
        steps.append(logits)
    steps = torch.cat(steps, 1)
    have = parity("decode", folder(tmp_path, c, w, torch.float64), {"ids": ids, "prompt": torch.tensor(prompt)}, "f64")["logits"]
    assert_close(have, steps, 1e-11, "logits")
    if c["memory"] >= ids.shape[1]:
        assert_close(have, segment(ids, [], w, c)[0], 1e-11, "all at once")
    # A row padded on the left writes what it writes alone.
    padded = torch.cat([torch.zeros(2, 3, dtype=torch.long), ids], 1)
    inputs = {"ids": padded, "prompt": torch.tensor(prompt + 3), "start": torch.tensor([3, 3])}
    assert_close(parity("decode", tmp_path, inputs, "f64")["logits"][:, 3:], steps, 1e-11, "left padding")
