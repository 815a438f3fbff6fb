// Made by `make notebooks` with esbuild@0.25.12 from book/widgets (ca58f9be6174): change it there, not here (b9dfafea1bc5).
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
var WRONG = "#D55E00";
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
function softmax(scores) {
  const highest = Math.max(...scores);
  const exps = scores.map((score) => Math.exp(score - highest));
  const sum = exps.reduce((a, b) => a + b, 0);
  return exps.map((one) => one / sum);
}

// masks.mjs
var WORDS = ["<bos>", "er", "war", "sehr", "müde"];
var SCORES = [
  [0.4, 1.2, -0.6, 0.1, 0.9],
  [1.5, 0.3, 0.8, -0.4, 1.9],
  [-0.2, 1.7, 0.5, 0.6, 1.1],
  [0.9, -0.5, 1, 0.2, 2.1],
  [0.1, 1.3, 0.7, 1.6, -0.3]
];
function targetMask(length, padding, lookAhead) {
  const places = [...Array(length).keys()];
  return places.map((query) => places.map((key) => key < length - padding && (!lookAhead || key <= query)));
}
function maskedWeights(scores, mask, late = false) {
  return scores.map((row, q) => {
    const seen = row.map((score, k) => late || mask[q][k] ? score : -Infinity);
    const weights = seen.some(Number.isFinite) ? softmax(seen) : row.map(() => 0);
    return weights.map((weight, k) => mask[q][k] ? weight : 0);
  });
}
function render({ el }) {
  const n = WORDS.length;
  let mask = targetMask(n, 1, true);
  const anew = () => {
    mask = targetMask(n, padding.value(), lookAhead.value());
    draw();
  };
  const padding = slider("padding at the end", { min: 0, max: n - 1, value: 1 }, anew);
  const lookAhead = tick("hide the future", true, anew);
  const late = tick("the bug: mask after the softmax", false, () => draw());
  const told = teller(), weights = h("div");
  const word = (i) => i < n - padding.value() ? WORDS[i] : "<pad>";
  const cells = SCORES.map(
    (row, q) => row.map(
      (score, k) => h("button", { type: "button", onclick: () => {
        mask[q][k] = !mask[q][k];
        draw();
      }, style: "width: 2.5rem; padding: .2rem 0" }, score.toFixed(1))
    )
  );
  const scores = h("div");
  let named = "";
  function draw() {
    const names = [...Array(n).keys()].map(word);
    if (names.join() !== named) {
      named = names.join();
      scores.replaceChildren(table("Scores: press a cell to hide or show its key", ["", ...names], cells.map((row, q) => [names[q], ...row])));
    }
    cells.forEach((row, q) => row.forEach((cell, k) => {
      cell.setAttribute("aria-pressed", `${!mask[q][k]}`);
      cell.setAttribute("aria-label", `${names[q]} looks at ${names[k]}, score ${cell.textContent}: hidden`);
      cell.style.textDecoration = mask[q][k] ? "none" : "line-through";
      cell.style.background = mask[q][k] ? "" : "color-mix(in srgb, var(--muted) 30%, transparent)";
    }));
    const found = maskedWeights(SCORES, mask, late.value());
    const sums = found.map((row) => row.reduce((a, b) => a + b, 0));
    const shade = (weight) => h("span", { style: `display: block; padding: 0 .2rem; border-radius: .2rem; border-bottom: .4em solid color-mix(in srgb, ${QUERY} ${(100 * weight).toFixed(0)}%, transparent)` }, weight.toFixed(2));
    const sum = (one) => h("strong", { style: one > 0.9995 ? "" : `border-bottom: .4em solid ${WRONG}` }, one.toFixed(2));
    weights.replaceChildren(
      table(
        "Weights: a row is what a query looks at",
        ["", ...names, "sum"],
        found.map((row, q) => [names[q], ...row.map((weight, k) => mask[q][k] ? shade(weight) : "–"), sum(sums[q])])
      )
    );
    const empty = sums.filter((one) => one === 0).length;
    const short = sums.filter((one) => one > 0 && one < 0.9995).length;
    told.textContent = [
      short ? `${short} of ${n} rows sum to less than one: what is hidden was still counted below the fraction line.` : "Each row with something to look at sums to one.",
      empty ? `${empty} ${empty === 1 ? "row has" : "rows have"} nothing to look at: all zeros.` : ""
    ].join(" ").trim();
  }
  show(el, [padding.el, lookAhead.el, late.el], told, h("div", { class: "side" }, scores, weights));
  draw();
}
var masks_default = { render };
export {
  SCORES,
  masks_default as default,
  maskedWeights,
  targetMask
};
