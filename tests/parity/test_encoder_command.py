# SPDX-License-Identifier: Apache-2.0
"""fovea encode, classify, fill-mask, answer and attend on small encoders, against transformers and its tokenizer."""
import json
import re
import shutil
import signal
import subprocess
import time

import pytest
import torch
from test_command import COMMAND, ENVIRONMENT, fovea, good
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForMaskedLM, BertForQuestionAnswering, BertForSequenceClassification, BertForTokenClassification, BertModel

WORDS = "in the beginning god created heaven and earth light was good day night water".split()
TEXTS = ["In the beginning", "light", "God created the heaven and the earth, and the light was good; and the water was good.", "day night",
         "Über Nacht"]
ENCODE = ["encode", "--model", "bare", "--json"]


def make_tokenizer(folder):
    letters = "abcdefghijklmnopqrstuvwxyz.,;"
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + c for c in letters), *WORDS]
    tokenizer = Tokenizer(models.WordPiece({t: i for i, t in enumerate(tokens)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens(tokens[:5])
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer


def make(kind, folder, **options):
    torch.manual_seed(len(folder.name))
    config = BertConfig(vocab_size=90, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48,
                        max_position_embeddings=48, **options)
    model = kind(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.2)
    model.save_pretrained(folder)
    return model, make_tokenizer(folder)


NAMES = {0: "bad", 1: "good", 2: "so so"}
MADE = {
    "bare": (BertModel, {}),
    "words": (BertForMaskedLM, {}),
    "rows": (BertForSequenceClassification, dict(id2label=NAMES)),
    "several": (BertForSequenceClassification, dict(id2label=NAMES, problem_type="multi_label_classification")),
    "tokens": (BertForTokenClassification, dict(id2label=NAMES)),
    "answers": (BertForQuestionAnswering, {}),
}


@pytest.fixture(scope="module")
def models_by_name(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoders")
    return folder, {name: make(kind, folder / name, **options) for name, (kind, options) in MADE.items()}


@pytest.fixture(scope="module")
def work(models_by_name):
    """The folder of the models, spoilt copies beside them."""
    folder, _ = models_by_name
    (folder / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    for name, modules in {"sentence": ["Transformer", "Pooling", "Normalize"], "strange": ["Transformer", "Dense"]}.items():
        shutil.copytree(folder / "bare", folder / name)
        (folder / name / "1_Pooling").mkdir()
        (folder / name / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}))
        (folder / name / "modules.json").write_text(json.dumps(
            [{"path": "1_Pooling" if m == "Pooling" else "", "type": "sentence_transformers.models." + m} for m in modules]))
    shutil.copytree(folder / "bare", folder / "deaf")
    tokenizer = json.loads((folder / "deaf/tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["late"] = 95
    (folder / "deaf/tokenizer.json").write_text(json.dumps(tokenizer))
    return folder


@pytest.fixture(scope="module")
def theirs(models_by_name):
    """(model name, text [, second text]) -> transformers' output for it alone, and the tokenizer's encoding."""
    def run(name, *texts):
        model, tokenizer = models_by_name[1][name]
        encoding = tokenizer.encode(*texts)
        with torch.no_grad():
            return model(torch.tensor([encoding.ids]), token_type_ids=torch.tensor([encoding.type_ids]))[0][0], encoding
    return run


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("pool", ["mean", "cls", "none"])
def test_encode(work, theirs, pool):
    out = objects(good(*ENCODE, "--pool", pool, *TEXTS, cwd=work))
    assert len(out) == len(TEXTS)
    for text, result in zip(TEXTS, out):
        hidden, encoding = theirs("bare", text)
        assert result["tokens"] == encoding.tokens
        wanted = {"mean": hidden.mean(0), "cls": hidden[0], "none": hidden}[pool]
        torch.testing.assert_close(torch.tensor(result["embedding"]), wanted, atol=2e-5, rtol=1e-4)


def test_encode_pools_as_the_folder_says(work, theirs):
    out = objects(good("encode", "--model", "sentence", "--json", *TEXTS, cwd=work))
    for text, result in zip(TEXTS, out):
        first = theirs("bare", text)[0][0]
        torch.testing.assert_close(torch.tensor(result["embedding"]), first / first.norm(), atol=1e-5, rtol=1e-4)
    bare = good("encode", "--model", "bare", "--pool", "cls", "--normalize", "--json", *TEXTS, cwd=work)
    assert objects(bare) == out


def test_texts_from_words_files_and_standard_input_are_the_same(work):
    words = good(*ENCODE, *TEXTS, cwd=work)
    assert good(*ENCODE, "--file", "texts.txt", cwd=work) == words
    assert good(*ENCODE, cwd=work, stdin="\r\n".join(TEXTS).encode()) == words
    assert good(*ENCODE, cwd=work, stdin=b"") == ""


def test_many_texts_keep_their_order_and_do_not_disturb_each_other(work):
    many = [" ".join((WORDS * 3)[i : i + 1 + i * 7 % 40]) for i in range(14)] * 25  # more than one batch
    out = objects(good(*ENCODE, cwd=work, stdin="\n".join(many).encode()))
    assert len(out) == len(many)
    alone = {text: objects(good(*ENCODE, text, cwd=work))[0]["embedding"] for text in many[:14]}
    for text, result in zip(many, out):
        torch.testing.assert_close(torch.tensor(result["embedding"]), torch.tensor(alone[text]), atol=1e-5, rtol=1e-4)


def test_encode_as_text(work):
    numbers = [[float(x) for x in line.split()] for line in good("encode", "--model", "bare", *TEXTS, cwd=work).splitlines()]
    wanted = [result["embedding"] for result in objects(good(*ENCODE, *TEXTS, cwd=work))]
    torch.testing.assert_close(torch.tensor(numbers), torch.tensor(wanted), atol=1e-5, rtol=1e-5)
    tokens = good("encode", "--model", "bare", "--pool", "none", "light", cwd=work).splitlines()
    assert [line.split("\t")[0] for line in tokens] == ["[CLS]", "light", "[SEP]", ""]


@pytest.mark.parametrize("name, scores", [("rows", lambda x: x.softmax(-1)), ("several", torch.sigmoid)])
def test_classify(work, theirs, name, scores):
    for text, result in zip(TEXTS, objects(good("classify", "--model", name, "--json", *TEXTS, cwd=work))):
        wanted = scores(theirs(name, text)[0])
        assert result["label"] == NAMES[int(wanted.argmax())]
        assert result["scores"] == pytest.approx({NAMES[i]: p.item() for i, p in enumerate(wanted)}, abs=1e-5)
    label, score = good("classify", "--model", name, TEXTS[0], cwd=work).strip().split("\t")
    wanted = scores(theirs(name, TEXTS[0])[0])
    assert label == NAMES[int(wanted.argmax())] and float(score) == pytest.approx(wanted.max().item(), abs=1e-3)


def test_classify_pairs(work, theirs):
    result, = objects(good("classify", "--model", "rows", "--pairs", "--json", cwd=work, stdin=b"god created\tlight was good"))
    wanted = theirs("rows", "god created", "light was good")[0].softmax(-1)
    assert result["scores"] == pytest.approx({NAMES[i]: p.item() for i, p in enumerate(wanted)}, abs=1e-5)


def test_classify_tokens(work, theirs):
    for text, result in zip(TEXTS, objects(good("classify", "--model", "tokens", "--json", *TEXTS, cwd=work))):
        logits, encoding = theirs("tokens", text)
        assert len(result["tokens"]) == len(encoding.ids) - 2
        for token, scores, spelling, offset in zip(result["tokens"], logits.softmax(-1)[1:-1], encoding.tokens[1:-1], encoding.offsets[1:-1]):
            assert (token["token"], token["offset"]) == (spelling, list(offset))
            assert token["label"] == NAMES[int(scores.argmax())]
            assert token["scores"] == pytest.approx({NAMES[i]: p.item() for i, p in enumerate(scores)}, abs=1e-5)


def test_fill_mask(work, theirs, models_by_name):
    text = "In the [MASK] god created the [MASK]."
    result, = objects(good("fill-mask", "--model", "words", "--top-k", "4", "--json", text, cwd=work))
    logits, encoding = theirs("words", text)
    tokenizer = models_by_name[1]["words"][1]
    places = [i for i, token in enumerate(encoding.tokens) if token == "[MASK]"]
    wanted = []
    for mask, place in enumerate(places):
        best = logits[place].softmax(-1)[: tokenizer.get_vocab_size()].topk(4)
        wanted += [(mask, id, tokenizer.decode([id], skip_special_tokens=False), p) for p, id in zip(best.values.tolist(), best.indices.tolist())]
    assert [(r["mask"], r["id"], r["token"]) for r in result] == [w[:3] for w in wanted]
    assert [r["score"] for r in result] == pytest.approx([w[3] for w in wanted], abs=1e-5)
    lines = good("fill-mask", "--model", "words", "-k", "2", text, cwd=work).splitlines()
    assert [line.split("\t")[0] for line in lines] == ["1", "1", "2", "2"]


def test_answer(work, models_by_name):
    question, text = "what was good", "In the beginning, the lightish zoom was good"
    ask = lambda *options: objects(good("answer", "--model", "answers", "-q", question, "--longest", "3", "--json", text, *options, cwd=work))[0]
    result = ask("--top-k", "5", "--word-pieces")
    model, tokenizer = models_by_name[1]["answers"]
    encoding = tokenizer.encode(question, text)
    with torch.no_grad():
        out = model(torch.tensor([encoding.ids]), token_type_ids=torch.tensor([encoding.type_ids]))
    places = [i for i, (type, special) in enumerate(zip(encoding.type_ids, encoding.special_tokens_mask)) if type == 1 and not special]
    begin, end = (logits[0][[0, *places]].softmax(0)[1:] for logits in (out.start_logits, out.end_logits))
    spans = sorted(((begin[i] * end[j]).item(), encoding.offsets[places[i]][0], encoding.offsets[places[j]][1])
                   for i in range(len(places)) for j in range(i, min(i + 3, len(places))))[::-1][:5]
    assert [r["offset"] for r in result] == [[first, last] for _, first, last in spans]
    assert [r["text"] for r in result] == [text[first:last] for _, first, last in spans]
    assert [r["score"] for r in result] == pytest.approx([score for score, *_ in spans], abs=1e-5)
    # Each span widened to its words, the best of those that become the same.
    words = {}
    for place in places:
        words.setdefault(encoding.word_ids[place], []).extend(encoding.offsets[place])
    whole = {}
    every = [(begin[i] * end[j], i, j) for i in range(len(places)) for j in range(i, min(i + 3, len(places)))]
    for score, i, j in sorted(every, key=lambda span: -span[0]):
        whole.setdefault((min(words[encoding.word_ids[places[i]]]), max(words[encoding.word_ids[places[j]]])), score.item())
    assert len(whole) < len(every)  # some words have several tokens
    result = ask("--top-k", "5")
    assert [(tuple(r["offset"]), r["score"]) for r in result] == [(span, pytest.approx(score, abs=1e-5)) for span, score in list(whole.items())[:5]]
    line, = good("answer", "--model", "answers", "-q", question, text, "--longest", "3", cwd=work).splitlines()
    assert line.split("\t")[1] == result[0]["text"]


def test_a_long_text_is_answered_in_whole_words(work, models_by_name):
    """Also where a window of the 48 positions would end within a word."""
    for blanks in range(6):
        text = "a " * blanks + "lightish zoom goddess beginningless " * 20
        answers, = objects(good("answer", "--model", "answers", "-q", "what", "--top-k", "300", "--json", text, cwd=work))
        assert len(answers) > 100
        for answer in answers:
            begin, end = answer["offset"]
            assert answer["text"] == text[begin:end] == text[begin:end].strip()
            assert (begin == 0 or text[begin - 1] == " ") and text[end : end + 1] in (" ", ""), answer
        # No window cuts a word ("good ##l ##i ##g ##h ##t"): "light" by itself would be another token.
        text = "a " * blanks + "goodlight " * 30
        tokens = models_by_name[1]["answers"][1].encode(text, add_special_tokens=False).offsets
        pieces, = objects(good("answer", "--model", "answers", "-q", "what", "--top-k", "300", "--longest", "1", "--word-pieces", "--json", text, cwd=work))
        assert {tuple(answer["offset"]) for answer in pieces} == set(tokens)


@pytest.mark.parametrize("command", [["fill-mask", "--model", "words", "-k", "3"], ["answer", "--model", "answers", "-q", "what was", "-k", "3"]])
def test_many_lines_are_answered_as_each_alone(work, command):
    """Long and short ones run together; a bad one is named, after the answers of those before it."""
    lines = ["the [MASK] was good and the water was light", "[MASK]", "god [MASK] the [MASK]", *(f"in the {'night ' * i}[MASK]" for i in range(9))]
    together = objects(good(*command, "--json", cwd=work, stdin="\n".join(lines).encode()))
    alone = [objects(good(*command, "--json", line, cwd=work))[0] for line in lines[:4]]
    assert len(together) == len(lines)
    for ours, wanted in zip(together, alone):
        assert len(ours) == len(wanted)
        for one, other in zip(ours, wanted):
            assert one.pop("score") == pytest.approx(other.pop("score"), rel=1e-4) and one == other
    done = fovea(*command, "--json", cwd=work, stdin=b"a [MASK]\n \nb [MASK]\n")
    assert done.returncode == 3 and b"standard input, line 2: " in done.stderr


def test_attend_to_a_pair(work, theirs):
    text = "God created light\tgood day"
    record = json.loads(good("attend", "--model", "rows", "--pairs", text, "--json", cwd=work))
    assert [token.strip() for token in record["sequences"][0]["tokens"]] == theirs("rows", *text.split("\t"))[1].tokens
    one = json.loads(good("attend", "--model", "rows", text, "--json", cwd=work))
    assert len(record["sequences"][0]["tokens"]) == len(one["sequences"][0]["tokens"]) + 1  # a second [SEP]
    for bad, wanted in ((["no tab"], b"TEXT: no tab"), (["a\t"], b"one text of the pair is empty"), (["a\tb\tc"], b"more than two columns")):
        done = fovea("attend", "--model", "rows", "--pairs", *bad, "--json", cwd=work)
        assert done.returncode == 3 and wanted in done.stderr, done.stderr


def test_attend(work):
    record = json.loads(good("attend", "--model", "words", TEXTS[0], "--json", cwd=work))
    assert len(record["maps"]) == 2
    good("attend", "--model", "words", TEXTS[0], "-o", "look.html", cwd=work)
    assert (work / "look.html").exists()


def test_a_signal_ends_the_wait_for_a_text(work):
    """Also where a text was answered before."""
    for verb in (["encode", "--model", "bare"], ["classify", "--model", "rows"], ["fill-mask", "--model", "words"], ["answer", "--model", "answers", "-q", "what"]):
        process = subprocess.Popen([COMMAND, *verb, "--json"], cwd=work, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        time.sleep(1.5)  # beyond the reading of the folder
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) != 0


LONG = "light " * 60
BAD = {
    "three columns": (["classify", "--model", "rows", "--pairs", "a\tb\tc"], 3, "more than two columns", b""),
    "half a pair": (["classify", "--model", "rows", "--pairs", "a\t"], 3, "one text of the pair is empty", b""),
    "missing model": (["encode", "--model", "nowhere", "a"], 3, "nowhere", b""),
    "no model": (["encode", "a"], 2, "--model", b""),
    "unknown pooling": (["encode", "--model", "bare", "--pool", "max", "a"], 2, 'pool is "max"', b""),
    "normal tokens": (["encode", "--model", "bare", "--pool", "none", "--normalize", "a"], 2, "--normalize", b""),
    "unknown module": (["encode", "--model", "strange", "a"], 3, "strange/modules.json.*Dense", b""),
    "foreign tokenizer": (["encode", "--model", "deaf", "a"], 3, "tokenizer does not fit the model", b""),
    "texts and files": (["encode", "--model", "bare", "--file", "texts.txt", "a"], 2, "exclude each other", b""),
    "missing file": (["encode", "--model", "bare", "--file", "nowhere.txt"], 3, "nowhere.txt", b""),
    "not UTF-8": (["encode", "--model", "bare"], 3, "standard input, line 2.*byte 1", b"a\na\xff\n"),
    "too long": (["encode", "--model", "bare", "a", LONG], 3, "text 2: the text has 62 tokens.*48 positions", b""),
    "an encoder does not classify": (["classify", "--model", "bare", "a"], 3, 'bare.*head is "none"', b""),
    "no tab": (["classify", "--model", "rows", "--pairs", "a"], 3, "text 1: no tab", b""),
    "pairs for tokens": (["classify", "--model", "tokens", "--pairs", "a\tb"], 2, "classifies tokens", b""),
    "a classifier fills nothing": (["fill-mask", "--model", "rows", "a [MASK]"], 3, 'rows.*head is "classifier"', b""),
    "blanks to classify": (["classify", "--model", "rows"], 3, "line 2: the text is empty", b"a\n  \nb\n"),
    "eval of beams that no classifier has": (["eval", "--model", "rows", "--data", "x.tsv", "--beams", "4"], 2, '--beams is for pairs; .* "labels"', b""),
    "eval of samples of a mask": (["eval", "--model", "words", "--data", "x.txt", "--samples", "4"], 2, "--samples is for text, lines", b""),
    "no mask": (["fill-mask", "--model", "words"], 3, r"line 2: the text has no \[MASK\]", b"a [MASK]\nb\n"),
    "no candidates": (["fill-mask", "--model", "words", "--top-k", "0", "a [MASK]"], 2, "--top-k is 0", b""),
    "a masked model answers nothing": (["answer", "--model", "words", "-q", "a", "b"], 3, 'words.*head is "masked_lm"', b""),
    "no question": (["answer", "--model", "answers", "b"], 2, "--question", b""),
    "nothing to answer with": (["answer", "--model", "answers", "-q", "a"], 3, "line 2.*no tokens", b"a\n\n"),
    "a question too long": (["answer", "--model", "answers", "-q", LONG, "b"], 3, "text 1.*question leaves", b""),
    "no answers": (["answer", "--model", "answers", "-q", "a", "--top-k", "0", "b"], 2, "--top-k is 0", b""),
    "encoders write nothing": (["generate", "--model", "words", "--prompt", "a"], 3, "does not write text", b""),
    "encoders predict no next token": (["eval", "--model", "words", "--data", "texts.txt", "--kind", "text"], 2, "bert model", b""),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(work, name):
    arguments, code, message, stdin = BAD[name]
    done = fovea(*arguments, cwd=work, stdin=stdin)
    text = done.stderr.decode()
    assert done.returncode == code and re.search(message, text), text
    assert len([line for line in text.splitlines() if line.startswith("fovea")]) == 1, text


def test_help_and_completion(work):
    for verb in ("encode", "classify", "fill-mask", "answer"):
        assert f"Usage: fovea {verb}" in good(verb, "--help", cwd=work)
    (work / "completion.bash").write_text(good("completion", "bash", cwd=work))
    ask = """source completion.bash
    COMP_WORDS=(fovea %s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _fovea 2>/dev/null; printf '%%s\\n' "${COMPREPLY[@]}" """
    complete = lambda words: subprocess.run(["bash", "-c", ask % words], capture_output=True, text=True, cwd=work, check=True).stdout.split()
    assert complete("fil") == ["fill-mask"] and complete("encode --pool c") == ["cls"] and "rows" in complete("classify --model ro")
    assert complete("encode --file te") == ["texts.txt"]
