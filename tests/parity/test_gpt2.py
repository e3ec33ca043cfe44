# SPDX-License-Identifier: Apache-2.0
"""GPT-2 against transformers, live: logits, loss, every gradient, decoding, greedy text, a training curve, and back."""

import json

import pytest
import torch
from common import adamw_losses, assert_close, parity, run
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel

CONFIGS = {
    "odd": dict(vocab_size=97, n_positions=61, n_embd=36, n_layer=3, n_head=3),
    "one_head_wide": dict(vocab_size=50, n_positions=40, n_embd=24, n_layer=1, n_head=1, n_inner=50, activation_function="relu"),
    "untied": dict(vocab_size=64, n_positions=130, n_embd=64, n_layer=2, n_head=8, tie_word_embeddings=False, layer_norm_epsilon=1e-3),
}


@pytest.fixture(params=CONFIGS)
def model(request, tmp_path):
    torch.manual_seed(sum(map(ord, request.param)))
    config = GPT2Config(**CONFIGS[request.param], resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=0, eos_token_id=0)
    theirs = GPT2LMHeadModel(config)
    with torch.no_grad():  # weights far from their start, biases that are not zero
        for p in theirs.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    theirs.save_pretrained(tmp_path / "model")
    return theirs.eval(), tmp_path / "model", tmp_path


def test_logits_loss_and_every_gradient(model):
    theirs, folder, _ = model
    config = theirs.config
    ids = torch.randint(config.vocab_size, (3, config.n_positions))
    lengths = torch.tensor([config.n_positions, 17, 1])
    labels = ids.roll(-1, 1)
    for b, n in enumerate(lengths):
        labels[b, n - 1 :] = -100
    ours = parity("forward", folder, {"ids": ids, "lengths": lengths, "labels": labels})
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    logits = theirs(ids, attention_mask=mask, position_ids=torch.arange(ids.shape[1])[None]).logits
    real = mask.bool()
    assert_close(ours["logits"][real], logits[real], 1e-5, "logits")
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    loss.backward()
    assert_close(ours["loss"], loss.reshape(1), 1e-6, "loss")
    seen = 0
    for name, p in theirs.named_parameters():
        assert_close(ours["grad." + name], p.grad, 1e-4, name)
        seen += 1
    assert seen == sum(k.startswith("grad.") for k in ours)


def test_cached_steps_with_left_padding(model):
    theirs, folder, _ = model
    ids = torch.randint(theirs.config.vocab_size, (3, 20))
    start = torch.tensor([0, 3, 7])
    ours = parity("decode", folder, {"ids": ids, "prompt": torch.tensor([9]), "start": start})["logits"]
    mask = (torch.arange(20) >= start[:, None]).long()
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    logits = theirs(ids, attention_mask=mask, position_ids=positions).logits
    assert_close(ours[mask.bool()], logits[mask.bool()], 1e-5, "logits")


def test_greedy_tokens_of_unequal_prompts(model):
    theirs, folder, _ = model
    prompts = [torch.randint(1, theirs.config.vocab_size, (n,)) for n in (5, 2, 9)]
    ids = torch.nn.utils.rnn.pad_sequence(prompts, batch_first=True)
    ours = parity("generate", folder, {"ids": ids, "lengths": torch.tensor([5, 2, 9])}, 12)["ids"]
    for row, prompt in zip(ours, prompts):
        out = theirs.generate(prompt[None], max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0)
        assert row.tolist() == out[0, len(prompt) :].tolist()


def test_saved_by_us_loads_in_transformers(model):
    theirs, folder, tmp = model
    run("copy", folder, tmp / "ours")
    back = AutoModelForCausalLM.from_pretrained(tmp / "ours").eval()
    ids = torch.randint(theirs.config.vocab_size, (2, 11))
    assert torch.equal(back(ids).logits, theirs(ids).logits)


def test_training_curve(model):
    theirs, folder, _ = model
    ids = torch.randint(theirs.config.vocab_size, (20, 4, 33))
    inputs, labels = ids[:, :, :-1].contiguous(), ids[:, :, 1:].contiguous()
    ours = parity("train", folder, {"ids": inputs, "labels": labels}, 1e-3)["losses"]
    assert_close(ours, adamw_losses(theirs, zip(inputs, labels), lambda x, y: torch.nn.functional.cross_entropy(theirs(x).logits.flatten(0, 1), y.flatten())), 1e-4, "losses")


def test_a_config_that_changes_the_result_is_refused(model, capfd):
    _, folder, _ = model
    config = json.loads((folder / "config.json").read_text())
    config["scale_attn_by_inverse_layer_idx"] = True
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(Exception):
        parity("forward", folder, {"ids": torch.zeros(1, 3, dtype=torch.long)})
    assert "scale_attn_by_inverse_layer_idx" in capfd.readouterr().err
