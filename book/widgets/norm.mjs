// Post-norm or pre-norm: what is added and what is normalised on the way up, and how large the stream becomes (chapter 6).
// The sublayers are random matrices: they say something, but they have learned nothing.

import { h } from "./html.mjs";
import { OUTPUT, bar, show, slider, table, teller, tick } from "./parts.mjs";

const WIDTH = 64;

const meanSquare = (x) => x.reduce((sum, one) => sum + one * one, 0) / x.length;
const plus = (x, y) => x.map((one, i) => one + y[i]);

/** Mean 0 and variance 1; factor and shift as they begin, 1 and 0. */
export function layerNorm(x, epsilon = 1e-5) {
  const mean = x.reduce((sum, one) => sum + one, 0) / x.length;
  const deviation = x.map((one) => one - mean);
  return deviation.map((one) => one / Math.sqrt(meanSquare(deviation) + epsilon));
}

/**
 * The residual stream through some sublayers: x becomes LayerNorm(x + sublayer(x)), or x + sublayer(LayerNorm(x)).
 *
 * @param {number[]} x the vector of one place.
 * @param {number[][][]} sublayers a matrix for each.
 * @param {boolean} normFirst pre-norm.
 * @returns {Object[]} for each sublayer the mean square of what it `says`, of the sum, `added`, and of the stream behind
 *   it, `after`; and the stream's cosine with its beginning.
 */
export function stream(x, sublayers, normFirst) {
  const begin = x;
  const cosine = (a, b) => a.reduce((sum, one, i) => sum + one * b[i], 0) / a.length / Math.sqrt(meanSquare(a) * meanSquare(b));
  return sublayers.map((matrix) => {
    const read = normFirst ? layerNorm(x) : x;
    const said = matrix.map((row) => row.reduce((sum, one, i) => sum + one * read[i], 0));
    const sum = plus(x, said);
    x = normFirst ? sum : layerNorm(sum);
    return { says: meanSquare(said), added: meanSquare(sum), after: meanSquare(x), cosine: cosine(x, begin) };
  });
}

/** Numbers with mean 0 and variance 1, the same ones for the same seed (mulberry32, then Box and Muller). */
export function* normal(seed) {
  const uniform = () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return (((t ^ (t >>> 14)) >>> 0) + 0.5) / 2 ** 32;
  };
  for (;;) yield Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
}

function render({ el }) {
  const pre = tick("pre-norm: the norm on the branch", false, draw);
  const layers = slider("layers", { min: 1, max: 8, value: 4 }, draw);
  const loud = slider("how much a sublayer says", { min: 0, max: 2, step: 0.1, value: 1 }, draw, (one) => one.toFixed(1));
  const seed = slider("another throw of the dice", { min: 0, max: 9, value: 0 }, draw);
  const told = teller(), numbers = h("div");

  function draw() {
    const dice = normal(seed.value() + 1);
    const next = (n, scale) => Array.from({ length: n }, () => dice.next().value * scale);
    const x = layerNorm(next(WIDTH, 1));
    const matrices = Array.from({ length: 2 * layers.value() }, () => Array.from({ length: WIDTH }, () => next(WIDTH, loud.value() / Math.sqrt(WIDTH))));
    const found = stream(x, matrices, pre.value());
    const most = Math.max(1, ...found.map(({ after }) => after));
    const end = found.at(-1);
    told.textContent =
      (pre.value() ? "Pre-norm, x + sublayer(norm(x)): nothing stands on the stream but a plus. " : "Post-norm, norm(x + sublayer(x)): every sum is normalised, and the stream with it. ") +
      `Behind ${found.length} sublayers the stream's mean square is ${end.after.toFixed(2)}, and its cosine with where it began ${end.cosine.toFixed(2)}.`;
    const row = ({ says, added, after, cosine }, i) => [
      `${Math.floor(i / 2) + 1}, ${i % 2 ? "feed-forward" : "attention"}`,
      ...[says, added].map((one) => one.toFixed(2)), h("strong", {}, after.toFixed(2)), h("div", { style: "width: 92px; text-align: start" }, bar(after / most, OUTPUT)), cosine.toFixed(2),
    ];
    numbers.replaceChildren(table("Mean squares on the way up, from the first sublayer to the last; the stream begins with 1",
      ["layer", "says", "sum", "behind it", "", "cosine"], found.map(row)));
  }

  show(el, [pre, layers, loud, seed].map((one) => one.el), told, numbers);
  draw();
}

export default { render };
