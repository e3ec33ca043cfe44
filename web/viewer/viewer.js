// The attention page: draws a record as heat maps. Plain JavaScript, no network; needs record.js, colour.js and picture.js.
// SPDX-License-Identifier: Apache-2.0
"use strict";

class Viewer {
  constructor(record) {
    this.groups = groups_of(record);
    this.group = this.layer = this.head = 0;
    this.pinned = null;   // row that stays when the pointer leaves
    this.cell = null;     // {row, column} under the pointer or the keys
    this.size = 0;        // of a cell in CSS pixels; 0: chosen to be readable
    $("model").textContent = record.model;
    document.title = record.model ? `attention · ${record.model}` : "attention";
    this.read_address();
    this.listen();
    this.set_theme(this.theme);
    this.show_group(this.group);
    if (this.pinned !== null) this.scroll_to(this.pinned, this.strongest());
  }

  get layers() { return this.groups[this.group].layers; }
  get current() { return this.layers[this.layer]; }
  get row() { return this.cell?.row ?? this.pinned ?? this.current.rows - 1; }
  get scale() { return kScales[$("scale").value]; }
  weight(row, column) { return head_of(this.current, this.head)[row * this.current.columns + column]; }

  shade(weight, most) { return Math.round(clamp(this.scale.place(weight, most), 0, 1) * (kShades - 1)); }

  // -- state in the address: #map=group.layer.head&row=…&theme=… ------------------------------------------------------
  read_address() {
    const address = new URLSearchParams(location.hash.slice(1));
    const [group, layer, head] = (address.get("map") ?? "0.0.0").split(".").map((x) => Number(x) || 0);
    this.group = clamp(group, 0, this.groups.length - 1);
    this.layer = clamp(layer, 0, this.layers.length - 1);
    this.head = clamp(head, 0, this.current.heads - 1);
    if (address.has("row")) this.pinned = clamp(Number(address.get("row")) || 0, 0, this.current.rows - 1);
    this.theme = address.get("theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    if (address.get("scale") in kScales) $("scale").value = address.get("scale");
  }

  // Not at once: browsers refuse more than a few changes a second.
  write_address() {
    clearTimeout(this.address_timer);
    this.address_timer = setTimeout(() => {
      const address = new URLSearchParams({ map: `${this.group}.${this.layer}.${this.head}` });
      if (this.pinned !== null) address.set("row", this.pinned);
      address.set("scale", $("scale").value);
      address.set("theme", this.theme);
      history.replaceState(null, "", "#" + address);
    }, 250);
  }

  // -- listeners ------------------------------------------------------------------------------------------------------
  listen() {
    $("theme").onclick = () => this.set_theme(this.theme === "dark" ? "light" : "dark", true);
    $("scale").onchange = () => this.paint();
    $("in").onclick = () => this.zoom(this.drawn * 1.3);
    $("out").onclick = () => this.zoom(this.drawn / 1.3);
    $("fit").onclick = () => { this.zoom(this.fitting_size()); this.zoom(this.fitting_size()); };  // labels shrink too
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("resize", () => { this.lay_out_thumbs(); this.show_map(); this.mark(); });
    const cells = $("cells");
    cells.addEventListener("pointermove", (event) => this.point(this.cell_at(event)));
    cells.addEventListener("pointerleave", () => this.point(null));
    cells.addEventListener("click", (event) => this.pin(this.cell_at(event).row));
  }

  cell_at(event) {
    const box = $("cells").getBoundingClientRect(), { rows, columns } = this.current;
    return { row: clamp(Math.floor((event.clientY - box.top) / box.height * rows), 0, rows - 1),
             column: clamp(Math.floor((event.clientX - box.left) / box.width * columns), 0, columns - 1) };
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target instanceof HTMLSelectElement) return;
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (move && event.shiftKey) {
      const { row, column } = this.cell ?? { row: this.row, column: 0 };
      this.point({ row: clamp(row + move[0], 0, this.current.rows - 1),
                   column: clamp(column + move[1], 0, this.current.columns - 1) });
      this.scroll_to(this.cell.row, this.cell.column);
    } else if (move) {
      this.show(clamp(this.layer + move[0], 0, this.layers.length - 1), this.head + move[1]);
    } else if (event.key === "Escape") {
      this.pinned = this.cell = null;
      this.mark();
    } else {
      return;
    }
    event.preventDefault();
  }

  // -- groups and thumbnails ------------------------------------------------------------------------------------------
  show_group(index) {
    if (index !== this.group) this.layer = this.head = 0, this.pinned = null;
    this.group = index;
    this.cell = null;
    $("groups").replaceChildren(...this.groups.map(({ title }, i) =>
      element("button", { type: "button", textContent: title, onclick: () => this.show_group(i), ariaPressed: i === index })));
    $("groups").hidden = this.groups.length < 2;
    this.thumbs = [];
    const heads = Math.max(...this.layers.map((layer) => layer.heads));
    const nodes = [element("span", {})];
    for (let h = 0; h < heads; ++h) nodes.push(element("span", { textContent: h + 1, title: `head ${h + 1}` }));
    this.layers.forEach((layer, l) => {
      nodes.push(element("span", { className: "layer", textContent: l + 1, title: layer.name }));
      for (let h = 0; h < heads; ++h) nodes.push(h < layer.heads ? this.make_thumb(l, h) : element("span", {}));
    });
    $("thumbs").replaceChildren(...nodes);
    this.chosen = this.thumbs[0];
    this.lay_out_thumbs();
    this.paint();
  }

  make_thumb(l, h) {
    const { rows, columns, name } = this.layers[l];
    const canvas = element("canvas", { width: columns, height: rows });
    const button = element("button", { type: "button", tabIndex: -1, title: `layer ${l + 1}, head ${h + 1}`, onclick: () => this.show(l, h) }, canvas);
    button.setAttribute("aria-label", `${name}, head ${h + 1}`);
    this.thumbs.push({ canvas, button, l, h });
    return button;
  }

  lay_out_thumbs() {
    const heads = Math.max(...this.layers.map((layer) => layer.heads)), { rows, columns } = this.current;
    // As wide as the screen allows next to a readable map, but no wider than these thumbnails need.
    const width = clamp((innerWidth > 900 ? innerWidth * 0.42 : innerWidth) - 64, 200, heads * 124);
    const wide = clamp(Math.floor(width / heads) - 4, 18, 120), tall = clamp(Math.round(wide * rows / columns), 12, 160);
    $("thumbs").style.gridTemplateColumns = `20px repeat(${heads}, ${wide}px)`;
    document.documentElement.style.setProperty("--overview", `${Math.max(380, heads * (wide + 4) + 64)}px`);
    for (const { canvas, button } of this.thumbs) {
      button.style.height = `${tall}px`;
      canvas.classList.toggle("upscaled", canvas.width < wide);
    }
  }

  paint_thumbs() {
    for (const { canvas, l, h } of this.thumbs) this.draw(canvas, this.layers[l], h);
  }

  // One pixel a weight; exact zeros stay clear, so that what a mask hides differs from what is merely small. Negative ones
  // (Linformer's) are painted by their size.
  draw(canvas, layer, head) {
    const weights = head_of(layer, head), context = canvas.getContext("2d");
    const image = context.createImageData(layer.columns, layer.rows), pixels = new Uint32Array(image.data.buffer);
    let most = 0;
    for (const w of weights) if (Math.abs(w) > most) most = Math.abs(w);
    for (let i = 0; i < weights.length; ++i) if (Math.abs(weights[i]) > 0) pixels[i] = this.palette.pixels[this.shade(Math.abs(weights[i]), most)];
    context.putImageData(image, 0, 0);
    return most;
  }

  // -- one map --------------------------------------------------------------------------------------------------------
  show(layer, head) {
    const next = this.layers[layer], same_tokens = this.shown?.queries === next.queries && this.shown?.keys === next.keys;
    this.layer = layer;
    this.head = clamp(head, 0, this.current.heads - 1);
    const thumb = this.thumbs.find(({ l, h }) => l === this.layer && h === this.head);
    for (const { button } of [this.chosen, thumb]) {
      button.setAttribute("aria-pressed", button === thumb.button);
      button.tabIndex = button === thumb.button ? 0 : -1;
    }
    if ($("thumbs").contains(document.activeElement)) thumb.button.focus();
    if (thumb !== this.chosen) thumb.button.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.chosen = thumb;
    $("title").textContent = `Layer ${this.layer + 1} · head ${this.head + 1}`;
    $("title").title = this.current.name;
    const canvas = $("big");
    canvas.width = this.current.columns;
    canvas.height = this.current.rows;
    this.most = this.draw(canvas, this.current, this.head);
    if (!same_tokens) this.make_labels(), this.make_strip();
    this.shown = this.current;
    this.show_map();
    this.show_ticks();
    this.show_facts();
    this.mark();
    this.write_address();
  }

  make_labels() {
    const labels = (tokens, act) => tokens.map((token, i) =>
      element("span", { className: "label", title: JSON.stringify(token), onclick: () => act(i) }, ...token_nodes(token)));
    const { queries, keys } = this.current;
    $("rows").replaceChildren(...labels(queries, (row) => this.pin(row)));
    $("columns").replaceChildren(...labels(keys, (column) => this.point({ row: this.row, column })));
    $("rows").className = $("columns").className = "axis";
    $("columns").classList.toggle("upright", keys.every((token) => [...token].length <= 1));
  }

  fitting_size() {
    const box = $("scroll"), { rows, columns } = this.current, tall = innerWidth > 900 ? box.clientHeight : 0.85 * innerHeight;
    const across = (box.clientWidth - 18 - $("rows").offsetWidth) / columns, down = (tall - 18 - $("columns").offsetHeight) / rows;
    return clamp(Math.min(across, down), 2, 48);
  }

  // Unless someone zoomed: all of it where the labels stay readable, else readable labels and a scroll bar.
  cell_size() {
    const size = this.size || Math.max(this.fitting_size(), 12);
    return size < 8 ? size : Math.floor(size);
  }

  zoom(size) {
    this.size = clamp(size, 2, 60);
    this.show_map();
    this.mark();
  }

  show_map() {
    const style = $("map").style, { rows, columns } = this.current;
    style.setProperty("--label", "11px");
    const size = this.drawn = this.cell_size();
    style.setProperty("--cell", `${size}px`);
    style.setProperty("--label", `${clamp(size - 1, 6, 13)}px`);
    for (const axis of [$("rows"), $("columns")]) axis.classList.toggle("tiny", size < 9);
    $("cells").style.width = `${size * columns}px`;
    $("cells").style.height = `${size * rows}px`;
    $("lines").hidden = size < 8;
  }

  // Where the pointer is: {row, column} or null.
  point(cell) {
    if (cell?.row === this.cell?.row && cell?.column === this.cell?.column) return;
    this.cell = cell;
    this.mark();
  }

  pin(row) {
    this.pinned = this.pinned === row ? null : row;
    this.mark();
    this.write_address();
  }

  strongest() {
    const { columns } = this.current, weights = head_of(this.current, this.head).subarray(this.row * columns, (this.row + 1) * columns);
    return weights.indexOf(Math.max(...weights));
  }

  // The labels stay in sight while the cells scroll, so the part that shows cells is smaller than the box.
  scroll_to(row, column) {
    const size = this.drawn, box = $("scroll"), left = column * size, top = row * size;
    const wide = box.clientWidth - $("rows").offsetWidth, tall = box.clientHeight - $("columns").offsetHeight;
    box.scrollLeft = clamp(box.scrollLeft, left + 2 * size - wide, left - size);
    box.scrollTop = clamp(box.scrollTop, top + 2 * size - tall, top - size);
  }

  // Everything that follows the active row and the cell.
  mark() {
    const { rows, columns } = this.current, size = this.drawn, row = this.row, column = this.cell?.column ?? -1;
    const place = (id, x, y, width, height, on = true) => {
      Object.assign($(id).style, { left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` });
      $(id).hidden = !on;
    };
    place("row-mark", 0, row * size, columns * size, size);
    place("column-mark", column * size, 0, size, rows * size, column >= 0);
    place("cell-mark", column * size, row * size, size, size, column >= 0);
    for (const [axis, on] of [["rows", row], ["columns", column]]) {
      for (const label of $(axis).querySelectorAll(".on")) label.classList.remove("on");
      $(axis).children[on]?.classList.add("on");
    }
    this.show_readout();
    this.show_strip();
  }

  show_readout() {
    const { queries, keys, gates } = this.current;
    if (!this.cell) return $("readout").replaceChildren("point at a cell for its weight, click to keep its row");
    const { row, column } = this.cell;
    if (gates) return $("readout").replaceChildren(element("b", {}, ...token_nodes(keys[column])), " is multiplied with ",
      element("span", { className: "value", textContent: exact(this.weight(row, column)) }));
    return $("readout").replaceChildren(element("b", {}, ...token_nodes(queries[row])), ` ${row + 1} looks at `,
      element("b", {}, ...token_nodes(keys[column])), ` ${column + 1}`,
      element("span", { className: "value", textContent: exact(this.weight(row, column)) }));
  }

  // The text itself; a click on a token asks what it looks at.
  make_strip() {
    const { queries, keys, self, picture } = this.current;
    const spans = (tokens, chooses) => tokens.map((token, i) =>
      element("span", chooses ? { onclick: () => this.pin(i) } : {}, ...token_nodes(token)));
    this.key_spans = spans(keys, self);
    this.query_spans = self ? this.key_spans : spans(queries, true);
    const above = self ? [] : [...words(this.query_spans, queries), element("hr", {})];
    $("strip").replaceChildren(...above, ...(picture ? picture_nodes(picture, this.key_spans) : words(this.key_spans, keys)));
  }

  // Tinted by what the active row looks at.
  show_strip() {
    const { queries, columns, picture, gates } = this.current, row = this.row;
    const weights = head_of(this.current, this.head).subarray(row * columns, (row + 1) * columns);
    this.key_spans.forEach((span, i) => {
      const size = Math.abs(weights[i]), shade = this.shade(size, this.most);
      span.title = exact(weights[i]);
      if (picture && i >= picture.first) span.style.cssText = patch_style(this.scale.place(size, this.most));
      else span.style.cssText = size > 0 ? `background:${this.palette.css[shade]};color:${this.palette.light(shade) ? "#10151c" : "#fff"}` : "";
    });
    this.query_spans.forEach((span, i) => { span.className = i === row ? "query" : ""; });
    if (gates) $("strip-title").replaceChildren("How much of each passes");
    else $("strip-title").replaceChildren("What ", element("b", {}, ...token_nodes(queries[row])), ` (token ${row + 1}) looks at`);
  }

  // Means over all rows of the head.
  show_facts() {
    const { rows, columns, self, gates } = this.current, weights = head_of(this.current, this.head);
    if (gates) {
      const mean = weights.reduce((sum, w) => sum + w, 0) / weights.length, digits = (w) => w.toFixed(3);
      $("facts").textContent = `${digits(mean)} on average, from ${digits(Math.min(...weights))} to ${digits(Math.max(...weights))}.`;
      return;
    }
    let entropy = 0, same = 0, before = 0, first = 0;
    for (let q = 0; q < rows; ++q) {
      const line = q * columns, here = q + columns - rows;
      for (let k = 0; k < columns; ++k) if (weights[line + k] > 0) entropy -= weights[line + k] * Math.log2(weights[line + k]);
      same += weights[line + here] ?? 0;
      before += here > 0 ? weights[line + here - 1] : 0;
      first += weights[line];
    }
    const share = (sum) => `${(100 * sum / rows).toFixed(sum / rows < 0.0995 ? 1 : 0)}\u00a0%`;
    const spread = `as spread as an even look at ${(2 ** (entropy / rows)).toFixed(1)} tokens`;
    $("facts").textContent = self
      ? `This head on average: ${share(same)} on the token itself, ${share(before)} on the one before, ${share(first)} on the first; ${spread}.`
      : `This head on average: ${share(first)} on the first token; ${spread}.`;
  }

  // -- colours --------------------------------------------------------------------------------------------------------
  set_theme(theme, repaint = false) {
    this.theme = theme in kThemes ? theme : "light";
    document.documentElement.dataset.theme = this.theme;
    this.palette = make_palette(kThemes[this.theme]);
    this.show_legend();
    if (repaint) this.paint();
  }

  paint() {
    this.paint_thumbs();
    this.show(this.layer, this.head);
  }

  show_legend() {
    const canvas = $("legend"), context = canvas.getContext("2d");
    for (let x = 0; x < canvas.width; ++x) {
      context.fillStyle = this.palette.css[Math.round(x / (canvas.width - 1) * (kShades - 1))];
      context.fillRect(x, 0, 1, 1);
    }
  }

  show_ticks() {
    const most = this.most, ticks = this.scale.ticks ?? [0, most / 2, most];
    $("ticks").replaceChildren(...ticks.map((tick) => {
      const span = element("span", { textContent: Number(tick.toPrecision(2)) });
      span.style.left = `${100 * this.scale.place(tick, most)}%`;
      return span;
    }));
  }
}

// ---- start ----------------------------------------------------------------------------------------------------------

function start(record) {
  if (record?.format !== "fovea.attention" || !record.maps?.length) throw new Error("this is not an attention record");
  if (record.version !== 1) throw new Error(`this page reads version 1, the record has ${record.version}`);
  document.querySelector("main").hidden = document.querySelector("header").hidden = false;
  $("open").hidden = true;
  new Viewer(record);
}

async function open(file) {
  try {
    start(JSON.parse(await file.text()));
  } catch (error) {
    $("problem").textContent = `${file.name}: ${error.message}`;
  }
}

const inlined = JSON.parse($("record").textContent);
if (inlined) {
  start(inlined);
} else {
  document.querySelector("main").hidden = document.querySelector("header").hidden = true;
  $("open").hidden = false;
  $("file").onchange = () => open($("file").files[0]);
  addEventListener("dragover", (event) => event.preventDefault());
  addEventListener("drop", (event) => { event.preventDefault(); open(event.dataTransfer.files[0]); });
}
