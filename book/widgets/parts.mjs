// What the small pictures of the chapters have in common: their look, sliders, switches, tables.

import { h, keepKeys } from "./html.mjs";
import { THEME } from "./theme.mjs";

/** Okabe and Ito's colours, with the same meaning as in transformer/plots/style.py. For fills and lines, not for text. */
export const QUERY = "#0072B2", KEY = "#E69F00", VALUE = "#009E73", OUTPUT = "#CC79A7", WRONG = "#D55E00", PLAIN = "#808080";

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
export function show(el, controls, ...rest) {
  el.replaceChildren(h("style", {}, STYLE), h("div", { class: "answers", ...keepKeys }, h("div", { class: "controls" }, ...controls), ...rest));
}

/** A slider that shows its value, as `say` words it; `changed` is called when it moves. */
export function slider(name, range, changed, say = String) {
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
export function tick(name, checked, changed) {
  const input = h("input", { type: "checkbox", checked, onchange: changed });
  return { el: h("label", { class: "switch" }, input, name), value: () => input.checked };
}

/** The sentence that says what there is to see now, to the eye and to a screen reader. */
export const teller = () => h("p", { class: "told", "aria-live": "polite" });

/** A table: names of the columns, and rows that begin with their own name. Too wide a table scrolls in its own box. */
export function table(caption, columns, rows) {
  const head = h("tr", {}, ...columns.map((name) => h("th", { scope: "col" }, name)));
  const lines = rows.map(([name, ...cells]) => h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((cell) => h("td", {}, cell))));
  const box = { class: "scroll", tabindex: "0", role: "group", "aria-label": caption };
  return h("div", {}, h("p", { class: "caption" }, caption), h("div", box, h("table", {}, h("thead", {}, head), h("tbody", {}, ...lines))));
}

/** Shares that sum to one. */
export function softmax(scores) {
  const highest = Math.max(...scores);
  const exps = scores.map((score) => Math.exp(score - highest));
  const sum = exps.reduce((a, b) => a + b, 0);
  return exps.map((one) => one / sum);
}

/** A bar as long as a share. */
export const bar = (share, colour, width = 90) =>
  h("span", { style: `display: inline-block; vertical-align: middle; height: .8em; width: ${(share * width).toFixed(1)}px; background: ${colour}` });
