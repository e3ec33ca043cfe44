# SPDX-License-Identifier: Apache-2.0
"""Channel attention as its papers define it, in PyTorch; and which of our parameters is which of theirs."""

import torch
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
SE = {**layer("down", "down"), **layer("up", "up")}
ECA = {"weight": "conv.weight"}
CBAM = {**layer("down", "mlp.0"), **layer("up", "mlp.2"), "spatial": "conv.weight"}


def flat(parameter):
    """A 1 x 1 convolution is a linear layer."""
    return parameter[:, :, 0, 0] if parameter.dim() == 4 and parameter.shape[2:] == (1, 1) else parameter
