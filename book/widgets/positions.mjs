// Positions as clocks: each pair of numbers is the tip of a hand, and a shift turns each hand by an angle of its own,
// wherever it stood (chapter 5). `angles` and `sinusoidalEncoding` are those of transformer/positions.py.

import { h } from "./html.mjs";
import { KEY, PLAIN, QUERY, show, slider, table, teller } from "./parts.mjs";

/** The angle position / base^(2i/width) of each pair of dimensions. */
export function angles(position, width, base = 10000) {
  return Array.from({ length: width / 2 }, (_, i) => position * base ** ((-2 * i) / width));
}

/** Sine and cosine of each angle, side by side. */
export function sinusoidalEncoding(position, dModel, base = 10000) {
  return angles(position, dModel, base).flatMap((angle) => [Math.sin(angle), Math.cos(angle)]);
}

/** By how many degrees each hand of `from` must turn clockwise to stand where it does in `to`: from 0 to 360. */
export function turns(from, to) {
  return Array.from({ length: from.length / 2 }, (_, i) => {
    const [a, b, c, d] = [from[2 * i], from[2 * i + 1], to[2 * i], to[2 * i + 1]];
    const degrees = (Math.atan2(c * b - d * a, a * c + b * d) * 180) / Math.PI;
    return degrees < -1e-6 ? degrees + 360 : Math.abs(degrees);
  });
}

const R = 30;

function clock(i, here, there) {
  const hand = ([x, y], colour, width) =>
    h("line", { x1: 0, y1: 0, x2: R * x, y2: -R * y, stroke: colour, "stroke-width": width, "stroke-linecap": "round" });
  return h(
    "svg",
    { viewBox: "-36 -36 72 90", width: 72, height: 90, "aria-hidden": "true" },
    h("circle", { r: R + 3, fill: "none", stroke: PLAIN }),
    hand(here, QUERY, 5),
    hand(there, KEY, 3),
    h("text", { y: 48, "text-anchor": "middle" }, `pair ${i}`),
  );
}

function render({ el }) {
  const position = slider("position", { min: 0, max: 100, value: 3 }, draw);
  const distance = slider("distance k", { min: -20, max: 20, value: 2 }, draw);
  const width = slider("d_model", { min: 2, max: 16, step: 2, value: 8 }, draw);
  const base = slider("base", { min: 1, max: 5, value: 4 }, draw, (power) => (10 ** power).toLocaleString("en"));
  const told = teller(), clocks = h("div", { class: "side" }), numbers = h("div");

  function draw() {
    const [p, k, d, b] = [position.value(), distance.value(), width.value(), 10 ** base.value()];
    const [here, there] = [p, p + k].map((one) => sinusoidalEncoding(one, d, b));
    const turned = turns(here, there);
    const fromZero = turns(sinusoidalEncoding(0, d, b), sinusoidalEncoding(k, d, b));
    const product = here.reduce((sum, one, i) => sum + one * there[i], 0);
    const pair = (x, i) => x.slice(2 * i, 2 * i + 2);
    const tip = (x, i) => `(${pair(x, i).map((one) => one.toFixed(2)).join(", ")})`;
    const length = (i) => ((2 * Math.PI) / angles(1, d, b)[i]).toLocaleString("en", { maximumFractionDigits: 1 });
    clocks.replaceChildren(...turned.map((_, i) => clock(i, pair(here, i), pair(there, i))));
    told.textContent =
      `Blue: position ${p}. Orange: position ${p + k}. From blue to orange each hand turns by an angle that depends on k ` +
      `and not on the position; so does the dot product of the two vectors, ${product.toFixed(2)}.`;
    const columns = ["pair", "a full turn", `p = ${p}`, `p = ${p + k}`, "turned by", `0 to ${k}`];
    numbers.replaceChildren(
      table("Sine and cosine of each pair; by how many degrees its hand turns, here and from position 0", columns,
        turned.map((turn, i) => [`${i}`, length(i), tip(here, i), tip(there, i), `${turn.toFixed(1)}°`, `${fromZero[i].toFixed(1)}°`])),
    );
  }

  show(el, [position, distance, width, base].map((one) => one.el), told, clocks, numbers);
  draw();
}

export default { render };
