# SPDX-License-Identifier: Apache-2.0
"""The original Transformer against torch.nn.Transformer with the same weights: logits, loss and every gradient."""

import json
import math

import pytest
import torch
from common import assert_close, parity
from safetensors.torch import save_file

CONFIGS = {
    "post_norm": dict(width=24, encoder_layers=2, decoder_layers=3, heads=3, hidden=40),
    "pre_norm": dict(width=16, encoder_layers=1, decoder_layers=2, heads=2, hidden=64, pre_norm=True, activation="gelu"),
    "two_vocabularies": dict(width=32, encoder_layers=1, decoder_layers=1, heads=4, hidden=32, shared_embeddings=False, source_vocab_size=29, tied=False),
}


class Twin(torch.nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, width = c, c["width"]
        pre = c.get("pre_norm", False)
        activation = c.get("activation", "relu")
        options = dict(d_model=width, nhead=c["heads"], dim_feedforward=c["hidden"], dropout=0, activation=activation, batch_first=True, norm_first=pre)
        self.encoder = torch.nn.ModuleList(torch.nn.TransformerEncoderLayer(**options) for _ in range(c["encoder_layers"]))
        self.decoder = torch.nn.ModuleList(torch.nn.TransformerDecoderLayer(**options) for _ in range(c["decoder_layers"]))
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2)) if pre else None
        self.target = torch.nn.Embedding(c["vocab_size"], width)
        self.source = torch.nn.Embedding(c["source_vocab_size"], width) if not c.get("shared_embeddings", True) else self.target
        self.head = torch.nn.Linear(width, c["vocab_size"], bias=False) if not c.get("tied", True) else None

    def positions(self, n):  # Vaswani et al. 2017, section 3.5
        width = self.c["width"]
        angle = torch.arange(n).double()[:, None] / 10000 ** (torch.arange(0, width, 2).double() / width)
        return torch.stack([angle.sin(), angle.cos()], -1).flatten(1).float()

    def embed(self, table, ids):
        return table(ids) * math.sqrt(self.c["width"]) + self.positions(ids.shape[1])

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


@pytest.fixture(params=CONFIGS)
def twin(request, tmp_path):
    torch.manual_seed(4)
    config = {"model_type": "transformer", "vocab_size": 31, "dropout": 0, **CONFIGS[request.param]}
    twin = Twin(config)
    with torch.no_grad():
        for p in twin.parameters():
            p.add_(torch.randn_like(p) * 0.05)
    (tmp_path / "config.json").write_text(json.dumps(config))
    save_file({k: v.detach().clone().contiguous() for k, v in twin.stored().items()}, tmp_path / "model.safetensors")
    return twin, tmp_path


def test_logits_loss_and_every_gradient(twin):
    twin, folder = twin
    ids, lengths = torch.randint(29, (3, 11)), torch.tensor([11, 4, 1])
    target_ids = torch.randint(31, (3, 9))
    labels = torch.randint(31, (3, 9))
    labels[1, 5:] = -100
    ours = parity("forward", folder, {"ids": ids, "lengths": lengths, "target_ids": target_ids, "labels": labels})
    logits = twin(ids, lengths, target_ids)
    assert_close(ours["logits"], logits, 1e-5, "logits")
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    loss.backward()
    assert_close(ours["loss"], loss.reshape(1), 1e-6, "loss")
    wanted = twin.stored(lambda p: p.grad)
    assert {"grad." + k for k in wanted} == {k for k in ours if k.startswith("grad.")}
    # The key bias has no influence (softmax ignores a shift); its gradient is rounding, compared with the largest of all.
    largest = max(g.abs().max().item() for g in wanted.values())
    for name, gradient in wanted.items():
        if name.endswith("key.bias"):
            assert (ours["grad." + name] - gradient).abs().max().item() < 1e-6 * largest
        else:
            assert_close(ours["grad." + name], gradient, 1e-4, name)


def test_greedy_equals_full_forward(twin):
    twin, folder = twin
    ids, lengths = torch.randint(29, (2, 7)), torch.tensor([7, 3])
    ours = parity("generate", folder, {"ids": ids, "lengths": lengths, "start_id": torch.tensor([1])}, 8)["ids"]
    target = torch.ones(2, 1, dtype=torch.long)
    for _ in range(8):
        target = torch.cat([target, twin(ids, lengths, target)[:, -1].argmax(-1, keepdim=True)], 1)
    assert ours.tolist() == target[:, 1:].tolist()
