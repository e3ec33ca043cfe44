# SPDX-License-Identifier: Apache-2.0
"""The command as a user meets it: exit codes and messages for bad input, help, machine output, a run that is stopped and
goes on, seeds, completion. FOVEA_COMMAND or FOVEA_BUILD (a build folder) says what to test; by itself build/release."""
import concurrent.futures
import json
import math
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = os.environ.get("FOVEA_BUILD") or os.environ.get("FOVEA_BUILD_DIR") or ROOT / "build/release"
COMMAND = os.environ.get("FOVEA_COMMAND") or str(pathlib.Path(BUILD) / "bin/fovea")
VERBS = ["answer", "attend", "classify", "completion", "encode", "env", "eval", "fill-mask", "generate", "inspect", "tokenize", "train", "translate"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}

RECIPE = """
[data]
train = ["text.txt"]
validation_fraction = 0.1
context = 16
[model]
type = "gpt2"
width = 16
layers = 1
heads = 2
positions = 16
[optim]
batch_size = 4
[train]
out = "run"
steps = 40
validate_every = 20
"""


def fovea(*arguments, cwd, stdin=b""):
    return subprocess.run([COMMAND, *arguments], input=stdin, capture_output=True, cwd=cwd, env=ENVIRONMENT, timeout=120)


def good(*arguments, cwd, stdin=b""):
    done = fovea(*arguments, cwd=cwd, stdin=stdin)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def edited(path, **changes):
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A small trained model in run/best, and spoilt copies of it."""
    folder = tmp_path_factory.mktemp("command")
    draw = random.Random(1)
    words = "in the beginning god created heaven and earth light was good".split()
    (folder / "text.txt").write_text("".join(" ".join(draw.choices(words, k=6)) + "\n" for _ in range(200)))
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "empty.txt").write_text("")
    (folder / "latin.txt").write_bytes(b"caf\xe9 au lait\n" * 50)
    (folder / "pairs.tsv").write_text("god\tlight\nheaven\tearth\n")
    good("train", "recipe.toml", cwd=folder)
    for name in ("truncated", "misfit", "strange", "deaf", "mute", "halves", "spoilt"):
        shutil.copytree(folder / "run/best", folder / name)
    weights = (folder / "run/best/model.safetensors").read_bytes()
    (folder / "truncated/model.safetensors").write_bytes(weights[:-100])
    edited(folder / "misfit/config.json", n_inner=48)
    edited(folder / "strange/config.json", model_type="gtp2")
    good("tokenize", "--train-bpe", "300", "text.txt", "-o", "deaf", cwd=folder)
    (folder / "mute/tokenizer.json").write_text("{")
    edited(folder / "halves/config.json", n_head=2.5)
    (folder / "spoilt/config.json").write_text("{")
    return folder


GENERATE = ["generate", "--model", "run/best"]
TRAIN = ["train", "recipe.toml", "train.out=other"]
# name: (arguments, exit code, what the message says, standard input)
BAD = {
    "no verb": ([], 2, "Usage", b""),
    "unknown verb": (["trian"], 2, 'did you mean "train"', b""),
    "unknown option": ([*GENERATE, "--tempratur", "1"], 2, 'did you mean "--temperature"', b""),
    "unknown option before a missing one": (["generate", "--modle", "x"], 2, 'did you mean "--model"', b""),
    "missing option": (["generate"], 2, "--model", b""),
    "missing value": (["generate", "--model"], 2, "--model", b""),
    "not a number": ([*GENERATE, "--seed", "many"], 2, '--seed is "many", wanted a whole number', b""),
    "flag with a value": (["env", "--json=yes"], 2, "--json takes no value", b""),
    "nameless case": (["bench", ""], 2, 'unknown case ""', b""),
    "no time to measure": (["bench", "--seconds", "0", "gpt2-decode"], 2, "--seconds is 0", b""),
    "measured for nowhere": (["bench", "--json", "/proc/fovea/x.json", "gpt2-decode"], 1, "/proc/fovea", b""),
    "extra word": (["env", "now"], 2, 'unexpected argument "now"', b""),
    "unknown shell": (["completion", "bas"], 2, 'did you mean "bash"', b""),
    "no configuration": (["train"], 2, "no configuration", b""),
    "missing configuration": (["train", "nowhere.toml"], 2, "nowhere.toml", b""),
    "unknown key": ([*TRAIN, "optim.leaning_rate=1"], 2, 'did you mean "optim.learning_rate"', b""),
    "wrong type": ([*TRAIN, "train.steps=soon"], 2, "train.steps", b""),
    "width and heads": ([*TRAIN, "model.width=10", "model.heads=3"], 2, "10.*3|3.*10", b""),
    "no heads": ([*TRAIN, "model.heads=0"], 2, "heads", b""),
    "unknown model": ([*TRAIN, "model.type=gtp2"], 2, 'did you mean "gpt2"', b""),
    "no positions": ([*TRAIN, "model.positions=0"], 2, "max_positions is 0", b""),
    "no layers": ([*TRAIN, "model.layers=0"], 2, "layers is 0", b""),
    "negative deviation": ([*TRAIN, "model.initializer_range=-1"], 2, "initializer_range|deviation", b""),
    "infinite deviation": ([*TRAIN, "model.initializer_range=inf"], 2, "deviation of inf", b""),
    "small vocabulary": ([*TRAIN, "tokenizer.type=bpe", "tokenizer.vocab_size=255"], 2, "vocab_size 255", b""),
    "pairs for a decoder": ([*TRAIN, "data.kind=pairs", "data.train=pairs.tsv", "data.validation_fraction=0"], 2,
                            "gpt2 model reads text or lines", b""),
    "setting longer than a file's name": ([*TRAIN, "data.tarin=" + "x" * 5000], 2, 'did you mean "data.train"', b""),
    "no model to go on from": ([*TRAIN, "train.init=nowhere"], 3, "nowhere: no such model folder", b""),
    "a run to go on from": ([*TRAIN, "train.init=run"], 3, "the model is run/best", b""),
    "context beyond positions": ([*TRAIN, "data.context=17"], 2, "16 positions", b""),
    "missing text": ([*TRAIN, "data.train=nowhere.txt"], 3, "nowhere.txt", b""),
    "empty text": ([*TRAIN, "data.train=empty.txt"], 3, "empty.txt.*empty", b""),
    "text not UTF-8": ([*TRAIN, "data.train=latin.txt"], 3, "latin.txt.*byte 3", b""),
    "unwritable run": ([*TRAIN, "train.out=/proc/fovea/run"], 1, "/proc/fovea", b""),
    "run on a file": ([*TRAIN, "train.out=text.txt"], 2, "text.txt is a file", b""),
    "no memory": ([*TRAIN, "model.width=4000000"], 2, "memory", b""),
    "another run": (["train", "recipe.toml", "model.width=32"], 2, "another recipe.*model.width", b""),
    "nothing to resume": ([*TRAIN, "--resume"], 2, "no run to go on with", b""),
    "diverged": ([*TRAIN, "train.out=diverged", "optim.learning_rate=1e30", "optim.clip=0"], 4, "step", b""),
    "missing model": (["generate", "--model", "nowhere", "--prompt", "a"], 3, "nowhere", b""),
    "a run is no model": (["generate", "--model", "run", "--prompt", "a"], 3, "run/best", b""),
    "truncated weights": (["generate", "--model", "truncated", "--prompt", "a"], 3, "model.safetensors", b""),
    "weights that do not fit": (["generate", "--model", "misfit", "--prompt", "a"], 3, "c_fc", b""),
    "unknown architecture": (["generate", "--model", "strange", "--prompt", "a"], 3, 'strange.*did you mean "gpt2"', b""),
    "foreign tokenizer": (["generate", "--model", "deaf", "--prompt", "a"], 3, "tokenizer does not fit the model", b""),
    "spoilt tokenizer": (["generate", "--model", "mute", "--prompt", "a"], 3, "tokenizer.json", b""),
    "half a head": (["generate", "--model", "halves", "--prompt", "a"], 3, '"n_head": wanted an integer, got .* 2.5', b""),
    "spoilt configuration": (["generate", "--model", "spoilt", "--prompt", "a"], 3, "spoilt/config.json:1:2", b""),
    "folder of prompts": ([*GENERATE, "--prompts", "run"], 3, "is a folder, wanted a file of prompts", b""),
    "prompt not UTF-8": (GENERATE, 3, "line 2.*byte 1", b"the\na\xff\n"),
    "prompt too long": ([*GENERATE, "--prompt", "a" * 17], 3, "17 tokens.*16 positions", b""),
    "empty prompt": ([*GENERATE, "--prompt", ""], 3, "empty", b""),
    "too many beams": ([*GENERATE, "--prompt", "a", "--beams", "5000"], 2, "beams is 5000, wanted 1 … 4096", b""),
    "temperature": ([*GENERATE, "--prompt", "a", "--temperature=-1"], 2, "temperature", b""),
    "top k of the best": ([*GENERATE, "--prompt", "a", "--top-k", "3"], 2, "--top-k is for texts that are drawn", b""),
    "length without beams": ([*GENERATE, "--prompt", "a", "--length-penalty", "2"], 2, "--length-penalty is for beam search", b""),
    "eval of nothing written": (["eval", "-m", "run/best", "-d", "text.txt", "--temperature", "2"], 2, "--samples says how many", b""),
    "foreign end": ([*GENERATE, "--prompt", "a", "--end-ids", "99999"], 2, "end_ids holds 99999", b""),
    "translate with a decoder": (["translate", "--model", "run/best", "a"], 3, "wants an encoder-decoder", b""),
    "missing prompts": ([*GENERATE, "--prompts", "nowhere.txt"], 3, "nowhere.txt", b""),
    "eval without text": (["eval", "--model", "run/best", "--data", "nowhere.txt"], 3, "nowhere.txt", b""),
    "eval of Latin-1": (["eval", "--model", "run/best", "--data", "latin.txt"], 3, "latin.txt.*byte 3", b""),
    "eval of pairs": (["eval", "-m", "run/best", "-d", "pairs.tsv", "--kind", "pairs"], 2, "reads text or lines", b""),
    "inspect nothing": (["inspect", "nowhere"], 3, "nowhere", b""),
    "inspect no name": (["inspect", ""], 3, '"": no such', b""),
    "inspect a short file": (["inspect", "truncated/model.safetensors"], 3, "truncated", b""),
    "no tokenizer": (["tokenize", "a"], 2, "--tokenizer", b""),
    "missing tokenizer": (["tokenize", "--tokenizer", "nowhere", "a"], 3, "nowhere", b""),
    "tokenize Latin-1": (["tokenize", "--model", "run/best"], 3, "line 1.*byte 3", b"caf\xe9\n"),
    "bad JSON": (["tokenize", "--model", "run/best", "--json-input"], 3, "line 1", b"{\n"),
    "not a JSON string": (["tokenize", "--model", "run/best", "--json-input"], 3, "wanted a JSON string", b"[1]\n"),
    "tokenizer without a place": (["tokenize", "--train-bpe", "300", "text.txt"], 2, "--out", b""),
    "tokenizer of no tokens": (["tokenize", "--train-bpe", "0", "text.txt", "-o", "x"], 2, "--train-bpe is 0", b""),
    "special token twice": (["tokenize", "--train-characters", "text.txt", *["--special", "<a>"] * 2, "-o", "x"], 2,
                            "given twice", b""),
    "tokenizer to nowhere": (["tokenize", "--train-characters", "text.txt", "-o", "/proc/fovea"], 1, "/proc/fovea", b""),
    "attend without a model": (["attend", "--model", "nowhere", "a", "-o", "x.html"], 3, "nowhere", b""),
    "attend to too much": (["attend", "--model", "run/best", "a" * 17, "-o", "x.html"], 3, "16 positions", b""),
    "attend to nowhere": (["attend", "--model", "run/best", "a", "-o", "/proc/fovea/x.html"], 1, "/proc/fovea", b""),
}


@pytest.fixture(scope="module")
def bad_results(work):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        started = {name: pool.submit(fovea, *case[0], cwd=work, stdin=case[3]) for name, case in BAD.items()}
        return {name: future.result() for name, future in started.items()}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name, bad_results):
    _, code, message, _ = BAD[name]
    done = bad_results[name]
    text = done.stderr.decode()
    assert done.returncode == code, text
    assert re.search(message, text), text
    assert "frame #" not in text and "terminate called" not in text
    errors = [line for line in text.splitlines() if line.startswith("fovea")]
    assert len(errors) == 1, text
    assert not done.stdout or name == "prompt not UTF-8", done.stdout  # whose first line is answered


def test_bad_input_spoils_nothing(work, bad_results):
    assert not (work / "other").exists() or not (work / "other/last").exists()
    assert good("inspect", "run/best", cwd=work)


def test_help_of_every_verb(work):
    overview = good("--help", cwd=work)
    for verb in VERBS:
        assert re.search(rf"^  {verb} ", overview, re.MULTILINE)
        text = good(verb, "--help", cwd=work)
        assert f"Usage: fovea {verb}" in text
        assert re.search(rf"Example:\n  .*fovea {verb}", text)
    assert good("--version", cwd=work).startswith("fovea ")


def test_env(work):
    facts = json.loads(good("env", "--json", cwd=work))
    assert facts["threads"] >= 1 and "gpt2" in facts["models"] and "causal" in facts["masks"]
    assert set(VERBS) <= set(facts["commands"])


def test_dump_config_is_read_back(work):
    dumped = good("train", "recipe.toml", "optim.learning_rate=0.5", "--dump-config", cwd=work)
    assert "learning_rate = 0.5" in dumped
    (work / "dumped.toml").write_text(dumped)
    assert good("train", "dumped.toml", "--dump-config", cwd=work) == dumped


def test_dry_run_writes_nothing(work):
    facts = json.loads(good("train", "recipe.toml", "train.out=dry", "--dry-run", "--json", cwd=work))
    assert facts["parameters"] == facts["trainable"] == sum(
        math.prod(tensor["shape"]) for tensor in facts["tensors"])
    assert facts["bytes"]["weights"] == 4 * facts["parameters"] and facts["step_seconds"] > 0
    assert not (work / "dry").exists()
    assert "parameters" in good("train", "recipe.toml", "train.out=dry", "--dry-run", cwd=work)


def losses(folder):
    """The loss of each step, as the last line about it says."""
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    return {line["step"]: line["loss"] for line in lines if "event" not in line}


def test_stopped_and_resumed_run_equals_an_unbroken_one(work):
    settings = ["train.steps=600", "train.validate_every=100", "optim.learning_rate=0.01"]
    good("train", "recipe.toml", *settings, "train.out=whole", cwd=work)
    for stop in (signal.SIGINT, signal.SIGTERM):
        command = [COMMAND, "train", "recipe.toml", *settings, "train.out=broken"]
        process = subprocess.Popen(command, cwd=work, env=ENVIRONMENT, stderr=subprocess.PIPE)
        journal, end = work / "broken/journal.jsonl", time.monotonic() + 60
        before = len(losses(work / "broken")) if journal.exists() else 0
        while time.monotonic() < end and not (journal.exists() and journal.read_bytes().count(b"\n") > before + 30):
            time.sleep(0.005)
        process.send_signal(stop)
        message = process.communicate(timeout=60)[1].decode()
        assert process.returncode == 130, message
        assert "goes on from there" in message
    assert "going on from step" in fovea("train", "recipe.toml", *settings, "train.out=broken", "--resume",
                                         cwd=work).stderr.decode()
    assert losses(work / "broken") == losses(work / "whole")
    assert (work / "broken/best/model.safetensors").read_bytes() == (work / "whole/best/model.safetensors").read_bytes()


def test_a_training_shares_its_cores(work):
    """Its threads wait for each other in short loops, unless the environment says otherwise."""
    for chosen, wanted in (({}, b"GOMP_SPINCOUNT=10000"), ({"GOMP_SPINCOUNT": "77"}, b"GOMP_SPINCOUNT=77"), ({"OMP_WAIT_POLICY": "passive"}, None)):
        shutil.rmtree(work / "shared", ignore_errors=True)
        inherited = {k: v for k, v in ENVIRONMENT.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
        process = subprocess.Popen([COMMAND, "train", "recipe.toml", "train.steps=100000", "train.out=shared", "--quiet"], cwd=work, env=inherited | chosen)
        end = time.monotonic() + 60
        while time.monotonic() < end and not (work / "shared/journal.jsonl").exists():
            time.sleep(0.01)
        environment = pathlib.Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert [v for v in environment if v.startswith(b"GOMP_SPINCOUNT")] == ([wanted] if wanted else [])


def test_a_run_that_was_moved_goes_on_where_it_is(work):
    good("train", "recipe.toml", "train.out=before", "train.steps=10", cwd=work)
    shutil.move(work / "before", work / "after")
    good("train", "after", "--resume", "train.steps=14", cwd=work)
    assert max(losses(work / "after")) == 14 and not (work / "before").exists()


def test_a_run_that_replaced_another_goes_on(work):
    good("train", "recipe.toml", "train.out=twice", "train.steps=10", "train.existing=replace", cwd=work)
    good("train", "twice", "--resume", "train.steps=14", cwd=work)
    assert set(losses(work / "twice")) == set(range(1, 15))
    done = fovea("train", "twice", "--resume", "train.existing=replace", cwd=work)
    assert done.returncode == 2 and b"begins anew" in done.stderr


def test_losses_on_another_validation_text_are_not_compared(work):
    text = (work / "text.txt").read_text()
    (work / "changes.txt").write_text(text[:600])
    run = ["train", "recipe.toml", "data.validation=changes.txt", "data.validation_fraction=0", "train.out=measured"]
    good(*run, "train.steps=10", cwd=work)
    (work / "changes.txt").write_text(text[:900])
    done = fovea(*run, "train.steps=14", cwd=work)
    assert done.returncode == 3 and b"the validation data is not the one this run began with" in done.stderr


def test_a_signal_ends_the_wait_for_a_line(work):
    for stop in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen([COMMAND, *GENERATE, "--max-new-tokens", "2"], cwd=work, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdin.write(b"god\n")
        process.stdin.flush()
        process.stdout.readline()
        process.send_signal(stop)
        assert process.wait(timeout=30) != 0


def test_a_checkpoint_that_does_not_fit_the_disk(work):
    shutil.copytree(work / "run", work / "full", symlinks=True)
    before = losses(work / "full")
    command = [COMMAND, "train", "recipe.toml", "train.out=full", "train.steps=80"]
    limit = (work / "full/best/model.safetensors").stat().st_size - 1000
    done = subprocess.run(command, cwd=work, env=ENVIRONMENT, capture_output=True, timeout=120,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    assert done.returncode == 1 and b"File too large" in done.stderr and done.stderr.count(b"fovea train: ") == 1
    assert good("inspect", "full/best", cwd=work) and good("inspect", "full/last", cwd=work)
    good(*command[1:], "--resume", cwd=work)
    after = losses(work / "full")
    assert len(after) == 80 and {step: after[step] for step in before} == before


def test_generate_is_reproducible(work):
    options = ["--prompt", "in the", "--max-new-tokens", "40", "--temperature", "1"]
    first = good(*GENERATE, *options, "--seed", "5", cwd=work)
    assert first == good(*GENERATE, *options, "--seed", "5", cwd=work)
    assert first != good(*GENERATE, *options, "--seed", "6", cwd=work)
    assert first.startswith("in the")
    answer = json.loads(good(*GENERATE, *options, "--seed", "5", "--json", cwd=work))
    assert "in the" + answer["text"] + "\n" == first
    assert len(answer["tokens"]) == len(answer["logprobs"]) == 40  # beyond the 16 positions
    assert answer["finish"] == "length"
    assert set(answer["seconds"]) == {"load", "prefill", "decode"} and answer["seed"] == 5


def test_streamed_text_is_the_text(work):
    """Characters of several tokens, cut by pieces and by the end of the window, appear whole and once."""
    draw = random.Random(2)
    (work / "han.txt").write_text("".join("".join(draw.choices("春眠不覺曉處聞啼鳥😀é", k=9)) + "\n" for _ in range(300)))
    good("train", "recipe.toml", "train.out=han", "data.train=han.txt", "tokenizer.type=bpe", "tokenizer.vocab_size=264",
         "optim.learning_rate=0.01", "train.steps=120", cwd=work)
    options = ["--model", "han/best", "--prompt", "春", "--max-new-tokens", "60", "--temperature", "1", "--seed"]
    for seed in ("1", "2", "3"):
        answer = json.loads(good("generate", *options, seed, "--json", cwd=work))
        shown = fovea("generate", *options, seed, cwd=work).stdout
        assert shown.decode() == "春" + answer["text"] + "\n" and len(answer["tokens"]) == 60
        spelled = fovea("generate", *options, seed, "--no-prompt", cwd=work).stdout.decode()
        assert spelled == answer["text"] + "\n"


def test_generate_from_lines_and_files(work):
    (work / "prompts.txt").write_text("god\n\nlight was\n")
    options = ["--max-new-tokens", "5", "--temperature", "1", "--seed", "3", "--json"]
    batched = [json.loads(line) for line in good(*GENERATE, "--prompts", "prompts.txt", *options, cwd=work).splitlines()]
    single = [json.loads(line) for line in good(*GENERATE, *options, cwd=work, stdin=b"god\n\nlight was\n").splitlines()]
    marked = good(*GENERATE, *options, cwd=work, stdin=b"\xef\xbb\xbfgod\r\n\r\nlight was\r\n").splitlines()
    assert [json.loads(line)["tokens"] for line in marked] == [row["tokens"] for row in single]
    assert len(batched) == 2 and [row["tokens"] for row in batched] == [row["tokens"] for row in single]
    assert good(*GENERATE, "--prompt", "god", "--max-new-tokens", "12", "--beams", "2", cwd=work).startswith("god")
    one_window = good(*GENERATE, "--prompt", "god", "--max-new-tokens", "40", "--one-window", "--json", cwd=work)
    assert json.loads(one_window)["finish"] == "positions"


def test_eval(work):
    facts = json.loads(good("eval", "--model", "run/best", "--data", "text.txt", "--json", cwd=work))
    assert facts["perplexity"] == pytest.approx(2.718281828459045 ** facts["loss"])
    assert facts["bits_per_character"] == pytest.approx(facts["loss"] / math.log(2))  # a token is a character
    assert facts["characters"] == facts["tokens"] == len((work / "text.txt").read_text()) - 1
    assert "bits_per_character" in good("eval", "--model", "run/best", "--data", "text.txt", cwd=work)


def test_inspect(work):
    facts = json.loads(good("inspect", "run/best", "--json", cwd=work))
    assert facts["problems"] == facts["missing"] == facts["unexpected"] == [] and facts["config"]["model_type"] == "gpt2"
    weights = json.loads(good("inspect", "run/best/model.safetensors", "--json", cwd=work))["weights"]
    assert weights["tensors"] == facts["weights"]["tensors"]
    misfit = fovea("inspect", "misfit", "--json", cwd=work)
    assert misfit.returncode == 3 and len(json.loads(misfit.stdout)["misshaped"]) == 3
    deaf = fovea("inspect", "deaf", cwd=work)
    assert deaf.returncode == 3 and b"problem" in deaf.stdout
    spoilt = fovea("inspect", "spoilt", "--json", cwd=work)  # a bad part does not hide the others
    facts = json.loads(spoilt.stdout)
    assert spoilt.returncode == 3 and len(facts["problems"]) == 1 and facts["weights"]["tensors"] and facts["tokenizer"]


def test_tokenize(work):
    lines = good("tokenize", "--model", "run/best", "--json", "the god", "[a]", "{}", cwd=work).splitlines()
    texts = [json.loads(line) for line in lines]
    assert texts[0]["tokens"] == list("the god") and texts[0]["offsets"] == [[i, i + 1] for i in range(7)]
    assert [len(text["ids"]) for text in texts] == [7, 3, 2]  # nothing of a text is taken for syntax
    quoted = good("tokenize", "--model", "run/best", "--json", "--json-input", cwd=work, stdin=b'"the\\ngod"\n')
    assert json.loads(quoted)["tokens"] == list("the\ngod")
    assert "the" in good("tokenize", "--model", "run/best", cwd=work, stdin=b"the\n")
    good("tokenize", "--train-bpe", "300", "text.txt", "-o", "bpe", cwd=work)
    encoded = json.loads(good("tokenize", "--tokenizer", "bpe/tokenizer.json", "--json", "the beginning", cwd=work))
    assert len(encoded["ids"]) < len("the beginning")


def test_attend(work):
    good("attend", "--model", "run/best", "the god", "-o", "look.html", cwd=work)
    page = (work / "look.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html>") and "http://" not in page.replace("http://www.w3.org", "")
    assert json.loads(good("attend", "--model", "run/best", "the god", "--json", cwd=work))


def test_completion_in_bash(work):
    script = good("completion", "bash", cwd=work)
    (work / "completion.bash").write_text(script)
    ask = """source completion.bash
    COMP_WORDS=(fovea %s); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _fovea 2>/dev/null; printf '%%s\\n' "${COMPREPLY[@]}" """

    def complete(words):
        done = subprocess.run(["bash", "-c", ask % words], capture_output=True, text=True, cwd=work, check=True)
        return done.stdout.split()

    assert complete("ge") == ["generate"] and set(VERBS) <= set(complete("''"))
    assert complete("generate --temp") == ["--temperature"] and "run" in complete("generate --model ru")
    assert complete("completion f") == ["fish"] and complete("tokenize --train-c") == ["--train-characters"]
    for shell in ("zsh", "fish"):
        script = good("completion", shell, cwd=work)
        assert all(verb in script for verb in VERBS)
        if shutil.which(shell):
            subprocess.run([shell, "-n"], input=script.encode(), check=True)


def test_what_is_trained_here_runs_in_transformers(work):
    torch, transformers, tokenizers = map(pytest.importorskip, ("torch", "transformers", "tokenizers"))
    answer = json.loads(good(*GENERATE, "--prompt", "in the", "--max-new-tokens", "8", "--json", cwd=work))
    ids = tokenizers.Tokenizer.from_file(str(work / "run/best/tokenizer.json")).encode("in the").ids
    assert ids == answer["prompt_tokens"]
    model = transformers.AutoModelForCausalLM.from_pretrained(work / "run/best").eval()
    for token, logprob in zip(answer["tokens"], answer["logprobs"]):
        logprobs = model(torch.tensor([ids])).logits[0, -1].log_softmax(-1)
        assert token == logprobs.argmax() and logprob == pytest.approx(logprobs[token].item(), abs=1e-5)
        ids.append(token)


def as_ordinary_user(*command, cwd):
    """Root may read and write everything; without its capabilities it is a user like others."""
    plain = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"] if os.geteuid() == 0 else []
    done = subprocess.run([*plain, COMMAND, *command], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr.splitlines()[-1] if done.stderr else ""


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("setpriv"), reason="root without setpriv")
def test_without_permission(work):
    (work / "locked").mkdir()
    shutil.copytree(work / "run", work / "locked/run", symlinks=True)
    shutil.copytree(work / "run/best", work / "hidden")
    before = {path: path.read_bytes() for path in (work / "locked").rglob("*") if path.is_file()}
    for path in sorted((work / "locked").rglob("*"), reverse=True):
        path.is_symlink() or path.chmod(0o500 if path.is_dir() else 0o400)
    (work / "locked").chmod(0o500)
    (work / "hidden").chmod(0)
    writing = (["train", "recipe.toml", "train.out=locked/new"],
               ["train", "recipe.toml", "train.out=locked/run", "train.steps=60"],
               ["attend", "-m", "run/best", "god", "-o", "locked/x.html"],
               ["tokenize", "--train-characters", "text.txt", "-o", "locked/new"])
    reading = (["generate", "-m", "hidden", "-p", "god"], ["inspect", "hidden"], ["tokenize", "-t", "hidden", "god"],
               ["eval", "-m", "run/best", "-d", "hidden/config.json"], ["train", "hidden/config.toml"])
    try:
        for command in writing:
            code, message = as_ordinary_user(*command, cwd=work)
            assert code == 1 and re.fullmatch(rf"fovea {command[0]}: locked/.*Permission denied", message), message
        for command in reading:
            code, message = as_ordinary_user(*command, cwd=work)
            assert code == 1 and re.fullmatch(rf"fovea {command[0]}: hidden/.*Permission denied", message), message
    finally:
        for path in (work / "hidden", work / "locked", *(work / "locked").rglob("*")):
            path.is_symlink() or path.chmod(0o700)
    assert before == {path: path.read_bytes() for path in (work / "locked").rglob("*") if path.is_file()}


@pytest.mark.parametrize("place", ["bench.json", "/dev/stdout"])
def test_bench_writes_its_cases_once(tmp_path, place):
    text = good("bench", "swin-49", "short-32", "--f32", "--seconds", "0.001", "--json", place, cwd=tmp_path)
    report = text[text.index("[\n"):] if place == "/dev/stdout" else (tmp_path / place).read_text()
    assert [case["case"] for case in json.loads(report)] == ["swin-49", "short-32"]
    assert [file.name for file in tmp_path.iterdir()] == ([] if place == "/dev/stdout" else [place])


def test_closed_streams(work):
    """No file gets the number of a closed stream, where messages would be written into it."""
    command = [COMMAND, "train", "recipe.toml", "train.checkpoint_every=1"]
    for name, streams in (("mute", [2]), ("deaf", [0, 1, 2])):
        subprocess.run([*command, f"train.out={name}-run"], cwd=work, env=ENVIRONMENT, timeout=120,
                       stdout=subprocess.DEVNULL, preexec_fn=lambda: [os.close(stream) for stream in streams])
        assert losses(work / f"{name}-run") == losses(work / "run")
        weights = [(work / run / "last/model.safetensors").read_bytes() for run in ("run", f"{name}-run")]
        assert weights[0] == weights[1]
    done = subprocess.run([COMMAND, "env"], stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=60,
                          preexec_fn=lambda: os.close(1))
    assert done.returncode == 1 and b"standard output" in done.stderr


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="no /dev/full")
def test_full_disk_and_closed_pipe(work):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([COMMAND, "env"], stdout=full, stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=60)
    assert done.returncode == 1 and b"No space left" in done.stderr
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([COMMAND, "env"], stdout=writer, stderr=subprocess.PIPE, env=ENVIRONMENT, timeout=60)
    os.close(writer)
    assert done.returncode == -signal.SIGPIPE and done.stderr == b""
