# SPDX-License-Identifier: Apache-2.0
"""Tokenizers against the `tokenizers` package, one thread each, in turns on the same 10 MB: both read one tokenizer.json
that the package trained on a part of the text. Seconds are processor time. "ids" is token ids only (theirs: encode_batch_fast), "encode" is
everything with offsets. Ratio = their time / ours: above 1 we are faster."""

import argparse
import os
import pathlib
import statistics
import subprocess
import sysconfig
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[1]
OURS = pathlib.Path(os.environ.get("FOVEA_BUILD", ROOT / "build" / "release")) / "bench" / "tokenizer_bench"


def wordpiece(texts):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=20000, special_tokens=["[UNK]", "[CLS]", "[SEP]"], show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    return tokenizer


def byte_level(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=20000, special_tokens=["<|endoftext|>"], show_progress=False,
                                                             initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def unigram(texts, normalizer=None):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizer or normalizers.Sequence([])
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    tokenizer.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=12000, special_tokens=["</s>", "<unk>"], unk_token="<unk>", show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))])
    return tokenizer


KINDS = {"wordpiece": wordpiece, "byte-level": byte_level, "unigram": unigram,
         "unigram-nfkc": lambda texts: unigram(texts, normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()]))}


def mixed_text(files, size):
    """`size` bytes from the files in turns of a paragraph or twenty lines each, as one text a turn."""
    sources = [iter(["".join(lines[i:i + 20]) for i in range(0, len(lines), 20)])
               for lines in (pathlib.Path(name).read_text(encoding="utf-8", errors="replace").replace("\0", "").splitlines(True) for name in files)]
    texts, total = [], 0
    while sources and total < size:
        for source in list(sources):
            text = next(source, None)
            if text is None:
                sources.remove(source)
            elif total < size:
                texts.append(text)
                total += len(text.encode())
    return texts


class Ours:
    def __init__(self, *command):
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        seconds, tokens = self.process.stdout.readline().split()
        return float(seconds), int(tokens)


def theirs(tokenizer, texts, word):
    start = time.process_time()
    tokens = sum(len(e) for e in (tokenizer.encode_batch_fast if word == "ids" else tokenizer.encode_batch)(texts))
    return time.process_time() - start, tokens


def measure(kind, texts, rounds, folder):
    # Every eighth text: what training costs is not the question.
    KINDS[kind](texts[::8]).save(str(folder / "tokenizer.json"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ours = Ours(OURS, folder / "tokenizer.json", folder / "texts")
    for word in ("ids", "encode"):
        pairs = [(ours(word), theirs(tokenizer, texts, word)) for _ in range(rounds + 1)][1:]
        assert len({tokens for pair in pairs for _, tokens in pair}) == 1, "not the same tokens"
        ratio = statistics.median(b[0] / a[0] for a, b in pairs)
        print(f"{kind:13} {word:7} {min(a[0] for a, _ in pairs):7.3f} s {min(b[0] for _, b in pairs):7.3f} s  ratio {ratio:5.2f}", flush=True)
    ours.process.stdin.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", help="text files (default: sources of Python's library)")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=10)
    args = parser.parse_args()
    texts = mixed_text(args.files or sorted(pathlib.Path(sysconfig.get_path("stdlib")).glob("*/*.py")), args.megabytes * 1e6)
    print(f"{sum(len(t.encode()) for t in texts) / 1e6:.1f} MB in {len(texts)} texts")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "texts").write_bytes(b"\0".join(text.encode() for text in texts))
        for kind in args.kinds:
            measure(kind, texts, args.rounds, folder)


if __name__ == "__main__":
    main()
