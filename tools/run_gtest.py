"""Runs a googletest program so that a crash or a time-out fails one test, and those behind it still run."""
import json
import pathlib
import re
import tempfile

from run_process import ROOT, WORKERS, Result, Task, execute

FILTER_LIMIT = 100_000  # characters; Linux allows 128 KiB in one argument


def list_tests(binary, env):
    """{suite: [test names]} as the binary lists them."""
    done = execute([binary, "--gtest_list_tests"], 120, env)
    if done.code:
        raise RuntimeError(f"{done.output}{binary.name} --gtest_list_tests {done.reason()}")
    suites, suite = {}, None
    for line in done.output.splitlines():
        if found := re.match(r"(\S+)\.(?:\s+#.*)?$", line):
            suite = found[1]
        elif suite and (found := re.match(r"  (\S+)(?:\s+#.*)?$", line)):
            suites.setdefault(suite, []).append(f"{suite}.{found[1]}")
    return suites


def gtest_tasks(binary, pattern, env, limit):
    """Splits a binary's suites among the workers, whole suites together."""
    try:
        suites = list_tests(binary, env)
    except RuntimeError as error:
        message = str(error)
        return [Task(binary.name, lambda: [Result(binary.name, "failed", 0.0, message)])]
    if pattern and pattern.lower() not in binary.name.lower():
        suites = {suite: [name for name in names if pattern.lower() in name.lower()] for suite, names in suites.items()}
    total = sum(map(len, suites.values()))
    shards = [[] for _ in range(WORKERS if total > 20 else 1)]
    for names in sorted(suites.values(), key=len, reverse=True):
        min(shards, key=len).extend(names)
    tasks = []
    for names in shards:
        while names:
            part, size = [], 0
            while names and size < FILTER_LIMIT:
                part.append(names.pop(0))
                size += len(part[-1]) + 1
            tasks.append(part)
    label = str(binary.relative_to(ROOT / "build")).replace("/tests/", " ")  # such as "asan light_test"
    titles = [f"{label} {at}/{len(tasks)}" if len(tasks) > 1 else label for at in range(1, len(tasks) + 1)]
    return [Task(title, lambda part=part: run_gtest(binary, part, env, limit)) for title, part in zip(titles, tasks)]


def run_gtest(binary, names, env, limit):
    disabled = [name for name in names if "DISABLED_" in name]
    results = [Result(name, "skipped", 0.0, "disabled") for name in disabled]
    left = [name for name in names if name not in set(disabled)]
    while left:
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "report.json"
            done = execute([binary, f"--gtest_filter={':'.join(left)}", f"--gtest_output=json:{report}", "--gtest_color=no"],
                           limit, env, beat="[ RUN ")
            finished = read_gtest_report(report, done)
        if finished is None:  # it did not come to its end; what it printed tells how far it came
            finished = read_gtest_output(done)
        seen = {result.name for result in finished}
        if not seen:
            return results + [Result(name, "failed", 0.0, f"{done.output}{binary.name} {done.reason()}") for name in left]
        results += finished
        left = [name for name in left if name not in seen]
    return results


def section_of(output, name):
    """What a test printed, from its RUN line to its verdict or the end."""
    found = re.search(rf"^\[ RUN      \] {re.escape(name)}\n(.*?)(?:\[  (?:FAILED |SKIPPED) \] {re.escape(name)}\W|\Z)", output,
                      re.MULTILINE | re.DOTALL)
    return found[1] if found else output[-20_000:]


def read_gtest_report(path, done):
    try:
        report = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError):
        return None
    results = []
    for suite in report["testsuites"]:
        for test in suite["testsuite"]:
            if test["status"] != "RUN":
                continue
            name, seconds = f"{suite['name']}.{test['name']}", float(test["time"].rstrip("s"))
            status = "failed" if "failures" in test else "skipped" if test["result"] == "SKIPPED" else "passed"
            results.append(Result(name, status, seconds, "" if status == "passed" else section_of(done.output, name)))
    if done.code and not any(result.status == "failed" for result in results):
        results.append(Result("(after the last test)", "failed", 0.0, f"{done.output[-20_000:]}the program {done.reason()}"))
    return results


def read_gtest_output(done):
    results, open_test = {}, None
    for line in done.output.splitlines():
        if found := re.match(r"\[ RUN      \] (\S+)", line):
            open_test = found[1]
        elif open_test and (found := re.search(r"\[ (      OK|  FAILED | SKIPPED) \] (\S+?),? .*\((\d+) ms\)$", line)):
            if found[2] == open_test:
                status = {"OK": "passed", "FAILED": "failed", "SKIPPED": "skipped"}[found[1].strip()]
                text = "" if status == "passed" else section_of(done.output, open_test)
                results[open_test] = Result(open_test, status, int(found[3]) / 1000, text)
                open_test = None
    if open_test:
        text = f"{section_of(done.output, open_test)}\n{open_test}: the program {done.reason()} in this test"
        results[open_test] = Result(open_test, "failed", 0.0, text)
    return list(results.values())
