# SPDX-License-Identifier: Apache-2.0
"""The original Transformer on torch.nn's layers: what ours is held against, and what the recipe for translation is trained against."""

import math

import torch


class Twin(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, width = c, c["width"]
        pre = c.get("pre_norm", False)
        activation = c.get("activation", "relu")
        options = dict(d_model=width, nhead=c["heads"], dim_feedforward=c["hidden"], dropout=c.get("dropout", 0), activation=activation, batch_first=True, norm_first=pre)
        self.encoder = torch.nn.ModuleList(torch.nn.TransformerEncoderLayer(**options) for _ in range(c["encoder_layers"]))
        self.decoder = torch.nn.ModuleList(torch.nn.TransformerDecoderLayer(**options) for _ in range(c["decoder_layers"]))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2)) if pre else None
        self.target = torch.nn.Embedding(c["vocab_size"], width)
        self.source = torch.nn.Embedding(c["source_vocab_size"], width) if not c.get("shared_embeddings", True) else self.target
        self.head = torch.nn.Linear(width, c["vocab_size"], bias=False) if not c.get("tied", True) else None
        self.drop = torch.nn.Dropout(c.get("dropout", 0))

    def positions(self, n):  # Vaswani et al. 2017, section 3.5
        width = self.c["width"]
        angle = torch.arange(n).double()[:, None] / 10000 ** (torch.arange(0, width, 2).double() / width)
        return torch.stack([angle.sin(), angle.cos()], -1).flatten(1).float()

    def embed(self, table, ids):
        return self.drop(table(ids) * math.sqrt(self.c["width"]) + self.positions(ids.shape[1]))

    def forward(self, ids, lengths, target_ids):
        padding = torch.arange(ids.shape[1]) >= lengths[:, None]
        x = self.embed(self.source, ids)
        for layer in self.encoder:
            x = layer(x, src_key_padding_mask=padding)
        y = self.embed(self.target, target_ids)
        if self.norms:
            x = self.norms[0](x)
        causal = torch.ones(y.shape[1], y.shape[1], dtype=torch.bool).triu(1)
        for layer in self.decoder:
            y = layer(y, x, tgt_mask=causal, memory_key_padding_mask=padding)
        if self.norms:
            y = self.norms[1](y)
        return y @ (self.head or self.target).weight.T

    def stored(self, of=lambda p: p):
        """Our names for the same numbers."""
        out = {"target_embedding.weight": of(self.target.weight)}
        if self.source is not self.target:
            out["source_embedding.weight"] = of(self.source.weight)
        if self.head:
            out["head.weight"] = of(self.head.weight)

        def pair(name, module):
            out[name + ".weight"], out[name + ".bias"] = of(module.weight), of(module.bias)

        def attention(name, module):
            for part, weight, bias in zip(("query", "key", "value"), of(module.in_proj_weight).chunk(3), of(module.in_proj_bias).chunk(3)):
                out[f"{name}.{part}.weight"], out[f"{name}.{part}.bias"] = weight, bias
            pair(name + ".output", module.out_proj)

        for stack, layers in (("encoder", self.encoder), ("decoder", self.decoder)):
            for i, layer in enumerate(layers):
                at = f"{stack}.layers.{i}"
                attention(at + ".attention", layer.self_attn)
                pair(at + ".attention_norm", layer.norm1)
                if stack == "decoder":
                    attention(at + ".cross_attention", layer.multihead_attn)
                    pair(at + ".cross_attention_norm", layer.norm2)
                pair(at + ".feed_forward_norm", layer.norm3 if stack == "decoder" else layer.norm2)
                pair(at + ".feed_forward.up", layer.linear1)
                pair(at + ".feed_forward.down", layer.linear2)
            if self.norms:
                pair(stack + ".final_norm", self.norms[stack == "decoder"])
        return out
