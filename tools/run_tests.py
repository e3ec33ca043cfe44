#!/usr/bin/env python3
"""Runs what tools/build has built, counts every single test, and ends with the line "N passed, N failed".

    tools/run_tests.py [--full] [-k PATTERN] [--preset release]

Runs the googletest binaries (build/PRESET/tests/*_test), the examples (build/PRESET/examples/*, which check themselves),
the Python tests (tests/**/test_*.py) and the fuzz targets (build/PRESET/tests/fuzz, 2 s each), as many at a time as there are
cores. A crash or a time-out fails the test that was running, and the tests behind it still run. --full adds the
sanitizers (both in one build), valgrind, each header alone, an installed and an embedded consumer, fuzzing with them
(FOVEA_FUZZ_SECONDS each, 60 by itself) and the long cases (FOVEA_FULL=1).

A test finds its build in FOVEA_BUILD, the command in FOVEA_COMMAND, and has a TMPDIR of its own.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

import check_headers
from run_gtest import gtest_tasks
from run_process import CORES, ROOT, WORKERS, Result, Task, commands_task, execute, stop

PYTHON = ROOT / ".venv/bin/python"


# ---- Python ---------------------------------------------------------------------------------------------------------

def run_pytest(path, pattern, env, limit):
    name = str(path.relative_to(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.xml"
        select = ["-k", pattern] if pattern and pattern.lower() not in name.lower() else []
        done = execute([PYTHON, "-m", "pytest", "-v", "--color=no", "-p", "no:cacheprovider", f"--junitxml={report}",
                        "-o", "junit_logging=out-err", "-o", "junit_log_passing_tests=false", *select, path],
                       limit, env, beat="tests/")
        if done.code == 5:  # pytest's code for no test
            return [] if select else [Result(name, "failed", done.seconds, "the file holds no test")]
        if not report.exists():
            return read_pytest_output(name, done)
        results = []
        for case in xml.etree.ElementTree.parse(report).iter("testcase"):
            status, text = "passed", ""
            for child in case:
                if child.tag == "skipped":
                    status, text = "skipped", child.get("message", "")
                elif child.tag in ("failure", "error"):
                    status, text = "failed", f"{text}{child.text}\n"
                elif (child.text or "").strip("\n -").count("\n"):  # captured output below its heading
                    text += child.text
            results.append(Result(f"{name}::{case.get('name')}", status, float(case.get("time", 0)), text))
        if done.code and not any(result.status == "failed" for result in results):
            results.append(Result(name, "failed", done.seconds, f"{done.output[-20_000:]}\nPython {done.reason()}"))
        return results


def read_pytest_output(name, done):
    """Python did not come to its end: what passed has passed, the last test named has failed."""
    results, last = [], name
    for found in re.finditer(r"^tests/\S+?::(\S+) (PASSED|SKIPPED)?", done.output, re.MULTILINE):
        last = f"{name}::{found[1]}"
        if found[2]:
            results.append(Result(last, found[2].lower()))
            last = name
    return [*results, Result(last, "failed", done.seconds, f"{done.output[-20_000:]}\n{last}: Python {done.reason()}")]


# ---- What there is to run -------------------------------------------------------------------------------------------

def programs(folder):
    if not folder.is_dir():
        return []
    return sorted(path for path in folder.iterdir() if path.is_file() and os.access(path, os.X_OK) and not path.suffix)


def environment_of(preset, full):
    build = ROOT / "build" / preset
    return {"FOVEA_BUILD": str(build), "FOVEA_COMMAND": str(build / "bin/fovea"), **({"FOVEA_FULL": "1"} if full else {}),
            # LibTorch is not built with the sanitizer, so its containers carry no marks.
            "ASAN_OPTIONS": "detect_leaks=1:detect_container_overflow=0:strict_string_checks=1",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1"}


def binary_tasks(preset, pattern, full, limit):
    binaries = [path for path in programs(ROOT / "build" / preset / "tests") if path.name.endswith("_test")]
    env = environment_of(preset, full)
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        lists = pool.map(lambda binary: gtest_tasks(binary, pattern, env, limit), binaries)
        return [task for tasks in lists for task in tasks]


def isa_tasks(preset, limit):
    """What computes attention, on the instruction sets that the kernels would not choose here but can run."""
    build, env = ROOT / "build" / preset, environment_of(preset, False)
    done = execute([build / "bin/fovea", "env", "--json"], 60, env)
    if done.code:
        return []  # the tests of the command tell
    facts = json.loads(done.output)
    refused = [text.split()[0] for text in facts["isa_refused"] if "(lacks " in text]
    others = [name for name in ("avx512_bf16", "avx512", "avx2", "scalar") if name != facts["isa"] and name not in refused]
    return [commands_task(f"{name} on {other}", [[build / "tests" / name, f"--gtest_filter={filter}"]], limit, {**env, "FOVEA_ISA": other})
            for other in others for name, filter in (("tensor_test", "Attention*:Gelu*"), ("crossing_test", "*Kernel*:*Attention*"))]


def example_tasks(preset, full, limit):
    return [commands_task(f"examples/{path.name}", [[path]], limit, environment_of(preset, full))
            for path in programs(ROOT / "build" / preset / "examples")]


def python_tasks(preset, pattern, full, limit):
    env = environment_of(preset, full)
    return [Task(str(path.relative_to(ROOT)), lambda path=path: run_pytest(path, pattern, env, limit))
            for path in sorted((ROOT / "tests").glob("**/test_*.py"))
            if pattern.lower() in f"{path.relative_to(ROOT)}{path.read_text(encoding='utf-8')}".lower()]


def header_tasks(preset):
    return [commands_task(f"header {name}", [command], stdin=source, cwd=ROOT / "build" / preset)
            for name, command, source in check_headers.header_checks(ROOT / "build" / preset)]


def consumer_tasks(preset):
    """A project outside the tree takes fovea installed, and embedded."""
    build = ROOT / "build" / preset
    out, source = ROOT / "build/consumer", ROOT / "tests/install"
    torch = (build / "torch.txt").read_text(encoding="utf-8").strip()

    def consumer(kind, *options):
        configure = ["cmake", "-S", source, "-B", out / kind, "-G", "Ninja", "-D", "CMAKE_BUILD_TYPE=Release", *options]
        return [configure, ["cmake", "--build", out / kind, "--parallel", CORES], [out / kind / "consumer"]]

    shutil.rmtree(out, ignore_errors=True)
    installed = consumer("installed", "-D", f"CMAKE_PREFIX_PATH={out / 'prefix'};{torch}")
    embedded = consumer("embedded", "-D", f"FOVEA_SOURCE={ROOT}", "-D", f"CMAKE_PREFIX_PATH={torch}")
    return [commands_task("install, then find_package(fovea)",
                          [["cmake", "--install", build, "--prefix", out / "prefix"], [out / "prefix/bin/fovea", "env"], *installed], 3600),
            commands_task("add_subdirectory(fovea)", embedded, 3600)]


def valgrind_tasks(preset):
    """The test programs that do not load LibTorch; with it valgrind takes hours."""
    tasks = []
    for path in programs(ROOT / "build" / preset / "tests"):
        if "libtorch" not in subprocess.run(["ldd", path], capture_output=True, text=True).stdout:
            command = ["valgrind", "--quiet", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite", path]
            tasks.append(commands_task(f"valgrind {path.name}", [command], 3600))
    if not tasks:
        tasks.append(Task("valgrind", lambda: [Result("valgrind", "skipped", 0.0, "every test program loads LibTorch")]))
    return tasks


def fuzz_tasks(preset, seconds):
    program = ROOT / "build" / preset / "tests" / "fuzz"
    names = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    return [commands_task(f"fuzz {preset}/{name}", [[program, name]], seconds + 300,
                          {**environment_of(preset, True), "FOVEA_FUZZ_SECONDS": str(seconds)}) for name in names]


# ---- Running and telling --------------------------------------------------------------------------------------------

def run_all(tasks, workers=WORKERS):
    results = []
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:

        def timed(task):
            start = time.monotonic()
            try:
                found = task.run()
            except Exception as error:  # a fault of this runner must not look like success
                found = [Result(task.title, "failed", 0.0, f"run_tests: {type(error).__name__}: {error}")]
            return task, found, time.monotonic() - start

        for future in concurrent.futures.as_completed([pool.submit(timed, task) for task in tasks]):
            task, found, seconds = future.result()
            if not found:
                continue
            count = collections.Counter(result.status for result in found)
            parts = [f"{count[status]} {status}" for status in ("passed", "failed", "skipped") if count[status]]
            print(f"  {'FAILED' if count['failed'] else 'ok':6}  {task.title:<50} {seconds:7.1f} s  {', '.join(parts)}", flush=True)
            for result in found:
                if not result.name.startswith(task.title):
                    result.name = f"{task.title}: {result.name}"
            results += found
    return results


def tell(results):
    for result in results:
        if result.status == "failed":
            print(f"\n==== FAILED {result.name}\n{result.text.rstrip()}")
    skipped = [result for result in results if result.status == "skipped"]
    if skipped:
        print("\nSkipped:")
        for result in skipped:
            reason = result.text.strip().splitlines()
            print(f"  {result.name}{'  (' + reason[-1] + ')' if reason else ''}")
    slow = sorted((result for result in results if result.seconds >= 1), key=lambda result: -result.seconds)[:15]
    if slow:
        print("\nSlowest:")
        for result in slow:
            print(f"  {result.seconds:7.1f} s  {result.name}")
    count = collections.Counter(result.status for result in results)
    if not count["passed"] + count["failed"]:
        print("\nNothing ran.")
        count["failed"] = 1
    print(f"\n{count['passed']} passed, {count['failed']} failed" + (f", {count['skipped']} skipped" if count["skipped"] else ""), flush=True)
    return 1 if count["failed"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="also sanitizers, valgrind, headers, consumers, fuzzing, long cases")
    parser.add_argument("-k", dest="pattern", default="", metavar="PATTERN", help="only what has this in its name")
    parser.add_argument("--preset", default="release", help="the build to test (default release)")
    options = parser.parse_args()
    preset, pattern, full = options.preset, options.pattern, options.full
    limit = 1800 if full else 300  # seconds for one test

    def matching(tasks):
        return [task for task in tasks if pattern.lower() in task.title.lower()]

    print(f"Testing build/{preset}, {WORKERS} at a time", flush=True)
    fuzz_seconds = int(os.environ.get("FOVEA_FUZZ_SECONDS", "60")) if full else 2
    results = run_all(python_tasks(preset, pattern, full, limit) + binary_tasks(preset, pattern, full, limit) +
                      matching(isa_tasks(preset, limit) + example_tasks(preset, full, limit) + fuzz_tasks(preset, fuzz_seconds)))
    if full:
        for title, make, workers in (("Each header alone", lambda: header_tasks(preset), WORKERS),
                                     ("Consumers", lambda: consumer_tasks(preset), 1)):
            print(title, flush=True)
            results += run_all(matching(make()), workers)
        print("Address and undefined behaviour sanitizers", flush=True)
        built = run_all([commands_task("build sanitizers", [[ROOT / "tools/build", "sanitizers", "test_programs"]], 7200)], 1)
        results += built
        if built[0].status == "passed":
            results += run_all(binary_tasks("sanitizers", pattern, False, 1800) + matching(fuzz_tasks("sanitizers", fuzz_seconds)))
        print("Valgrind", flush=True)
        results += run_all(matching(valgrind_tasks(preset)))
    return tell(results)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    sys.exit(main())
