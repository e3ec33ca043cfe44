# SPDX-License-Identifier: Apache-2.0
"""Longformer against transformers, live: every head's logits, loss and gradients, windows of unequal width, lengths that are
no multiple of them, several global tokens anywhere, padding on both sides, folders there and back, a training curve."""

import json
import subprocess

import pytest
import torch
import transformers
from common import adamw_losses, assert_close, parity, run, same_gradients
from test_bert import Rows, labelled, logits_and_loss, longest

CONFIGS = {  # transformers pads to a multiple of the widest window, which the others must divide
    "odd": dict(vocab_size=97, hidden_size=36, num_hidden_layers=3, num_attention_heads=3, intermediate_size=50,
                max_position_embeddings=91, type_vocab_size=1, attention_window=[4, 12, 6]),
    "wider_than_the_text": dict(vocab_size=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                                max_position_embeddings=75, pad_token_id=5, attention_window=[64, 128], layer_norm_eps=1e-5),
    "narrow": dict(vocab_size=50, hidden_size=24, num_hidden_layers=2, num_attention_heads=1, intermediate_size=96,
                   max_position_embeddings=140, hidden_act="relu", tie_word_embeddings=False, attention_window=4),
}
HEADS = ["Model", "ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"]
CASES = [(name, head) for name in CONFIGS for head in HEADS]
SEPARATOR = 2


def make(name, head, folder, **options):
    """transformers' model with random weights, and its folder."""
    torch.manual_seed(sum(map(ord, name + head)))
    labels = {} if head == "ForQuestionAnswering" else {"num_labels": 5}
    dropout = dict(hidden_dropout_prob=0, attention_probs_dropout_prob=0)
    config = transformers.LongformerConfig(**{**CONFIGS[name], **dropout, **labels, **options})
    model = getattr(transformers, "Longformer" + head)(config)
    with torch.no_grad():  # weights far from their start, biases that are not zero
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    model.save_pretrained(folder)
    return model.eval()


class LongRows(Rows):
    """Rows with marks for global tokens; without any, each row has the three separators of a question and its text."""

    def __init__(self, config, lengths, start=None, marks=True):
        super().__init__(config, lengths, start)
        self.global_mask = (torch.rand(self.ids.shape) < 0.15) & self.real if marks else None
        if not marks:
            self.ids[self.ids == SEPARATOR] = SEPARATOR + 1 if config.pad_token_id != SEPARATOR + 1 else SEPARATOR + 2
            for b, n in enumerate(lengths):
                begin = start[b] if start else 0
                for slot in (n // 3, n // 3 + 1, n - 1):
                    self.ids[b, begin + slot] = SEPARATOR

    def ours(self, **more):
        return super().ours(**({"global": self.global_mask} if self.global_mask is not None else {}), **more)

    def theirs(self):
        out = super().theirs()
        if self.global_mask is not None:
            out["global_attention_mask"] = self.global_mask.long()
        return out


def rows_for(head, config, lengths, start=None):
    by_head = head in ("ForSequenceClassification", "ForQuestionAnswering")
    return LongRows(config, lengths, start, marks=not by_head)


@pytest.mark.parametrize("name, head", CASES, ids=["-".join(case) for case in CASES])
def test_logits_loss_and_every_gradient(name, head, tmp_path):
    theirs = make(name, head, tmp_path / "model")
    config = theirs.config
    rows = rows_for(head, config, [longest(config), 37, 6])
    if head == "Model":
        ours = parity("forward", tmp_path / "model", rows.ours())
        out = theirs(**rows.theirs())
        assert_close(ours["hidden"][rows.real], out.last_hidden_state[rows.real], 1e-5, "hidden")
        assert_close(ours["pooled"], out.pooler_output, 1e-5, "pooled")
        return
    labels = labelled(head, config, rows)
    ours = parity("forward", tmp_path / "model", rows.ours(**labels))
    logits, loss = logits_and_loss(theirs, head, rows, **labels)
    by_token = logits.shape[:2] == rows.real.shape
    assert_close(ours["logits"][rows.real] if by_token else ours["logits"], logits[rows.real] if by_token else logits, 1e-5, "logits")
    assert_close(ours["loss"], loss.reshape(1), 1e-5, "loss")
    loss.backward()
    gradients = same_gradients(theirs, ours)
    assert len(gradients) == sum(k.startswith("grad.") for k in ours)
    assert any("query_global" in k for k in gradients)


def test_every_length_around_the_windows(tmp_path):
    theirs = make("odd", "ForMaskedLM", tmp_path / "model")
    for length in [1, 2, 3, 4, 5, 6, 11, 12, 13, 23, 24, 25]:
        rows = LongRows(theirs.config, [length])
        ours = parity("forward", tmp_path / "model", rows.ours())["logits"]
        assert_close(ours, theirs(**rows.theirs()).logits, 1e-5, f"logits of {length} tokens")


@pytest.mark.parametrize("name", ["odd", "narrow"])
def test_padding_on_the_left(name, tmp_path):
    theirs = make(name, "ForMaskedLM", tmp_path / "model")
    rows = LongRows(theirs.config, [longest(theirs.config) - 9, 17, 3], [9, 0, 20])
    ours = parity("forward", tmp_path / "model", rows.ours())["logits"]
    assert_close(ours[rows.real], theirs(**rows.theirs()).logits[rows.real], 1e-5, "logits")


@pytest.mark.parametrize("head", ["ForSequenceClassification", "ForQuestionAnswering"])
def test_rows_padded_on_the_left_are_read_as_alone(head, tmp_path):
    theirs = make("odd", head, tmp_path / "model")
    rows = rows_for(head, theirs.config, [12, 17, 6], [9, 0, 20])
    ours = parity("forward", tmp_path / "model", rows.ours())["logits"]
    for b, (start, length) in enumerate(zip(rows.start, rows.lengths)):
        alone = theirs(**{key: value[b : b + 1, start : start + length] for key, value in rows.theirs().items()})
        if head == "ForQuestionAnswering":
            assert_close(ours[b, start : start + length], torch.stack([alone.start_logits, alone.end_logits], -1)[0], 1e-5, "logits")
        else:
            assert_close(ours[b], alone.logits[0], 1e-5, "logits")


def test_without_global_tokens(tmp_path):
    theirs = make("odd", "ForTokenClassification", tmp_path / "model")
    rows = Rows(theirs.config, [50, 17, 1])
    ours = parity("forward", tmp_path / "model", rows.ours())["logits"]
    assert_close(ours[rows.real], theirs(**rows.theirs()).logits[rows.real], 1e-5, "logits")


def test_bf16_is_as_near_to_f32_as_transformers(tmp_path):
    theirs = make("odd", "ForMaskedLM", tmp_path / "model")
    rows = LongRows(theirs.config, [longest(theirs.config), 40])
    ours = parity("forward", tmp_path / "model", rows.ours(), "bf16")["logits"][rows.real].float()
    with torch.no_grad():
        exact = theirs(**rows.theirs()).logits[rows.real]
        half = theirs.bfloat16()(**rows.theirs()).logits[rows.real].float()
    assert (ours - exact).square().mean().sqrt() <= 1.1 * (half - exact).square().mean().sqrt()


@pytest.mark.parametrize("name, head", CASES, ids=["-".join(case) for case in CASES])
def test_saved_by_us_loads_in_transformers(name, head, tmp_path):
    theirs = make(name, head, tmp_path / "model", id2label={i: f"class {i}" for i in range(5)} if "Class" in head else None)
    run("copy", tmp_path / "model", tmp_path / "ours")
    back, report = type(theirs).from_pretrained(tmp_path / "ours", output_loading_info=True)
    unused = {"lm_head.bias"} if not theirs.config.tie_word_embeddings else set()
    assert not report["unexpected_keys"] and set(report["missing_keys"]) <= unused
    rows = rows_for(head, theirs.config, [9, 6])
    for a, b in zip(back.eval()(**rows.theirs()).to_tuple(), theirs(**rows.theirs()).to_tuple()):
        assert torch.equal(a, b)
    assert back.config.attention_window == theirs.config.attention_window


def test_training_curve(tmp_path):
    theirs = make("odd", "ForSequenceClassification", tmp_path / "model").train()
    config = theirs.config
    ids = torch.randint(8, config.vocab_size, (10, 4, 33))
    labels = torch.randint(5, (10, 4))
    ours = parity("train", tmp_path / "model", {"ids": ids, "labels": labels}, 1e-3)["losses"]
    assert_close(ours, adamw_losses(theirs, zip(ids, labels), lambda x, y: theirs(input_ids=x, labels=y).loss), 1e-4, "losses")


@pytest.mark.parametrize("field, value, part", [
    ("attention_window", 7, "attention_window is 7"), ("attention_window", [4, 4], "has 2 entries"), ("attention_window", 0, "attention_window is 0"),
    ("attention_window", "wide", "attention_window"), ("max_position_embeddings", 2, "max_position_embeddings"),
    ("architectures", ["LongformerForMultipleChoice"], "LongformerForMultipleChoice")])
def test_a_config_that_changes_the_result_is_refused(field, value, part, tmp_path, capfd):
    make("odd", "ForMaskedLM", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, field: value}))
    with pytest.raises(subprocess.CalledProcessError):
        parity("forward", tmp_path, {"ids": torch.zeros(1, 3, dtype=torch.long)})
    said = capfd.readouterr().err
    assert part in said and "config.json" in said


@pytest.mark.parametrize("inputs, part", [
    ({"global": torch.ones(1, 4, dtype=torch.bool)}, "wanted bool [1, 3]"),
    ({"global": torch.ones(1, 3, dtype=torch.bool), "lengths": torch.tensor([2])}, "marks 3 tokens as global, it has 2")])
def test_marks_that_do_not_fit_are_refused(inputs, part, tmp_path, capfd):
    make("odd", "ForMaskedLM", tmp_path)
    with pytest.raises(subprocess.CalledProcessError):
        parity("forward", tmp_path, {"ids": torch.full((1, 3), 7), **inputs})
    assert part in capfd.readouterr().err
