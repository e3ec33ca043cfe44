# SPDX-License-Identifier: Apache-2.0
"""Channel attention against its papers' definitions written in PyTorch: values, weights, every gradient."""

import json

import pytest
import torch
from common import assert_close, parity
from torch import nn
from torch.nn import functional as F


class SqueezeExcitation(nn.Module):
    def __init__(self, channels, hidden, bias=True, activation=F.relu):
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, hidden, 1, bias=bias), nn.Conv2d(hidden, channels, 1, bias=bias)
        self.activation = activation

    def forward(self, x):
        weights = torch.sigmoid(self.up(self.activation(self.down(F.adaptive_avg_pool2d(x, 1)))))
        return x * weights, {"weights": weights[:, :, 0, 0]}


class Eca(nn.Module):
    def __init__(self, kernel):
        super().__init__()
        self.conv = nn.Conv1d(1, 1, kernel, padding=kernel // 2, bias=False)

    def forward(self, x):
        weights = torch.sigmoid(self.conv(F.adaptive_avg_pool2d(x, 1)[:, :, 0, 0].unsqueeze(1))).squeeze(1)
        return x * weights[:, :, None, None], {"weights": weights}


class Cbam(nn.Module):
    def __init__(self, channels, hidden, kernel=7, spatial_first=False):
        super().__init__()
        self.mlp = nn.Sequential(nn.Conv2d(channels, hidden, 1), nn.ReLU(), nn.Conv2d(hidden, channels, 1))
        self.conv = nn.Conv2d(2, 1, kernel, padding=kernel // 2, bias=False)
        self.spatial_first = spatial_first

    def forward(self, x):
        seen = {}

        def channels(x):
            weights = torch.sigmoid(self.mlp(F.adaptive_avg_pool2d(x, 1)) + self.mlp(F.adaptive_max_pool2d(x, 1)))
            seen["channel_weights"] = weights[:, :, 0, 0]
            return x * weights

        def places(x):
            weights = torch.sigmoid(self.conv(torch.stack([x.mean(1), x.max(1).values], 1)))
            seen["spatial_weights"] = weights[:, 0]
            return x * weights

        return (channels(places(x)) if self.spatial_first else places(channels(x))), seen


class Coordinate(nn.Module):
    def __init__(self, channels, hidden, norm=True, eps=1e-5, momentum=0.1):
        super().__init__()
        self.conv1, self.norm = nn.Conv2d(channels, hidden, 1), nn.BatchNorm2d(hidden, eps, momentum) if norm else nn.Identity()
        self.conv_h, self.conv_w = nn.Conv2d(hidden, channels, 1), nn.Conv2d(hidden, channels, 1)

    def forward(self, x):
        height, width = x.shape[2:]
        pooled_h = F.adaptive_avg_pool2d(x, (height, 1))
        pooled_w = F.adaptive_avg_pool2d(x, (1, width)).transpose(2, 3)
        f = self.norm(self.conv1(torch.cat([pooled_h, pooled_w], 2)))
        f = f * F.relu6(f + 3) / 6
        f_h, f_w = torch.split(f, [height, width], 2)
        rows, columns = torch.sigmoid(self.conv_h(f_h)), torch.sigmoid(self.conv_w(f_w.transpose(2, 3)))
        return x * rows * columns, {"row_weights": rows[..., 0], "column_weights": columns[:, :, 0]}


def layer(ours, theirs):
    return {f"{ours}.weight": f"{theirs}.weight", f"{ours}.bias": f"{theirs}.bias"}


NORM = {"norm_weight": "norm.weight", "norm_bias": "norm.bias"}
COORDINATE = {**layer("down", "conv1"), **layer("rows", "conv_h"), **layer("columns", "conv_w")}
# case: (our name, options, the definition, our parameters -> its)
CASES = {
    "se": ("squeeze_excitation", dict(channels=32), lambda: SqueezeExcitation(32, 2), {**layer("down", "down"), **layer("up", "up")}),
    "se_odd": ("squeeze_excitation", dict(channels=13, reduction=3, bias=False, activation="silu"),
               lambda: SqueezeExcitation(13, 4, bias=False, activation=F.silu), {"down.weight": "down.weight", "up.weight": "up.weight"}),
    "eca_16": ("eca", dict(channels=16), lambda: Eca(3), {"weight": "conv.weight"}),
    "eca_512": ("eca", dict(channels=512), lambda: Eca(5), {"weight": "conv.weight"}),
    "eca_9": ("eca", dict(channels=24, kernel=9), lambda: Eca(9), {"weight": "conv.weight"}),
    "cbam": ("cbam", dict(channels=32), lambda: Cbam(32, 2), {**layer("down", "mlp.0"), **layer("up", "mlp.2"), "spatial": "conv.weight"}),
    "cbam_spatial": ("cbam", dict(channels=12, reduction=5, least_hidden=3, kernel=3, order="spatial"), lambda: Cbam(12, 3, 3, True),
                     {**layer("down", "mlp.0"), **layer("up", "mlp.2"), "spatial": "conv.weight"}),
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
    # A 1 x 1 convolution is a linear layer.
    flat = lambda p: p[:, :, 0, 0] if p.dim() == 4 and p.shape[2:] == (1, 1) else p
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
