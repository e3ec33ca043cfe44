# SPDX-License-Identifier: Apache-2.0
"""fovea eval's BLEU and chrF against the package sacrebleu, live: words, Chinese, characters; and its errors."""
import json
import random
import re

import pytest
from sacrebleu.metrics import BLEU, CHRF
from test_command import fovea, good

PIECES = ("the of cat sat 3.14 1,000 -5 3-4 don't &quot;x&quot; &amp;lt; <skipped> e.g. U.S.A. ... ,, .a a. 5. .5 5,a a,5 —— “好” ‘a’ 你好 世界 "
          "， 。 （全角） １２ A／B ☆ é 𠀀𠀁 ㈱ ㍻ カナ 한국 - -- 5- {a}[b](c) ~`|\\^_ #@%$*+=:;<>?!/ ​x …").split()


def sentence(draw):
    return "".join(draw.choice(PIECES) + draw.choice((" ", " ", "", "\u3000", "\u00a0")) for _ in range(draw.randrange(18)))


def spoilt(text, draw):
    letters = list(text)
    for _ in range(draw.randrange(5)):
        if letters:
            letters[draw.randrange(len(letters))] = draw.choice("a好 .")
    return "".join(letters)


def scores(folder, texts, wanted, words):
    (folder / "texts.txt").write_text("\n".join(texts) + "\n", newline="")
    (folder / "wanted.txt").write_text("\n".join(wanted) + "\n", newline="")
    return json.loads(good("eval", "--texts", "texts.txt", "--wanted", "wanted.txt", "--words", words, "--json", cwd=folder))


def compare(folder, texts, wanted, words):
    facts, bleu = scores(folder, texts, wanted, words), BLEU(tokenize=words).corpus_score(texts, [wanted])
    assert facts["bleu"] == pytest.approx(bleu.score, abs=0.01)
    assert facts["bleu_precisions"] == pytest.approx(bleu.precisions, abs=0.01)
    assert facts["bleu_brevity"] == pytest.approx(bleu.bp, abs=1e-4)
    assert facts["chrf"] == pytest.approx(CHRF().corpus_score(texts, [wanted]).score, abs=0.01)
    assert facts["texts"] == len(texts)


@pytest.mark.parametrize("words", ["13a", "zh", "char"])
@pytest.mark.parametrize("count", [1, 2, 7, 60])
def test_random_texts(tmp_path, words, count):
    draw = random.Random(count)
    for _ in range(4):
        wanted = [sentence(draw) for _ in range(count)]
        compare(tmp_path, [spoilt(text, draw) if draw.random() < 0.8 else sentence(draw) for text in wanted], wanted, words)


@pytest.mark.parametrize("words", ["13a", "zh", "char"])
def test_every_character_between_letters(tmp_path, words):
    """What stands apart and what does not shows in the number of words; lines of 500 characters keep it quick."""
    characters = [chr(c) for c in range(0x21, 0x30000) if not 0xD800 <= c <= 0xDFFF and chr(c) not in "\x85\u2028\u2029"]
    lines = [" ".join(f"x{c}y" for c in characters[i : i + 500]) for i in range(0, len(characters), 500)]
    compare(tmp_path, lines, lines[1:] + lines[:1], words)
    compare(tmp_path, lines, lines, words)


@pytest.mark.parametrize("texts, wanted", [(["the cat"], ["the cat"]), ([""], ["the cat"]), (["a b c d e"], ["a b x d e"]),
                                           (["q"], ["the cat is here"]), (["the the the the"], ["the cat"])])
def test_small_texts(tmp_path, texts, wanted):
    compare(tmp_path, texts, wanted, "13a")


def test_intervals_hold_the_score_and_reproduce(tmp_path):
    draw = random.Random(3)
    wanted = [" ".join(draw.choices("abcdefgh", k=9)) for _ in range(80)]
    texts = [spoilt(text, draw) for text in wanted]
    first, again = (scores(tmp_path, texts, wanted, "13a") for _ in range(2))
    assert first == again
    for name in ("bleu", "chrf"):
        low, high = first[name + "_interval"]
        assert low < first[name] < high < low + 25
    boot = BLEU(tokenize="13a").corpus_score(texts, [wanted], n_bootstrap=1000)
    half = (first["bleu_interval"][1] - first["bleu_interval"][0]) / 2
    assert half == pytest.approx(boot._ci, rel=0.2)


def test_words_are_chosen_by_the_texts(tmp_path):
    (tmp_path / "texts.txt").write_text("保存文件。\n")
    table = good("eval", "--texts", "texts.txt", "--wanted", "texts.txt", cwd=tmp_path)
    assert re.search(r"^bleu +100\.0000 +\(95 %: ", table, re.M) and re.search(r"^bleu_words +zh$", table, re.M)


@pytest.mark.parametrize("arguments, code, message", [
    (["--texts", "texts.txt"], 2, "--texts and --wanted go together"),
    (["--texts", "texts.txt", "--wanted", "two.txt"], 3, "texts.txt has 1 lines, two.txt has 2"),
    (["--texts", "empty.txt", "--wanted", "empty.txt"], 3, "empty.txt: the file is empty"),
    (["--texts", "nowhere.txt", "--wanted", "two.txt"], 3, "nowhere.txt"),
    (["--texts", "texts.txt", "--wanted", "texts.txt", "--words", "hz"], 2, 'did you mean "zh"'),
    (["--texts", "texts.txt", "--wanted", "texts.txt", "--data", "two.txt"], 2, "need no model and no --data"),
    ([], 2, "--model is required"),
])
def test_bad_input(tmp_path, arguments, code, message):
    for name, text in {"texts.txt": "a\n", "two.txt": "a\nb\n", "empty.txt": ""}.items():
        (tmp_path / name).write_text(text)
    done = fovea("eval", *arguments, cwd=tmp_path)
    assert done.returncode == code and re.search(message, done.stderr.decode()), done.stderr.decode()
