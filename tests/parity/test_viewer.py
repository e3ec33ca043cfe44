"""The attention page, from the command to what a browser shows: exact values, no network, no errors.

A small GPT-2 folder made by `transformers` goes through `fovea attend`; the page's record is compared with the attention
weights of `transformers`, and the page itself is driven in headless Chromium.
"""
# SPDX-License-Identifier: Apache-2.0
import base64
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GPT2Config, GPT2LMHeadModel

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(os.environ.get("FOVEA_BUILD") or ROOT / "build/release") / "bin" / "fovea"
LAYERS, HEADS = 3, 4
TEXT = "In the beginning God said </script><!-- <b>\n\tLet there be “light”: 光 & é 🌍"

# Runs before everything else on the page.
WATCH = """<script>
window.problems = [];
addEventListener("error", (e) => problems.push("error: " + e.message));
addEventListener("unhandledrejection", (e) => problems.push("rejection: " + e.reason));
addEventListener("securitypolicyviolation", (e) => problems.push("policy: " + e.blockedURI));
for (const kind of ["error", "warn"]) {
  const plain = console[kind];
  console[kind] = (...args) => { problems.push(kind + ": " + args.join(" ")); plain(...args); };
}
</script>"""

# Runs after it: does what a reader does, and leaves what they would see in <pre id="seen">.
DRIVE = """<script>
const drawn = (canvas) => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some((x) => x > 0);
const press = (key, more) => dispatchEvent(new KeyboardEvent("keydown", { key, cancelable: true, ...more }));
const text = (id) => document.getElementById(id).textContent;
const point = (row, column, rows, columns) => {
  const cells = document.getElementById("cells"), box = cells.getBoundingClientRect();
  cells.dispatchEvent(new PointerEvent("pointermove", { bubbles: true,
    clientX: box.left + (column + 0.5) / columns * box.width, clientY: box.top + (row + 0.5) / rows * box.height }));
};
const seen = { thumbs: [...document.querySelectorAll("#thumbs canvas")].map(drawn), big: drawn(document.getElementById("big")),
               rows: [...document.querySelectorAll("#rows .label")].map((x) => x.textContent),
               columns: [...document.querySelectorAll("#columns .label")].map((x) => x.textContent), hovers: [] };
const T = seen.rows.length;
for (const [layer, head, row, column] of HOVERS) {
  document.querySelectorAll("#thumbs button")[layer * HEADS + head].click();
  point(row, column, T, T);
  seen.hovers.push({ title: text("title"), value: document.querySelector("#readout .value").textContent, readout: text("readout") });
}
document.querySelectorAll("#thumbs button")[0].click();
press("ArrowDown");
press("ArrowRight");
press("ArrowRight");
seen.after_arrows = text("title");
for (let i = 0; i < 20; ++i) press("ArrowUp"), press("ArrowLeft");
seen.first = text("title");
press("Escape");
const before = document.getElementById("big").toDataURL();
document.getElementById("theme").click();
seen.theme_repaints = before !== document.getElementById("big").toDataURL();
seen.resources = performance.getEntriesByType("resource").map((x) => x.name);
seen.problems = problems;
document.body.append(Object.assign(document.createElement("pre"), { id: "seen", textContent: btoa(unescape(encodeURIComponent(JSON.stringify(seen)))) }));
</script>"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A GPT-2 with random weights, large enough for attention that is far from even."""
    path = tmp_path_factory.mktemp("gpt2")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False,
                                  special_tokens=["<|endoftext|>"])
    tokenizer.train_from_iterator(["In the beginning God said, Let there be light: and there was light."] * 4, trainer)
    tokenizer.save(str(path / "tokenizer.json"))
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=tokenizer.get_vocab_size(), n_positions=128, n_embd=32, n_layer=LAYERS, n_head=HEADS,
                        initializer_range=0.4, bos_token_id=0, eos_token_id=0)
    config._attn_implementation = "eager"
    model = GPT2LMHeadModel(config).eval()
    model.save_pretrained(path)
    return path, tokenizer, model


@pytest.fixture(scope="module")
def page(folder, tmp_path_factory):
    assert COMMAND.is_file(), f"{COMMAND} is not built; FOVEA_BUILD names another build folder"
    out = tmp_path_factory.mktemp("page") / "look.html"
    done = subprocess.run([COMMAND, "attend", "--model", folder[0], TEXT, "-o", out], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def record(page):
    found = re.search(r'<script type="application/json" id="record">(.*?)</script>', page.read_text("utf-8"), re.S)
    return json.loads(found.group(1))


def weights_of(entry):
    return np.frombuffer(base64.b64decode(entry["data"]), "<f4").reshape(entry["shape"])


def browse(page, drive, work):
    """What Chromium shows after `drive`, its console and its network log."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert browser, "no Chromium found; install the package `chromium`"
    html = page.read_text("utf-8").replace("<head>", "<head>" + WATCH, 1)
    end = html.rindex("</body>")
    (work / "page.html").write_text(html[:end] + drive + html[end:], "utf-8")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND",
         f"--user-data-dir={work / 'profile'}", f"--log-net-log={work / 'net.json'}", "--enable-logging=stderr",
         "--window-size=1280,900", "--virtual-time-budget=3000", "--dump-dom", f"file://{work / 'page.html'}"],
        capture_output=True, text=True, timeout=300)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.S)
    assert found, done.stderr[-2000:]
    out = json.loads(base64.b64decode(found.group(1)))
    out["console"] = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    out["requests"] = requested_urls(work / "net.json")
    return out


@pytest.fixture(scope="module")
def seen(page, record, tmp_path_factory):
    drive = DRIVE.replace("HOVERS", json.dumps(hovers(record))).replace("HEADS", str(HEADS))
    return browse(page, drive, tmp_path_factory.mktemp("browser"))


def requested_urls(log):
    """What the page asked for, as Chromium's network log has it; the browser's own requests have no origin."""
    urls = []
    for event in log.read_text("utf-8", "replace").splitlines():
        origin, url = re.search(r'"initiator":"([^"]*)"', event), re.search(r'"url":"([^"]*)"', event)
        if origin and url and origin[1] != "not an origin" and not url[1].startswith(("file:", "data:")):
            urls.append(url[1])
    return urls


def hovers(record):
    tokens = len(record["sequences"][0]["tokens"])
    return [(0, 0, 0, 0), (1, 2, 5, 3), (LAYERS - 1, HEADS - 1, tokens - 1, tokens - 1), (2, 1, tokens - 1, 0), (0, 3, 1, 4)]


def test_record_holds_the_text_and_the_weights_of_transformers(folder, record):
    _, tokenizer, model = folder
    ids = tokenizer.encode(TEXT).ids
    assert record["format"] == "fovea.attention" and record["version"] == 1
    (sequence,) = record["sequences"]
    assert "".join(sequence["tokens"]) == TEXT
    assert len(sequence["tokens"]) == len(ids)
    with torch.no_grad():
        attentions = model(torch.tensor([ids]), output_attentions=True).attentions
    assert len(record["maps"]) == len(attentions) == LAYERS
    for entry, theirs in zip(record["maps"], attentions):
        ours = weights_of(entry)
        assert ours.shape == (HEADS, len(ids), len(ids))
        np.testing.assert_allclose(ours, theirs[0].numpy(), atol=2e-5)
        np.testing.assert_allclose(ours.sum(-1), 1, atol=1e-5)
        assert (ours[:, ~np.tri(len(ids), dtype=bool)] == 0).all(), "what the mask hides is exactly 0"


def test_every_map_is_drawn(seen):
    assert len(seen["thumbs"]) == LAYERS * HEADS
    assert all(seen["thumbs"]) and seen["big"]


def test_both_axes_show_the_tokens_with_visible_blanks(seen, record):
    tokens = record["sequences"][0]["tokens"]
    assert len(seen["rows"]) == len(seen["columns"]) == len(tokens)
    assert seen["rows"] == seen["columns"]
    shown = "".join(seen["rows"])
    assert "␣" in shown and "↵" in shown and "⇥" in shown
    assert not re.search(r"[ \n\t]", shown)
    assert "</script>".replace("<", "") in shown.replace("<", "")


def test_hover_shows_the_exact_value(seen, record):
    for (layer, head, row, column), shown in zip(hovers(record), seen["hovers"]):
        value = weights_of(record["maps"][layer])[head, row, column]
        assert shown["title"] == f"Layer {layer + 1} · head {head + 1}"
        assert np.float32(shown["value"]) == value, (shown, value)
        digits = len(re.sub(r"e.*|\.", "", shown["value"]).strip("0"))
        assert digits <= len(np.format_float_scientific(value, trim="-").split("e")[0].replace(".", "")), "the shortest such decimal"


def test_arrows_move_over_layers_and_heads(seen):
    assert seen["after_arrows"] == "Layer 2 · head 3"
    assert seen["first"] == "Layer 1 · head 1"


def test_light_and_dark_differ(seen):
    assert seen["theme_repaints"]


def test_nothing_is_fetched(seen, page):
    assert seen["resources"] == []
    assert seen["requests"] == []
    assert not re.search(r"""(src|href)\s*=\s*["']|url\(|@import""", page.read_text("utf-8").split('id="record"')[0])


def test_no_errors(seen):
    assert seen["problems"] == []
    assert seen["console"] == []


# A picture of 2 x 3 patches: what its canvas shows, what pointing at a row and clicking a patch does.
LOOK = """<script>
const patches = [...document.querySelectorAll("#strip .patches > span")], picture = document.querySelector("#strip .picture canvas");
const shades = () => patches.map((x) => Number(/([0-9.]+)\\)$/.exec(x.style.background)?.[1] ?? 0));
const seen = { size: [picture.width, picture.height], pixels: [...picture.getContext("2d").getImageData(0, 0, 6, 4).data], texts: patches.map((x) => x.textContent) };
document.querySelectorAll("#rows .label")[0].click();
seen.shades = shades();
patches[4].click();
seen.title = document.getElementById("strip-title").textContent;
seen.chosen = patches.findIndex((x) => x.className === "query");
seen.problems = problems;
document.body.append(Object.assign(document.createElement("pre"), { id: "seen", textContent: btoa(JSON.stringify(seen)) }));
</script>"""


def test_a_picture_under_its_patches(tmp_path):
    from PIL import Image
    from transformers import ViTConfig, ViTForImageClassification

    torch.manual_seed(2)
    config = ViTConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, image_size=[4, 6], patch_size=[2, 2],
                       initializer_range=1.0)
    ViTForImageClassification(config).save_pretrained(tmp_path)
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"size": {"height": 4, "width": 6}}))
    pixels = np.arange(72, dtype="uint8").reshape(4, 6, 3) * 3
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    done = subprocess.run([COMMAND, "attend", "--model", tmp_path, tmp_path / "picture.png", "-o", tmp_path / "look.html", "--json"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    weights = weights_of(json.loads(done.stdout)["maps"][0])
    seen = browse(tmp_path / "look.html", LOOK, tmp_path)
    assert seen["size"] == [6, 4] and seen["texts"] == [""] * 6
    assert np.array_equal(np.array(seen["pixels"]).reshape(4, 6, 4)[..., :3], pixels)
    assert seen["shades"] == pytest.approx((0.85 * np.sqrt(weights[0, 0, 1:])).tolist(), abs=6e-3)  # the class token's row, as exact as colours are
    assert seen["title"].startswith("What 2,2 (token 6)") and seen["chosen"] == 4
    assert seen["problems"] == [] and seen["console"] == [] and seen["requests"] == []
