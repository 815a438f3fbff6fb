// Made by `make notebooks` with esbuild@0.25.12 from book/widgets (ca58f9be6174): change it there, not here (d5c4675bda01).
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
var OUTPUT = "#CC79A7";
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
function slider(name, range, changed, say = String) {
  const told = h("span", { "aria-hidden": "true" });
  const tell = () => {
    told.textContent = `${name}: ${say(Number(input.value))}`;
    input.setAttribute("aria-valuetext", say(Number(input.value)));
  };
  const input = h("input", { type: "range", "aria-label": name, ...range, oninput: () => {
    tell();
    changed();
  } });
  tell();
  return { el: h("label", {}, told, input), value: () => Number(input.value) };
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
var bar = (share, colour, width = 90) => h("span", { style: `display: inline-block; vertical-align: middle; height: .8em; width: ${(share * width).toFixed(1)}px; background: ${colour}` });

// norm.mjs
var WIDTH = 64;
var meanSquare = (x) => x.reduce((sum, one) => sum + one * one, 0) / x.length;
var plus = (x, y) => x.map((one, i) => one + y[i]);
function layerNorm(x, epsilon = 1e-5) {
  const mean = x.reduce((sum, one) => sum + one, 0) / x.length;
  const deviation = x.map((one) => one - mean);
  return deviation.map((one) => one / Math.sqrt(meanSquare(deviation) + epsilon));
}
function stream(x, sublayers, normFirst) {
  const begin = x;
  const cosine = (a, b) => a.reduce((sum, one, i) => sum + one * b[i], 0) / a.length / Math.sqrt(meanSquare(a) * meanSquare(b));
  return sublayers.map((matrix) => {
    const read = normFirst ? layerNorm(x) : x;
    const said = matrix.map((row) => row.reduce((sum2, one, i) => sum2 + one * read[i], 0));
    const sum = plus(x, said);
    x = normFirst ? sum : layerNorm(sum);
    return { says: meanSquare(said), added: meanSquare(sum), after: meanSquare(x), cosine: cosine(x, begin) };
  });
}
function* normal(seed) {
  const uniform = () => {
    seed = seed + 1831565813 | 0;
    let t = Math.imul(seed ^ seed >>> 15, 1 | seed);
    t = t + Math.imul(t ^ t >>> 7, 61 | t) ^ t;
    return (((t ^ t >>> 14) >>> 0) + 0.5) / 2 ** 32;
  };
  for (; ; ) yield Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
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
    told.textContent = (pre.value() ? "Pre-norm, x + sublayer(norm(x)): nothing stands on the stream but a plus. " : "Post-norm, norm(x + sublayer(x)): every sum is normalised, and the stream with it. ") + `Behind ${found.length} sublayers the stream's mean square is ${end.after.toFixed(2)}, and its cosine with where it began ${end.cosine.toFixed(2)}.`;
    const row = ({ says, added, after, cosine }, i) => [
      `${Math.floor(i / 2) + 1}, ${i % 2 ? "feed-forward" : "attention"}`,
      ...[says, added].map((one) => one.toFixed(2)),
      h("strong", {}, after.toFixed(2)),
      h("div", { style: "width: 92px; text-align: start" }, bar(after / most, OUTPUT)),
      cosine.toFixed(2)
    ];
    numbers.replaceChildren(table(
      "Mean squares on the way up, from the first sublayer to the last; the stream begins with 1",
      ["layer", "says", "sum", "behind it", "", "cosine"],
      found.map(row)
    ));
  }
  show(el, [pre, layers, loud, seed].map((one) => one.el), told, numbers);
  draw();
}
var norm_default = { render };
export {
  norm_default as default,
  layerNorm,
  normal,
  stream
};
