// Made by `make notebooks` from smoothing.mjs in book/widgets and what it imports: change it there.

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

return { KEY, PLAIN, QUERY, bar, show, slider, table, teller };
})();

const $chart = (() => {
// Curves over an axis, for the small pictures.

const { h } = $html;
const { PLAIN } = $parts;

/**
 * Curves over an axis, as an SVG element.
 *
 * @param {string} label what is said in its place where it is not seen.
 * @param {Object[]} curves each with its `points` [x, y], `colour` and `width`.
 * @param {Object[]} marks dots: each with its `at` [x, y], `colour` and `name`.
 * @param {Object} ends the largest `x` and `y`, and the names of both axes, `xName` and `yName`.
 */
function chart(label, curves, marks, { x, y, xName, yName }) {
  const [W, H, LEFT, LOW] = [300, 170, 10, 140];
  const place = ([a, b]) => [LEFT + (a / x) * (W - 2 * LEFT), LOW - (Math.min(b, y) / y) * (LOW - 24)];
  const line = (from, to, stroke, width) => {
    const [[x1, y1], [x2, y2]] = [from, to].map(place);
    return h("line", { x1, y1, x2, y2, stroke, "stroke-width": width, "stroke-linecap": "round" });
  };
  const drawn = curves.flatMap(({ points, colour, width }) => points.slice(1).map((point, i) => line(points[i], point, colour, width)));
  const dots = marks.map(({ at, colour, name }) => {
    const [cx, cy] = place(at);
    const anchor = cx > W - 70 ? "end" : cx < 70 ? "start" : "middle";
    return h("g", {}, h("circle", { cx, cy, r: 5, fill: colour }), h("text", { x: cx, y: cy - 9, "text-anchor": anchor }, name));
  });
  const said = [[LEFT, 12, "start", yName], [W - LEFT, H - 12, "end", xName], [LEFT, H - 12, "start", "0"]];
  const words = said.map(([at, top, anchor, text]) => h("text", { x: at, y: top, "text-anchor": anchor }, text));
  const box = { viewBox: `0 0 ${W} ${H}`, width: 1.2 * W, height: 1.2 * H, role: "img", "aria-label": label };
  return h("svg", box, line([0, 0], [x, 0], PLAIN, 1), line([0, 0], [0, y], PLAIN, 1), ...drawn, ...dots, ...words);
}

return { chart };
})();

// Label smoothing: the target, and what the loss says as the model grows surer of the right word (chapter 10). The
// first convention of the chapter: all words share ε, the right one too.

const { chart } = $chart;
const { h } = $html;
const { KEY, PLAIN, QUERY, bar, show, slider, table, teller } = $parts;

/** What the right word and each other one should have: q. */
export const smoothedTarget = (vocabulary, smoothing) => [1 - smoothing + smoothing / vocabulary, smoothing / vocabulary];

/** -Σ q·ln p, if the right word has the probability p and all others share the rest evenly (§5.4). */
export function smoothedLoss(p, vocabulary, smoothing) {
  const [right, other] = smoothedTarget(vocabulary, smoothing);
  const rest = (vocabulary - 1) * other * Math.log((1 - p) / (vocabulary - 1));
  return -right * Math.log(p) - (smoothing ? rest : 0);
}

function render({ el }) {
  const power = (n) => (2 ** n).toLocaleString("en");
  const percent = (p) => `${(100 * p).toFixed(1)}%`;
  const sure = slider("probability of the right word", { min: 0.005, max: 0.995, step: 0.005, value: 0.6 }, draw, percent);
  const smoothing = slider("smoothing ε", { min: 0, max: 0.4, step: 0.01, value: 0.1 }, draw, (e) => e.toFixed(2));
  const words = slider("vocabulary", { min: 1, max: 15, value: 10 }, draw, power);
  const told = teller(), picture = h("div"), numbers = h("div");

  function draw() {
    const [p, e, V] = [sure.value(), smoothing.value(), 2 ** words.value()];
    const [right, other] = smoothedTarget(V, e);
    const loss = smoothedLoss(p, V, e), best = Math.min(right, 0.9999);
    const push = Math.abs(p - right) < 5e-4 ? "leaves it as it is" : p < right ? "asks for more" : "asks for less";
    told.textContent =
      `The model gives the right word ${percent(p)}, the target ${percent(right)}: the gradient ${push}. ` +
      `Loss ${loss.toFixed(3)}, without smoothing ${(-Math.log(p)).toFixed(3)}; ` +
      (e ? `no model can get below ${smoothedLoss(right, V, e).toFixed(3)}.` : "there is no lowest, only ever lower.");
    const at = Array.from({ length: 100 }, (_, i) => (i + 0.5) / 100).concat(0.999);
    const curve = (how) => at.map((one) => [one, how(one)]);
    picture.replaceChildren(chart(
      told.textContent,
      [{ points: curve((one) => -Math.log(one)), colour: PLAIN, width: 1.5 }, { points: curve((one) => smoothedLoss(one, V, e)), colour: QUERY, width: 3 }],
      [{ at: [best, smoothedLoss(best, V, e)], colour: QUERY, name: "lowest" }, { at: [p, loss], colour: KEY, name: loss.toFixed(2) }],
      { x: 1, y: 6, xName: "probability of the right word, to 1", yName: "loss, to 6 (grey: without smoothing)" },
    ));
    const row = (name, want, has) => [name, `${want.toFixed(5)} `, bar(want, QUERY), `${has.toFixed(5)} `, bar(has, KEY), (has - want).toFixed(5)];
    numbers.replaceChildren(table("One word's share: what it should be, and what the model gives", ["", "target q", "", "model p", "", "p − q"],
      [row("the right word", right, p), row("each other word", other, (1 - p) / (V - 1))]));
  }

  show(el, [sure, smoothing, words].map((one) => one.el), told, picture, numbers);
  draw();
}

export default { render };
