# SPDX-License-Identifier: Apache-2.0
"""Linear attention and Linformer against their papers' definitions, written here: values, every gradient, f64 and f32;
linear attention also as the recurrent network that it is."""

import json
import math

import pytest
import torch
from common import assert_close, parity, same_attention
from torch.nn import functional as F

WIDTH, HEADS, KV_HEADS = 24, 4, 2
D = WIDTH // HEADS


def phi(x):
    return F.elu(x) + 1  # Katharopoulos et al. 2020, equation 7


def linear_attention(q, k, v, visible):
    """Equation 4 for a similarity φ(q)·φ(k): [B, H, T, D], hidden pairs without weight."""
    weights = (phi(q) @ phi(k).transpose(-1, -2)) * visible
    total = weights.sum(-1, keepdim=True)
    return weights @ v / torch.where(total > 0, total, torch.ones_like(total))


def recurrent_attention(q, k, v):
    """Equations 16 to 20: one step after another, a state s [D, E] and z [D]."""
    B, H, T, width = q.shape
    s, z, out = q.new_zeros(B, H, width, v.shape[-1]), q.new_zeros(B, H, width), []
    for i in range(T):
        s = s + phi(k[:, :, i]).unsqueeze(-1) * v[:, :, i].unsqueeze(-2)
        z = z + phi(k[:, :, i])
        fq = phi(q[:, :, i])
        out.append(torch.einsum("bhd,bhde->bhe", fq, s) / (fq * z).sum(-1, keepdim=True))
    return torch.stack(out, 2)


def heads(x, count):
    return x.unflatten(-1, (count, D)).transpose(1, 2)  # [B, count, T, D]


def spread(x):
    return x.repeat_interleave(HEADS // KV_HEADS, 1)


def parameters(extra=None):
    rows = {"query": WIDTH, "key": KV_HEADS * D, "value": KV_HEADS * D, "output": WIDTH}
    out = {}
    for name, count in rows.items():
        out[f"{name}.weight"] = torch.randn(count, WIDTH) / math.sqrt(WIDTH)
        out[f"{name}.bias"] = torch.randn(count) * 0.3
    return out | (extra or {})


def project(x, p, name):
    return F.linear(x, p[f"{name}.weight"], p[f"{name}.bias"])


def compare(options, p, x, attend, dtype, tolerance, **more):
    """`attend(q, k, v)` is the definition, from heads to heads."""
    p = {name: value.double().to(dtype).requires_grad_() for name, value in p.items()}
    x = x.double().to(dtype).requires_grad_()
    wide = {name: value.detach().double().requires_grad_() for name, value in p.items()}
    wide_x = x.detach().double().requires_grad_()
    q, k, v = heads(project(wide_x, wide, "query"), HEADS), heads(project(wide_x, wide, "key"), KV_HEADS), heads(project(wide_x, wide, "value"), KV_HEADS)
    want = project(attend(q, k, v, wide).transpose(1, 2).flatten(2), wide, "output")
    gradient = torch.randn(want.shape, dtype=torch.float64).to(dtype)
    want.backward(gradient.double())
    inputs = {name: value.detach() for name, value in p.items()} | {"x": x.detach(), "gradient": gradient} | more
    have = parity("attention", json.dumps({"width": WIDTH, "heads": HEADS, "kv_heads": KV_HEADS} | options), inputs)
    same_attention(have, want, wide_x, wide, tolerance)
    return have, want


TYPES = [(torch.float64, 1e-12), (torch.float32, 2e-6)]


@pytest.mark.parametrize("dtype, tolerance", TYPES, ids=["f64", "f32"])
@pytest.mark.parametrize("length", [1, 2, 5, 63, 64, 65, 130, 200])
def test_causal_linear_attention(length, dtype, tolerance):
    torch.manual_seed(length)
    visible = torch.ones(length, length, dtype=torch.float64).tril()
    steps = [length] if length < 5 else [3, 1, 1, length - 5] if length > 5 else [3, 1, 1]

    def attend(q, k, v, _):
        out = linear_attention(q, spread(k), spread(v), visible)
        torch.testing.assert_close(out, recurrent_attention(q, spread(k), spread(v)), rtol=1e-9, atol=1e-9)
        return out

    x = torch.randn(2, length, WIDTH)
    have, want = compare({"variant": "linear", "causal": True, "steps": steps}, parameters(), x, attend, dtype, tolerance)
    assert_close(have["cached"], want, tolerance, "cached")


@pytest.mark.parametrize("dtype, tolerance", TYPES, ids=["f64", "f32"])
@pytest.mark.parametrize("causal", [False, True])
def test_linear_attention_with_padding(causal, dtype, tolerance):
    torch.manual_seed(1)
    start, lengths, T = torch.tensor([0, 3, 0]), torch.tensor([70, 40, 1]), 70
    slot = torch.arange(T)
    real = (slot >= start[:, None]) & (slot < (start + lengths)[:, None])
    visible = real[:, None, None, :].double().expand(3, 1, T, T)
    if causal:
        visible = visible.tril()
    attend = lambda q, k, v, _: linear_attention(q, spread(k), spread(v), visible)
    compare({"variant": "linear", "causal": causal}, parameters(), torch.randn(3, T, WIDTH), attend, dtype, tolerance, start=start, lengths=lengths)


LONGEST, PROJECTED = 32, 5


def linformer_projections(sharing):
    shape = (KV_HEADS, PROJECTED, LONGEST) if sharing == "none" else (PROJECTED, LONGEST)
    names = ["key", "value"] if sharing in ("none", "heads") else ["key"]
    return {f"variant.{name}_projection": torch.randn(shape) / math.sqrt(LONGEST) for name in names}


def linformer(q, k, v, p, real=None):
    """Wang et al. 2020, equation 7, for rows whose real tokens stand where `real` is true."""
    e = p["variant.key_projection"]
    f = p.get("variant.value_projection", e)
    out = torch.zeros_like(q)
    for b in range(q.shape[0]):
        here = torch.arange(k.shape[2]) if real is None else real[b].nonzero().squeeze(1)
        n = len(here)
        keys = e[..., :n] @ k[b, :, here]  # [G, projected, D]
        values = f[..., :n] @ v[b, :, here]
        keys, values = (y.repeat_interleave(HEADS // KV_HEADS, 0) for y in (keys, values))
        out[b] = torch.softmax(q[b] @ keys.transpose(-1, -2) / math.sqrt(D), -1) @ values
    return out


@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-12), (torch.float32, 1e-5)], ids=["f64", "f32"])
@pytest.mark.parametrize("sharing", ["none", "heads", "key_value", "layers"])
@pytest.mark.parametrize("length", [1, 17, LONGEST])
def test_linformer(length, sharing, dtype, tolerance):
    torch.manual_seed(length)
    options = {"variant": "linformer", "variants": {"max_positions": LONGEST, "projected": PROJECTED, "sharing": sharing}}
    compare(options, parameters(linformer_projections(sharing)), torch.randn(2, length, WIDTH), linformer, dtype, tolerance)


@pytest.mark.parametrize("sharing", ["none", "key_value"])
def test_linformer_with_padding_on_either_side(sharing):
    torch.manual_seed(2)
    start, lengths, T = torch.tensor([0, 4, 11]), torch.tensor([20, 9, 9]), 20
    slot = torch.arange(T)
    real = (slot >= start[:, None]) & (slot < (start + lengths)[:, None])
    options = {"variant": "linformer", "variants": {"max_positions": LONGEST, "projected": PROJECTED, "sharing": sharing}}
    compare(options, parameters(linformer_projections(sharing)), torch.randn(3, T, WIDTH), lambda q, k, v, p: linformer(q, k, v, p, real),
            torch.float64, 1e-12, start=start, lengths=lengths)
