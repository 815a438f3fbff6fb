// Made by `make notebooks` with esbuild@0.25.12 from book/widgets (ca58f9be6174): change it there, not here (0a1dbe1f9292).
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

// schedule.mjs
function learningRate(step, dModel, warmup = 4e3, factor = 1) {
  return factor * dModel ** -0.5 * Math.min(step ** -0.5, step * warmup ** -1.5);
}
var STEPS = 2e4;
function render({ el }) {
  const count = (n) => n.toLocaleString("en");
  const width = slider("d_model", { min: 6, max: 11, value: 9 }, draw, (n) => count(2 ** n));
  const warmup = slider("warm-up", { min: 500, max: 16e3, step: 500, value: 4e3 }, draw, count);
  const factor = slider("factor", { min: 0.1, max: 3, step: 0.1, value: 1 }, draw, (one) => one.toFixed(1));
  const told = teller(), picture = h("div"), numbers = h("div");
  function draw() {
    const [d, w, f] = [2 ** width.value(), warmup.value(), factor.value()];
    const rate = (step) => learningRate(step, d, w, f);
    const raised = (digits) => [...digits].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");
    const scientific = (one) => one.toExponential(2).replace(/e-(\d+)/, (_, digits) => ` · 10⁻${raised(digits)}`);
    const peak = rate(w), papers = learningRate(4e3, 512), top = 1.25 * Math.max(peak, papers);
    told.textContent = `The peak is ${scientific(peak)}, at step ${count(w)}: factor / √(d_model · warm-up) = ${f.toFixed(1)} / √(${count(d)} · ${count(w)}). The paper's base model (grey) has ${scientific(papers)}, so this is ${(peak / papers).toFixed(2)} times as high.`;
    const steps = [1, ...Array.from({ length: 100 }, (_, i) => (i + 1) * STEPS / 100)];
    const curve = (how) => [.../* @__PURE__ */ new Set([...steps, w])].sort((a, b) => a - b).map((step) => [step, how(step)]);
    picture.replaceChildren(chart(
      told.textContent,
      [{ points: curve((step) => learningRate(step, 512)), colour: PLAIN, width: 1.5 }, { points: curve(rate), colour: QUERY, width: 3 }],
      [{ at: [w, peak], colour: KEY, name: `peak ${scientific(peak)}` }],
      { x: STEPS, y: top, xName: `steps, to ${count(STEPS)}`, yName: `learning rate, to ${scientific(top)}` }
    ));
    const at = [[1, "the first"], [w / 2, "half of the warm-up"], [w, "the peak"], [4 * w, "four times as far: half"], [1e5, "the base model's last"]];
    numbers.replaceChildren(table("The rate at some steps", ["step", "rate", "which"], at.map(([step, which]) => [count(step), scientific(rate(step)), which])));
  }
  show(el, [width, warmup, factor].map((one) => one.el), told, h("div", { class: "side" }, picture, numbers));
  draw();
}
var schedule_default = { render };
export {
  schedule_default as default,
  learningRate
};
