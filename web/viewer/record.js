// A record (docs/view.md) as the page reads it: groups of layers, exact weights, tokens made visible.
// SPDX-License-Identifier: Apache-2.0
"use strict";

const $ = (id) => document.getElementById(id);
const element = (tag, properties, ...children) => {
  const out = Object.assign(document.createElement(tag), properties);
  out.append(...children);
  return out;
};
const clamp = (x, low, high) => Math.min(high, Math.max(low, x));

// Groups maps by their name without the layer's number: one group of layers for each kind of attention.
function groups_of(record) {
  const groups = new Map();
  for (const map of record.maps) {
    const [heads, rows, columns] = map.shape;
    const key = map.name.replace(/(^|\.)\d+(?=\.)/, "$1*"), picture = record.sequences[map.keys].picture;
    const title = !map.gates ? title_of(key) : picture ? "places" : "channels";
    if (!groups.has(key)) groups.set(key, { title, layers: [] });
    groups.get(key).layers.push({ name: map.name, heads, rows, columns, data: map.data,
                                  queries: record.sequences[map.queries].tokens, keys: record.sequences[map.keys].tokens,
                                  self: map.queries === map.keys, picture, gates: map.gates ?? false });
  }
  return [...groups.values()];
}

function title_of(key) {
  const encoder = /(^|\.)encoder\./.test(key), decoder = /(^|\.)decoder\./.test(key);
  if (/cross/.test(key)) return "decoder → source";
  return encoder ? "encoder" : decoder ? "decoder" : "self-attention";
}

// Weights of one layer, [heads, rows, columns]: little-endian f32, decoded when first needed.
function weights_of(layer) {
  if (!layer.weights) {
    const text = atob(layer.data), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; ++i) bytes[i] = text.charCodeAt(i);
    layer.weights = new Float32Array(bytes.buffer);
    layer.data = null;
  }
  return layer.weights;
}

function head_of(layer, head) {
  const size = layer.rows * layer.columns;
  return weights_of(layer).subarray(head * size, (head + 1) * size);
}

// The shortest decimal that is exactly this f32.
function exact(value) {
  for (let digits = 1; digits < 9; ++digits) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === value) return String(Number(text));
  }
  return String(Number(value.toPrecision(9)));
}

// ---- tokens ---------------------------------------------------------------------------------------------------------

const kSymbols = { " ": "␣", "\n": "↵", "\t": "⇥", "\r": "␍", "\u00a0": "⍽" };

// Spans that show a token with its blanks, line ends and controls as symbols.
function token_nodes(token) {
  if (token === "") return [element("span", { className: "invisible", textContent: "…" })];  // inside a character
  const nodes = [];
  let plain = "";
  const flush = () => { if (plain) nodes.push(plain); plain = ""; };
  for (const c of token) {
    const code = c.codePointAt(0);
    let symbol = kSymbols[c];
    if (!symbol && code < 0x20) symbol = String.fromCodePoint(0x2400 + code);
    if (!symbol && /[\p{Z}\p{C}]/u.test(c)) symbol = `‹${code.toString(16).toUpperCase().padStart(4, "0")}›`;
    if (symbol) flush(), nodes.push(element("span", { className: "invisible", textContent: symbol }));
    else plain += plain === "" && /\p{M}/u.test(c) ? "◌" + c : c;
  }
  flush();
  return nodes;
}

// Spans of tokens as words that lines may break between, and real line ends.
function words(spans, tokens) {
  const out = [];
  let word = null, length = 0;
  spans.forEach((span, i) => {
    if (!word || /^\s/.test(tokens[i]) || length > 16) {
      out.push(element("wbr", {}), word = element("span", { className: "word" }));
      length = 0;
    }
    word.append(span);
    length += tokens[i].length;
    if (/\n/.test(tokens[i])) out.push("\n"), word = null;
  });
  return out;
}
