"""torch.ops.fovea.attention against the conformance cases of ONNX's Attention operator (opset 23 and 24): one test a case.

The package onnx brings inputs and the wanted outputs as files. ONNX's causal mask starts at the top left, moved by the length
of the past; a mask of numbers is added to the scores after the soft cap; what a mask has no column for is hidden.
"""
# SPDX-License-Identifier: Apache-2.0
import os
import pathlib

import numpy
import onnx
import onnx.backend.test
import onnx.numpy_helper
import pytest
import torch

torch.ops.load_library(pathlib.Path(os.environ["FOVEA_BUILD"]) / "lib/libfovea.so")

CASES = sorted(path for path in (pathlib.Path(onnx.backend.test.__file__).parent / "data/node").glob("test_attention_*")
               if not path.name.endswith("_expanded"))  # the same numbers, for runtimes that have no Attention of their own
WEIGHTS = 3  # of qk_matmul_output_mode: what the fourth output holds


def tensors(folder, kind, names):
    """{name: tensor} of the files input_0.pb … of a case; a left-out input has no file."""
    out = {}
    for number, name in enumerate(name for name in names if name):
        content = (folder / f"test_data_set_0/{kind}_{number}.pb").read_bytes()
        out[name] = torch.from_numpy(numpy.array(onnx.numpy_helper.to_array(onnx.TensorProto.FromString(content))))
    return out


def heads_apart(x, heads):
    """[B, T, H·D] -> [B, H, T, D]; four axes stay."""
    return x if x.dim() == 4 else x.unflatten(2, (heads, -1)).transpose(1, 2)


def masks_and_scores(given, allowed, keys):
    """ONNX's mask, its causal rule and its lengths as operands of fovea: (mask, its data, score, its data)."""
    mask, mask_data = ("dense(0;1)", [allowed]) if allowed is not None else ("", [])
    if given is None:
        return mask, mask_data, "", []
    missing = keys - given.shape[-1]  # keys behind the mask's last column do not exist
    if given.dtype is torch.bool:
        given = torch.nn.functional.pad(given, (0, missing), value=False)
        return "dense(0;1)", [given if allowed is None else given & allowed], "", []
    return mask, mask_data, "dense(;1)", [torch.nn.functional.pad(given, (0, missing), value=-torch.inf)]


def run(node, given):
    options = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
    query, key, value, bias, past_key, past_value, lengths = (given.get(name) for name in [*node.input, *[""] * 7][:7])
    flat = query.dim() == 3
    query = heads_apart(query, options.get("q_num_heads"))
    key, value = (heads_apart(x, options.get("kv_num_heads")) for x in (key, value))
    past = 0 if past_key is None else past_key.shape[2]
    if past:
        key, value = torch.cat([past_key, key], 2), torch.cat([past_value, value], 2)
    T, S = query.shape[2], key.shape[2]

    allowed = None
    if options.get("is_causal"):
        allowed = torch.arange(S) <= torch.arange(T)[:, None] + past
    if lengths is not None:
        real = torch.arange(S) < lengths[:, None, None, None]
        allowed = real if allowed is None else allowed & real
    rules = masks_and_scores(bias, allowed, S)
    call = dict(scale=options.get("scale"), soft_cap=options.get("softcap", 0.0))
    output = torch.ops.fovea.attention(query, key, value, *rules, **call)

    answers = dict(zip(node.output, [output.transpose(1, 2).flatten(2) if flat else output, key, value]))
    if len(node.output) > 3 and options.get("qk_matmul_output_mode") == WEIGHTS:  # scores on their way are not shown by fovea
        answers[node.output[3]] = torch.ops.fovea.attention_detailed(query, key, value, *rules, **call)[1]
    answers.pop("", None)
    return answers


def test_every_case_is_there():
    assert len(CASES) == 64


@pytest.mark.parametrize("folder", CASES, ids=lambda path: path.name.removeprefix("test_attention_"))
def test_case(folder):
    (node,) = onnx.load(folder / "model.onnx").graph.node
    wanted = tensors(folder, "output", node.output)
    have = run(node, tensors(folder, "input", node.input))
    assert node.output[0] in have
    for name in have:
        want = wanted[name]
        half = want.dtype is torch.float16  # one unit in the last place of numbers around 1, twice
        torch.testing.assert_close(have[name], want, rtol=2e-3 if half else 1e-5, atol=2e-3 if half else 1e-6, equal_nan=False, msg=name)
