# SPDX-License-Identifier: Apache-2.0
"""The demo's model as one writes it plainly in PyTorch: a peer of ./bench."""

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, CONTEXT, BATCH, WIDTH, LAYERS, HEADS = 64, 128, 8, 128, 4, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, cache=None):
        B, T, C = x.shape
        q, k, v = (part.view(B, T, HEADS, C // HEADS).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(C, 2))
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
            cache[:] = k, v
        y = F.scaled_dot_product_attention(q, k, v, is_causal=T > 1)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids, caches=None):
        past = caches[0][0].shape[2] if caches and caches[0] else 0
        x = self.tokens(ids) + self.positions.weight[past : past + ids.shape[1]]
        for i, block in enumerate(self.blocks):
            x = block(x, caches[i] if caches is not None else None)
        return self.norm(x) @ self.tokens.weight.T


class Training:
    def __init__(self):
        self.model = Model()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def __call__(self):
        ids = torch.randint(VOCABULARY, (BATCH, CONTEXT + 1))
        self.optimizer.zero_grad()
        F.cross_entropy(self.model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


class Generation:
    def __init__(self):
        self.model = Model().eval()

    @torch.inference_mode()
    def __call__(self):
        caches = [[] for _ in range(LAYERS)]
        ids = torch.full((1, 64), 7)
        out = []
        for _ in range(64):
            ids = self.model(ids, caches)[:, -1].argmax(-1, keepdim=True)
            out.append(ids.item())
        return out
