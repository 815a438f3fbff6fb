// Made by `make notebooks` with esbuild@0.25.12 from book/widgets (ca58f9be6174): change it there, not here (c3eb5e3d59b0).
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
var teller = () => h("p", { class: "told", "aria-live": "polite" });
function table(caption, columns, rows) {
  const head = h("tr", {}, ...columns.map((name) => h("th", { scope: "col" }, name)));
  const lines = rows.map(([name, ...cells]) => h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((cell) => h("td", {}, cell))));
  const box = { class: "scroll", tabindex: "0", role: "group", "aria-label": caption };
  return h("div", {}, h("p", { class: "caption" }, caption), h("div", box, h("table", {}, h("thead", {}, head), h("tbody", {}, ...lines))));
}
var bar = (share, colour, width = 90) => h("span", { style: `display: inline-block; vertical-align: middle; height: .8em; width: ${(share * width).toFixed(1)}px; background: ${colour}` });

// chart.mjs
function chart(label, curves, marks, { x, y, xName, yName }) {
  const [W, H, LEFT, LOW] = [300, 170, 10, 140];
  const place = ([a, b]) => [LEFT + a / x * (W - 2 * LEFT), LOW - Math.min(b, y) / y * (LOW - 24)];
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

// smoothing.mjs
var smoothedTarget = (vocabulary, smoothing) => [1 - smoothing + smoothing / vocabulary, smoothing / vocabulary];
function smoothedLoss(p, vocabulary, smoothing) {
  const [right, other] = smoothedTarget(vocabulary, smoothing);
  const rest = (vocabulary - 1) * other * Math.log((1 - p) / (vocabulary - 1));
  return -right * Math.log(p) - (smoothing ? rest : 0);
}
function render({ el }) {
  const power = (n) => (2 ** n).toLocaleString("en");
  const percent = (p) => `${(100 * p).toFixed(1)}%`;
  const sure = slider("probability of the right word", { min: 5e-3, max: 0.995, step: 5e-3, value: 0.6 }, draw, percent);
  const smoothing = slider("smoothing ε", { min: 0, max: 0.4, step: 0.01, value: 0.1 }, draw, (e) => e.toFixed(2));
  const words = slider("vocabulary", { min: 1, max: 15, value: 10 }, draw, power);
  const told = teller(), picture = h("div"), numbers = h("div");
  function draw() {
    const [p, e, V] = [sure.value(), smoothing.value(), 2 ** words.value()];
    const [right, other] = smoothedTarget(V, e);
    const loss = smoothedLoss(p, V, e), best = Math.min(right, 0.9999);
    const push = Math.abs(p - right) < 5e-4 ? "leaves it as it is" : p < right ? "asks for more" : "asks for less";
    told.textContent = `The model gives the right word ${percent(p)}, the target ${percent(right)}: the gradient ${push}. Loss ${loss.toFixed(3)}, without smoothing ${(-Math.log(p)).toFixed(3)}; ` + (e ? `no model can get below ${smoothedLoss(right, V, e).toFixed(3)}.` : "there is no lowest, only ever lower.");
    const at = Array.from({ length: 100 }, (_, i) => (i + 0.5) / 100).concat(0.999);
    const curve = (how) => at.map((one) => [one, how(one)]);
    picture.replaceChildren(chart(
      told.textContent,
      [{ points: curve((one) => -Math.log(one)), colour: PLAIN, width: 1.5 }, { points: curve((one) => smoothedLoss(one, V, e)), colour: QUERY, width: 3 }],
      [{ at: [best, smoothedLoss(best, V, e)], colour: QUERY, name: "lowest" }, { at: [p, loss], colour: KEY, name: loss.toFixed(2) }],
      { x: 1, y: 6, xName: "probability of the right word, to 1", yName: "loss, to 6 (grey: without smoothing)" }
    ));
    const row = (name, want, has) => [name, `${want.toFixed(5)} `, bar(want, QUERY), `${has.toFixed(5)} `, bar(has, KEY), (has - want).toFixed(5)];
    numbers.replaceChildren(table(
      "One word's share: what it should be, and what the model gives",
      ["", "target q", "", "model p", "", "p − q"],
      [row("the right word", right, p), row("each other word", other, (1 - p) / (V - 1))]
    ));
  }
  show(el, [sure, smoothing, words].map((one) => one.el), told, picture, numbers);
  draw();
}
var smoothing_default = { render };
export {
  smoothing_default as default,
  smoothedLoss,
  smoothedTarget
};
