"""Benchmarks, interleaved: in each round ours and each peer do the same work once, in turn; the other process sleeps. Reported
are the fastest time of each and the median of the per-round ratios, peer / ours: above 1 we are faster."""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from measuring import processor

ROOT = pathlib.Path(__file__).resolve().parents[1]
OURS = ROOT / "build" / "release" / "bench" / "model_bench"
COMMAND = ROOT / "build" / "release" / "bin" / "fovea"
LENGTHS = ROOT / "build" / "release" / "bench" / "length_bench"
PEER = ROOT / "tests" / "parity" / "twins" / "bench_peer.py"
FIRST_VECTOR = ROOT / "tests" / "parity" / "twins" / "first_vector.py"
MINILM, TEXT = ROOT / ".cache/data/minilm", ROOT / ".cache/data/kjv/test.txt"
PYTORCH, TRANSFORMERS = "PyTorch, eager", "transformers"
CASES = {  # what it is, the peer, rounds
    "demo-train": ("one training step of the demo's model, batch 8 x 128", PYTORCH, 60),
    "demo-generate": ("64 cached greedy tokens after a prompt of 64, the demo's model", PYTORCH, 60),
    "gpt2-train": ("one training step of GPT-2 (124 M), 2 x 512 tokens", TRANSFORMERS, 5),
    "gpt2-generate": ("64 cached greedy tokens after a prompt of 64, GPT-2 (124 M)", TRANSFORMERS, 5),
    "gpt2-generate-bf16": ("the same, our weights in bf16, the peer's in f32", TRANSFORMERS, 5),
    "bert-base-padded": ("forward of 16 x 128 tokens, four in ten padding", TRANSFORMERS, 8),
    "t5-small-beams": ("48 tokens by 4 beams after a source of 32", TRANSFORMERS, 5),
    "longformer-layer": ("an attention layer of Longformer, forward and backward, 4,096 tokens, window 512, one global token", TRANSFORMERS, 4),
    "longformer-layer-dense": ("the same, the peer with a dense mask", PYTORCH, 4),
    "bigbird-layer": ("an attention layer of BigBird in training, forward and backward, 4,096 tokens, blocks of 64", TRANSFORMERS, 4),
    "bigbird-layer-dense": ("the same, the peer with a dense mask", PYTORCH, 4),
    **{f"channel-{kind}": (f"{kind} over 32 maps of 64 x 28 x 28, forward and backward", PYTORCH, 60) for kind in ("squeeze_excitation", "eca", "cbam", "coordinate")},
    "minilm-start": ("from the start of a process to the vector of one sentence: a folder of 90 MB (needs tools/data/minilm)", TRANSFORMERS, 5),
    "minilm-encode": ("sentence vectors of 1,000 texts of 4 to 60 words (needs tools/data/minilm and tools/data/kjv)", TRANSFORMERS, 3),
} | {
    f"{call}-flex{kind}": (f"the call of {call}, forward{', in bf16' if kind else ''}", "FlexAttention, compiled", 20)
    for call in ("gpt2-1024", "longformer-4096", "user-distance")
    for kind in ("", "-bf16")
}


class Worker:
    """A process that answers a line with the seconds its work took and a number to compare."""

    def __init__(self, *command):
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self):
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit(f"bench: {self.process.args[0]} ended while it worked")
        return answer

    def __call__(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        seconds, answer = self.line().split()
        return float(seconds), float(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


class Start:
    """A program that is started for each answer, the vector of a sentence."""

    def __init__(self, *command):
        self.command = [str(c) for c in command]

    def __call__(self):
        begin = time.perf_counter()
        done = subprocess.run(self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        return time.perf_counter() - begin, sum(map(abs, json.loads(done.stdout)["embedding"]))

    def close(self):
        pass


def pair(case, threads, folder):
    if case == "minilm-start":
        text = "That is a happy person"
        return Start(COMMAND, "encode", "--model", MINILM, "--threads", threads, "--json", text), Start(sys.executable, FIRST_VECTOR, MINILM, threads, text)
    peer = Worker(sys.executable, PEER, case, threads, folder, *([MINILM, TEXT] if case == "minilm-encode" else []))
    peer.line()  # the folder is written
    return Worker(OURS, case, threads, folder), peer


def measure(case, rounds, threads):
    _, name, usual = CASES[case]
    rounds = rounds or usual
    with tempfile.TemporaryDirectory() as folder:
        ours, peer = pair(case, threads, folder)
        for _ in range(max(1, rounds // 10)):  # first touches, thread pools
            mine, theirs = ours()[1], peer()[1]
            # Tokens of rounded weights need not be the same tokens.
            if theirs and abs(mine - theirs) > 1e-3 * abs(theirs) and not case.endswith("bf16"):
                raise SystemExit(f"bench: {case}: our answer is {mine}, the peer's {theirs}")
        pairs = [(ours()[0], peer()[0]) for _ in range(rounds)]
        ours.close(), peer.close()
    return {
        "case": case,
        "mode": "fwd" if "-flex" in case else "fwd+bwd" if case.startswith("channel") else case.split("-")[1],
        "dtype": "bf16" if case.endswith("bf16") else "f32",
        "threads": threads,
        "peer": name,
        "ratio": round(statistics.median(p / o for o, p in pairs), 3),
        "ours_ms": round(min(o for o, _ in pairs) * 1e3, 3),
        "peer_ms": round(min(p for _, p in pairs) * 1e3, 3),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, epilog="example: ./bench demo-train --rounds 50 --json bench.json")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(f"{k}: {v[0]}" for k, v in CASES.items()) + "; lengths, alone: what a token of a long text costs; and those of `fovea bench --list`. Without: all")
    parser.add_argument("--rounds", type=int, default=0, help="of each case; 0: as many as usual for it")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", metavar="FILE", help="write the results as one JSON array")
    args = parser.parse_args()
    if args.cases == ["lengths"]:  # no peer: what a token costs on texts of 4,096 to 65,536 tokens
        raise SystemExit(subprocess.run([LENGTHS, str(args.threads)]).returncode)
    models = [c for c in args.cases or CASES if c in CASES]
    calls = [c for c in args.cases if c not in CASES]  # of attention: `fovea bench` knows their names
    print(f"{processor()}, {args.threads} threads, {datetime.date.today()}", file=sys.stderr)
    results = []
    if models:
        print(f"{'case':20} {'ours ms':>9} {'peer ms':>9} {'ratio':>6}  peer")
    place = pathlib.Path(args.json) if args.json else None

    def save():
        place.write_text(json.dumps(results, indent=1) + "\n")

    for case in models:
        r = measure(case, args.rounds, args.threads)
        results.append(r)
        if place and (place.is_file() or not place.exists()):  # what was measured stays, however the rest ends
            save()
        print(f"{r['case']:20} {r['ours_ms']:9.2f} {r['peer_ms']:9.2f} {r['ratio']:6.2f}  {r['peer']}", flush=True)
    if calls or not args.cases:
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder) / "attention.json"
            done = subprocess.run([COMMAND, "bench", *calls, "--threads", str(args.threads), "--json", report])
            if done.returncode:
                raise SystemExit(done.returncode)
            results += json.loads(report.read_text())
    if place:
        save()


if __name__ == "__main__":
    main()
