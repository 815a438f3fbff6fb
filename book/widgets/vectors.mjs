// Vectors as strips of colours, one for each dimension.

import { h } from "./html.mjs";
import { format } from "./parts.mjs";

export const VECTORS_STYLE = `
.translator .strip { margin: .35rem 0; }
.translator .strip .title { display: flex; flex-wrap: wrap; gap: 0 .8rem; justify-content: space-between; font-size: .82rem; }
.translator .strip .numbers { font: .78rem var(--monospace); color: var(--muted); white-space: pre; }
.translator .strip canvas { display: block; width: 100%; height: 1.1rem; image-rendering: pixelated; touch-action: pan-y; border-radius: 2px; }
.translator .strip canvas:focus-visible { outline: 3px solid var(--focus); outline-offset: 1px; }
.translator .inset { margin: .6rem 0 .6rem .3rem; padding-inline-start: .7rem; border-inline-start: 2px solid var(--border); }
.translator .thin-strips { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 1px .5rem; align-items: center; font-size: .75rem; margin: .4rem 0; }
.translator .thin-strips span { max-width: 7rem; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.translator .thin-strips canvas { display: block; width: 100%; height: .8rem; image-rendering: pixelated; }
.translator .thin-strips .current { font-weight: 700; }
`;

/** Brown is negative and teal is positive, as in the book's figures; zero is transparent, so it has the page's colour. */
const NEGATIVE = [191, 129, 45], POSITIVE = [53, 151, 143];

/** Strips start with this many numbers. */
const FIRST = 4;

/** The number that gets the full colour: 2.5 times the root mean square of the vectors. */
export function fullColour(vectors) {
  let sum = 0, size = 0;
  for (const vector of vectors) for (const value of vector) [sum, size] = [sum + value * value, size + 1];
  return 2.5 * Math.sqrt(sum / size) || 1;
}

/** A canvas with one pixel for each dimension, which CSS enlarges. */
export function drawVector(vector, full, attributes = { "aria-hidden": "true" }) {
  const canvas = h("canvas", { width: vector.length, height: 1, ...attributes });
  const context = canvas.getContext("2d");
  const image = context.createImageData(vector.length, 1);
  vector.forEach((value, i) => image.data.set([...(value < 0 ? NEGATIVE : POSITIVE), 255 * Math.min(Math.abs(value) / full, 1)], 4 * i));
  context.putImageData(image, 0, 0);
  return canvas;
}

/**
 * Vectors with their names and first numbers, one below the other and with the same colours; the pointer or the arrow keys
 * show any other number.
 *
 * @param {(Element | [string, Float32Array])[]} rows each a name and a vector, or an element to be put between them.
 */
export function strips(rows) {
  const full = fullColour(rows.filter(Array.isArray).map(([, vector]) => vector));
  return h("div", { class: "strips" }, ...rows.map((row) => (Array.isArray(row) ? strip(...row, full) : row)));
}

function strip(name, vector, full) {
  const numbers = h("span", { class: "numbers" });
  let dimension = 0;
  const showFirst = () => {
    numbers.textContent = `${Array.from(vector.slice(0, FIRST), (value) => format(value)).join("  ")}${vector.length > FIRST ? "  …" : ""}`;
  };
  const showOne = (i) => {
    dimension = Math.min(Math.max(i, 0), vector.length - 1);
    numbers.textContent = `dimension ${dimension + 1} of ${vector.length}: ${format(vector[dimension])}`;
    canvas.setAttribute("aria-valuenow", dimension + 1);
    canvas.setAttribute("aria-valuetext", numbers.textContent);
  };
  const MOVES = { ArrowLeft: -1, ArrowRight: 1, ArrowDown: -1, ArrowUp: 1, PageDown: -16, PageUp: 16, Home: -Infinity, End: Infinity };
  const canvas = drawVector(vector, full, {
    role: "slider",
    tabindex: "0",
    "aria-label": name,
    "aria-valuemin": 1,
    "aria-valuemax": vector.length,
    "aria-valuenow": 1,
    "aria-valuetext": `dimension 1 of ${vector.length}: ${format(vector[0])}`,
    onpointermove: ({ offsetX, target }) => showOne(Math.floor((offsetX / target.clientWidth) * vector.length)),
    onpointerleave: showFirst,
    onblur: showFirst,
    onkeydown: (event) => {
      if (!(event.key in MOVES)) return;
      event.preventDefault();
      showOne(dimension + MOVES[event.key]);
    },
  });
  showFirst();
  return h("div", { class: "strip" }, h("div", { class: "title" }, h("span", {}, name), numbers), canvas);
}

/** A thin strip for each token, without numbers; the current one's name is bold. */
export function thinStrips(names, vectors, current) {
  const full = fullColour(vectors);
  const label = `A heat map: ${names.length} tokens, each a row with ${vectors[0].length} dimensions.`;
  const row = (name, i) => [h("span", { class: i === current ? "current" : "" }, name), drawVector(vectors[i], full)];
  return h("div", { class: "thin-strips", role: "img", "aria-label": label }, ...names.flatMap(row));
}
