"""One process of a test: its time limit, its output, its end."""
import collections
import dataclasses
import os
import pathlib
import signal
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CORES = len(os.sched_getaffinity(0))
WORKERS = max(1, min(CORES, 8))  # a test with LibTorch wants about 1 GB


@dataclasses.dataclass
class Result:
    name: str
    status: str  # passed, failed or skipped
    seconds: float = 0.0
    text: str = ""


@dataclasses.dataclass
class Task:
    title: str
    run: object  # a function without parameters that returns [Result]


running = set()  # process groups, which end with us
stopping = threading.Event()


def stop(signal_number, _):
    stopping.set()
    for last_word, patience in ((signal.SIGTERM, 1), (signal.SIGKILL, 0)):  # ninja must end its compilers itself
        for pid in list(running):
            end_group(pid, last_word)
        time.sleep(patience)
    raise SystemExit(128 + signal_number)


@dataclasses.dataclass
class Ended:
    code: int
    output: str
    seconds: float
    timed_out: bool

    def reason(self):
        if self.timed_out:
            return "timed out"
        if self.code < 0:
            return f"was ended by {signal.Signals(-self.code).name}"
        return f"ended with exit code {self.code}"


def execute(command, limit, env=None, stdin="", beat=None, cwd=ROOT):
    """Runs a command; `limit` seconds count from its start, or from the last line that starts with `beat`."""
    if stopping.is_set():
        return Ended(130, "", 0.0, False)
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(max(1, CORES // WORKERS))),
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONUNBUFFERED": "1",
        **(env or {}),
    }
    with tempfile.TemporaryDirectory(prefix="fovea-test-", ignore_cleanup_errors=True) as scratch:
        environment |= {"TMPDIR": scratch, "TEST_TMPDIR": scratch}
        start = alive = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.PIPE if stdin else subprocess.DEVNULL, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace", cwd=cwd,
                                   env=environment, start_new_session=True)
        running.add(process.pid)
        ended, timed_out = threading.Event(), threading.Event()

        def watch():
            while not ended.wait(0.2):
                if time.monotonic() - alive > limit:
                    timed_out.set()
                    end_group(process.pid)
                    return

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        if stdin:
            process.stdin.write(stdin)
            process.stdin.close()
        lines = collections.deque(maxlen=100_000)
        for line in process.stdout:
            lines.append(line)
            if beat and line.startswith(beat):
                alive = time.monotonic()
        code = process.wait()
        ended.set()
        watcher.join()
        end_group(process.pid)  # what it left running
        running.discard(process.pid)
    return Ended(code, "".join(lines), time.monotonic() - start, timed_out.is_set())


def end_group(pid, how=signal.SIGKILL):
    try:
        os.killpg(pid, how)
    except ProcessLookupError:
        pass


def commands_task(title, commands, limit=600, env=None, stdin="", cwd=ROOT):
    """One test: all commands in turn succeed."""

    def run():
        seconds = 0.0
        for command in commands:
            done = execute([str(word) for word in command], limit, env, stdin, cwd=cwd)
            seconds += done.seconds
            if done.code:
                shown = " ".join(str(word) for word in command[:12])
                return [Result(title, "failed", seconds, f"{done.output}{shown}\n{done.reason()}")]
        return [Result(title, "passed", seconds)]

    return Task(title, run)
