# SPDX-License-Identifier: Apache-2.0
"""Trains the twin of a run: the same recipe, data and tokens, the model of transformers (or torch.nn), as one writes it
plainly in PyTorch. Its folder is one that `fovea eval` reads, so that one program measures both; tools/twins calls it.

    recipe.py RUN OUT THREADS SEED       RUN: a folder of `fovea train`; prints the seconds of training
    recipe.py FILE.toml                  only says what of a whole recipe (fovea train --dump-config) the twin does not know"""

import fnmatch
import json
import math
import pathlib
import random
import re
import shutil
import sys
import time
import tomllib

import torch
from torch.nn import functional as F

IGNORE = -100

MODELS = {"text": ["gpt2", "llama", "mistral", "qwen2"], "labels": ["bert"], "masked": ["bert"], "pairs": ["transformer"], "images": ["vit"]}
SCHEDULES = ["constant", "linear", "cosine", "inverse_sqrt"]
# Settings that the twin follows, or that say what only ours does beside learning; and those of which it knows one value.
# Any other is refused, so that no setting is passed over. [model] and [tokenizer] come through the run's files.
FOLLOWED = {f"{section}.{key}" for section, keys in {
    "data": "kind train validation context drop_longer cut_longer label_column flip shift erase",
    "optim": "learning_rate weight_decay beta1 beta2 eps clip batch_size batch_tokens accumulate label_smoothing no_decay",
    "schedule": "name warmup min_ratio",
    "train": "out init existing steps validate_every validate_batch_size checkpoint_every journal_every seed freeze",
}.items() for key in keys.split()}
ONLY = {"data.windows": "shuffled", "data.validation_fraction": 0, "data.resize": False, "train.max_minutes": 0, "train.patience": 0}

# Their names of parameters in our words, in which train.freeze and optim.no_decay speak: one after another.
OURS = [(re.compile(pattern), ours) for pattern, ours in {
    r"^(bert|vit|transformer|model)\.": "",
    r"^(embeddings\.word_embeddings|embeddings\.patch_embeddings\.projection|embed_tokens|wte)\.": "embedding.",
    r"^embeddings\.cls_token": "embedding.class_token",
    r"^embeddings\.position_embeddings$": "embedding.positions",
    r"^embeddings\.position_embeddings\.": "encoder.position.",
    r"^embeddings\.token_type_embeddings": "segments",
    r"^embeddings\.LayerNorm": "encoder.embed_norm",
    r"^wpe\.": "decoder.position.",
    r"^layernorm\.": "encoder.final_norm.",
    r"^(ln_f|norm)\.": "decoder.final_norm.",
    r"^classifier\.": "classifier.output.",
    r"^lm_head\.": "head.",
    r"^cls\.predictions\.transform\.dense": "words.dense",
    r"^cls\.predictions\.transform\.LayerNorm": "words.norm",
    r"^cls\.predictions\.(decoder\.)?": "words.",
    r"^encoder\.layer\.|^layers\.(?=\d+\.(attention|layernorm_|mlp\.fc))": "encoder.layers.",
    r"^(h|layers)\.": "decoder.layers.",
    r"(?<=\d\.)(attention\.self\.query|attention\.q_proj|self_attn\.q_proj)": "attention.query",
    r"(?<=\d\.)(attention\.self\.key|attention\.k_proj|self_attn\.k_proj)": "attention.key",
    r"(?<=\d\.)(attention\.self\.value|attention\.v_proj|self_attn\.v_proj)": "attention.value",
    r"(?<=\d\.)(attention\.output\.dense|attention\.o_proj|self_attn\.o_proj|attn\.c_proj)": "attention.output",
    r"(?<=\d\.)(attention\.output\.LayerNorm|layernorm_before|input_layernorm|ln_1)": "attention_norm",
    r"(?<=\d\.)(output\.LayerNorm|layernorm_after|post_attention_layernorm|ln_2)": "feed_forward_norm",
    r"(?<=\d\.)mlp\.gate_proj": "feed_forward.gate",
    r"(?<=\d\.)(intermediate\.dense|mlp\.fc1|mlp\.up_proj|mlp\.c_fc)": "feed_forward.up",
    r"(?<=\d\.)(output\.dense|mlp\.fc2|mlp\.down_proj|mlp\.c_proj)": "feed_forward.down",
}.items()]


def refuse(what):
    raise SystemExit(f"the twin knows no {what}")


def check(recipe):
    """Refuses what the twin would do otherwise than the recipe says."""
    for section in ("data", "optim", "schedule", "train"):
        for key, value in recipe[section].items():
            setting = f"{section}.{key}"
            if setting not in FOLLOWED and (setting not in ONLY or ONLY[setting] != value):
                refuse(f"{setting} = {json.dumps(value)}")
    kind, name = recipe["data"]["kind"], recipe["schedule"]["name"]
    if kind not in MODELS:
        refuse(f'data.kind = "{kind}"')
    if name not in SCHEDULES:
        refuse(f'schedule.name = "{name}"')
    init = recipe["train"]["init"]
    if init and kind in ("pairs", "images"):
        refuse(f'train.init for data.kind = "{kind}"')
    if not init:
        check_model(kind, recipe["model"]["type"])
    for file in recipe["data"]["train"]:
        if pathlib.Path(file).is_dir():
            refuse(f"folders of images: data.train names {file}")


def check_model(kind, type):
    if type not in MODELS[kind]:
        refuse(f'model.type = "{type}" for data.kind = "{kind}"')


def read(file):
    return pathlib.Path(file).read_bytes().decode("utf-8-sig")


def lines(files):
    return [line for file in files for line in read(file).replace("\r\n", "\n").split("\n") if line]


def read_tokenizer(file, truncate):
    from tokenizers import Tokenizer

    if not file.exists():
        return None
    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_padding()
    if not truncate:
        tokenizer.no_truncation()
    return tokenizer


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
        text = ""
        for file in recipe["data"]["train"]:
            text += ("\n" if text and not text.endswith("\n") else "") + read(file)
        self.ids = torch.tensor(tokenizer.encode(text, add_special_tokens=False).ids)
        self.context, self.size = recipe["data"]["context"] or config.get("n_positions") or config["max_position_embeddings"], recipe["optim"]["batch_size"]

    def epoch(self, draw):
        windows = len(self.ids) - self.context  # that there could be
        places = list(range(draw.randrange(min(self.context, windows)), windows, self.context))
        draw.shuffle(places)
        for i in range(0, len(places), self.size):
            rows = torch.stack([self.ids[p : p + self.context + 1] for p in places[i : i + self.size]])
            yield {"input_ids": rows[:, :-1]}, rows[:, 1:]


class Labels:
    """Texts, or pairs of texts, and their classes."""

    def __init__(self, recipe, tokenizer, config):
        data = recipe["data"]
        rows = [line.split("\t") for line in lines(data["train"])]
        label = -1 if data["label_column"] == "last" else 0
        self.paired = len(rows[0]) == 3
        texts = tokenizer.encode_batch([tuple(row[label + 1 :][:2]) if self.paired else row[label + 1] for row in rows])
        longest = data["context"] or config["max_position_embeddings"]
        self.items = [(text.ids, text.type_ids, config["label2id"][row[label]]) for text, row in zip(texts, rows) if len(text.ids) <= longest]
        self.pad, self.optim = config.get("pad_token_id") or 0, recipe["optim"]

    def epoch(self, draw):
        for batch in by_length(self.items, [len(ids) for ids, *_ in self.items], draw, self.optim["batch_size"], self.optim["batch_tokens"]):
            ids, types, labels = zip(*(self.items[i] for i in batch))
            inputs = {"input_ids": filled(ids, self.pad), "attention_mask": filled([[1] * len(row) for row in ids], 0)}
            yield {**inputs, **({"token_type_ids": filled(types, 0)} if self.paired else {})}, torch.tensor(labels)


class Masked:
    """Hidden words as in BERT: 15 % of a text's ordinary tokens; 80 % of these become the mask, 10 % another token, 10 % stay."""

    def __init__(self, recipe, tokenizer, config):
        longest = recipe["data"]["context"] or config["max_position_embeddings"]
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
            yield {"input_ids": filled(ids, self.pad), "attention_mask": filled([[1] * len(row) for row in ids], 0)}, filled(labels, IGNORE)

    def hide(self, ids, draw):
        places, labels = [i for i, id in enumerate(ids) if id in self.chosen], [IGNORE] * len(ids)
        for i in draw.sample(places, max(1, round(0.15 * len(places)))):
            labels[i], kind = ids[i], draw.randrange(10)
            if kind < 9:
                ids[i] = self.mask if kind < 8 else draw.choice(self.ordinary)
        return ids, labels


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
            yield ({"ids": filled(sources, self.source_pad), "lengths": torch.tensor([len(s) for s in sources]),
                    "target_ids": filled([[self.begin, *t] for t in targets], self.pad)}, filled([[*t, self.end] for t in targets], IGNORE))


class Images:
    """IDX files, with the recipe's flips, shifts and rectangles."""

    def __init__(self, recipe, _, config):
        def read(file):
            raw = file.read_bytes()
            shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i]) for i in range(raw[3])]
            return torch.frombuffer(bytearray(raw[4 + 4 * raw[3] :]), dtype=torch.uint8).view(shape)

        files = [pathlib.Path(file) for file in recipe["data"]["train"]]
        self.images = torch.cat([read(file) for file in files]).unsqueeze(1).expand(-1, config["num_channels"], -1, -1)
        self.labels = torch.cat([read(file.with_name(file.name.replace("images", "labels").replace("idx3", "idx1"))) for file in files]).long()
        self.data, self.size = recipe["data"], recipe["optim"]["batch_size"]

    def epoch(self, draw):
        order = torch.tensor(draw.sample(range(len(self.labels)), len(self.labels)))
        for chosen in order.split(self.size):
            yield {"pixel_values": torch.stack([self.changed(image, draw) for image in self.images[chosen]]).float() / 127.5 - 1}, self.labels[chosen]

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


def make_model(kind, config, run, init):
    """With weights of its own beginning; from `init` where the recipe says so."""
    if kind == "pairs":
        from twins.transformer import Twin

        model = Twin(config)
        for layer in [*model.encoder, *model.decoder]:
            layer.dropout.p = 0.0  # within the feed-forward, where ours has none; the attention's has a setting of its own
            for attention in [layer.self_attn, *([layer.multihead_attn] if hasattr(layer, "multihead_attn") else [])]:
                attention.dropout = config["attention_dropout"]
        for module in model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.eps = config["eps"]
        for name, part in model.stored(lambda p: p.detach()).items():  # as ours begins: each matrix of its own
            if "embedding" in name:
                torch.nn.init.normal_(part, std=config["width"] ** -0.5)
            elif part.dim() > 1:
                torch.nn.init.xavier_uniform_(part)
            elif "norm" not in name:
                torch.nn.init.zeros_(part)
        return model
    import transformers

    auto = getattr(transformers, {"text": "AutoModelForCausalLM", "labels": "AutoModelForSequenceClassification",
                                  "masked": "AutoModelForMaskedLM", "images": "AutoModelForImageClassification"}[kind])
    made = transformers.AutoConfig.from_pretrained(run)
    if not init:
        return auto.from_config(made)
    model = auto.from_pretrained(init, config=made, ignore_mismatched_sizes=True)
    if kind == "labels" and set(transformers.AutoConfig.from_pretrained(init).label2id) != set(made.label2id):
        torch.nn.init.normal_(model.classifier.weight, std=made.initializer_range)  # other classes, another head: as ours
        torch.nn.init.zeros_(model.classifier.bias)
    return model


def our_names(model, kind):
    """Our names of each of its parameters: several where it keeps several of ours in one."""
    if kind == "pairs":
        places = {}
        for ours, part in model.stored().items():
            places.setdefault(part.untyped_storage().data_ptr(), []).append(ours)
        return [places[p.untyped_storage().data_ptr()] for p in model.parameters()]
    out = []
    for name, _ in model.named_parameters():
        for pattern, ours in OURS:
            name = pattern.sub(ours, name)
        out.append([name.replace("attn.c_attn", f"attention.{part}") for part in ("query", "key", "value")] if "c_attn" in name else [name])
    return out


def chosen(setting, globs, names):
    """Whether the globs mean a parameter that has these names."""
    found = {any(fnmatch.fnmatchcase(name, glob) for glob in globs) for name in names}
    if len(found) > 1:
        refuse(f"{setting} = {json.dumps(globs)}: {', '.join(names)} are one parameter there")
    return found.pop()


def parameter_groups(model, kind, recipe):
    """What learns, with and without decay; the rest is frozen."""
    optim, decayed, plain = recipe["optim"], [], []
    for p, names in zip(model.parameters(), our_names(model, kind)):
        if chosen("train.freeze", recipe["train"]["freeze"], names):
            p.requires_grad_(False)
            continue
        (plain if p.dim() < 2 or chosen("optim.no_decay", optim["no_decay"], names) else decayed).append(p)
    return [{"params": decayed, "weight_decay": optim["weight_decay"]}, {"params": plain, "weight_decay": 0.0}]


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


def loss_sum(model, inputs, labels, smoothing):
    out = model(**inputs)
    logits = getattr(out, "logits", out)
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten(), reduction="sum", label_smoothing=smoothing)


def endless(data, draw):
    while True:
        yield from data.epoch(draw)


def main(run, out, threads, seed):
    torch.set_num_threads(int(threads))
    torch.manual_seed(int(seed))
    draw = random.Random(int(seed))
    run, out = pathlib.Path(run), pathlib.Path(out)
    recipe = tomllib.loads((run / "config.toml").read_text())
    check(recipe)
    kind, optim, steps, folder = recipe["data"]["kind"], recipe["optim"], recipe["train"]["steps"], run / "best"
    config = json.loads((folder / "config.json").read_text())
    check_model(kind, config["model_type"])  # not always the recipe's: "fovea_vit" has positions that transformers does not know
    tokenizer = read_tokenizer(folder / "tokenizer.json", truncate=kind == "labels")  # to what data.cut_longer has written there
    if kind == "pairs":
        tokenizer = read_tokenizer(folder / "source_tokenizer.json", truncate=False) or tokenizer, tokenizer
    data = {"text": Text, "labels": Labels, "masked": Masked, "pairs": Pairs, "images": Images}[kind](recipe, tokenizer, config)
    model = make_model(kind, config, folder, recipe["train"]["init"]).train()
    groups = parameter_groups(model, kind, recipe)
    optimizer = torch.optim.AdamW(groups, lr=optim["learning_rate"], betas=(optim["beta1"], optim["beta2"]), eps=optim["eps"])
    begin, batches = time.perf_counter(), endless(data, draw)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = optim["learning_rate"] * schedule(recipe["schedule"], step, steps)
        optimizer.zero_grad()
        together = [next(batches) for _ in range(optim["accumulate"])]
        count = sum(int((labels != IGNORE).sum()) for _, labels in together)  # of all of a step's batches, as if they were one
        for inputs, labels in together:
            (loss_sum(model, inputs, labels, optim["label_smoothing"]) / count).backward()
        if optim["clip"]:
            torch.nn.utils.clip_grad_norm_(model.parameters(), optim["clip"])
        optimizer.step()
    print(time.perf_counter() - begin)
    save(model.eval(), kind, config, folder, out)


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    if len(sys.argv) == 2:
        check(tomllib.loads(pathlib.Path(sys.argv[1]).read_text()))
    else:
        main(*sys.argv[1:])
