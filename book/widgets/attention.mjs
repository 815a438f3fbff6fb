// Attention with vectors in the plane: move the query, the keys and the values, and see the output (chapter 2).

import { h } from "./html.mjs";
import { KEY, OUTPUT, PLAIN, QUERY, VALUE, bar, checkbox, format, formatVector, showWidget, softmax, statusLine, table } from "./parts.mjs";

/**
 * Attention of a single query: softmax(q·k / √d_k) v (§3.2.1).
 *
 * @param {number[]} query d_k numbers.
 * @param {number[][]} keys each as long as the query.
 * @param {number[][]} values one for each key.
 * @param {boolean} scaled whether the scores are divided by √d_k.
 */
export function attention(query, keys, values, scaled = true) {
  const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
  const scores = keys.map((key) => dot(query, key) / (scaled ? Math.sqrt(query.length) : 1));
  const weights = softmax(scores);
  const output = values[0].map((_, i) => dot(weights, values.map((value) => value[i])));
  return { scores, weights, output };
}

const REACH = 3, UNIT = 40, SIZE = 2 * REACH * UNIT + 60, STEP = 0.1;

const clamp = (value) => Math.round(Math.min(Math.max(value, -REACH), REACH) / STEP) * STEP;

/** An arrow whose tip can be dragged or moved with the arrow keys. */
function arrow(name, vector, colour, onChange) {
  const line = h("line", { stroke: colour, "stroke-width": 3 });
  const label = h("text", { "text-anchor": "middle", "aria-hidden": "true" }, name);
  const moveTo = (x, y) => { [vector[0], vector[1]] = [clamp(x), clamp(y)]; draw(); onChange(); };
  const drag = (event) => {
    if (!tip.hasPointerCapture(event.pointerId)) return;
    const { left, top, width } = tip.ownerSVGElement.getBoundingClientRect();
    const point = (position, start) => (((position - start) / width) * SIZE - SIZE / 2) / UNIT;
    moveTo(point(event.clientX, left), -point(event.clientY, top));
  };
  const MOVES = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] };
  const press = (event) => {
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    moveTo(vector[0] + move[0], vector[1] + move[1]);
  };
  const range = { role: "slider", tabindex: "0", "aria-label": `${name}, move it with the arrow keys`, "aria-valuemin": -REACH, "aria-valuemax": REACH };
  const tip = h("circle", { r: 8, fill: colour, stroke: "transparent", "stroke-width": 12, style: "cursor: grab; touch-action: none", ...range,
    onpointerdown: (event) => tip.setPointerCapture(event.pointerId), onpointermove: drag, onkeydown: press });
  const set = (el, pairs) => Object.entries(pairs).forEach(([key, value]) => el.setAttribute(key, value));
  function draw() {
    const [x, y] = [vector[0] * UNIT, -vector[1] * UNIT];
    set(line, { x1: 0, y1: 0, x2: x, y2: y });
    set(tip, { cx: x, cy: y, "aria-valuenow": vector[0].toFixed(1), "aria-valuetext": formatVector(vector, 1) });
    set(label, { x, y: vector[1] < 0 ? y + 24 : y - 15 });
  }
  draw();
  return h("g", {}, line, tip, label);
}

function plane(label, ...parts) {
  const edge = REACH * UNIT;
  const axes = [[-edge, 0, edge, 0], [0, -edge, 0, edge]].map(([x1, y1, x2, y2]) => h("line", { x1, y1, x2, y2, stroke: PLAIN }));
  const box = { viewBox: `${-SIZE / 2} ${-SIZE / 2} ${SIZE} ${SIZE}`, width: SIZE, height: SIZE, role: "group", "aria-label": label };
  const title = h("text", { x: -SIZE / 2 + 4, y: -SIZE / 2 + 16, "font-weight": 600, "aria-hidden": "true" }, label);
  return h("svg", box, title, ...axes, ...parts);
}

function render({ el }) {
  const query = [1.2, 0.6], keys = [[2, -0.5], [0, 1.8], [-1.5, -1]], values = [[2, 1.5], [-2, 1], [1, -2]];
  const scaled = checkbox("divide the scores by √2", true, () => draw());
  const status = statusLine(), numbers = h("div"), sum = h("g", { style: "pointer-events: none" });

  function draw() {
    const { scores, weights, output } = attention(query, keys, values, scaled.value());
    const [x, y] = [output[0] * UNIT, -output[1] * UNIT];
    sum.replaceChildren(
      ...values.map((v, i) => [v, values[(i + 1) % values.length]]).map(([a, b]) =>
        h("line", { x1: a[0] * UNIT, y1: -a[1] * UNIT, x2: b[0] * UNIT, y2: -b[1] * UNIT, stroke: PLAIN, "stroke-dasharray": "4 3" })),
      ...values.map((v, i) => h("line", { x1: x, y1: y, x2: v[0] * UNIT, y2: -v[1] * UNIT, stroke: OUTPUT, "stroke-width": 5 * weights[i] })),
      h("circle", { cx: x, cy: y, r: 6, fill: OUTPUT }),
      h("text", { x, y: y + 20, "text-anchor": "middle" }, "output"),
    );
    const row = (_, i) => [`${i + 1}`, formatVector(keys[i], 1), format(scores[i]), h("span", {}, `${weights[i].toFixed(2)} `, h("span", { style: "display: inline-block; width: 60px; text-align: start" }, bar(weights[i], PLAIN, 60))), formatVector(values[i], 1)];
    numbers.replaceChildren(table(`Attention of the query ${formatVector(query, 1)}`, ["", "key", "score", "weight", "value"], keys.map(row)));
    status.textContent = `Output ${formatVector(output)}: the sum of the values, weighted by ${weights.map((weight) => weight.toFixed(2)).join(", ")}.`;
  }

  const keyArrows = keys.map((key, i) => arrow(`key ${i + 1}`, key, KEY, draw));
  const valueArrows = values.map((value, i) => arrow(`value ${i + 1}`, value, VALUE, draw));
  const left = plane("Query and keys", ...keyArrows, arrow("query", query, QUERY, draw));
  showWidget(el, [scaled.el], status, h("div", { class: "side" }, left, plane("Values and output", ...valueArrows, sum), numbers));
  draw();
}

export default { render };
