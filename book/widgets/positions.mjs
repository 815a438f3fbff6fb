// Sinusoidal positions as clocks: each pair of dimensions is the tip of a hand, and a shift by k positions rotates each
// hand by an angle that doesn't depend on the position (chapter 5). `angles` and `sinusoidalEncoding` are those of transformer/positions.py.

import { h } from "./html.mjs";
import { KEY, PLAIN, QUERY, format, showWidget, slider, statusLine, table } from "./parts.mjs";

/** Return the angle position / base^(2i/width) of each pair of dimensions. */
export function angles(position, width, base = 10000) {
  return Array.from({ length: width / 2 }, (_, i) => position * base ** ((-2 * i) / width));
}

/** Return the sine and the cosine of each angle, side by side. */
export function sinusoidalEncoding(position, dModel, base = 10000) {
  return angles(position, dModel, base).flatMap((angle) => [Math.sin(angle), Math.cos(angle)]);
}

/** Return the clockwise rotation, in degrees from −180 to 180, that takes each pair of `from` to that of `to`. */
export function rotations(from, to) {
  return Array.from({ length: from.length / 2 }, (_, i) => {
    const [a, b, c, d] = [from[2 * i], from[2 * i + 1], to[2 * i], to[2 * i + 1]];
    return (Math.atan2(c * b - d * a, a * c + b * d) * 180) / Math.PI;
  });
}

const R = 30;

function clock(i, first, second) {
  const hand = ([x, y], colour, width) =>
    h("line", { x1: 0, y1: 0, x2: R * x, y2: -R * y, stroke: colour, "stroke-width": width, "stroke-linecap": "round" });
  return h(
    "svg",
    { viewBox: "-36 -36 72 90", width: 72, height: 90, "aria-hidden": "true" },
    h("circle", { r: R + 3, fill: "none", stroke: PLAIN }),
    hand(first, QUERY, 5),
    hand(second, KEY, 3),
    h("text", { y: 48, "text-anchor": "middle" }, `pair ${i}`),
  );
}

function render({ el }) {
  const position = slider("position", { min: 0, max: 100, value: 3 }, draw);
  const distance = slider("distance k", { min: -20, max: 20, value: 2 }, draw, (k) => format(k, 0));
  const width = slider("d_model", { min: 2, max: 16, step: 2, value: 8 }, draw);
  const base = slider("base", { min: 1, max: 5, value: 4 }, draw, (power) => (10 ** power).toLocaleString("en"));
  const status = statusLine(), clocks = h("div", { class: "side", style: "column-gap: .3rem" }), numbers = h("div");

  function draw() {
    const [k, d, b] = [distance.value(), width.value(), 10 ** base.value()];
    if (position.value() + k < 0) position.set(-k); // there are no negative positions
    const p = position.value();
    const [from, to] = [Math.max(0, -k), Math.max(0, k)]; // the first two positions with this offset
    const [first, second, firstAt0, secondAt0] = [p, p + k, from, to].map((index) => sinusoidalEncoding(index, d, b));
    const rotation = rotations(first, second), rotationAt0 = rotations(firstAt0, secondAt0);
    const product = first.reduce((sum, value, i) => sum + value * second[i], 0);
    const pair = (x, i) => x.slice(2 * i, 2 * i + 2);
    const degrees = (angle) => `${format(angle, 1)}°`;
    const wavelength = (i) => ((2 * Math.PI) / angles(1, d, b)[i]).toLocaleString("en", { maximumFractionDigits: 1 });
    clocks.replaceChildren(...rotation.map((_, i) => clock(i, pair(first, i), pair(second, i))));
    status.textContent =
      `Blue: position ${p}. Orange: position ${p + k}${p + k ? "" : ", the first one"}. The rotation of each hand from blue to orange depends on k but not on the ` +
      `position. The same holds for the dot product of the two vectors, ${format(product)}.`;
    const columns = ["pair", `from ${p} to ${p + k}`, `from ${from} to ${to}`, "wavelength"];
    numbers.replaceChildren(
      table(`How far the hand of each pair rotates from position ${p} to ${p + k}, and from ${from} to ${to}: by the same angle`, columns,
        rotation.map((angle, i) => [`${i}`, degrees(angle), degrees(rotationAt0[i]), wavelength(i)])),
    );
  }

  showWidget(el, [position, distance, width, base].map((control) => control.el), status, clocks, numbers);
  draw();
}

export default { render };
