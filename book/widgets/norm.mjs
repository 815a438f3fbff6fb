// Post-norm and pre-norm: how the size of the residual stream changes from sublayer to sublayer (chapter 6). The sublayers
// are random matrices: they have learned nothing.

import { h } from "./html.mjs";
import { OUTPUT, bar, checkbox, format, showWidget, slider, statusLine, table } from "./parts.mjs";

const WIDTH = 64;

const meanSquare = (x) => x.reduce((sum, value) => sum + value * value, 0) / x.length;
const add = (x, y) => x.map((value, i) => value + y[i]);

/** Normalise to mean 0 and variance 1, with a scale of 1 and a shift of 0, as at initialisation. */
export function layerNorm(x, epsilon = 1e-5) {
  const mean = x.reduce((sum, value) => sum + value, 0) / x.length;
  const deviation = x.map((value) => value - mean);
  return deviation.map((value) => value / Math.sqrt(meanSquare(deviation) + epsilon));
}

/**
 * Follow the residual stream through some sublayers: LayerNorm(x + sublayer(x)), or x + sublayer(LayerNorm(x)).
 *
 * @param {number[]} x the vector of one position.
 * @param {number[][][]} sublayers a matrix for each.
 * @param {boolean} normFirst whether to use pre-norm.
 * @returns {Object[]} for each sublayer the mean squares of its `output` and of the `stream` after it, and the cosine
 *   similarity between the stream and the first input.
 */
export function residualStream(x, sublayers, normFirst) {
  const first = x;
  const cosine = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0) / a.length / Math.sqrt(meanSquare(a) * meanSquare(b));
  return sublayers.map((matrix) => {
    const input = normFirst ? layerNorm(x) : x;
    const output = matrix.map((row) => row.reduce((sum, weight, i) => sum + weight * input[i], 0));
    const sum = add(x, output);
    x = normFirst ? sum : layerNorm(sum);
    return { output: meanSquare(output), stream: meanSquare(x), cosine: cosine(x, first) };
  });
}

/** Yield normally distributed numbers, the same ones for the same seed (mulberry32, then Box–Muller). */
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
  const pre = checkbox("pre-norm: normalise the sublayer's input", false, draw);
  const layers = slider("layers", { min: 1, max: 8, value: 4 }, draw);
  const scale = slider("scale of the sublayers' weights", { min: 0, max: 2, step: 0.1, value: 1 }, draw, (value) => value.toFixed(1));
  const seed = slider("random seed", { min: 0, max: 9, value: 0 }, draw);
  const status = statusLine(), numbers = h("div");

  function draw() {
    const generator = normal(seed.value() + 1);
    const draws = (n, deviation) => Array.from({ length: n }, () => generator.next().value * deviation);
    const x = layerNorm(draws(WIDTH, 1));
    const matrices = Array.from({ length: 2 * layers.value() }, () => Array.from({ length: WIDTH }, () => draws(WIDTH, scale.value() / Math.sqrt(WIDTH))));
    const steps = residualStream(x, matrices, pre.value());
    const largest = Math.max(1, ...steps.map(({ stream }) => stream));
    const last = steps.at(-1);
    status.textContent =
      (pre.value() ? "Pre-norm, x + sublayer(norm(x)): the stream itself is never normalised. " : "Post-norm, norm(x + sublayer(x)): the stream is normalised after every addition. ") +
      `After ${steps.length} sublayers the mean square of the stream is ${last.stream.toFixed(2)}, and its cosine similarity with the input is ${format(last.cosine)}.`;
    const row = ({ output, stream, cosine }, i) => [
      `${Math.floor(i / 2) + 1}, ${i % 2 ? "feed-forward" : "attention"}`,
      output.toFixed(2), format(cosine), h("div", {}, h("strong", {}, stream.toFixed(2)), h("div", { style: "width: 42px; margin-inline-start: auto; text-align: start" }, bar(stream / largest, OUTPUT, 40))),
    ];
    numbers.replaceChildren(table("Mean square of each sublayer's output and of the stream after it (1 for the input), and the stream's cosine with the input",
      ["sublayer", "output", "cosine", "stream"], steps.map(row)));
  }

  showWidget(el, [pre, layers, scale, seed].map((control) => control.el), status, numbers);
  draw();
}

export default { render };
