"""torch.ops.fovea.attention in Python: against PyTorch's own attention, gradcheck, opcheck; and the symbols of the kernels."""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib
import subprocess

import pytest
import torch
import torch.nn.functional as F

BUILD = pathlib.Path(os.environ["FOVEA_BUILD"])
torch.ops.load_library(BUILD / "lib/libfovea.so")


def attention(q, k, v, mask="", mask_data=(), score="", score_data=(), **options):
    return torch.ops.fovea.attention(q, k, v, mask, list(mask_data), score, list(score_data), **options)


def inputs(*shape, dtype=torch.float32, count=3, seed=0):
    torch.manual_seed(seed)
    return [torch.randn(shape, dtype=torch.float64).to(dtype).requires_grad_() for _ in range(count)]


def worst(have, want):
    return (have.double() - want).abs().max().item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(2, 3, 1, 8), (2, 3, 65, 16), (1, 4, 197, 64), (1, 2, 130, 96)], ids=str)
def test_no_less_exact_than_pytorch(dtype, causal, shape):
    """Forward and every gradient, each against f64: no larger error than PyTorch's own kernel for the same call."""
    q, k, v = inputs(*shape, dtype=dtype)
    wide = [x.detach().double().requires_grad_() for x in (q, k, v)]
    theirs = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    weight = torch.randn(shape, dtype=torch.float64).to(dtype)
    want = F.scaled_dot_product_attention(*wide, is_causal=causal)
    other = F.scaled_dot_product_attention(*theirs, is_causal=causal)
    have = attention(q, k, v, mask="causal(1;0)" if causal else "")
    for out, leaves in ((want, wide), (other, theirs), (have, (q, k, v))):
        (out * weight).sum().backward()
    floor = 2e-6 if dtype is torch.float32 else 1e-2  # errors of some units in the last place are luck
    for name, ours, theirs_, exact in [("output", have, other, want), *zip("qkv", (q.grad, k.grad, v.grad), (x.grad for x in theirs),
                                                                           (x.grad for x in wide))]:
        limit = max(1.5 * worst(theirs_, exact), floor * exact.abs().max().item())
        assert worst(ours, exact) <= limit, name


def test_gradcheck_in_double_precision():
    q, k, v = inputs(1, 2, 3, 4, dtype=torch.float64)
    table = torch.randn(8, 2, dtype=torch.float64, requires_grad=True)

    def call(q, k, v, table):
        return attention(q, k, v, mask="causal(0;0)", score="bucket_table(1,16;1)", score_data=[table])

    assert torch.autograd.gradcheck(call, (q, k, v, table))
    assert torch.autograd.gradgradcheck(call, (q, k, v, table))


def test_an_unknown_mask_is_named():
    q, k, v = inputs(1, 1, 2, 4)
    with pytest.raises(RuntimeError, match="sausage"):
        attention(q, k, v, mask="sausage(1;0)")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_opcheck(dtype):
    q, k, v = inputs(1, 2, 5, 8, dtype=dtype)
    torch.library.opcheck(torch.ops.fovea.attention.default, (q, k, v, "causal(0;0)", [], "", []),
                          test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))


def test_kernels_share_no_symbol():
    """Code compiled for one processor must not be merged by the linker into the path of another."""
    objects = sorted(BUILD.glob("CMakeFiles/fovea_light.dir/fovea/kernels/isa/*.o"))
    assert objects
    for path in objects:
        for line in subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout.splitlines():
            kind, name = line.split()[-2:]
            assert kind not in "uVWvw", f"{path.name}: {name}"
