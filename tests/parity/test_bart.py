# SPDX-License-Identifier: Apache-2.0
"""BART against transformers, live: logits, loss, every gradient, caches, greedy and beam search with forced tokens, bf16, a
training curve, and the way back."""

import json
import os
import subprocess

import pytest
import seq2seq
import torch
from common import BUILD, assert_close, parity
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import BartConfig, BartForConditionalGeneration

DROPOUT = dict(dropout=0.0, attention_dropout=0.0, activation_dropout=0.0)
CONFIGS = {
    "odd": dict(vocab_size=83, d_model=36, encoder_layers=2, decoder_layers=3, encoder_attention_heads=3, decoder_attention_heads=6, encoder_ffn_dim=50, decoder_ffn_dim=44, max_position_embeddings=151),
    "scaled": dict(vocab_size=64, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=160, scale_embedding=True, activation_function="relu", init_std=0.1),
    "untied": dict(vocab_size=57, d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=40, decoder_ffn_dim=40, max_position_embeddings=155, tie_word_embeddings=False),
}


def make(name, folder):
    torch.manual_seed(sum(map(ord, name)))
    theirs = BartForConditionalGeneration(BartConfig(**CONFIGS[name], **DROPOUT))
    seq2seq.shake(theirs, 0.1)
    theirs.final_logits_bias.normal_()
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


SUMMARY = {"num_beams": 4, "length_penalty": 2.0, "early_stopping": True, "no_repeat_ngram_size": 3, "forced_bos_token_id": 0, "forced_eos_token_id": 2, "min_new_tokens": 6}


@pytest.mark.parametrize(
    "options, their_options",
    [
        ({}, {}),
        ({"forced_first": 0, "forced_last": 2}, {"forced_bos_token_id": 0, "forced_eos_token_id": 2}),
        ({"beams": 4}, {"num_beams": 4}),
        ({"beams": 4, "length_penalty": 2.0, "beam_stop": "first", "no_repeat_ngram": 3, "forced_first": 0, "forced_last": 2, "min_new_tokens": 6}, SUMMARY),
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
    assert torch.equal(back.final_logits_bias, theirs.final_logits_bias)


def test_training_curve(model):
    theirs, folder, _ = model
    seq2seq.check_training_curve(theirs, folder)


def test_a_file_without_logits_bias_or_prefix(tmp_path):
    theirs = make("odd", tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    stored = load_file(weights)
    del stored["final_logits_bias"]
    stored["model.encoder.version"] = torch.ones(1)
    theirs.final_logits_bias.zero_()
    ids, target = torch.randint(4, 83, (2, 9)), torch.randint(4, 83, (2, 7))
    wanted = theirs(ids, decoder_input_ids=target).logits
    for strip in (False, True):
        save_file({k.removeprefix("model.") if strip else k: v for k, v in stored.items()}, weights)
        ours = parity("forward", tmp_path / "model", {"ids": ids, "target_ids": target})["logits"]
        assert_close(ours, wanted, 1e-5, "logits")


def test_the_command_writes_as_generation_config_says(tmp_path):
    texts = ["the tower stands on the rock", "water", "a rock and a tower and the water all around it"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>"]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.post_processor = processors.TemplateProcessing("<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    torch.manual_seed(8)
    theirs = BartForConditionalGeneration(BartConfig(**{**CONFIGS["odd"], "vocab_size": tokenizer.get_vocab_size()}, **DROPOUT)).eval()
    seq2seq.shake(theirs, 0.1)
    for name, value in {**SUMMARY, "min_new_tokens": None, "min_length": 7, "max_length": 25}.items():
        setattr(theirs.generation_config, name, value)
    theirs.save_pretrained(tmp_path)
    command = os.environ.get("FOVEA_COMMAND", BUILD / "bin" / "fovea")
    out = subprocess.run([command, "translate", "--model", tmp_path, "--json", *texts], check=True, capture_output=True, text=True).stdout
    for line, text in zip(out.splitlines(), texts, strict=True):
        ids = tokenizer.encode(text).ids
        ours = json.loads(line)
        assert ours["prompt_tokens"] == ids
        wanted = theirs.generate(torch.tensor([ids]))[0, 1:].tolist()
        assert ours["tokens"] == wanted
        assert wanted[0] == 0 and wanted[-1] == 2 and len(wanted) >= 6
    greedy = subprocess.run([command, "translate", "--model", tmp_path, "--json", "--beams", "1", texts[0]], check=True, capture_output=True, text=True).stdout
    wanted = theirs.generate(torch.tensor([tokenizer.encode(texts[0]).ids]), num_beams=1)[0, 1:].tolist()
    assert json.loads(greedy)["tokens"] == wanted


def test_a_config_that_changes_the_result_is_refused(tmp_path, capfd):
    make("odd", tmp_path / "model")
    seq2seq.refused(
        tmp_path / "model",
        [
            ({"normalize_before": True}, "normalize_before"),
            ({"add_final_layer_norm": True}, "add_final_layer_norm"),
            ({"encoder_layerdrop": 0.1}, "encoder_layerdrop"),
            ({"static_position_embeddings": True}, "static_position_embeddings"),
            ({"is_encoder_decoder": False}, "is_encoder_decoder"),
            ({"encoder_attention_heads": 5}, "does not divide into 5 heads"),
            ({"pad_token_id": "one"}, "wanted a token id"),
        ],
        capfd,
    )
