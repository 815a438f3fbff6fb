// Made by `make notebooks` from norm.mjs in book/widgets and what it imports: change it there.

const $html = (() => {
// Make elements: h("button", { type: "button", onclick }, "Press") is a button that says Press.

const SVG = ["svg", "g", "line", "circle", "text", "title"];

/** An element with attributes, listeners (names that start with "on"), and children: elements or text. */
function h(tag, attributes = {}, ...children) {
  const el = SVG.includes(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (value === true) el.setAttribute(name, "");
    else if (value !== false && value !== undefined) el.setAttribute(name, value);
  }
  el.append(...children);
  return el;
}

/**
 * For a widget's outermost element: JupyterLab takes a key that is pressed on a slider or a button for one of its commands,
 * and "dd" deletes a cell, unless that very element says that the key is its own. Text fields need not say it.
 */
const keepKeys = {
  onfocusin: ({ target }) => target.matches(":read-write") || target.setAttribute("data-lm-suppress-shortcuts", ""),
};

/** A piece as people read it: without the mark of a word's start. */
const word = (piece) => piece.replace(/^▁(?=.)/u, "");

return { h, keepKeys };
})();

const $theme = (() => {
// The colours of the place where a widget stands: the book's, else JupyterLab's, else the browser's own.

/** For the style of a widget's outermost element. What stands on what comes from the same of the three places. */
const THEME = `
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

return { THEME };
})();

const $parts = (() => {
// What the small pictures of the chapters have in common: their look, sliders, switches, tables.

const { h, keepKeys } = $html;
const { THEME } = $theme;

/** Okabe and Ito's colours, with the same meaning as in transformer/plots/style.py. For fills and lines, not for text. */
const QUERY = "#0072B2", KEY = "#E69F00", VALUE = "#009E73", OUTPUT = "#CC79A7", WRONG = "#D55E00", PLAIN = "#808080";

const STYLE = `
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

/** Put a picture into its place: controls first, then what they change. */
function show(el, controls, ...rest) {
  el.replaceChildren(h("style", {}, STYLE), h("div", { class: "answers", ...keepKeys }, h("div", { class: "controls" }, ...controls), ...rest));
}

/** A slider that shows its value, as `say` words it; `changed` is called when it moves. */
function slider(name, range, changed, say = String) {
  const told = h("span", { "aria-hidden": "true" });
  const tell = () => {
    told.textContent = `${name}: ${say(Number(input.value))}`;
    input.setAttribute("aria-valuetext", say(Number(input.value)));
  };
  const input = h("input", { type: "range", "aria-label": name, ...range, oninput: () => { tell(); changed(); } });
  tell();
  return { el: h("label", {}, told, input), value: () => Number(input.value) };
}

/** A box to tick. */
function tick(name, checked, changed) {
  const input = h("input", { type: "checkbox", checked, onchange: changed });
  return { el: h("label", { class: "switch" }, input, name), value: () => input.checked };
}

/** The sentence that says what there is to see now, to the eye and to a screen reader. */
const teller = () => h("p", { class: "told", "aria-live": "polite" });

/** A table: names of the columns, and rows that begin with their own name. Too wide a table scrolls in its own box. */
function table(caption, columns, rows) {
  const head = h("tr", {}, ...columns.map((name) => h("th", { scope: "col" }, name)));
  const lines = rows.map(([name, ...cells]) => h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((cell) => h("td", {}, cell))));
  const box = { class: "scroll", tabindex: "0", role: "group", "aria-label": caption };
  return h("div", {}, h("p", { class: "caption" }, caption), h("div", box, h("table", {}, h("thead", {}, head), h("tbody", {}, ...lines))));
}

/** Shares that sum to one. */
function softmax(scores) {
  const highest = Math.max(...scores);
  const exps = scores.map((score) => Math.exp(score - highest));
  const sum = exps.reduce((a, b) => a + b, 0);
  return exps.map((one) => one / sum);
}

/** A bar as long as a share. */
const bar = (share, colour, width = 90) =>
  h("span", { style: `display: inline-block; vertical-align: middle; height: .8em; width: ${(share * width).toFixed(1)}px; background: ${colour}` });

return { OUTPUT, bar, show, slider, table, teller, tick };
})();

// Post-norm or pre-norm: what is added and what is normalised on the way up, and how large the stream becomes (chapter 6).
// The sublayers are random matrices: they say something, but they have learned nothing.

const { h } = $html;
const { OUTPUT, bar, show, slider, table, teller, tick } = $parts;

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
