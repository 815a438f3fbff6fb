// Made by `make notebooks` with esbuild@0.25.12 from book/widgets (ca58f9be6174): change it there, not here (3a289a406366).
// html.mjs
var SVG = ["svg", "g", "line", "circle", "text", "title"];
function h(tag, attributes = {}, ...children) {
  const el = SVG.includes(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (value === true) el.setAttribute(name, "");
    else if (value !== false && value !== void 0) el.setAttribute(name, value);
  }
  el.append(...children);
  return el;
}
var keepKeys = {
  onfocusin: ({ target }) => target.matches(":read-write") || target.setAttribute("data-lm-suppress-shortcuts", "")
};

// theme.mjs
var THEME = `
  --text: var(--pst-color-text-base, var(--jp-content-font-color1, CanvasText));
  --muted: var(--pst-color-text-muted, var(--jp-content-font-color2, color-mix(in srgb, CanvasText 72%, Canvas)));
  --surface: var(--pst-color-surface, var(--jp-layout-color1, color-mix(in srgb, CanvasText 5%, Canvas)));
  --field: var(--pst-color-background, var(--jp-layout-color0, Canvas));
  --border: var(--pst-color-border, var(--jp-border-color1, color-mix(in srgb, CanvasText 30%, Canvas)));
  --focus: var(--pst-color-accent, var(--jp-brand-color1, CanvasText));
  --slider: var(--pst-color-primary, var(--jp-brand-color1, auto));
  --monospace: var(--pst-font-family-monospace, var(--jp-code-font-family, monospace));
  background: var(--surface); color: var(--text);
`;

// parts.mjs
var QUERY = "#0072B2";
var KEY = "#E69F00";
var VALUE = "#009E73";
var OUTPUT = "#CC79A7";
var PLAIN = "#808080";
var STYLE = `
.answers { ${THEME} border: 1px solid var(--border); border-radius: .4rem; padding: 1rem; margin: 1rem 0; font-size: .9rem; }
.answers .controls { display: flex; flex-wrap: wrap; gap: .6rem 1.2rem; align-items: end; }
.answers label { display: flex; flex-direction: column; gap: .2rem; min-width: 0; }
.answers label.switch { flex-direction: row; align-items: center; gap: .4rem; }
.answers input[type=range] { width: 9rem; accent-color: var(--slider); }
.answers :is(input[type=text], button) { font: inherit; color: inherit; padding: .3rem .5rem; max-width: 100%;
  background: var(--field); border: 1px solid var(--muted); border-radius: .3rem; }
.answers button:disabled { opacity: .5; }
.answers :is(input, button, circle, .scroll):focus-visible { outline: 3px solid var(--focus); outline-offset: 1px; }
.answers .told { margin: .6rem 0; min-height: 3em; }
.answers .side { display: flex; flex-wrap: wrap; gap: .6rem 1.2rem; align-items: start; }
.answers .side > * { min-width: 0; max-width: 100%; }
.answers svg { fill: var(--text); font-size: 12px; max-width: 100%; height: auto; }
.answers .scroll { overflow-x: auto; max-width: 100%; }
.answers .scroll table { border-collapse: collapse; width: auto; margin: 0; font-size: .85rem; font-variant-numeric: tabular-nums; }
.answers .scroll :is(th, td) { padding: .15rem .3rem; text-align: end; border-bottom: 1px solid var(--border); white-space: nowrap; }
.answers .scroll tbody :is(th, td) { background: none; color: inherit; }
@media (max-width: 30rem) {
  .answers { padding: .6rem; }
  .answers .scroll table { font-size: .78rem; }
  .answers .scroll :is(th, td) { padding: .15rem .18rem; }
}
.answers .caption { margin: .5rem 0 .2rem; }
`;
function show(el, controls, ...rest) {
  el.replaceChildren(h("style", {}, STYLE), h("div", { class: "answers", ...keepKeys }, h("div", { class: "controls" }, ...controls), ...rest));
}
function tick(name, checked, changed) {
  const input = h("input", { type: "checkbox", checked, onchange: changed });
  return { el: h("label", { class: "switch" }, input, name), value: () => input.checked };
}
var teller = () => h("p", { class: "told", "aria-live": "polite" });
function table(caption, columns, rows) {
  const head = h("tr", {}, ...columns.map((name) => h("th", { scope: "col" }, name)));
  const lines = rows.map(([name, ...cells]) => h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((cell) => h("td", {}, cell))));
  const box = { class: "scroll", tabindex: "0", role: "group", "aria-label": caption };
  return h("div", {}, h("p", { class: "caption" }, caption), h("div", box, h("table", {}, h("thead", {}, head), h("tbody", {}, ...lines))));
}
function softmax(scores) {
  const highest = Math.max(...scores);
  const exps = scores.map((score) => Math.exp(score - highest));
  const sum = exps.reduce((a, b) => a + b, 0);
  return exps.map((one) => one / sum);
}
var bar = (share, colour, width = 90) => h("span", { style: `display: inline-block; vertical-align: middle; height: .8em; width: ${(share * width).toFixed(1)}px; background: ${colour}` });

// attention.mjs
function attention(query, keys, values, scaled = true) {
  const dot = (a, b) => a.reduce((sum, one, i) => sum + one * b[i], 0);
  const scores = keys.map((key) => dot(query, key) / (scaled ? Math.sqrt(query.length) : 1));
  const weights = softmax(scores);
  const output = values[0].map((_, i) => dot(weights, values.map((value) => value[i])));
  return { scores, weights, output };
}
var REACH = 3;
var UNIT = 40;
var SIZE = 2 * REACH * UNIT + 60;
var STEP = 0.1;
var at = ([x, y]) => `(${x.toFixed(1)}, ${y.toFixed(1)})`;
var inside = (one) => Math.round(Math.min(Math.max(one, -REACH), REACH) / STEP) * STEP;
function arrow(name, vector, colour, changed) {
  const line = h("line", { stroke: colour, "stroke-width": 3 });
  const label = h("text", { "text-anchor": "middle", "aria-hidden": "true" }, name);
  const to = (x, y) => {
    [vector[0], vector[1]] = [inside(x), inside(y)];
    place();
    changed();
  };
  const drag = (event) => {
    if (!tip.hasPointerCapture(event.pointerId)) return;
    const { left, top, width } = tip.ownerSVGElement.getBoundingClientRect();
    const point = (position, start) => ((position - start) / width * SIZE - SIZE / 2) / UNIT;
    to(point(event.clientX, left), -point(event.clientY, top));
  };
  const MOVES = { ArrowLeft: [-STEP, 0], ArrowRight: [STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] };
  const press = (event) => {
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    to(vector[0] + move[0], vector[1] + move[1]);
  };
  const range = { role: "slider", tabindex: "0", "aria-label": `${name}, by the arrow keys`, "aria-valuemin": -REACH, "aria-valuemax": REACH };
  const tip = h("circle", {
    r: 8,
    fill: colour,
    stroke: "transparent",
    "stroke-width": 12,
    style: "cursor: grab; touch-action: none",
    ...range,
    onpointerdown: (event) => tip.setPointerCapture(event.pointerId),
    onpointermove: drag,
    onkeydown: press
  });
  const set = (el, pairs) => Object.entries(pairs).forEach(([key, value]) => el.setAttribute(key, value));
  function place() {
    const [x, y] = [vector[0] * UNIT, -vector[1] * UNIT];
    set(line, { x1: 0, y1: 0, x2: x, y2: y });
    set(tip, { cx: x, cy: y, "aria-valuenow": vector[0].toFixed(1), "aria-valuetext": at(vector) });
    set(label, { x, y: vector[1] < 0 ? y + 24 : y - 15 });
  }
  place();
  return h("g", {}, line, tip, label);
}
function plane(label, ...parts) {
  const edge = REACH * UNIT;
  const axes = [[-edge, 0, edge, 0], [0, -edge, 0, edge]].map(([x1, y1, x2, y2]) => h("line", { x1, y1, x2, y2, stroke: PLAIN }));
  const box = { viewBox: `${-SIZE / 2} ${-SIZE / 2} ${SIZE} ${SIZE}`, width: SIZE, height: SIZE, role: "group", "aria-label": label };
  return h("svg", box, ...axes, ...parts);
}
function render({ el }) {
  const query = [1.2, 0.6], keys = [[2, -0.5], [0, 2], [-1.5, -1]], values = [[2, 1.5], [-2, 1], [1, -2]];
  const scaled = tick("divide the scores by √2", true, () => draw());
  const told = teller(), numbers = h("div"), blend = h("g");
  function draw() {
    const { scores, weights, output } = attention(query, keys, values, scaled.value());
    const [x, y] = [output[0] * UNIT, -output[1] * UNIT];
    blend.replaceChildren(
      ...values.map((v, i) => h("line", { x1: x, y1: y, x2: v[0] * UNIT, y2: -v[1] * UNIT, stroke: OUTPUT, "stroke-width": 5 * weights[i] })),
      h("circle", { cx: x, cy: y, r: 6, fill: OUTPUT }),
      h("text", { x, y: y + 20, "text-anchor": "middle" }, "output")
    );
    const row = (_, i) => [`${i + 1}`, at(keys[i]), scores[i].toFixed(2), h("span", {}, `${weights[i].toFixed(2)} `, bar(weights[i], QUERY, 60)), at(values[i])];
    numbers.replaceChildren(table(`The lookup of the query ${at(query)}`, ["", "key", "score", "weight", "value"], keys.map(row)));
    told.textContent = `Output (${output.map((one) => one.toFixed(2)).join(", ")}): the values, blended by the weights ${weights.map((one) => one.toFixed(2)).join(", ")}.`;
  }
  const ofKeys = keys.map((key, i) => arrow(`key ${i + 1}`, key, KEY, draw));
  const ofValues = values.map((value, i) => arrow(`value ${i + 1}`, value, VALUE, draw));
  const left = plane("Query and keys", ...ofKeys, arrow("query", query, QUERY, draw));
  show(el, [scaled.el], told, h("div", { class: "side" }, left, plane("Values and output", ...ofValues, blend), numbers));
  draw();
}
var attention_default = { render };
export {
  attention,
  attention_default as default
};
