// Heat maps of attention weights: small ones as thumbnails, and a large one with labels.

import { h, withoutMark } from "./html.mjs";

/** The large map shows at most this many queries and keys. */
const MAX_TOKENS = 40;

/** Viridis, as in the figures of the book: dark is 0, light is 1. */
const STOPS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

function colour(weight) {
  const position = Math.min(weight, 1) * (STOPS.length - 1);
  const low = Math.min(Math.floor(position), STOPS.length - 2);
  return STOPS[low].map((value, i) => Math.round(value + (position - low) * (STOPS[low + 1][i] - value)));
}

/** Return the style of a grid of heads: how many are in a row on a wide screen and on a phone. All rows are equally long. */
export const gridOfHeads = (count) => `--wide: ${perRow(count, 8)}; --narrow: ${perRow(count, 4)}`;

/** Return the largest divisor of a number that is not larger than `most`; if this would be 1, `most`. */
export function perRow(count, most) {
  for (let divisor = Math.min(count, most); divisor > 1; divisor--) if (count % divisor === 0) return divisor;
  return Math.min(count, most);
}

/** A small heat map: a canvas with one pixel for each weight, which CSS enlarges. */
export function smallMap(rows) {
  const width = Math.max(...rows.map((row) => row.length));
  const canvas = h("canvas", { width, height: rows.length, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, rows.length);
  rows.forEach((row, y) => {
    for (let x = 0; x < width; x++) image.data.set([...colour(row[x] ?? 0), 255], 4 * (y * width + x));
  });
  context.putImageData(image, 0, 0);
  return canvas;
}

/**
 * A large heat map: a table with the tokens as its headers, which shows the weight of the cell under the pointer.
 *
 * @param {Float32Array[]} rows the weights: one row for each query.
 * @param {string[]} queries the tokens of the rows.
 * @param {string[]} keys the tokens of the columns.
 */
export function largeMap(rows, queries, keys) {
  const isCut = rows.length > MAX_TOKENS || keys.length > MAX_TOKENS;
  const columns = keys.slice(0, MAX_TOKENS);
  const status = h("p", { class: "status", "aria-live": "polite" }, "Point at a cell, or move to a row with the Tab key, to see a weight.");
  const strongest = (row) => row.indexOf(Math.max(...row));
  const showWeight = (q, k) => {
    status.textContent = `${withoutMark(queries[q])} → ${withoutMark(keys[k])}: ${(rows[q][k] ?? 0).toFixed(3)}`;
  };
  const line = (row, q) =>
    h(
      "tr",
      { tabindex: "0", onfocus: () => showWeight(q, strongest(row)) },
      h("th", { scope: "row" }, withoutMark(queries[q])),
      ...columns.map((_, k) =>
        h("td", { style: `background: rgb(${colour(row[k] ?? 0)})`, onpointerenter: () => showWeight(q, k) }),
      ),
    );
  const head = h("tr", {}, h("td"), ...columns.map((key) => h("th", { scope: "col" }, h("span", {}, withoutMark(key)))));
  const table = h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows.slice(0, MAX_TOKENS).map(line)));
  const note = isCut ? [h("p", {}, `Only the first ${MAX_TOKENS} tokens of each side are shown.`)] : [];
  return h("div", { class: "large" }, status, h("div", { class: "scroll" }, table), ...note);
}
