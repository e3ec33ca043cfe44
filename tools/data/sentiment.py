# SPDX-License-Identifier: Apache-2.0
"""What the sentiment scripts share: texts without doubles, tables of text and label, manifests with the classes."""
import common

LABELS = ("negative", "positive")


def one_label_each(rows, key):
    """(rows, doubles, disputed): the first row of each key, without keys that carry both labels and without empty keys."""
    labels = {}
    for text, label in rows:
        labels.setdefault(key(text), set()).add(label)
    kept = {}
    for text, label in rows:
        if key(text) and len(labels[key(text)]) == 1:
            kept.setdefault(key(text), (text, label))
    disputed = sum(len(found) > 1 for found in labels.values())
    return list(kept.values()), len(rows) - len(labels), disputed


def write(out, rows, key, manifest):
    """train.tsv, validation.tsv, test.tsv of text<TAB>label, split by the key modulo 10, mixed."""
    parts = common.split(common.mixed(rows, lambda row: key(row[0])), lambda row: key(row[0]), 10)
    texts = {f"{part}.tsv": common.table(found) for part, found in parts.items()}
    facts = {f"{part}.tsv": {"texts": len(found), **{label: sum(row[1] == label for row in found) for label in LABELS}}
             for part, found in parts.items()}
    common.write_all(out, texts, facts, {**manifest, "columns": ["text", "label"], "labels": list(LABELS)})
    common.report(out, facts)
