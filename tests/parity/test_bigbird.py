# SPDX-License-Identifier: Apache-2.0
"""BigBird against transformers, live: every head's logits, loss and gradients of texts that are sparse and that are not, block
sizes that divide nothing, padding, the blocks drawn in training, folders there and back.

transformers lays its blocks over padded rows, so that a row changes with its mates; here a row in a batch is as it is alone.
So rows are compared one by one, and whole batches where all rows have as many blocks."""

import json
import subprocess

import pytest
import torch
import transformers
from common import adamw_losses, assert_close, parity, run, same_gradients
from test_bert import Rows, labelled, logits_and_loss

CONFIGS = {  # the longest texts are sparse, the shorter ones are not
    "odd": (dict(vocab_size=97, hidden_size=36, num_hidden_layers=3, num_attention_heads=3, intermediate_size=50,
                 max_position_embeddings=101, type_vocab_size=3, block_size=5, num_random_blocks=1), [98, 36, 35, 1]),
    "two_random": (dict(vocab_size=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                        max_position_embeddings=150, block_size=4, num_random_blocks=2, hidden_act="relu", use_bias=False,
                        rescale_embeddings=True, layer_norm_eps=1e-5), [149, 40, 17]),
    "three_random": (dict(vocab_size=50, hidden_size=24, num_hidden_layers=1, num_attention_heads=1, intermediate_size=96,
                         max_position_embeddings=60, block_size=3, num_random_blocks=3, hidden_act="gelu", tie_word_embeddings=False), [60, 34, 33, 2]),
    "full": (dict(vocab_size=55, hidden_size=30, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40,
                  max_position_embeddings=60, block_size=2, attention_type="original_full"), [60, 31, 1]),
}
HEADS = ["Model", "ForMaskedLM", "ForPreTraining", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering"]
CASES = [(name, head) for name in CONFIGS for head in HEADS]


def make(name, head, folder, **options):
    """transformers' model with random weights, and its folder."""
    torch.manual_seed(sum(map(ord, name + head)))
    labels = {} if head == "ForQuestionAnswering" else {"num_labels": 5}
    sizes = dict(hidden_dropout_prob=0, attention_probs_dropout_prob=0, sep_token_id=3)
    config = transformers.BigBirdConfig(**{**CONFIGS[name][0], **sizes, **labels, **options})
    model = getattr(transformers, "BigBird" + head)(config)
    with torch.no_grad():  # weights far from their start, biases that are not zero
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    model.save_pretrained(folder)
    return model.eval()


class OneRow:
    """Row b of a batch without its padding, as test_bert's helpers want rows."""

    def __init__(self, rows, b):
        begin = rows.start[b] if rows.start is not None else 0
        self.cut = slice(begin, begin + rows.lengths[b])
        self.b = b
        self.inputs = {key: value[b : b + 1, self.cut] for key, value in rows.theirs().items() if value is not None}
        self.real = rows.real[b : b + 1, self.cut]

    def theirs(self):
        return self.inputs


def alone(model, head, rows, b, labels):
    """Logits and mean loss of one row; transformers' models stay dense once they have seen a short text, so they are told."""
    (model if head == "Model" else model.bert).set_attention_type(model.config.attention_type)
    row = OneRow(rows, b)
    cut = {key: value[b : b + 1, row.cut] if value.dim() == 2 and value.shape[1] == rows.width else value[b : b + 1]
           for key, value in labels.items()}
    return row, logits_and_loss(model, head, row, **cut)


def counted(labels):
    return (labels != -100).reshape(len(labels), -1).sum(1)


@pytest.mark.parametrize("name, head", CASES, ids=["-".join(case) for case in CASES])
def test_logits_loss_and_every_gradient(name, head, tmp_path):
    theirs = make(name, head, tmp_path / "model")
    rows = Rows(theirs.config, CONFIGS[name][1])
    if head == "Model":
        ours = parity("forward", tmp_path / "model", rows.ours())
        for b in range(len(rows.lengths)):
            theirs.set_attention_type(theirs.config.attention_type)
            row = OneRow(rows, b)
            out = theirs(**row.theirs())
            assert_close(ours["hidden"][b, row.cut], out.last_hidden_state[0], 1e-5, "hidden")
            assert_close(ours["pooled"][b], out.pooler_output[0], 1e-5, "pooled")
        return
    labels = labelled(head, theirs.config, rows)
    if head == "ForPreTraining":
        labels["next_sentence"] = torch.tensor([1, 0, 1, 1][: len(rows.lengths)])
    types = rows.types
    if head == "ForQuestionAnswering" and name != "odd":  # as the model finds it, from the separator
        rows.types = None
    ours = parity("forward", tmp_path / "model", rows.ours(**labels))
    counts = counted(labels["labels"])
    total = 0
    for b in range(len(rows.lengths)):
        if counts[b] == 0:
            continue
        row, (logits, loss) = alone(theirs, head, rows, b, {"labels": labels["labels"]} if head != "ForPreTraining" else labels)
        by_token = logits.shape[1] == row.real.shape[1] and logits.dim() == 3
        assert_close(ours["logits"][b, row.cut] if by_token else ours["logits"][b], logits[0], 1e-5, f"logits of row {b}")
        if head == "ForPreTraining":  # a mean over words and one over rows
            next_logits = theirs(**row.theirs()).seq_relationship_logits
            after = torch.nn.functional.cross_entropy(next_logits, labels["next_sentence"][b : b + 1])
            words = torch.nn.functional.cross_entropy(logits[0], labels["labels"][b, row.cut], reduction="sum")
            loss = words / counts.sum() + after / len(rows.lengths)
            total = total + loss
        else:
            total = total + loss * counts[b] / counts.sum()
    if head == "ForPreTraining":
        for b in range(len(rows.lengths)):
            if counts[b] == 0:
                theirs.bert.set_attention_type(theirs.config.attention_type)
                next_logits = theirs(**OneRow(rows, b).theirs()).seq_relationship_logits
                total = total + torch.nn.functional.cross_entropy(next_logits, labels["next_sentence"][b : b + 1]) / len(rows.lengths)
    assert_close(ours["loss"], total.detach().reshape(1), 1e-5, "loss")
    total.backward()
    gradients = same_gradients(theirs, ours)
    rest = {k[5:] for k in ours if k.startswith("grad.")} - set(gradients)
    assert all("bert.pooler" in k and not ours["grad." + k].any() for k in rest)  # is handed on, unused
    assert types is None or types.shape == rows.ids.shape


@pytest.mark.parametrize("name, lengths", [("odd", [98, 97, 96]), ("two_random", [150, 149])])
def test_a_batch_of_as_many_blocks(name, lengths, tmp_path):
    theirs = make(name, "ForMaskedLM", tmp_path / "model")
    rows = Rows(theirs.config, lengths)
    ours = parity("forward", tmp_path / "model", rows.ours())["logits"]
    assert_close(ours[rows.real], theirs(**rows.theirs()).logits[rows.real], 1e-5, "logits")


def test_padding_on_the_left(tmp_path):
    theirs = make("odd", "ForMaskedLM", tmp_path / "model")
    rows = Rows(theirs.config, [90, 47, 3], [4, 0, 20])
    ours = parity("forward", tmp_path / "model", rows.ours())["logits"]
    for b in range(3):
        theirs.bert.set_attention_type("block_sparse")
        row = OneRow(rows, b)
        assert_close(ours[b, row.cut], theirs(**row.theirs()).logits[0], 1e-5, f"logits of row {b}")


@pytest.mark.parametrize("name, head", CASES, ids=["-".join(case) for case in CASES])
def test_saved_by_us_loads_in_transformers(name, head, tmp_path):
    theirs = make(name, head, tmp_path / "model", id2label={i: f"class {i}" for i in range(5)} if "Class" in head else None)
    run("copy", tmp_path / "model", tmp_path / "ours")
    back, report = type(theirs).from_pretrained(tmp_path / "ours", output_loading_info=True)
    unused = {"cls.predictions.bias"} if not theirs.config.tie_word_embeddings else set()
    assert not report["unexpected_keys"] and set(report["missing_keys"]) <= unused
    rows = Rows(theirs.config, CONFIGS[name][1][:1])
    for a, b in zip(back.eval()(**rows.theirs()).to_tuple(), theirs(**rows.theirs()).to_tuple()):
        assert_close(a, b, 1e-6, "output")  # one row's products may differ in the last bit from call to call
    for field in ("block_size", "num_random_blocks", "attention_type", "use_bias", "rescale_embeddings", "sep_token_id"):
        assert getattr(back.config, field) == getattr(theirs.config, field)


@pytest.mark.parametrize("name, length, options", [
    ("odd", 98, {}), ("two_random", 61, {}), ("three_random", 50, {}),
    # the lengths for which the paper's models were trained draw by another rule
    ("odd", 1000, dict(max_position_embeddings=1500, block_size=64, num_random_blocks=3, hidden_size=12, num_attention_heads=2, num_hidden_layers=2))])
def test_training_curve_with_the_blocks_that_are_drawn(name, length, options, tmp_path):
    theirs = make(name, "ForMaskedLM", tmp_path / "model", **options).train()
    config = theirs.config
    ids = torch.randint(8, config.vocab_size, (6, 2, length))
    labels = ids.where(torch.rand(ids.shape) < 0.2, torch.tensor(-100))
    ours = parity("train", tmp_path / "model", {"ids": ids, "labels": labels}, 1e-3)["losses"]
    assert_close(ours, adamw_losses(theirs, zip(ids, labels), lambda x, y: theirs(input_ids=x, labels=y).loss), 1e-4, "losses")


@pytest.mark.parametrize("field, value", [
    ("block_size", 0), ("num_random_blocks", -1), ("attention_type", "dense"), ("is_decoder", True), ("add_cross_attention", True),
    ("architectures", ["BigBirdForCausalLM"])])
def test_a_config_that_changes_the_result_is_refused(field, value, tmp_path, capfd):
    make("odd", "ForMaskedLM", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, field: value}))
    with pytest.raises(subprocess.CalledProcessError):
        parity("forward", tmp_path, {"ids": torch.zeros(1, 3, dtype=torch.long)})
    said = capfd.readouterr().err
    assert (field in said or str(value) in said) and "config.json" in said
