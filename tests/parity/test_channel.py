# SPDX-License-Identifier: Apache-2.0
"""Channel attention against its papers' definitions written in PyTorch: values, weights, every gradient."""

import json

import pytest
import torch
from common import assert_close, parity
from torch.nn import functional as F
from twins.channel import CBAM, COORDINATE, ECA, NORM, SE, Cbam, Coordinate, Eca, SqueezeExcitation, flat


# case: (our name, options, the definition, our parameters -> its)
CASES = {
    "se": ("squeeze_excitation", dict(channels=32), lambda: SqueezeExcitation(32, 2), SE),
    "se_odd": ("squeeze_excitation", dict(channels=13, reduction=3, bias=False, activation="silu"),
               lambda: SqueezeExcitation(13, 4, bias=False, activation=F.silu), {"down.weight": "down.weight", "up.weight": "up.weight"}),
    "eca_16": ("eca", dict(channels=16), lambda: Eca(3), ECA),
    "eca_512": ("eca", dict(channels=512), lambda: Eca(5), ECA),
    "eca_9": ("eca", dict(channels=24, kernel=9), lambda: Eca(9), ECA),
    "cbam": ("cbam", dict(channels=32), lambda: Cbam(32, 2), CBAM),
    "cbam_spatial": ("cbam", dict(channels=12, reduction=5, least_hidden=3, kernel=3, order="spatial"), lambda: Cbam(12, 3, 3, True),
                     CBAM),
    "coordinate": ("coordinate", dict(channels=32, least_hidden=8), lambda: Coordinate(32, 8), {**COORDINATE, **NORM}),
    "coordinate_eps": ("coordinate", dict(channels=20, reduction=2, eps=0.01, momentum=0.3), lambda: Coordinate(20, 10, eps=0.01, momentum=0.3),
                       {**COORDINATE, **NORM}),
    "coordinate_no_norm": ("coordinate", dict(channels=10, reduction=4, norm="none"), lambda: Coordinate(10, 2, norm=False), COORDINATE),
}


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_values_weights_and_every_gradient(case, training):
    name, options, definition, names = CASES[case]
    torch.manual_seed(sum(map(ord, case)))
    theirs = definition().train(training)
    with torch.no_grad():
        for p in theirs.parameters():
            p.add_(torch.randn_like(p) * 0.3)
    x = torch.randn(3, options["channels"], 9, 5, requires_grad=True)
    y, weights = theirs(x)
    gradient = torch.randn_like(y)
    y.backward(gradient)
    parameters = dict(theirs.named_parameters())
    inputs = {ours: flat(parameters[its]).detach() for ours, its in names.items()}
    inputs |= {"x": x.detach(), "gradient": gradient} | ({"training": torch.ones(1)} if training else {})
    ours = parity("channel", json.dumps(options), inputs, name)
    assert_close(ours["y"], y, 1e-5, "y")
    for leaf, value in weights.items():
        assert_close(ours[f"{name}.{leaf}"], value, 1e-5, leaf)
    assert_close(ours["grad.x"], x.grad, 1e-4, "x")
    assert len(names) == len(parameters) == sum(key.startswith("grad.") for key in ours) - 1
    for key, its in names.items():
        # Before a batch norm of this batch, a bias moves nothing: its gradient is rounding.
        if training and key == "down.bias" and "norm_weight" in names:
            continue
        assert_close(ours["grad." + key], flat(parameters[its].grad), 1e-4, key)
    if "norm_weight" in names:
        assert_close(ours["norm_mean"], theirs.norm.running_mean, 1e-5, "running mean")
        assert_close(ours["norm_variance"], theirs.norm.running_var, 1e-5, "running variance")
