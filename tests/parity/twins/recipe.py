# SPDX-License-Identifier: Apache-2.0
"""Trains the twin of a run: the same recipe, data and tokens, the model of transformers (or torch.nn), as one writes it
plainly in PyTorch. Its folder is one that `fovea eval` reads, so that one program measures both; tools/twins calls it.

    recipe.py RUN OUT THREADS SEED       RUN: a folder of `fovea train`; prints the seconds of training"""

import fnmatch
import json
import math
import pathlib
import random
import shutil
import sys
import time
import tomllib

import torch
from torch.nn import functional as F

IGNORE = -100


def lines(files):
    return [line for file in files for line in pathlib.Path(file).read_text("utf-8-sig").splitlines() if line]


def read_tokenizer(file):
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(file)) if file.exists() else None


def filled(rows, value):
    width = max(map(len, rows))
    return torch.tensor([row + [value] * (width - len(row)) for row in rows])


def by_length(items, lengths, draw, size, tokens):
    """Batches of similar length, in pools of shuffled items; at most `tokens` padded ones where that is not 0."""
    order = draw.sample(range(len(items)), len(items))
    batches = []
    for pool in range(0, len(order), 2000):
        batch = []
        for i in sorted(order[pool : pool + 2000], key=lambda i: lengths[i]):
            full = (size and len(batch) == size) or (tokens and batch and lengths[i] * (len(batch) + 1) > tokens)
            if full:
                batches.append(batch)
                batch = []
            batch.append(i)
        batches.append(batch)
    draw.shuffle(batches)
    return batches


class Text:
    """Windows of one stream, for a decoder."""

    def __init__(self, recipe, tokenizer, config):
        text = "".join(pathlib.Path(file).read_text("utf-8-sig") for file in recipe["data"]["train"])
        self.ids = torch.tensor(tokenizer.encode(text, add_special_tokens=False).ids)
        self.context, self.size = recipe["data"]["context"] or config.get("n_positions") or config["max_position_embeddings"], recipe["optim"]["batch_size"]

    def epoch(self, draw):
        places = list(range(draw.randrange(self.context), len(self.ids) - self.context - 1, self.context))
        draw.shuffle(places)
        for i in range(0, len(places) - self.size + 1, self.size):
            yield torch.stack([self.ids[p : p + self.context + 1] for p in places[i : i + self.size]])

    def loss(self, model, rows, smoothing):
        return F.cross_entropy(model(rows[:, :-1]).logits.flatten(0, 1), rows[:, 1:].flatten(), label_smoothing=smoothing)


class Labels:
    def __init__(self, recipe, tokenizer, config):
        data = recipe["data"]
        rows = [line.split("\t") for line in lines(data["train"])]
        label = -1 if data["label_column"] == "last" else 0
        tokenizer.no_padding()
        texts = tokenizer.encode_batch([row[label + 1] for row in rows])
        longest = data["context"] or config["max_position_embeddings"]
        self.items = [(text.ids, config["label2id"][row[label]]) for text, row in zip(texts, rows) if len(text.ids) <= longest]
        self.pad, self.optim = config.get("pad_token_id") or 0, recipe["optim"]

    def epoch(self, draw):
        for batch in by_length(self.items, [len(ids) for ids, _ in self.items], draw, self.optim["batch_size"], self.optim["batch_tokens"]):
            ids = filled([self.items[i][0] for i in batch], self.pad)
            yield ids, filled([[1] * len(self.items[i][0]) for i in batch], 0), torch.tensor([self.items[i][1] for i in batch])

    def loss(self, model, batch, smoothing):
        ids, mask, labels = batch
        return F.cross_entropy(model(ids, attention_mask=mask).logits, labels, label_smoothing=smoothing)


class Masked:
    """Hidden words as in BERT: 15 % of a text's ordinary tokens; 80 % of these become the mask, 10 % another token, 10 % stay."""

    def __init__(self, recipe, tokenizer, config):
        longest = recipe["data"]["context"] or config["max_position_embeddings"]
        tokenizer.no_padding()
        tokenizer.no_truncation()
        around = tokenizer.encode("").ids  # one before, one behind
        special = {id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        self.ordinary = [id for id in range(tokenizer.get_vocab_size()) if id not in special]
        self.chosen, self.mask, self.pad = set(self.ordinary), tokenizer.token_to_id("[MASK]"), config.get("pad_token_id") or 0
        room = longest - len(around)
        self.items = [[around[0], *ids[i : i + room], around[1]] for text in tokenizer.encode_batch(lines(recipe["data"]["train"]), add_special_tokens=False)
                      for ids in [text.ids] for i in range(0, len(ids), room) if self.chosen.intersection(ids[i : i + room])]
        self.optim = recipe["optim"]

    def epoch(self, draw):
        for batch in by_length(self.items, list(map(len, self.items)), draw, self.optim["batch_size"], self.optim["batch_tokens"]):
            ids, labels = zip(*(self.hide(list(self.items[i]), draw) for i in batch))
            yield filled(ids, self.pad), filled([[1] * len(row) for row in ids], 0), filled(labels, IGNORE)

    def hide(self, ids, draw):
        places, labels = [i for i, id in enumerate(ids) if id in self.chosen], [IGNORE] * len(ids)
        for i in draw.sample(places, max(1, round(0.15 * len(places)))):
            labels[i], kind = ids[i], draw.randrange(10)
            if kind < 9:
                ids[i] = self.mask if kind < 8 else draw.choice(self.ordinary)
        return ids, labels

    def loss(self, model, batch, smoothing):
        ids, mask, labels = batch
        return F.cross_entropy(model(ids, attention_mask=mask).logits.flatten(0, 1), labels.flatten(), label_smoothing=smoothing)


class Pairs:
    def __init__(self, recipe, tokenizers, config):
        self.begin, self.end, self.pad = (config[f"{role}_token_id"] for role in ("bos", "eos", "pad"))
        source_end, self.source_pad = (tokenizers[0].token_to_id(tokenizers[1].id_to_token(id)) for id in (self.end, self.pad))
        pairs = [line.split("\t") for line in lines(recipe["data"]["train"])]
        sides = [[e.ids for e in tokenizer.encode_batch([pair[side] for pair in pairs], add_special_tokens=False)] for side, tokenizer in enumerate(tokenizers)]
        longest = recipe["data"]["context"] or config["positions"]
        self.items = [(source + [source_end], target) for source, target in zip(*sides) if max(len(source), len(target)) < longest]
        self.optim = recipe["optim"]

    def epoch(self, draw):
        lengths = [max(len(source), len(target) + 1) for source, target in self.items]
        for batch in by_length(self.items, lengths, draw, self.optim["batch_size"], self.optim["batch_tokens"]):
            sources, targets = [self.items[i][0] for i in batch], [self.items[i][1] for i in batch]
            yield (filled(sources, self.source_pad), torch.tensor([len(s) for s in sources]), filled([[self.begin, *t] for t in targets], self.pad),
                   filled([[*t, self.end] for t in targets], IGNORE))

    def loss(self, model, batch, smoothing):
        *inputs, labels = batch
        return F.cross_entropy(model(*inputs).flatten(0, 1), labels.flatten(), label_smoothing=smoothing)


class Images:
    """IDX files, with the recipe's flips, shifts and rectangles."""

    def __init__(self, recipe, _, config):
        def read(file):
            raw = pathlib.Path(file).read_bytes()
            shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i]) for i in range(raw[3])]
            return torch.frombuffer(bytearray(raw[4 + 4 * raw[3] :]), dtype=torch.uint8).view(shape)

        files = recipe["data"]["train"]
        self.images = torch.cat([read(file) for file in files]).unsqueeze(1)
        self.labels = torch.cat([read(file.replace("images", "labels").replace("idx3", "idx1")) for file in files]).long()
        self.data, self.size = recipe["data"], recipe["optim"]["batch_size"]

    def epoch(self, draw):
        order = torch.tensor(draw.sample(range(len(self.labels)), len(self.labels)))
        for chosen in order.split(self.size):
            yield torch.stack([self.changed(image, draw) for image in self.images[chosen]]).float() / 127.5 - 1, self.labels[chosen]

    def changed(self, image, draw):
        height, width = image.shape[1:]
        if draw.random() < self.data["flip"]:
            image = image.flip(2)
        if shift := self.data["shift"]:
            y, x = draw.randrange(2 * shift + 1), draw.randrange(2 * shift + 1)
            image = F.pad(image, [shift] * 4)[:, y : y + height, x : x + width]
        if draw.random() < self.data["erase"]:
            area, ratio = height * width * draw.uniform(0.02, 0.33), math.exp(draw.uniform(-1, 1) * math.log(10 / 3))
            rows, columns = (min(side, max(1, round(math.sqrt(area * r)))) for side, r in ((height, ratio), (width, 1 / ratio)))
            y, x = draw.randrange(height - rows + 1), draw.randrange(width - columns + 1)
            image = image.clone()
            image[:, y : y + rows, x : x + columns] = 0
        return image

    def loss(self, model, batch, smoothing):
        images, labels = batch
        return F.cross_entropy(model(images).logits, labels, label_smoothing=smoothing)


def make_model(kind, config, run, init):
    """With weights of its own beginning; from `init` where the recipe says so."""
    if kind == "pairs":
        from twins.transformer import Twin

        model = Twin(config)
        for p in model.parameters():
            if p.dim() > 1:
                torch.nn.init.xavier_uniform_(p)
        return model
    import transformers

    auto = {"text": "AutoModelForCausalLM", "labels": "AutoModelForSequenceClassification",
            "masked": "AutoModelForMaskedLM", "images": "AutoModelForImageClassification"}[kind]
    made = transformers.AutoConfig.from_pretrained(run)
    if init:
        return getattr(transformers, auto).from_pretrained(init, config=made)
    return getattr(transformers, auto).from_config(made)


def save(model, kind, config, run, out):
    out.mkdir(parents=True, exist_ok=True)
    if kind == "pairs":
        from safetensors.torch import save_file

        save_file({name: p.detach().clone().contiguous() for name, p in model.stored().items()}, out / "model.safetensors")
        (out / "config.json").write_text(json.dumps(config))
    else:
        model.save_pretrained(out)
    for name in ("tokenizer.json", "source_tokenizer.json", "preprocessor_config.json"):
        if (run / name).exists():
            shutil.copy(run / name, out / name)


def schedule(options, step, steps):
    warmup, least = options["warmup"], options["min_ratio"]
    if step < warmup:
        return (step + 1) / warmup
    part = min(1.0, (step - warmup) / max(steps - warmup, 1))
    return {"constant": 1.0, "linear": 1 - (1 - least) * part, "cosine": least + (1 - least) * (1 + math.cos(math.pi * part)) / 2,
            "inverse_sqrt": max(least, math.sqrt(max(warmup, 1) / (step + 1)))}[options["name"]]


def main(run, out, threads, seed):
    torch.set_num_threads(int(threads))
    torch.manual_seed(int(seed))
    draw = random.Random(int(seed))
    run, out = pathlib.Path(run), pathlib.Path(out)
    recipe = tomllib.loads((run / "config.toml").read_text())
    kind, optim, steps, folder = recipe["data"]["kind"], recipe["optim"], recipe["train"]["steps"], run / "best"
    config = json.loads((folder / "config.json").read_text())
    tokenizer = read_tokenizer(folder / "tokenizer.json")
    if kind == "pairs":
        tokenizer = read_tokenizer(folder / "source_tokenizer.json") or tokenizer, tokenizer
    data = {"text": Text, "labels": Labels, "masked": Masked, "pairs": Pairs, "images": Images}[kind](recipe, tokenizer, config)
    model = make_model(kind, config, folder, recipe["train"]["init"]).train()
    decayed, plain = [], []
    for name, p in model.named_parameters():
        spared = p.dim() < 2 or any(fnmatch.fnmatch(name, glob) for glob in optim["no_decay"])
        (plain if spared else decayed).append(p)
    groups = [{"params": decayed, "weight_decay": optim["weight_decay"]}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=optim["learning_rate"], betas=(optim["beta1"], optim["beta2"]), eps=optim["eps"])
    begin, step, batches = time.perf_counter(), 0, iter(())
    while step < steps:
        batch = next(batches, None)
        if batch is None:
            batches = iter(data.epoch(draw))
            continue
        for group in optimizer.param_groups:
            group["lr"] = optim["learning_rate"] * schedule(recipe["schedule"], step, steps)
        optimizer.zero_grad()
        data.loss(model, batch, optim["label_smoothing"]).backward()
        if optim["clip"]:
            torch.nn.utils.clip_grad_norm_(model.parameters(), optim["clip"])
        optimizer.step()
        step += 1
    print(time.perf_counter() - begin)
    save(model.eval(), kind, config, folder, out)


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    main(*sys.argv[1:])
