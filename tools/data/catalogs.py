# SPDX-License-Identifier: Apache-2.0
"""Pairs of a text and its translation out of gettext's compiled catalogs (.mo) and of help pages in two languages."""
import html.parser
import re
import struct

import common

MAGIC = 0x950412DE


def read_mo(path):
    """[(text, translation)] of a catalog in its order; of plurals the last form. A broken catalog ends the script."""
    data = path.read_bytes()
    order = next((order for order in "<>" if data[:4] == struct.pack(order + "I", MAGIC)), None)
    if order is None:
        common.damaged(path, "it is no compiled catalog of gettext")

    def text(table, i, charset):
        length, offset = struct.unpack_from(order + "II", data, table + 8 * i)
        if data[offset + length:offset + length + 1] != b"\0":  # that each text ends with
            raise struct.error(f"text {i} ends behind the file")
        return data[offset:offset + length].decode(charset)

    try:
        _, count, originals, translations = struct.unpack_from(order + "4I", data, 4)
        head = re.search(r"charset=([\w-]+)", text(translations, 0, "latin-1")) if count else None
        charset = head[1] if head else "utf-8"
        pairs = [(text(originals, i, charset), text(translations, i, charset)) for i in range(count)]
    except (struct.error, UnicodeDecodeError, LookupError) as error:
        common.damaged(path, error)
    return [(source.rpartition("\x04")[2].rpartition("\0")[2], target.rpartition("\0")[2]) for source, target in pairs if source]


class Paragraphs(html.parser.HTMLParser):
    """{id: text} of a help page's paragraphs and headings; code, and what only one system's users see, is left out."""

    VOID = {"br", "img", "input", "meta", "link", "hr", "base", "col", "wbr", "area", "source"}

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.found = {}
        self.id = None      # of the open paragraph
        self.tag = ""       # that ends it
        self.text = []
        self.hidden = []    # open tags within something left out, outermost first

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "br" and self.id:
            self.text.append(" ")
        if tag in self.VOID:
            return
        if self.hidden or tag in ("script", "style") or attributes.get("class") == "MAC":
            self.hidden.append(tag)
        elif re.fullmatch("p|h[1-6]", tag):
            self._close()
            if attributes.get("id") and not re.search("code", attributes.get("class") or ""):
                self.id, self.tag = attributes["id"], tag

    def handle_endtag(self, tag):
        if self.hidden:
            if tag in self.hidden:  # inner tags that were never closed end with it
                del self.hidden[len(self.hidden) - 1 - self.hidden[::-1].index(tag):]
        elif self.id and tag == self.tag:
            self._close()

    def handle_data(self, data):
        if self.id and not self.hidden:
            self.text.append(data)

    def _close(self):
        if self.id and not self.id.startswith("bm_"):
            self.found.setdefault(self.id, " ".join("".join(self.text).split()))
        self.id, self.text = None, []


def read_page(text):
    page = Paragraphs()
    page.feed(text)
    page.close()
    return page.found


def read_help(source_folder, target_folder):
    """[(text, translation)] of the pages that both folders hold, joined by the ids of paragraphs and headings."""
    pairs = []
    for path in sorted(source_folder.rglob("*.html")):
        other = target_folder / path.relative_to(source_folder)
        if other.exists():
            source, target = read_page(common.read_text(path)), read_page(common.read_text(other))
            pairs += [(text, target[key]) for key, text in source.items() if key in target]
    return pairs
