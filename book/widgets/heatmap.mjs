// Attention weights as colours: small, and large enough to read.

import { h, word } from "./html.mjs";

/** The large map shows so many words of each side. */
const LARGEST = 40;

/** Viridis, as in the book's other pictures: dark is 0, light is 1. */
const STOPS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

function colour(weight) {
  const at = Math.min(weight, 1) * (STOPS.length - 1);
  const low = Math.min(Math.floor(at), STOPS.length - 2);
  return STOPS[low].map((value, i) => Math.round(value + (at - low) * (STOPS[low + 1][i] - value)));
}

/** A small map: a canvas with one pixel for each weight, which the page's style enlarges. */
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
 * A large map: a table with the words at its sides, which reads out the cell under the pointer.
 *
 * @param {Float32Array[]} rows weights: a row for each query.
 * @param {string[]} queries pieces.
 * @param {string[]} keys pieces.
 */
export function largeMap(rows, queries, keys) {
  const cut = rows.length > LARGEST || keys.length > LARGEST;
  const shown = keys.slice(0, LARGEST);
  const told = h("p", { class: "told", "aria-live": "polite" }, "Point at a cell, or tab to a row, to read it.");
  const strongest = (row) => row.indexOf(Math.max(...row));
  const say = (q, k) => {
    told.textContent = `${word(queries[q])} → ${word(keys[k])}: ${(rows[q][k] ?? 0).toFixed(3)}`;
  };
  const line = (row, q) =>
    h(
      "tr",
      { tabindex: "0", onfocus: () => say(q, strongest(row)) },
      h("th", { scope: "row" }, word(queries[q])),
      ...shown.map((_, k) =>
        h("td", { style: `background: rgb(${colour(row[k] ?? 0)})`, onpointerenter: () => say(q, k) }),
      ),
    );
  const head = h("tr", {}, h("td"), ...shown.map((key) => h("th", { scope: "col" }, h("span", {}, word(key)))));
  const table = h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows.slice(0, LARGEST).map(line)));
  const note = cut ? [h("p", {}, `The first ${LARGEST} pieces of each side.`)] : [];
  return h("div", { class: "large" }, told, h("div", { class: "scroll" }, table), ...note);
}
