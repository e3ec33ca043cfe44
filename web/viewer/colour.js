// The colours of weights: one hue, light and dark, and the scales that lead from weights to them.
// SPDX-License-Identifier: Apache-2.0
"use strict";

// One hue; lightness, which every kind of colour vision sees, falls (or in the dark rises) evenly in OKLab.
const kThemes = {
  light: { from: 0.955, to: 0.27, chroma: 0.145, hue: 256 },
  dark: { from: 0.27, to: 0.95, chroma: 0.125, hue: 250 },
};

function oklch_to_rgb(lightness, chroma, hue) {
  for (; ; chroma -= 0.004) {  // less chroma until the screen can show it
    const a = chroma * Math.cos(hue * Math.PI / 180), b = chroma * Math.sin(hue * Math.PI / 180);
    const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
    const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
    const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
    const rgb = [4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
                 -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
                 -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s];
    if (chroma > 0 && rgb.some((x) => x < -1e-4 || x > 1.0001)) continue;
    return rgb.map((x) => Math.round(255 * clamp(x <= 0.0031308 ? 12.92 * x : 1.055 * x ** (1 / 2.4) - 0.055, 0, 1)));
  }
}

const kShades = 512;

function make_palette({ from, to, chroma, hue }) {
  const css = [], pixels = new Uint32Array(kShades);
  for (let i = 0; i < kShades; ++i) {
    const t = i / (kShades - 1);
    const [r, g, b] = oklch_to_rgb(from + (to - from) * t, chroma * Math.min(1, 0.25 + 2 * t, 0.35 + 2 * (1 - t)), hue);
    css.push(`rgb(${r},${g},${b})`);
    pixels[i] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return { css, pixels, light: (i) => (from + (to - from) * i / (kShades - 1)) > 0.62 };
}

// How weights become places on the scale, and what its legend says.
const kScales = {
  root: { place: (w) => Math.sqrt(w), ticks: [0, 0.05, 0.25, 0.5, 1] },
  linear: { place: (w) => w, ticks: [0, 0.25, 0.5, 0.75, 1] },
  head: { place: (w, most) => (most > 0 ? w / most : 0), ticks: null },
};
