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

/** Return what `toFragment` was given, unchecked, or null if the fragment carries no sentence. */
export function fromFragment(fragment) {
  const values = new URLSearchParams(fragment.slice(1));
  if (!values.has("s")) return null;
  const ablated = Object.create(null); // a layer may have any name, even that of a method
  for (const [, layer, head] of (values.get("off") ?? "").matchAll(/([\w.]+)\.(\d+)/g)) (ablated[layer] ??= []).push(Number(head));
  const [sentence, model, beamSize, lengthPenalty] = ["s", "model", "beam", "penalty"].map((name) => values.get(name));
  return { sentence, model, beamSize, lengthPenalty, ablated };
}

/** Break a text into lines that fit into a width, in the font of the context. A word that is too long gets a line of its own. */
function wrap(context, text, width) {
  const lines = [];
  for (const word of text.trim().split(/\s+/u)) {
    const longer = `${lines.at(-1)} ${word}`;
    if (lines.length && context.measureText(longer).width <= width) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

/** Return the mean of the weights of several heads: one row for each query. */
const meanOf = (heads) =>
  heads[0].map((row, query) => Array.from(row, (_, key) => heads.reduce((sum, rows) => sum + rows[query][key], 0) / heads.length));

/**
 * Draw a translation, and a heat map of what the decoder attends to in the source when it predicts each token, the mean over
 * the heads of a layer.
 *
 * @param {Object} shown
 * @param {string[]} shown.texts the sentence and its translation.
 * @param {string[]} shown.source the tokens of the source, for the columns.
 * @param {string[]} shown.target the tokens that are predicted, for the rows.
 * @param {Float32Array[][]} shown.heads the weights of the layer's heads.
 * @param {string} shown.note a line below the map.
 * @returns {HTMLCanvasElement} black on white, whatever the page's colours.
 */
export function drawImage({ texts, source, target, heads, note }) {
  const cell = MAP / Math.max(source.length, 8);
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  const lines = []; // those of both texts
  let bottom = 48; // of the last line
  for (const [text, size, colour] of [[texts[0], 40, "#48566b"], [texts[1], 48, "#222832"]]) {
    context.font = `${size}px sans-serif`;
    for (const line of wrap(context, text, WIDTH - 2 * MARGIN)) {
      bottom += 1.3 * size;
      lines.push([line, bottom, size, colour]);
    }
    bottom += 20;
  }
  const [left, top, size] = [MARGIN + 260, bottom + 208, Math.min(26, 0.7 * cell)];
  [canvas.width, canvas.height] = [WIDTH, Math.ceil(top + cell * target.length + 100)];
  context.fillStyle = "white";
  context.fillRect(0, 0, canvas.width, canvas.height);
  const write = (text, x, y, size, { colour = "#222832", align = "left", room = WIDTH - x - MARGIN } = {}) => {
    context.fillStyle = colour;
    context.textAlign = align;
    context.font = `${size}px sans-serif`;
    context.fillText(text, x, y, room); // a text that is too long is compressed
  };
  for (const [line, y, size, colour] of lines) write(line, MARGIN, y, size, { colour });
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
