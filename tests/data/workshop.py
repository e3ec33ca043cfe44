# SPDX-License-Identifier: Apache-2.0
"""A checkout of its own for the scripts of tools/data, with small made-up packages and no network."""
import importlib.machinery
import importlib.util
import io
import json
import math
import os
import pathlib
import random
import select
import shutil
import signal
import struct
import subprocess
import sys
import tarfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = ("common", "packages", "verse", "sentiment", "catalogs")


class Workshop:
    """tools/data in a folder of its own. script() gives one as a module; run() runs one as a user does."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.monkeypatch = folder, monkeypatch
        self.packages = folder / ".cache/data/packages"
        shutil.copytree(ROOT / "tools/data", folder / "tools/data", ignore=shutil.ignore_patterns("__pycache__"))
        self.packages.mkdir(parents=True)
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.scripts = []  # processes
        monkeypatch.syspath_prepend(folder / "tools/data")
        monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def script(self, name):
        """The script as a module; its checks of sizes note what they were asked (.checked) and let small packages pass."""
        self.unlock()
        for module in MODULES:  # another folder's, or another script's
            sys.modules.pop(module, None)
        path = str(self.folder / "tools/data" / name)
        self.monkeypatch.setattr(sys, "argv", [path])
        loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), path)
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
        loader.exec_module(module)
        module.checked = {}
        if hasattr(module, "common"):
            self.monkeypatch.setattr(module.common, "check_range", lambda what, value, low, high: module.checked.update({what: value}))
        return module

    @staticmethod
    def unlock():
        """What the end of a script's process does: nobody else waits for it."""
        lock = getattr(sys.modules.get("common"), "lock", None)
        if lock:
            lock.close()

    def made(self, name):
        """(folder of the files, manifest) after the script's main(), which must reach its end."""
        self.script(name).main()
        out = self.folder / ".cache/data" / name
        return out, json.loads((out / "manifest.json").read_text(encoding="utf-8"))

    def run(self, name, path=None):
        script = self.started(name, path)
        out, err = script.communicate(timeout=60)
        return subprocess.CompletedProcess(script.args, script.returncode, out, err)

    def started(self, name, path=None):
        """The script's process, a session of its own in which Ctrl-C counts, whatever it means to the tests."""
        self.unlock()
        env = {**os.environ, "PATH": path or f"{self.bin}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
        script = subprocess.Popen([sys.executable, self.folder / "tools/data" / name], env=env, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, start_new_session=True,
                                  preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        self.scripts.append(script)
        return script

    def close(self):
        self.unlock()
        for script in self.scripts:  # one that a failed test has left
            if script.poll() is None:
                os.killpg(script.pid, signal.SIGKILL)
                script.wait()
            script.stdout.close()
            script.stderr.close()

    def package(self, name, files, version="1"):
        """Puts a Debian package as it stands once unpacked; files is {path: bytes or text}."""
        (self.packages / name).mkdir()
        (self.packages / name / "VERSION").write_text(version)
        self.archived(f"{name}/files", files)

    def archived(self, name, files):
        """Puts a Python or npm package as it stands once unpacked."""
        for path, data in files.items():
            target = self.packages / name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data if isinstance(data, bytes) else data.encode())

    def tool(self, name, lines):
        """A program in the place of a package manager; $pool is where it finds packages, calls() what it was asked."""
        head = f"#!/bin/sh\npool={self.folder}/pool\necho \"{name} $*\" >> {self.folder}/calls\n"
        (self.bin / name).write_text(f"{head}{lines}\n")
        (self.bin / name).chmod(0o755)

    def calls(self):
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


def first_line(stream):
    """A script's next line, which must come soon."""
    assert select.select([stream], [], [], 20)[0], "nothing was said"
    return stream.readline()


def tgz(files):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, data in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def deb(path, name, files):
    """A Debian package with the files, made by dpkg-deb."""
    tree = path.parent / f"{name}.tree"
    for file, data in {"DEBIAN/control": f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: nobody <n@localhost>\n"
                                         "Description: a toy\n", **files}.items():
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        (tree / file).write_text(data)
    subprocess.run(["dpkg-deb", "-Znone", "--root-owner-group", "--build", tree, path], check=True, capture_output=True)


def mo(pairs, order="<", charset="UTF-8"):
    """A compiled catalog of gettext."""
    pairs = sorted([("", f"Content-Type: text/plain; charset={charset}\n"), *pairs])
    tables, texts, offset = [], b"", 28 + 16 * len(pairs)
    for side in (0, 1):
        for pair in pairs:
            data = pair[side].encode(charset)
            tables.append(struct.pack(order + "II", len(data), offset + len(texts)))
            texts += data + b"\0"
    head = struct.pack(order + "7I", 0x950412DE, 0, len(pairs), 28, 28 + 8 * len(pairs), 0, 0)
    return head + b"".join(tables) + texts


def safetensors(shapes):
    """A safetensors file of f32 zeros."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes.items():
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(end)


def poems(count, seed=1, lines=4, width=5):
    """Lists of lines of random Chinese characters."""
    generator = random.Random(seed)
    return [["".join(chr(generator.randrange(0x4E00, 0x9F00)) for _ in range(width)) for _ in range(lines)] for _ in range(count)]


def marked(lines):
    return "".join(line + "，。"[i % 2] for i, line in enumerate(lines))
