// Share what the live translator shows: as a link that carries the sentence and the settings, and as an image.

import { smallMap } from "./heatmap.mjs";
import { withoutMark } from "./html.mjs";

/** Pixels of the image: its width, its margin, and the width of the heat map, whose labels are on its left and above it. */
const WIDTH = 1200, MARGIN = 60, MAP = 620;

/**
 * The part of an address after "#". It is not sent to a server, unlike the part after "?".
 *
 * @param {Object} shown the text `sentence`, the name of the `model`, `beamSize`, `lengthPenalty`, and `ablated` as in the model.
 */
export function toFragment({ sentence, model, beamSize, lengthPenalty, ablated }) {
  const off = Object.entries(ablated).flatMap(([layer, heads]) => heads.map((head) => `${layer}.${head}`));
  const values = { s: sentence, model, beam: beamSize, penalty: lengthPenalty, ...(off.length ? { off: off.join(" ") } : {}) };
  return `#${new URLSearchParams(values)}`;
}

/** Return what `toFragment` was given, or null if the fragment carries no sentence. */
export function fromFragment(fragment) {
  const values = new URLSearchParams(fragment.slice(1));
  if (!values.has("s")) return null;
  const ablated = {};
  for (const [, layer, head] of (values.get("off") ?? "").matchAll(/([\w.]+)\.(\d+)/g)) (ablated[layer] ??= []).push(Number(head));
  const [sentence, model, beamSize, lengthPenalty] = ["s", "model", "beam", "penalty"].map((name) => values.get(name));
  return { sentence, model, beamSize, lengthPenalty, ablated };
}

/** Return the mean of the weights of several heads: one row for each query. */
const meanOf = (heads) =>
  heads[0].map((row, query) => Array.from(row, (_, key) => heads.reduce((sum, rows) => sum + rows[query][key], 0) / heads.length));

/**
 * Draw a translation, and a heat map of what its tokens attend to in the source, the mean over the heads of a layer.
 *
 * @param {Object} shown
 * @param {string[]} shown.texts the sentence and its translation.
 * @param {string[]} shown.source the tokens of the source, for the columns.
 * @param {string[]} shown.target the tokens of the translation, for the rows.
 * @param {Float32Array[][]} shown.heads the weights of the layer's heads.
 * @param {string} shown.note a line below the map.
 * @returns {HTMLCanvasElement} black on white, whatever the colours of the page are.
 */
export function drawImage({ texts, source, target, heads, note }) {
  const cell = MAP / Math.max(source.length, 8);
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [WIDTH, Math.ceil(500 + cell * target.length)];
  const context = canvas.getContext("2d");
  context.fillStyle = "white";
  context.fillRect(0, 0, canvas.width, canvas.height);
  const write = (text, x, y, size, { colour = "#222832", align = "left", room = WIDTH - x - MARGIN } = {}) => {
    context.fillStyle = colour;
    context.textAlign = align;
    context.font = `${size}px sans-serif`;
    context.fillText(text, x, y, room); // a text that is too long is compressed
  };
  write(texts[0], MARGIN, 100, 40, { colour: "#48566b" });
  write(texts[1], MARGIN, 170, 48);

  const [left, top, size] = [MARGIN + 260, 400, Math.min(26, 0.7 * cell)];
  context.imageSmoothingEnabled = false;
  context.drawImage(smallMap(meanOf(heads)), left, top, cell * source.length, cell * target.length);
  target.forEach((token, i) => write(withoutMark(token), left - 12, top + cell * (i + 0.65), size, { align: "right", room: 250 }));
  source.forEach((token, i) => {
    context.save();
    context.translate(left + cell * (i + 0.65), top - 12);
    context.rotate(-Math.PI / 2);
    write(withoutMark(token), 0, 0, size, { room: 170 });
    context.restore();
  });
  write(note, MARGIN, canvas.height - 36, 22, { colour: "#48566b" });
  return canvas;
}
