# SPDX-License-Identifier: Apache-2.0
"""What tang and verse-zh share: regular Chinese verse, its lines, and splits that no shared line crosses."""
import re

import common

VERSE = re.compile(rf"([{common.HAN}]+)([，。？！；])")


def regular(text):
    """[(line, mark after it)] where all lines have 5, or all have 7 characters and one mark each; else None."""
    lines = VERSE.findall(text)
    whole = "".join(line + mark for line, mark in lines) == text
    return lines if whole and len(lines) > 1 and {len(line) for line, _ in lines} in ({5}, {7}) else None


def written(lines):
    """Two lines of verse, a couplet, on each line of the file."""
    marked = [line + mark for line, mark in lines]
    return "\n".join("".join(marked[i:i + 2]) for i in range(0, len(marked), 2))


def unique(poems):
    """Poems that differ in their characters, whatever their marks: the first of each."""
    return list({"".join(line for line, _ in lines): lines for lines in reversed(poems)}.values())[::-1]


def families(poems, shared):
    """For each poem the number of its family's first poem: poems with `shared` equal lines are of one family, step by step."""
    parent = list(range(len(poems)))

    def first(i):
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    having = {}
    for i, lines in enumerate(poems):
        common_lines = {}
        for line in {line for line, _ in lines}:
            for j in having.setdefault(line, []):
                common_lines[j] = common_lines.get(j, 0) + 1
            having[line].append(i)
        for j, count in common_lines.items():
            if count >= shared:
                low, high = sorted((first(i), first(j)))
                parent[high] = low
    return [first(i) for i in range(len(poems))]


def split(poems, shared):
    """{part: poems}; the first poem's characters of each family decide for all of it, modulo 20."""
    keys = ["".join(line for line, _ in poems[i]) for i in families(poems, shared)]
    parts = common.split(range(len(poems)), lambda i: keys[i], 20)
    return {part: [poems[i] for i in numbers] for part, numbers in parts.items()}


def write(out, parts, manifest, alphabet):
    """train.txt, validation.txt, test.txt: poems with an empty line between them. alphabet: the range of distinct characters."""
    texts, facts = {}, {}
    for part, poems in parts.items():
        texts[f"{part}.txt"] = "\n\n".join(map(written, poems)) + "\n"
        facts[f"{part}.txt"] = {"poems": len(poems)}
    distinct = len(set("".join(texts.values())) - {"\n"})
    common.check_range("distinct characters besides newline", distinct, *alphabet)
    common.write_all(out, texts, facts, {**manifest, "distinct_characters": distinct})
    common.report(out, facts, texts)
