# SPDX-License-Identifier: Apache-2.0
"""The Python side of ./bench: answers each line on stdin with the seconds that its case's work took and a number to
compare, like benchmarks/model_bench.cpp. The models of transformers have random weights; folder and inputs are written
before the first answer, for the other side to read.

    bench_peer.py CASE THREADS FOLDER [MINILM TEXT]"""

import pathlib
import sys
import time

import torch
from torch.nn import functional as F


def demo(case):
    import character_model

    work = {"demo-train": character_model.Training, "demo-generate": character_model.Generation}[case]()
    return lambda: (work(), 0)[1]  # random weights of its own: nothing to compare


def write_inputs(folder, **tensors):
    from safetensors.torch import save_file

    save_file(tensors, folder / "inputs.safetensors")


def spread(model, factor=1.0):
    """Random weights whose best tokens are no near ties."""
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.02 * factor)
    return model


def gpt2(case, folder):
    from transformers import GPT2Config, GPT2LMHeadModel

    model = spread(GPT2LMHeadModel(GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)))
    model.save_pretrained(folder)
    if case == "gpt2-train":
        ids = torch.randint(50257, (2, 513))
        write_inputs(folder, ids=ids)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def step():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(ids[:, :-1]).logits.flatten(0, 1), ids[:, 1:].flatten())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss.item()

        return step
    return generation(model, folder, torch.randint(50257, (1, 64)), max_new_tokens=64, min_new_tokens=64)


def generation(model, folder, ids, **options):
    model.eval()
    write_inputs(folder, ids=ids)

    @torch.inference_mode()
    def run():
        out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=0, **options)
        new = out[0] if model.config.is_encoder_decoder else out[0, ids.shape[1] :]
        return float(new.sum())

    return run


def t5(folder):
    from transformers import T5Config, T5ForConditionalGeneration

    model = spread(T5ForConditionalGeneration(T5Config(vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, decoder_start_token_id=0)))
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    return generation(model, folder, torch.randint(2, 32128, (1, 32)), num_beams=4, max_new_tokens=48, min_new_tokens=48, eos_token_id=None)


def bert(folder):
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(), add_pooling_layer=False).eval()
    model.save_pretrained(folder)
    lengths = torch.randint(26, 129, (16,))
    lengths[0] = 128
    ids = torch.randint(1000, 30000, (16, 128))
    mask = (torch.arange(128) < lengths[:, None]).long()
    write_inputs(folder, ids=ids * mask, lengths=lengths)

    @torch.inference_mode()
    def run():
        return model(ids * mask, attention_mask=mask).last_hidden_state[mask.bool()].abs().sum().item()

    return run


def minilm(folder, source, text):
    """A thousand lines of unequal length, 32 at a time as they come: what one writes first."""
    from transformers import AutoModel, AutoTokenizer

    for file in pathlib.Path(source).iterdir():
        (folder / file.name).symlink_to(file.resolve())
    words = pathlib.Path(text).read_text(encoding="utf-8").split()
    generator = torch.Generator().manual_seed(1)
    texts, at = [], 0
    for count in torch.randint(4, 60, (1000,), generator=generator).tolist():
        texts.append(" ".join(words[at : at + count]))
        at += count
    (folder / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    @torch.inference_mode()
    def run():
        total = 0.0
        for first in range(0, len(texts), 32):
            batch = tokenizer(texts[first : first + 32], padding=True, truncation=True, max_length=128, return_tensors="pt")
            hidden, mask = model(**batch).last_hidden_state, batch["attention_mask"].unsqueeze(-1)
            total += F.normalize((hidden * mask).sum(1) / mask.sum(1)).abs().sum().item()
        return total

    return run


def dense_attention(x, query, key, value, mask):
    heads = lambda layer: layer(x).unflatten(-1, (12, -1)).transpose(1, 2)
    return F.scaled_dot_product_attention(heads(query), heads(key), heads(value), attn_mask=mask)


def long_layer(case, folder):
    """An attention layer of transformers, or the same by PyTorch's own attention with a dense mask."""
    T, dense = 4096, case.endswith("dense")
    x = torch.randn(1, T, 768, requires_grad=True)
    output = torch.nn.Linear(768, 768)
    if case.startswith("longformer"):
        layer, attend = longformer(T, dense)
        parts = {"query": "query", "key": "key", "value": "value", "variant.query": "query_global", "variant.key": "key_global", "variant.value": "value_global"}
    else:
        layer, attend = bigbird(T, dense)
        parts = {"query": "query", "key": "key", "value": "value"}
    own = {ours: getattr(layer, theirs) for ours, theirs in parts.items()} | {"output": output}
    with torch.no_grad():
        for part in own.values():
            part.weight.copy_(torch.randn(768, 768) / 20)
    write_inputs(folder, x=x.detach(), **{f"{name}.{kind}": getattr(part, kind).detach().clone() for name, part in own.items() for kind in ("weight", "bias")})

    def run():
        layer.zero_grad(), output.zero_grad()
        x.grad = None
        y = output(attend(x))
        (y * x.detach()).sum().backward()
        return y.detach().abs().sum().item() + x.grad.abs().sum().item()

    return run


def longformer(T, dense):
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

    layer = LongformerSelfAttention(LongformerConfig(attention_window=[512], num_hidden_layers=1, attention_probs_dropout_prob=0), 0)
    is_global = torch.arange(T)[None] == 0
    if not dense:
        mask = is_global.float() * 10000
        return layer, lambda x: layer(x, attention_mask=mask, is_index_masked=mask < 0, is_index_global_attn=is_global, is_global_attn=True)[0]
    place = torch.arange(T)
    mask = (place[:, None] - place).abs() <= 256
    mask[:, 0] = True

    def attend(x):
        local = dense_attention(x, layer.query, layer.key, layer.value, mask)[:, :, 1:]
        heads = lambda part, rows: part(rows).unflatten(-1, (12, -1)).transpose(1, 2)
        all_seeing = F.scaled_dot_product_attention(heads(layer.query_global, x[:, :1]), heads(layer.key_global, x), heads(layer.value_global, x))
        return torch.cat([all_seeing, local], 2).transpose(1, 2).flatten(2)

    return layer, attend


def bigbird(T, dense):
    import numpy as np
    from transformers import BigBirdConfig
    from transformers.models.big_bird.modeling_big_bird import BigBirdBlockSparseAttention, BigBirdModel

    layer = BigBirdBlockSparseAttention(BigBirdConfig(max_position_embeddings=T), seed=0).train()
    if not dense:
        blocked, band, from_mask, to_mask = BigBirdModel.create_masks_for_block_sparse_attn(torch.ones(1, T), 64)
        return layer, lambda x: layer(x, band_mask=band, from_mask=from_mask, to_mask=to_mask, from_blocked_mask=blocked, to_blocked_mask=blocked)[0]
    np.random.seed(0)
    n = T // 64
    times = torch.zeros(12, n, n)
    block = torch.arange(n)
    times[:] = ((block[:, None] - block).abs() <= 1) | (block == 0) | (block == n - 1)
    for h in range(12):
        drawn = torch.tensor(layer._bigbird_block_rand_mask(T, T, 64, 64, 3, last_idx=1024)).long()
        times[h, 1:-1].scatter_add_(1, drawn, torch.ones(drawn.shape))
    times[:, [0, -1]] = 1
    mask = times.log().repeat_interleave(64, 1).repeat_interleave(64, 2)[None]  # [1, H, T, T]
    return layer, lambda x: dense_attention(x, layer.query, layer.key, layer.value, mask).transpose(1, 2).flatten(2)


def channel(case, folder):
    """Attention over 64 channels of 28 x 28 places, in training."""
    import channel as definitions

    kind = case.partition("-")[2]
    layer, names = {
        "squeeze_excitation": lambda: (definitions.SqueezeExcitation(64, 4), definitions.SE),
        "eca": lambda: (definitions.Eca(3), definitions.ECA),
        "cbam": lambda: (definitions.Cbam(64, 4), definitions.CBAM),
        "coordinate": lambda: (definitions.Coordinate(64, 8), {**definitions.COORDINATE, **definitions.NORM}),
    }[kind]()
    x = torch.randn(32, 64, 28, 28, requires_grad=True)
    parameters = dict(layer.named_parameters())
    write_inputs(folder, x=x.detach(), **{ours: definitions.flat(parameters[its]).detach().clone() for ours, its in names.items()})

    def run():
        layer.zero_grad()
        x.grad = None
        y = layer(x)[0]
        (y * x.detach()).sum().backward()
        return y.detach().abs().sum().item() + x.grad.abs().sum().item()

    return run


def flex(case, folder):
    """FlexAttention, compiled, on a call of benchmarks/attention_cases.h."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    B, T, mask, score = {
        "gpt2-1024": (4, 1024, lambda b, h, q, k: k <= q, None),
        "longformer-4096": (1, 4096, lambda b, h, q, k: ((q - k).abs() <= 256) | (q == 0) | (k == 0), None),
        "user-distance": (4, 1024, lambda b, h, q, k: k <= q, lambda score, b, h, q, k: score + 0.01 * (k - q)),
    }[case.partition("-flex")[0]]
    q, k, v = (torch.randn(B, T, 12, 64) for _ in range(3))
    write_inputs(folder, q=q, k=k, v=v)
    q, k, v = (x.to(torch.bfloat16 if case.endswith("bf16") else torch.float32).transpose(1, 2) for x in (q, k, v))
    blocks = create_block_mask(mask, None, None, T, T, device="cpu")
    compiled = torch.compile(flex_attention)

    def run():
        with torch.no_grad():
            return compiled(q, k, v, score_mod=score, block_mask=blocks).abs().sum(dtype=torch.float64).item()

    run()
    return run


def make(case, folder, rest):
    if "-flex" in case:
        return flex(case, folder)
    if case.startswith("channel-"):
        return channel(case, folder)
    if "-layer" in case:
        return long_layer(case, folder)
    if case.startswith("demo"):
        return demo(case)
    if case.startswith("gpt2"):
        return gpt2(case, folder)
    return {"t5-small-beams": t5, "bert-base-padded": bert, "minilm-encode": minilm}[case](folder, *rest)


if __name__ == "__main__":
    case, threads, folder, *rest = sys.argv[1:]
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    work = make(case, pathlib.Path(folder), rest)
    print("ready", flush=True)
    for _ in sys.stdin:
        begin = time.perf_counter()
        answer = work()
        print(time.perf_counter() - begin, answer, flush=True)
