# SPDX-License-Identifier: Apache-2.0
"""tools/data/en-zh: catalogs and help pages read, pairs cleaned and split, the nearest source found."""
import random

import pytest
from test_data_texts import check_parts, read_table, stop
from workshop import mo

LANGUAGES = (("libreoffice-help-en-us", "en-US"), ("libreoffice-help-zh-cn", "zh-CN"))
NOUNS = "page table image chart border window folder printer shadow account".split()
VERBS = "opens closes moves copies prints hides draws saves splits merges".split()


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("charset", ["UTF-8", "GB18030"])
def test_mo(shop, order, charset):
    catalogs = shop.script("catalogs.py")
    path = shop.folder / "a.mo"
    path.write_bytes(mo([("b", "乙"), ("menu\x04Open", "打开"), ("one\0many", "一个")], order, charset))
    assert catalogs.read_mo(path) == [("b", "乙"), ("Open", "打开"), ("many", "一个")]


@pytest.mark.parametrize("size", [0, 3, 10, 30, 60, -3, -1])
def test_a_broken_mo_is_refused(shop, size):
    catalogs = shop.script("catalogs.py")
    path = shop.folder / "a.mo"
    path.write_bytes(mo([("some text", "文字")])[:size])
    assert "a.mo is" in stop(lambda: catalogs.read_mo(path))


def test_a_mo_of_another_charset_is_refused(shop):
    catalogs = shop.script("catalogs.py")
    path = shop.folder / "a.mo"
    path.write_bytes(mo([("some text", "文字")]).replace(b"charset=UTF-8", b"charset=ASCII"))
    assert "damaged or cut" in stop(lambda: catalogs.read_mo(path))


@pytest.mark.parametrize("page, found", [
    ('<h2 id="h"><a href="x">Load</a> &amp;\n Save</h2>', {"h": "Load & Save"}),
    ('<p id="p">Choose <span><span hidden class="MAC">A<br><b>B</b></span><span>Tools</span></span>.</p>', {"p": "Choose Tools."}),
    ('<p id="p">one<br>two<img src="x">three</p><p class="x">no id</p>', {"p": "one twothree"}),
    ('<p id="p">first<p id="q">second</p></p>', {"p": "first", "q": "second"}),
    ('<p id="p">first</p><p id="p">again</p>', {"p": "first"}),
    ('<p id="p" class="bascode">Dim i</p><p id="bm_x">debug</p><p id="q">a<script>b</script></p>', {"q": "a"}),
    ('<p id="p">never closed', {}),
])
def test_help_pages(shop, page, found):
    assert shop.script("catalogs.py").read_page(page) == found


@pytest.mark.parametrize("source, target, wanted", [
    ("Open the  file\n", "打开 文件", ("Open the file", "打开 文件")),
    ("Save _As New", "另存为新文件(_A)", ("Save As New", "另存为新文件")),
    ("~Show the Grid...", "显示网格(~S)...", ("Show the Grid...", "显示网格...")),
    ("Show this (S) column", "显示此列 (S)", ("Show this (S) column", "显示此列 (S)")),
    ("Scale to 100% of it", "缩放到 100% 大小", ("Scale to 100% of it", "缩放到 100% 大小")),
    ("Open file", "打开文件", None),                    # two words
    ("word " * 41, "字" * 60, None),
    ("all of the words", "字" * 65, None),
    ("cannot open %s now", "现在无法打开 %s", None),
    ("Value of {name} here", "此处 {name} 的值", None),
    ("use the -- option --force", "使用选项 --force", None),
    ("set the my_name value", "设置 my_name 的值", None),
    ("Open the file", "Open the file", None),          # not translated
    ("Open the file", "Open the file 吧", None),
    ("Open the file", "", None),
    ("打开 the old file", "打开旧文件", None),
    ("1 2 3 4 is", "一二三四是", None),
    ("Open the file", "打开" * 20, None),               # too long for three words
])
def test_clean(shop, source, target, wanted):
    assert shop.script("en-zh").clean(source, target) == wanted


def test_the_first_translation_stays(shop):
    script = shop.script("en-zh")
    assert script.clean_pairs([("Open the file", "打开文件"), ("open the File", "开启文件")]) == [("Open the file", "打开文件")]


def test_keys_join_what_differs_little(shop):
    key = shop.script("en-zh").key_of
    assert key("Open the file 1.") == key("open a file!") == "open file"
    assert key("This is it") == "this is it"


def test_nearest_is_the_nearest(shop):
    script = shop.script("en-zh")
    generator = random.Random(1)
    sources = [" ".join(generator.choices("a b c d e f g h i the of".split(), k=generator.randint(1, 7))) for _ in range(120)]
    train, test = sources[:90], sources[90:] + ["z z z"]
    nearest = script.Nearest(train)
    for source in test:
        wanted = script.features(source)
        indices = [len(wanted & found) / len(wanted | found) for found in map(script.features, train)]
        index, i = nearest(source)
        assert index == max(indices) and (i == indices.index(index) or index == 0)


def pair_packages(shop):
    """Help pages with 100 pairs; the first catalog with 200 others and 3 that fall away."""
    clauses = [(f"{noun} {verb}", f"{j}{i}") for i, noun in enumerate(NOUNS) for j, verb in enumerate(VERBS)]
    for side, (package, language) in enumerate(LANGUAGES):
        lines = [f'<p id="par_{n}">{("The " + clause + " everything", "页面处理一切" + digits)[side]}</p>'
                 for n, (clause, digits) in enumerate(clauses)]
        lines.append('<p id="par_x">Left as it is</p>')
        shop.package(package, {f"usr/share/libreoffice/help/{language}/text/page.html": f"<html>{''.join(lines)}</html>"})
    more = [(f"Another {noun} {verb} {what}", f"另一个对象处理{what}") for noun in NOUNS for verb in VERBS for what in ("rows", "cells")]
    pairs = {"git": more + [("failed to open %s", "无法打开 %s"), ("git", "版本"), ("the page opens everything", "重复的文字")]}
    script = shop.script("en-zh")
    for name in script.CATALOGS + ("gcc-12-locales",):
        shop.package(name, {f"usr/share/locale/zh_CN/LC_MESSAGES/{name}.mo": mo(pairs.get(name, []))})
    return script


def test_en_zh(shop):
    pair_packages(shop).main()
    out = shop.folder / ".cache/data/en-zh"
    parts = [read_table(out / f"{part}.tsv", 2) for part in ("train", "validation", "test")]
    check_parts([[source for source, _ in part] for part in parts], 300)
    far, copied = read_table(out / "test_far.tsv", 2) if (out / "test_far.tsv").stat().st_size else [], (out / "test_far_copied.txt")
    assert len(copied.read_text(encoding="utf-8").splitlines()) == len(far) and all(pair in parts[2] for pair in far)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    (out / "train.tsv").write_text("other")
    shop.script("en-zh").main()
    assert before == {path.name: path.read_bytes() for path in out.iterdir()}


def test_far_pairs_have_no_near_source(shop):
    script = pair_packages(shop)
    shop.monkeypatch.setattr(script, "FAR", 2)  # each is far
    script.main()
    out = shop.folder / ".cache/data/en-zh"
    test, far = (read_table(out / name, 2) for name in ("test.tsv", "test_far.tsv"))
    assert far == test
    targets = {target for _, target in read_table(out / "train.tsv", 2)}
    assert all(line in targets for line in (out / "test_far_copied.txt").read_text(encoding="utf-8").splitlines())


def test_en_zh_refuses_a_package_without_catalog(shop):
    script = pair_packages(shop)
    next(shop.packages.glob("krita-l10n/**/*.mo")).unlink()
    message = stop(script.main)
    assert "the package in .cache/data/packages/krita-l10n/files lacks usr/**/zh_CN/LC_MESSAGES/*.mo" in message
    assert "(delete .cache/data/packages/krita-l10n, and the next run fetches it again)" in message


@pytest.mark.parametrize("package, language", LANGUAGES)
def test_en_zh_refuses_an_empty_help_folder(shop, package, language):
    script = pair_packages(shop)
    next(shop.packages.glob(f"{package}/**/*.html")).unlink()
    message = stop(script.main)
    assert f"{package}/files lacks usr/share/libreoffice/help/{language}/**/*.html" in message
    assert f"delete .cache/data/packages/{package}, and" in message


def test_en_zh_names_a_cut_catalog(shop):
    script = pair_packages(shop)
    path = next(shop.packages.glob("git/**/*.mo"))
    path.write_bytes(path.read_bytes()[:-1])
    message = stop(script.main)
    assert "git.mo is damaged or cut short: text " in message and "delete .cache/data/packages/git, and" in message
