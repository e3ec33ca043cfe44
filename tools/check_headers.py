#!/usr/bin/env python3
"""Compiles every header of fovea/ alone, so that each can be included first and none leans on another's includes.

    tools/check_headers.py [BUILD_DIR]      (default build/release, which must be configured)

A header gets the flags of its own source or room, so that one without LibTorch cannot include it by accident. A header of
LibTorch that takes ten seconds and that a header includes anyway, through others of ours, is read precompiled.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def flags_of(command):
    """The compiler and the flags that matter to a header: no output, no source, no precompiled header."""
    words = shlex.split(command)
    while not words[0].endswith(("g++", "c++", "clang++")):  # cmake -E env, ccache
        words.pop(0)
    kept, skip = [], False
    for at, word in enumerate(words):
        if skip:
            skip = False
        elif word in ("-o", "-MF", "-MT"):
            skip = True
        elif word == "-include" and words[at + 1].endswith("cmake_pch.hxx"):
            skip = True
        elif word not in ("-c", "-MD", "-Winvalid-pch", "-fpch-preprocess") and not word.endswith((".cpp", ".cxx")):
            kept.append(word)
    return kept


def sources_of(entry):
    """The sources behind one compile command, which may be a generated file that includes several of a room."""
    path = pathlib.Path(entry["file"])
    if path.name.startswith("unity_"):
        return [pathlib.Path(name) for name in re.findall(r'#include "(.+?)"', path.read_text(encoding="utf-8"))]
    return [path]


# The dear ones, dearest first, and how to tell that a header of ours reads them.
DEAR = (("torch/nn/module.h", re.compile(r"torch/nn/")), ("ATen/core/Tensor.h", re.compile(r"ATen/|torch/")))


class Includes:
    """What a header of ours reads of others' headers, through all of ours."""

    def __init__(self, *folders):
        self.folders, self.known = folders, {}

    def foreign(self, name):
        if name not in self.known:
            self.known[name] = set()
            text = next((folder / name for folder in self.folders if (folder / name).is_file())).read_text(encoding="utf-8")
            self.known[name] |= set(re.findall(r"#include <(.+?)>", text))
            for ours in re.findall(r'#include "(.+?)"', text):
                self.known[name] |= self.foreign(ours)
        return self.known[name]

    def dear(self, name):
        return next((header for header, sign in DEAR if any(sign.match(text) for text in self.foreign(name))), None)


def precompiled(build, header, flags):
    """The folder whose `dear.h` is the precompiled header for these flags; made at the first call."""
    folder = build / "headers" / hashlib.sha256(" ".join([header, *flags]).encode()).hexdigest()[:16]
    if not (folder / "dear.h.gch").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "dear.h").write_text(f"#include <{header}>\n", encoding="utf-8")
        subprocess.run([*flags, "-x", "c++-header", folder / "dear.h", "-o", folder / "dear.h.gch"], cwd=build, check=True)
    return folder


def header_checks(build):
    """[(header's name, command, source to feed on standard input)] for all headers, written and generated."""
    with open(build / "compile_commands.json", encoding="utf-8") as file:
        entries = json.load(file)
    flags_for, library = {}, None  # by name without suffix, by room
    for entry in entries:
        for source in sources_of(entry):
            if source.is_relative_to(ROOT / "fovea") and not source.stem.endswith("_test"):
                flags = flags_of(entry["command"])
                name = source.relative_to(ROOT)
                flags_for[name.with_suffix("")] = flags
                with_torch = any("torch" in flag for flag in flags)
                if with_torch or name.parts[1] not in flags_for:  # a room may hold sources of both kinds
                    flags_for[name.parts[1]] = flags
                if with_torch or library is None:  # of a room that may read all others
                    library = flags
    if library is None:
        raise SystemExit(f"check_headers: {build} compiles no source of fovea/; run tools/build first")
    checks, includes = [], Includes(ROOT, build / "generated")
    shutil.rmtree(build / "headers", ignore_errors=True)
    for base in (ROOT, build / "generated"):
        for path in sorted(base.glob("fovea/**/*.h")):
            name = path.relative_to(base)
            flags = flags_for.get(name.with_suffix("")) or flags_for.get(name.parts[1], library)
            # Included twice: a missing include guard shows too.
            source = f'#include "{name}"\n#include "{name}"\n'
            dear = includes.dear(str(name))
            first = ["-include", str(precompiled(build, dear, flags) / "dear.h")] if dear else []
            checks.append((str(name), [*flags, *first, f"-I{base}", "-fsyntax-only", "-x", "c++", "-"], source))
    return checks


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release").resolve()
    checks = header_checks(build)

    def compile_alone(check):
        name, command, source = check
        done = subprocess.run(command, input=source, capture_output=True, text=True, cwd=build)
        return name, done.returncode, done.stderr

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for name, code, errors in pool.map(compile_alone, checks):
            if code:
                failed += 1
                print(f"FAILED {name}\n{errors}", flush=True)
    print(f"{len(checks) - failed} headers compile alone, {failed} do not")
    return 1 if failed or not checks else 0


if __name__ == "__main__":
    sys.exit(main())
