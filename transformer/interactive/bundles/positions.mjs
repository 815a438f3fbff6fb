// Made by `make notebooks` with esbuild@0.25.12 from book/widgets (ca58f9be6174): change it there, not here (f2c16009f703).
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

// positions.mjs
function angles(position, width, base = 1e4) {
  return Array.from({ length: width / 2 }, (_, i) => position * base ** (-2 * i / width));
}
function sinusoidalEncoding(position, dModel, base = 1e4) {
  return angles(position, dModel, base).flatMap((angle) => [Math.sin(angle), Math.cos(angle)]);
}
function turns(from, to) {
  return Array.from({ length: from.length / 2 }, (_, i) => {
    const [a, b, c, d] = [from[2 * i], from[2 * i + 1], to[2 * i], to[2 * i + 1]];
    const degrees = Math.atan2(c * b - d * a, a * c + b * d) * 180 / Math.PI;
    return degrees < -1e-6 ? degrees + 360 : Math.abs(degrees);
  });
}
var R = 30;
function clock(i, here, there) {
  const hand = ([x, y], colour, width) => h("line", { x1: 0, y1: 0, x2: R * x, y2: -R * y, stroke: colour, "stroke-width": width, "stroke-linecap": "round" });
  return h(
    "svg",
    { viewBox: "-36 -36 72 90", width: 72, height: 90, "aria-hidden": "true" },
    h("circle", { r: R + 3, fill: "none", stroke: PLAIN }),
    hand(here, QUERY, 5),
    hand(there, KEY, 3),
    h("text", { y: 48, "text-anchor": "middle" }, `pair ${i}`)
  );
}
function render({ el }) {
  const position = slider("position", { min: 0, max: 100, value: 3 }, draw);
  const distance = slider("distance k", { min: -20, max: 20, value: 2 }, draw);
  const width = slider("d_model", { min: 2, max: 16, step: 2, value: 8 }, draw);
  const base = slider("base", { min: 1, max: 5, value: 4 }, draw, (power) => (10 ** power).toLocaleString("en"));
  const told = teller(), clocks = h("div", { class: "side" }), numbers = h("div");
  function draw() {
    const [p, k, d, b] = [position.value(), distance.value(), width.value(), 10 ** base.value()];
    const [here, there] = [p, p + k].map((one) => sinusoidalEncoding(one, d, b));
    const turned = turns(here, there);
    const fromZero = turns(sinusoidalEncoding(0, d, b), sinusoidalEncoding(k, d, b));
    const product = here.reduce((sum, one, i) => sum + one * there[i], 0);
    const pair = (x, i) => x.slice(2 * i, 2 * i + 2);
    const tip = (x, i) => `(${pair(x, i).map((one) => one.toFixed(2)).join(", ")})`;
    const length = (i) => (2 * Math.PI / angles(1, d, b)[i]).toLocaleString("en", { maximumFractionDigits: 1 });
    clocks.replaceChildren(...turned.map((_, i) => clock(i, pair(here, i), pair(there, i))));
    told.textContent = `Blue: position ${p}. Orange: position ${p + k}. From blue to orange each hand turns by an angle that depends on k and not on the position; so does the dot product of the two vectors, ${product.toFixed(2)}.`;
    const columns = ["pair", "a full turn", `p = ${p}`, `p = ${p + k}`, "turned by", `0 to ${k}`];
    numbers.replaceChildren(
      table(
        "Sine and cosine of each pair; by how many degrees its hand turns, here and from position 0",
        columns,
        turned.map((turn, i) => [`${i}`, length(i), tip(here, i), tip(there, i), `${turn.toFixed(1)}°`, `${fromZero[i].toFixed(1)}°`])
      )
    );
  }
  show(el, [position, distance, width, base].map((one) => one.el), told, clocks, numbers);
  draw();
}
var positions_default = { render };
export {
  angles,
  positions_default as default,
  sinusoidalEncoding,
  turns
};
