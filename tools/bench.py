"""Benchmarks, interleaved: in each round ours and each peer do the same work once, in turn; the other process sleeps. Reported
are the fastest time of each and the median of the per-round ratios, peer / ours: above 1 we are faster."""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
OURS = ROOT / "build" / "release" / "bench" / "model_bench"
COMMAND = ROOT / "build" / "release" / "bin" / "fovea"
TWIN = ROOT / "tests" / "parity" / "twins" / "character_model.py"
CASES = {
    "demo-train": ("train", "one training step of the demo's model, batch 8 x 128, f32"),
    "demo-generate": ("generate", "64 cached greedy tokens after a prompt of 64, f32"),
}


class Worker:
    """A process that answers a word with the seconds its work took."""

    def __init__(self, *command):
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"bench: {self.process.args[0]} ended while it ran \"{word}\"")
        return float(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return platform.processor()


def measure(case, rounds, threads):
    word, _ = CASES[case]
    ours, peer = Worker(OURS, threads), Worker(sys.executable, TWIN, threads)
    for _ in range(max(3, rounds // 10)):  # first touches, thread pools
        ours(word), peer(word)
    pairs = [(ours(word), peer(word)) for _ in range(rounds)]
    ours.close(), peer.close()
    return {
        "case": case,
        "mode": word,
        "dtype": "f32",
        "threads": threads,
        "peer": "PyTorch, eager",
        "ratio": round(statistics.median(p / o for o, p in pairs), 3),
        "ours_ms": round(min(o for o, _ in pairs) * 1e3, 3),
        "peer_ms": round(min(p for _, p in pairs) * 1e3, 3),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: ./bench demo-train --rounds 50 --json bench.json")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(f"{k}: {v[1]}" for k, v in CASES.items()) + "; and those of `fovea bench --list`. Without: all")
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", metavar="FILE", help="write the results as one JSON array")
    args = parser.parse_args()
    models = [c for c in args.cases or CASES if c in CASES]
    calls = [c for c in args.cases if c not in CASES]  # of attention: `fovea bench` knows their names
    print(f"{processor()}, {args.threads} threads, {datetime.date.today()}", file=sys.stderr)
    results = []
    if models:
        print(f"{'case':16} {'ours ms':>9} {'peer ms':>9} {'ratio':>6}  peer")
    for case in models:
        r = measure(case, args.rounds, args.threads)
        results.append(r)
        print(f"{r['case']:16} {r['ours_ms']:9.2f} {r['peer_ms']:9.2f} {r['ratio']:6.2f}  {r['peer']}")
    if calls or not args.cases:
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "attention.json"
            done = subprocess.run([COMMAND, "bench", *calls, "--threads", str(args.threads), "--json", report])
            if done.returncode:
                raise SystemExit(done.returncode)
            results += json.loads(report.read_text())
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
