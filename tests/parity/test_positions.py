# SPDX-License-Identifier: Apache-2.0
"""Positions in attention against their papers' definitions, written here: values and every gradient, f64 and f32."""

import json
import math

import pytest
import torch
from common import assert_close, parity, same_attention
from torch.nn import functional as F

WIDTH, HEADS = 32, 4
D = WIDTH // HEADS
TYPES = [(torch.float64, 1e-12), (torch.float32, 1e-5)]
f64_and_f32 = pytest.mark.parametrize("dtype, tolerance", TYPES, ids=["f64", "f32"])


def projections():
    out = {}
    for name in ("query", "key", "value", "output"):
        out[f"{name}.weight"] = torch.randn(WIDTH, WIDTH) / math.sqrt(WIDTH)
        out[f"{name}.bias"] = torch.randn(WIDTH) * 0.3
    return out


def heads(x):
    return x.unflatten(-1, (HEADS, D)).transpose(1, 2)  # [B, H, T, D]


def compare(options, p, x, scores, dtype, tolerance, embed=lambda x: x, turn=lambda q: q, past=None, causal=True):
    """`scores(q, k, p)` is the definition [B, H, T, S]; `past` [B, N, C] stands before x."""
    p = {name: value.double().to(dtype) for name, value in p.items()}
    wide = {name: value.double().requires_grad_() for name, value in p.items()}
    x = x.double().to(dtype)
    wide_x = x.double().requires_grad_()
    project = lambda x, name: F.linear(x, wide[f"{name}.weight"], wide[f"{name}.bias"])
    entering = embed(wide_x)
    seen = entering if past is None else torch.cat([past.to(dtype).double(), entering], 1)
    q, k, v = turn(heads(project(entering, "query"))), turn(heads(project(seen, "key"))), heads(project(seen, "value"))
    s = scores(q, k, wide) / math.sqrt(D)
    T, S = s.shape[-2:]
    if causal:
        s = s.masked_fill(~torch.ones(T, S, dtype=torch.bool).tril(S - T), -math.inf)
    want = project((torch.softmax(s, -1) @ v).transpose(1, 2).flatten(2), "output")
    gradient = torch.randn(want.shape, dtype=torch.float64).to(dtype)
    want.backward(gradient.double())
    inputs = p | {"x": x, "gradient": gradient} | ({} if past is None else {"past": past.to(dtype)})
    have = parity("attention", json.dumps({"width": WIDTH, "heads": HEADS, "causal": causal} | options), inputs)
    same_attention(have, want, wide_x, wide, tolerance)
    return have, want


def distances(T, S):
    """Key minus query, the newest query at the newest key."""
    return torch.arange(S)[None, :] - (torch.arange(T) + S - T)[:, None]


@f64_and_f32
@pytest.mark.parametrize("length, reach, causal", [(1, 3, True), (9, 3, False), (40, 16, True), (40, 16, False), (5, 16, True)])
def test_relative_keys(length, reach, causal, dtype, tolerance):
    """Shaw et al. 2018, equations 4 and 5."""
    torch.manual_seed(length)

    def scores(q, k, p):
        a = p["position.weight"][distances(q.shape[2], k.shape[2]).clamp(-reach, reach) + reach]  # [T, S, D]
        return q @ k.transpose(-1, -2) + torch.einsum("bhtd,tsd->bhts", q, a)

    p = projections() | {"position.weight": torch.randn(2 * reach + 1, D)}
    options = {"position": "relative_keys", "positions": {"reach": reach}} | ({"steps": [length]} if causal else {})
    compare(options, p, torch.randn(2, length, WIDTH), scores, dtype, tolerance, causal=causal)


def waves(n):
    """Vaswani et al. 2017, section 3.5, sines first: [..., C] for numbers of any sign."""
    angles = n.double().unsqueeze(-1) / 10000 ** (torch.arange(0, WIDTH, 2, dtype=torch.float64) / WIDTH)
    return torch.cat([angles.sin(), angles.cos()], -1)


def xl_scores(q, k, p, reach=None):
    """Dai et al. 2019, section 3.3, the four terms one by one."""
    back = -distances(q.shape[2], k.shape[2])  # i − j
    if reach:
        back = back.clamp(-reach, reach)
    r = F.linear(waves(back), p["position.weight"]).unflatten(-1, (HEADS, D))  # [T, S, H, D]
    u, v = p["position.content_bias"], p["position.distance_bias"]
    a = q @ k.transpose(-1, -2)
    b = torch.einsum("bhtd,tshd->bhts", q, r)
    c = torch.einsum("hd,bhsd->bhs", u, k).unsqueeze(2)
    d = torch.einsum("hd,tshd->hts", v, r)
    return a + b + c + d


@f64_and_f32
@pytest.mark.parametrize("length, memory, reach", [(1, 0, 0), (7, 0, 0), (30, 20, 0), (1, 9, 0), (70, 70, 0), (12, 10, 4)])
def test_xl_relative(length, memory, reach, dtype, tolerance):
    torch.manual_seed(length)
    p = projections() | {"position.weight": torch.randn(WIDTH, WIDTH) / math.sqrt(WIDTH),
                         "position.content_bias": torch.randn(HEADS, D), "position.distance_bias": torch.randn(HEADS, D)}
    options = {"position": "xl_relative", "positions": {"reach": reach}}
    past = torch.randn(2, memory, WIDTH) if memory else None
    if memory == 0 and length > 4:
        options["steps"] = [3, 1, length - 4]
    have, want = compare(options, p, torch.randn(2, length, WIDTH), lambda q, k, p: xl_scores(q, k, p, reach), dtype, tolerance, past=past)
    if "steps" in options:
        assert_close(have["cached"], want, tolerance, "cached")


@f64_and_f32
def test_learned_alibi_slopes(dtype, tolerance):
    """Press et al. 2022, section 3, with slopes that learn."""
    torch.manual_seed(3)
    scores = lambda q, k, p: q @ k.transpose(-1, -2) - math.sqrt(D) * p["position.slopes"][:, None, None] * distances(q.shape[2], k.shape[2]).abs()
    p = projections() | {"position.slopes": torch.rand(HEADS)}
    compare({"position": "alibi", "positions": {"learned_slopes": True}}, p, torch.randn(2, 19, WIDTH), scores, dtype, tolerance)


GRIDS = [((3, 5), None, 0), ((3, 5), None, 1), ((1, 4), None, 2), ((6, 2), (3, 4), 1), ((2, 2), (5, 7), 1)]


def cells(grid, onto):
    """Row and column of each cell, row by row, on another grid where `onto` says so: [N, 2]."""
    axes = [(torch.arange(n, dtype=torch.float64) + 0.5) * ((onto or grid)[i] / n) - 0.5 for i, n in enumerate(grid)]
    return torch.cartesian_prod(*axes)


def grid_options(name, grid, onto, before, **more):
    return {"position": name, "grid": [*grid, before], "positions": more | ({"grid": list(onto)} if onto else {})}


@f64_and_f32
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("grid, onto, before", GRIDS)
def test_sinusoidal_2d(grid, onto, before, layout, dtype, tolerance):
    torch.manual_seed(4)
    theta = 10000 ** (-torch.arange(0, WIDTH // 2, 2, dtype=torch.float64) / (WIDTH // 2))

    def axis(n):
        a = n[:, None] * theta
        return torch.cat([a.sin(), a.cos()], -1) if layout == "halves" else torch.stack([a.sin(), a.cos()], -1).flatten(-2)

    rows, columns = cells(grid, onto).T
    added = F.pad(torch.cat([axis(rows), axis(columns)], -1), (0, 0, before, 0))
    compare(grid_options("sinusoidal_2d", grid, onto, before, layout=layout), projections(), torch.randn(2, before + grid[0] * grid[1], WIDTH),
            lambda q, k, p: q @ k.transpose(-1, -2), dtype, tolerance, embed=lambda x: x + added, causal=False)


@f64_and_f32
@pytest.mark.parametrize("layout", ["interleaved", "halves"])
@pytest.mark.parametrize("grid, onto, before", GRIDS)
def test_rope_2d(grid, onto, before, layout, dtype, tolerance):
    torch.manual_seed(5)
    theta = 10000 ** (-torch.arange(0, D // 2, 2, dtype=torch.float64) / (D // 2))
    rows, columns = cells(grid, onto).T
    angles = F.pad(torch.cat([rows[:, None] * theta, columns[:, None] * theta], -1), (0, 0, before, 0))  # [T, D/2]

    def turn(x):  # pairs as complex numbers
        pairs = x.unflatten(-1, (-1, 2)) if layout == "interleaved" else x.unflatten(-1, (2, -1)).transpose(-1, -2)
        turned = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angles), angles))
        return turned.flatten(-2) if layout == "interleaved" else turned.transpose(-1, -2).flatten(-2)

    compare(grid_options("rope_2d", grid, onto, before, layout=layout), projections(), torch.randn(2, before + grid[0] * grid[1], WIDTH),
            lambda q, k, p: q @ k.transpose(-1, -2), dtype, tolerance, turn=turn, causal=False)
