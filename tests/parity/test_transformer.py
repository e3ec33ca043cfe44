# SPDX-License-Identifier: Apache-2.0
"""The original Transformer against torch.nn.Transformer with the same weights: logits, loss and every gradient."""

import json

import pytest
import torch
from common import assert_close, parity
from safetensors.torch import save_file
from twins.transformer import Twin

CONFIGS = {
    "post_norm": dict(width=24, encoder_layers=2, decoder_layers=3, heads=3, hidden=40),
    "pre_norm": dict(width=16, encoder_layers=1, decoder_layers=2, heads=2, hidden=64, pre_norm=True, activation="gelu"),
    "two_vocabularies": dict(width=32, encoder_layers=1, decoder_layers=1, heads=4, hidden=32, shared_embeddings=False, source_vocab_size=29, tied=False),
}


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
