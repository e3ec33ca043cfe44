# SPDX-License-Identifier: Apache-2.0
"""BERT, RoBERTa and DistilBERT against transformers, live: every head's logits, loss and gradients, padding on both sides,
bf16, a training curve, folders there and back, and a real sentence model."""

import json
import subprocess

import pytest
import torch
import transformers
from common import ROOT, adamw_losses, assert_close, parity, run, same_gradients
from safetensors.torch import load_file, save_file
from test_command import COMMAND
from tokenizers import Tokenizer

NO_DROPOUT = dict(hidden_dropout_prob=0, attention_probs_dropout_prob=0)
NO_DROPOUT_DISTIL = dict(dropout=0, attention_dropout=0, qa_dropout=0, seq_classif_dropout=0)
# name: (family, sizes)
CONFIGS = {
    "odd": ("Bert", dict(vocab_size=97, hidden_size=36, num_hidden_layers=3, num_attention_heads=3, intermediate_size=50,
                         max_position_embeddings=61, type_vocab_size=3)),
    "long": ("Bert", dict(vocab_size=64, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                          max_position_embeddings=150, hidden_act="gelu_new", layer_norm_eps=1e-5)),
    "wide_head": ("Bert", dict(vocab_size=50, hidden_size=24, num_hidden_layers=1, num_attention_heads=1, intermediate_size=96,
                               max_position_embeddings=40, hidden_act="relu", tie_word_embeddings=False)),
    "roberta": ("Roberta", dict(vocab_size=80, hidden_size=40, num_hidden_layers=2, num_attention_heads=5, intermediate_size=60,
                                max_position_embeddings=101, type_vocab_size=1)),
    "roberta_far_padding": ("Roberta", dict(vocab_size=70, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
                                            intermediate_size=64, max_position_embeddings=90, type_vocab_size=2, pad_token_id=7,
                                            hidden_act="relu", tie_word_embeddings=False)),
    "xlm_roberta": ("XLMRoberta", dict(vocab_size=60, hidden_size=32, num_hidden_layers=1, num_attention_heads=4,
                                       intermediate_size=64, max_position_embeddings=30)),
    "camembert": ("Camembert", dict(vocab_size=55, hidden_size=30, num_hidden_layers=1, num_attention_heads=3,
                                    intermediate_size=40, max_position_embeddings=25)),
    "distil": ("DistilBert", dict(vocab_size=90, dim=48, n_layers=2, n_heads=3, hidden_dim=70, max_position_embeddings=80)),
    "distil_untied": ("DistilBert", dict(vocab_size=45, dim=32, n_layers=2, n_heads=2, hidden_dim=64, max_position_embeddings=50,
                                         activation="relu", tie_word_embeddings=False)),
}
HEADS = ["Model", "ForMaskedLM", "ForPreTraining", "ForNextSentencePrediction", "ForSequenceClassification",
         "ForTokenClassification", "ForQuestionAnswering"]
CASES = [(name, head) for name, (family, _) in CONFIGS.items() for head in HEADS
         if family == "Bert" or head not in ("ForPreTraining", "ForNextSentencePrediction")]


def make(name, head, folder, **options):
    """transformers' model with random weights, and its folder."""
    family, sizes = CONFIGS[name]
    torch.manual_seed(sum(map(ord, name + head)))
    labels = {} if head == "ForQuestionAnswering" else {"num_labels": 5}
    dropout = NO_DROPOUT_DISTIL if family == "DistilBert" else NO_DROPOUT
    config = getattr(transformers, family + "Config")(**{**sizes, **dropout, **labels, **options})
    model = getattr(transformers, family + head)(config)
    with torch.no_grad():  # weights far from their start, biases that are not zero
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    model.save_pretrained(folder)
    return model.eval()


def position_offset(config):
    return 0 if config.model_type in ("bert", "distilbert", "big_bird") else config.pad_token_id + 1


def longest(config):
    return config.max_position_embeddings - position_offset(config)


class Rows:
    """Random rows of unequal length, padded on the left by `start` slots and on the right."""

    def __init__(self, config, lengths, start=None):
        self.width = max(n + s for n, s in zip(lengths, start or [0] * len(lengths)))
        self.lengths = torch.tensor(lengths)
        self.start = torch.tensor(start) if start else None
        slots = torch.arange(self.width)
        begin = torch.zeros(len(lengths), dtype=torch.long) if start is None else self.start
        self.real = (slots >= begin[:, None]) & (slots < (begin + self.lengths)[:, None])
        ids = torch.randint(config.vocab_size - 1, (len(lengths), self.width))
        ids += ids >= config.pad_token_id  # a pad among the words would get no gradient from transformers
        self.ids = ids.where(self.real, torch.tensor(config.pad_token_id))
        self.positions = (slots - begin[:, None]).clamp(min=0, max=longest(config) - 1)
        segments = getattr(config, "type_vocab_size", 1)
        self.types = torch.randint(segments, ids.shape) if segments > 1 else None
        self.offset = position_offset(config)

    def ours(self, **more):
        out = {"ids": self.ids, "lengths": self.lengths, **more}
        if self.start is not None:
            out["start"] = self.start
        if self.types is not None:
            out["type_ids"] = self.types
        return out

    def theirs(self):
        out = {"input_ids": self.ids, "attention_mask": self.real.long(), "position_ids": self.positions + self.offset}
        if self.types is not None:
            out["token_type_ids"] = self.types
        return out


def labelled(head, config, rows):
    """Labels as our batch has them."""
    if head in ("ForMaskedLM", "ForPreTraining"):
        labels = torch.randint(config.vocab_size, rows.ids.shape)
        return {"labels": labels.where(rows.real & (torch.rand(labels.shape) < 0.4), torch.tensor(-100))}
    if head == "ForTokenClassification":
        return {"labels": torch.randint(config.num_labels, rows.ids.shape).where(rows.real, torch.tensor(-100))}
    if head == "ForQuestionAnswering":
        return {"labels": (torch.rand(len(rows.lengths), 2) * rows.lengths[:, None]).long()}
    return {"labels": torch.randint(2 if head == "ForNextSentencePrediction" else config.num_labels, (len(rows.lengths),))}


def logits_and_loss(model, head, rows, labels, next_sentence=None):
    """What transformers' model says, as ours gives it; the losses written out, over real tokens only."""
    out = model(**rows.theirs())
    cross_entropy = torch.nn.functional.cross_entropy
    if head == "ForQuestionAnswering":
        logits = torch.stack([out.start_logits, out.end_logits], -1)
        hidden = logits.masked_fill(~rows.real[:, :, None], -torch.inf)
        return logits, cross_entropy(hidden.transpose(1, 2).flatten(0, 1), labels.flatten())
    if head == "ForPreTraining":
        logits = out.prediction_logits
        loss = cross_entropy(logits.flatten(0, 1), labels.flatten())
        return logits, loss + cross_entropy(out.seq_relationship_logits, next_sentence)
    logits = out.logits
    return logits, cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.flatten())


@pytest.mark.parametrize("name, head", CASES, ids=["-".join(case) for case in CASES])
def test_logits_loss_and_every_gradient(name, head, tmp_path):
    theirs = make(name, head, tmp_path / "model")
    config = theirs.config
    rows = Rows(config, [longest(config), 17, 1])
    if head == "Model":
        ours = parity("forward", tmp_path / "model", rows.ours())
        out = theirs(**rows.theirs())
        assert_close(ours["hidden"][rows.real], out.last_hidden_state[rows.real], 1e-5, "hidden")
        if "pooler_output" in out:
            assert_close(ours["pooled"], out.pooler_output, 1e-5, "pooled")
        else:
            assert "pooled" not in ours
        return
    labels = labelled(head, config, rows)
    if head == "ForPreTraining":
        labels["next_sentence"] = torch.tensor([1, 0, 1])
    ours = parity("forward", tmp_path / "model", rows.ours(**labels))
    logits, loss = logits_and_loss(theirs, head, rows, **labels)
    by_token = logits.shape[:2] == rows.real.shape
    assert_close(ours["logits"][rows.real] if by_token else ours["logits"], logits[rows.real] if by_token else logits, 1e-5, "logits")
    assert_close(ours["loss"], loss.reshape(1), 1e-5, "loss")
    loss.backward()
    gradients = same_gradients(theirs, ours)
    assert len(gradients) == sum(k.startswith("grad.") for k in ours)


@pytest.mark.parametrize("name", ["odd", "long", "roberta", "distil"])
def test_padding_on_the_left(name, tmp_path):
    theirs = make(name, "ForMaskedLM", tmp_path / "model")
    rows = Rows(theirs.config, [longest(theirs.config) - 9, 17, 3], [9, 0, 20])
    ours = parity("forward", tmp_path / "model", rows.ours())["logits"]
    assert_close(ours[rows.real], theirs(**rows.theirs()).logits[rows.real], 1e-5, "logits")


@pytest.mark.parametrize("name", ["odd", "roberta", "distil"])
def test_rows_padded_on_the_left_are_classified_as_alone(name, tmp_path):
    theirs = make(name, "ForSequenceClassification", tmp_path / "model")
    rows = Rows(theirs.config, [12, 17, 3], [9, 0, 20])
    ours = parity("forward", tmp_path / "model", rows.ours())["logits"]
    for b, (start, length) in enumerate(zip(rows.start, rows.lengths)):
        alone = {key: value[b : b + 1, start : start + length] for key, value in rows.theirs().items()}
        assert_close(ours[b], theirs(**alone).logits[0], 1e-5, "logits")


@pytest.mark.parametrize("problem, labels, count", [
    ("regression", torch.randn(3, 1), 1), ("regression", torch.randn(3, 4), 4), ("multi_label_classification", torch.rand(3, 4).round(), 4),
    (None, torch.randn(3), 1), (None, torch.rand(3, 4).round(), 4), ("single_label_classification", torch.tensor([0, 3, 1]), 4)])
@pytest.mark.parametrize("name", ["odd", "distil"])
def test_what_a_classifier_decides(name, problem, labels, count, tmp_path):
    theirs = make(name, "ForSequenceClassification", tmp_path / "model", problem_type=problem, num_labels=count)
    rows = Rows(theirs.config, [12, 17, 3])
    ours = parity("forward", tmp_path / "model", rows.ours(labels=labels))
    loss = theirs(**rows.theirs(), labels=labels).loss
    loss.backward()
    assert_close(ours["loss"], loss.detach().reshape(1), 1e-5, "loss")
    assert_close(ours["grad.classifier.weight"], theirs.classifier.weight.grad, 1e-4, "classifier")


@pytest.mark.parametrize("name", ["long", "roberta", "distil"])
def test_bf16_is_as_near_to_f32_as_transformers(name, tmp_path):
    theirs = make(name, "ForMaskedLM", tmp_path / "model")
    rows = Rows(theirs.config, [longest(theirs.config), 40])
    ours = parity("forward", tmp_path / "model", rows.ours(), "bf16")["logits"][rows.real].float()
    with torch.no_grad():
        exact = theirs(**rows.theirs()).logits[rows.real]
        half = theirs.bfloat16()(**rows.theirs()).logits[rows.real].float()
    assert (ours - exact).square().mean().sqrt() <= 1.1 * (half - exact).square().mean().sqrt()
    assert (ours - exact).abs().max() <= 1.5 * (half - exact).abs().max()


@pytest.mark.parametrize("name, head", CASES, ids=["-".join(case) for case in CASES])
def test_saved_by_us_loads_in_transformers(name, head, tmp_path):
    theirs = make(name, head, tmp_path / "model", id2label={i: f"class {i}" for i in range(5)} if "Class" in head else None)
    run("copy", tmp_path / "model", tmp_path / "ours")
    back, report = type(theirs).from_pretrained(tmp_path / "ours", output_loading_info=True)
    unused = {"cls.predictions.bias", "lm_head.bias"} if not theirs.config.tie_word_embeddings else set()
    assert not report["unexpected_keys"] and set(report["missing_keys"]) <= unused
    rows = Rows(theirs.config, [9, 4])
    for a, b in zip(back.eval()(**rows.theirs()).to_tuple(), theirs(**rows.theirs()).to_tuple()):
        assert torch.equal(a, b)
    if "Class" in head:
        assert back.config.id2label == theirs.config.id2label and back.config.label2id == {f"class {i}": i for i in range(5)}


@pytest.mark.parametrize("name", ["odd", "roberta", "distil"])
def test_training_curve(name, tmp_path):
    theirs = make(name, "ForMaskedLM", tmp_path / "model").train()
    config = theirs.config
    ids = torch.randint(8, config.vocab_size, (10, 4, 33))
    labels = ids.where(torch.rand(ids.shape) < 0.2, torch.tensor(-100))
    ours = parity("train", tmp_path / "model", {"ids": ids, "labels": labels}, 1e-3)["losses"]
    assert_close(ours, adamw_losses(theirs, zip(ids, labels), lambda x, y: theirs(input_ids=x, labels=y).loss), 1e-4, "losses")


def edited_tensors(folder, edit):
    tensors = load_file(folder / "model.safetensors")
    save_file(edit(tensors), folder / "model.safetensors")


def same_logits(folder, theirs, rows):
    assert_close(parity("forward", folder, rows.ours())["logits"][rows.real], theirs(**rows.theirs())[0][rows.real], 1e-5, "logits")


def test_folders_as_they_are_found(tmp_path):
    """A pooler left by pre-training, position counters, old norm names, no outer prefix; an encoder without its pooler."""
    words = make("odd", "ForMaskedLM", tmp_path / "words")
    rows = Rows(words.config, [9, 4])
    old = lambda name: name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
    edited_tensors(tmp_path / "words", lambda t: {
        **{old(k): v for k, v in t.items()}, "bert.pooler.dense.weight": torch.zeros(36, 36), "bert.pooler.dense.bias": torch.zeros(36),
        "cls.seq_relationship.weight": torch.zeros(2, 36), "cls.seq_relationship.bias": torch.zeros(2),
        "bert.embeddings.position_ids": torch.arange(61)[None], "cls.predictions.decoder.weight": t["bert.embeddings.word_embeddings.weight"].clone()})
    same_logits(tmp_path / "words", words, rows)
    bare = make("odd", "Model", tmp_path / "bare")
    edited_tensors(tmp_path / "bare", lambda t: {"bert." + k: v for k, v in t.items() if not k.startswith("pooler")})
    same_logits(tmp_path / "bare", bare, rows)
    run("copy", tmp_path / "bare", tmp_path / "again")
    assert not any("pooler" in k for k in load_file(tmp_path / "again/model.safetensors"))


@pytest.mark.parametrize("name, field, value", [
    ("odd", "is_decoder", True), ("odd", "add_cross_attention", True), ("odd", "position_embedding_type", "relative_key"),
    ("odd", "architectures", ["BertForMultipleChoice"]), ("odd", "hidden_act", "geglu"), ("odd", "pruned_heads", {"0": [1]}),
    ("odd", "num_attention_heads", 7), ("distil", "sinusoidal_pos_embds", True), ("roberta", "max_position_embeddings", 2),
    ("odd", "model_type", "bret")])
def test_a_config_that_changes_the_result_is_refused(name, field, value, tmp_path, capfd):
    make(name, "ForMaskedLM", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, field: value}))
    with pytest.raises(subprocess.CalledProcessError):
        parity("forward", tmp_path, {"ids": torch.zeros(1, 3, dtype=torch.long)})
    said = capfd.readouterr().err
    assert (field in said or str(value) in said) and "config.json" in said


SENTENCES = """That is a happy person
That is a happy dog
That is a very happy person
Today is a sunny day
The cat sleeps on the warm window sill all afternoon.
A kitten naps in the sun.
Stock prices fell sharply after the announcement of new tariffs.
Markets dropped on news about trade barriers.
How do I reset my password?
I forgot my login; what should I do now?
The recipe needs two eggs, flour, butter and a pinch of salt.
Beat the eggs and fold in the flour.
Photosynthesis turns light into chemical energy.
Plants make sugar from sunlight, water and air.
The orchestra played Beethoven's seventh symphony.
A concert of classical music
Berlin is the capital of Germany.
Die Hauptstadt von Deutschland heisst Berlin; sie liegt an der Spree, und viele Menschen leben dort.
!
The train to the coast leaves at nine, stops in every village, and arrives before noon if the weather is kind and the
""".split("\n")[:20]


def test_a_real_sentence_model():
    folder = ROOT / ".cache/data/minilm"
    done = subprocess.run([ROOT / "tools/data/minilm"], capture_output=True, text=True)
    if done.returncode and "is there a network?" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    said = subprocess.run([COMMAND, "encode", "--model", folder, "--json", *SENTENCES], capture_output=True, text=True, check=True)
    ours = torch.tensor([json.loads(line)["embedding"] for line in said.stdout.splitlines()]).double()
    model = transformers.AutoModel.from_pretrained(folder).eval()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    with torch.no_grad():
        theirs = torch.stack([model(torch.tensor([tokenizer.encode(s).ids])).last_hidden_state[0].mean(0) for s in SENTENCES]).double()
    theirs /= theirs.norm(dim=1, keepdim=True)
    assert (1 - (ours * theirs).sum(1)).abs().max() <= 1e-5  # cosines
    assert_close(ours, theirs, 1e-5, "vectors")
    # As the model's makers give them.
    have = ours @ ours.T
    assert have[0, :4].tolist() == pytest.approx([1, 0.69458, 0.94291, 0.25688], abs=1e-5)
    # Each sentence's neighbours, nearest first, wherever two do not stand equally far.
    want = theirs @ theirs.T
    for i in range(len(SENTENCES)):
        order = have[i].argsort(descending=True)
        assert order[0] == i
        assert (want[i][order].diff() <= 1e-5).all()
    for i in range(4, 16, 2):  # written in pairs
        assert have[i].argsort(descending=True)[1] == i + 1
