# SPDX-License-Identifier: Apache-2.0
"""T5 (version 1.0 and 1.1) against transformers, live: logits, loss, every gradient, caches, greedy and beam search, bf16, a
training curve, and the way back."""

import json

import pytest
import seq2seq
import torch
from common import assert_close, parity
from transformers import T5Config, T5ForConditionalGeneration

ROLES = dict(pad_token_id=0, eos_token_id=1, decoder_start_token_id=0, dropout_rate=0.0)
CONFIGS = {
    "first": dict(vocab_size=91, d_model=36, d_kv=10, d_ff=50, num_layers=3, num_decoder_layers=2, num_heads=3),
    "gated": dict(vocab_size=70, d_model=24, d_kv=16, d_ff=40, num_layers=1, num_heads=4, feed_forward_proj="gated-gelu", relative_attention_num_buckets=8, relative_attention_max_distance=20, tie_word_embeddings=False),
    "wide": dict(vocab_size=60, d_model=32, d_kv=8, d_ff=32, num_layers=2, num_heads=4, feed_forward_proj="gated-silu", layer_norm_epsilon=1e-3),
}


def make(name, folder):
    torch.manual_seed(sum(map(ord, name)))
    theirs = T5ForConditionalGeneration(T5Config(**CONFIGS[name], **ROLES))
    if name == "gated":  # version 1.1 has a projection of its own
        theirs.lm_head.weight = torch.nn.Parameter(torch.randn_like(theirs.lm_head.weight))
    seq2seq.shake(theirs, 0.1)
    theirs.save_pretrained(folder)
    return theirs.eval()


@pytest.fixture(params=CONFIGS)
def model(request, tmp_path):
    return make(request.param, tmp_path / "model"), tmp_path / "model", tmp_path


def test_logits_loss_and_every_gradient(model):
    theirs, folder, _ = model
    seq2seq.check_logits_loss_and_gradients(theirs, folder, [150, 40, 1], [100, 1, 70])


def test_cached_steps(model):
    theirs, folder, _ = model
    seq2seq.check_cached_steps(theirs, folder)


@pytest.mark.parametrize(
    "options, their_options",
    [
        ({}, {}),
        ({"beams": 4}, {"num_beams": 4}),
        ({"beams": 4, "length_penalty": 2.0, "beam_stop": "first", "no_repeat_ngram": 2}, {"num_beams": 4, "length_penalty": 2.0, "early_stopping": True, "no_repeat_ngram_size": 2}),
    ],
)
def test_generated_tokens(model, options, their_options):
    theirs, folder, _ = model
    seq2seq.check_generated(theirs, folder, 20, options, their_options)


def test_bf16(model):
    theirs, folder, _ = model
    seq2seq.check_bf16(theirs, folder)


def test_saved_by_us_loads_in_transformers(model):
    theirs, folder, tmp = model
    back = seq2seq.check_the_way_back(theirs, folder, tmp)
    assert back.config.scale_decoder_outputs == theirs.config.scale_decoder_outputs


def test_training_curve(model):
    theirs, folder, _ = model
    seq2seq.check_training_curve(theirs, folder)


def test_folders_of_the_first_days(tmp_path):
    """Version 1.1's config.json said only that nothing is tied; version 1.0 stored an unused table."""
    from safetensors.torch import load_file, save_file

    theirs = make("gated", tmp_path / "model")
    path, weights = tmp_path / "model" / "config.json", tmp_path / "model" / "model.safetensors"
    config = json.loads(path.read_text())
    del config["scale_decoder_outputs"]
    path.write_text(json.dumps({**config, "tie_word_embeddings": False}))
    stored = load_file(weights)
    stored["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"] = torch.zeros(8, 4)
    save_file(stored, weights)
    ids, target = torch.randint(4, 70, (2, 9)), torch.randint(4, 70, (2, 7))
    assert_close(parity("forward", tmp_path / "model", {"ids": ids, "target_ids": target})["logits"], theirs(ids, decoder_input_ids=target).logits, 1e-5, "logits")


def test_unscaled_logits_from_the_embedding(tmp_path):
    """transformers ties version 1.1's projection where a file has none."""
    torch.manual_seed(5)
    theirs = T5ForConditionalGeneration(T5Config(**CONFIGS["gated"], **ROLES)).eval()
    theirs.save_pretrained(tmp_path / "model")
    seq2seq.check_logits_loss_and_gradients(theirs, tmp_path / "model", [12, 5], [6, 3])
    seq2seq.check_the_way_back(theirs, tmp_path / "model", tmp_path)


def test_a_config_that_changes_the_result_is_refused(tmp_path, capfd):
    make("first", tmp_path / "model")
    seq2seq.refused(
        tmp_path / "model",
        [
            ({"is_encoder_decoder": False}, "is_encoder_decoder"),
            ({"feed_forward_proj": "gated-gulu"}, 'unknown activation "gulu"'),
            ({"d_kv": 0}, '"d_kv" is 0'),
            ({"relative_attention_num_buckets": 7}, "buckets is 7"),
            ({"d_kv": 9}, "of another shape"),
        ],
        capfd,
    )
