// A sequence that is a picture cut into patches: the picture itself, its patches tinted by what the active row looks at.
// SPDX-License-Identifier: Apache-2.0
"use strict";

// {shape: [Y, X, channels], data} -> a canvas of these pixels.
function picture_canvas({ shape: [height, width, channels], data }) {
  const canvas = element("canvas", { width, height }), context = canvas.getContext("2d");
  const bytes = atob(data), image = context.createImageData(width, height);
  for (let i = 0; i < width * height; ++i) {
    for (let c = 0; c < 3; ++c) image.data[4 * i + c] = bytes.charCodeAt(channels * i + (channels === 3 ? c : 0));
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// The spans of the tokens before the first patch, then the picture under those of its patches.
function picture_nodes(picture, spans) {
  const [rows, columns] = picture.patches, patches = spans.slice(picture.first);
  for (const span of patches) span.replaceChildren();
  const grid = element("span", { className: "patches" }, ...patches);
  grid.style.gridTemplate = `repeat(${rows}, 1fr) / repeat(${columns}, 1fr)`;
  const frame = element("span", { className: "picture" }, picture_canvas(picture), grid);
  frame.style.aspectRatio = `${picture.shape[1]} / ${picture.shape[0]}`;
  return [element("span", { className: "word" }, ...spans.slice(0, picture.first)), frame];
}

// One hue over whatever the picture shows there; `part` from 0 to 1.
const patch_style = (part) => `background:rgb(255 96 0 / ${(0.85 * clamp(part, 0, 1)).toFixed(3)})`;
