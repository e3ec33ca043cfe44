# SPDX-License-Identifier: Apache-2.0
"""Llama, Mistral and Qwen2 against transformers, live: logits, loss, every gradient, caches, windows, scaled rotary
positions, greedy and beam search, bf16, a training curve, and the way back."""

import json

import pytest
import torch
from common import adamw_losses, assert_close, parity, run
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM

CLASSES = {"llama": (LlamaConfig, LlamaForCausalLM), "mistral": (MistralConfig, MistralForCausalLM), "qwen2": (Qwen2Config, Qwen2ForCausalLM)}
PLAIN = dict(bos_token_id=1, eos_token_id=2, pad_token_id=None)
CONFIGS = {
    "llama_grouped": ("llama", dict(vocab_size=97, hidden_size=48, intermediate_size=70, num_hidden_layers=3, num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=160)),
    "llama_tied_biased": ("llama", dict(vocab_size=61, hidden_size=32, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=1, head_dim=6, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, rms_norm_eps=1e-3, max_position_embeddings=130, rope_parameters={"rope_type": "default", "rope_theta": 500.0})),
    "mistral_window": ("mistral", dict(vocab_size=75, hidden_size=40, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16, sliding_window=8, max_position_embeddings=150)),
    "qwen2": ("qwen2", dict(vocab_size=83, hidden_size=36, intermediate_size=52, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=3, max_position_embeddings=140, hidden_act="gelu")),
    "qwen2_window": ("qwen2", dict(vocab_size=50, hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, use_sliding_window=True, sliding_window=5, max_window_layers=0, max_position_embeddings=100, tie_word_embeddings=True)),
}
SCALINGS = {
    "linear": {"rope_type": "linear", "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.5},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "beta_fast": 8.0, "beta_slow": 0.5},
    "yarn_mscale": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "mscale": 0.7, "mscale_all_dim": 1.1, "truncate": False},
    "yarn_attention": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 64, "attention_factor": 1.3},
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 40},
}


def make(kind, options, folder, seed):
    torch.manual_seed(seed)
    config_class, model_class = CLASSES[kind]
    theirs = model_class(config_class(**PLAIN, **options))
    with torch.no_grad():  # weights far from their start, biases that are not zero, norms that are not one
        for p in theirs.parameters():
            p.add_(torch.randn_like(p) * 0.12)
    theirs.save_pretrained(folder)
    return theirs.eval()


@pytest.fixture(params=CONFIGS)
def model(request, tmp_path):
    kind, options = CONFIGS[request.param]
    return make(kind, options, tmp_path / "model", sum(map(ord, request.param))), tmp_path / "model", tmp_path


def padded_batch(config, lengths):
    ids = torch.randint(3, config.vocab_size, (len(lengths), max(lengths)))
    labels = ids.roll(-1, 1)
    for b, n in enumerate(lengths):
        labels[b, n - 1 :] = -100
    return ids, torch.tensor(lengths), labels


def test_logits_loss_and_every_gradient(model):
    theirs, folder, _ = model
    longest = theirs.config.max_position_embeddings  # beyond one tile of keys
    ids, lengths, labels = padded_batch(theirs.config, [longest, 70, 1])
    ours = parity("forward", folder, {"ids": ids, "lengths": lengths, "labels": labels})
    mask = (torch.arange(longest) < lengths[:, None]).long()
    logits = theirs(ids, attention_mask=mask, position_ids=torch.arange(longest)[None]).logits
    assert_close(ours["logits"][mask.bool()], logits[mask.bool()], 2e-5, "logits")
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    loss.backward()
    assert_close(ours["loss"], loss.reshape(1), 1e-6, "loss")
    gradients = {name: p.grad for name, p in theirs.named_parameters()}
    assert gradients.keys() == {k[5:] for k in ours if k.startswith("grad.")}
    for name, wanted in gradients.items():
        assert_close(ours["grad." + name], wanted, 1e-4, name)


def test_cached_steps_with_left_padding(model):
    theirs, folder, _ = model
    ids = torch.randint(3, theirs.config.vocab_size, (3, 90))
    for prompt, start in ((4, [0, 3, 2]), (80, [0, 3, 68])):
        start = torch.tensor(start)
        mask = (torch.arange(90) >= start[:, None]).long()
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        logits = theirs(ids, attention_mask=mask, position_ids=positions).logits
        ours = parity("decode", folder, {"ids": ids, "prompt": torch.tensor([prompt]), "start": start})["logits"]
        assert_close(ours[mask.bool()], logits[mask.bool()], 2e-5, f"logits after {prompt}")


@pytest.mark.parametrize("beams", [1, 4])
def test_generated_tokens_of_unequal_prompts(model, beams):
    theirs, folder, _ = model
    lengths = [5, 2, 9]
    ids, lengths, _ = padded_batch(theirs.config, lengths)
    options = {"beams": beams, "end_ids": [2]} if beams > 1 else {"end_ids": [2]}
    ours = parity("generate", folder, {"ids": ids, "lengths": lengths}, 24, json.dumps(options))["ids"]
    for row, prompt, n in zip(ours, ids, lengths):
        out = theirs.generate(prompt[None, :n], attention_mask=torch.ones(1, n), max_new_tokens=24, do_sample=False, num_beams=beams, eos_token_id=2, pad_token_id=2)
        wanted = out[0, n:].tolist()
        assert row.tolist() == wanted + [2] * (len(row) - len(wanted))


def test_bf16(model):
    theirs, folder, _ = model
    ids = torch.randint(3, theirs.config.vocab_size, (2, 75))
    exact = theirs(ids).logits
    ours = parity("forward", folder, {"ids": ids}, "bf16")["logits"]
    assert ours.dtype == torch.bfloat16
    error = (ours.double() - exact.double()).abs().mean()
    reference = (theirs.bfloat16()(ids).logits.double() - exact.double()).abs().mean()
    assert error <= 1.2 * reference, f"{error:.4f}, transformers {reference:.4f}"


def test_saved_by_us_loads_in_transformers(model):
    theirs, folder, tmp = model
    run("copy", folder, tmp / "ours")
    back = AutoModelForCausalLM.from_pretrained(tmp / "ours").eval()
    assert type(back) is type(theirs)
    ids = torch.randint(3, theirs.config.vocab_size, (2, 31))
    assert torch.equal(back(ids).logits, theirs(ids).logits)


def test_training_curve(model):
    theirs, folder, _ = model
    ids = torch.randint(theirs.config.vocab_size, (10, 4, 33))
    inputs, labels = ids[:, :, :-1].contiguous(), ids[:, :, 1:].contiguous()
    ours = parity("train", folder, {"ids": inputs, "labels": labels}, 1e-3)["losses"]
    assert_close(ours, adamw_losses(theirs, zip(inputs, labels), lambda x, y: torch.nn.functional.cross_entropy(theirs(x).logits.flatten(0, 1), y.flatten())), 1e-4, "losses")


@pytest.mark.parametrize("name", SCALINGS)
@pytest.mark.parametrize("older", [False, True])
def test_scaled_rotary_positions(name, older, tmp_path):
    positions = 128 if "original_max_position_embeddings" in SCALINGS[name] else 50
    options = dict(vocab_size=40, hidden_size=64, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=positions)
    rope = {"rope_theta": 1000.0, **SCALINGS[name]}
    theirs = make("llama", dict(options, rope_parameters=rope), tmp_path / "model", len(name))
    if older:  # as folders had it before `rope_parameters`
        path = tmp_path / "model" / "config.json"
        config = json.loads(path.read_text())
        scaling = config.pop("rope_parameters")
        config["rope_theta"] = scaling.pop("rope_theta")
        config["rope_scaling"] = {"type": scaling.pop("rope_type"), **scaling}
        path.write_text(json.dumps(config))
    for length in (40, 120):  # within and beyond the original length
        ids = torch.randint(40, (2, length))
        ours = parity("forward", tmp_path / "model", {"ids": ids})["logits"]
        assert_close(ours, theirs(ids).logits, 3e-5, f"{name} at {length}")
    run("copy", tmp_path / "model", tmp_path / "ours")
    back = AutoModelForCausalLM.from_pretrained(tmp_path / "ours").eval()
    assert torch.equal(back(ids).logits, theirs(ids).logits)


def test_a_config_that_changes_the_result_is_refused(tmp_path, capfd):
    kind, options = CONFIGS["qwen2_window"]
    make(kind, options, tmp_path / "model", 1)
    path = tmp_path / "model" / "config.json"
    config = json.loads(path.read_text())
    for change, said in (
        ({"layer_types": ["full_attention", "sliding_attention"]}, "layer_types"),
        ({"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0] * 6, "long_factor": [2.0] * 6}}, "longrope"),
        ({"rope_parameters": {"rope_type": "linear", "factor": 0.5}}, "factor is 0.5"),
        ({"quantization_config": {"bits": 4}}, "quantized"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"hidden_act": "silly"}, 'did you mean "silu"'),
        ({"num_key_value_heads": 4}, "kv_heads is 4"),
    ):
        path.write_text(json.dumps({**config, **change}))
        with pytest.raises(Exception):
            parity("forward", tmp_path / "model", {"ids": torch.zeros(1, 3, dtype=torch.long)})
        assert said in capfd.readouterr().err
