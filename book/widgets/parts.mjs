// What the small widgets of the chapters have in common: style, sliders, checkboxes, tables.

import { blockShortcuts, h, uniqueName } from "./html.mjs";
import { THEME } from "./theme.mjs";

/** Okabe and Ito's colours, with the same meaning as in transformer/plots/style.py. For fills and lines, not for text. */
export const QUERY = "#0072B2", KEY = "#E69F00", VALUE = "#009E73", OUTPUT = "#CC79A7", WRONG = "#D55E00", PLAIN = "#808080";

const STYLE = `
.small-widget { ${THEME} border: 1px solid var(--border); border-radius: .4rem; padding: 1rem; margin: 1rem 0; font-size: .9rem; }
.small-widget .controls { display: flex; flex-wrap: wrap; gap: .6rem 1.2rem; align-items: end; }
.small-widget label { display: flex; flex-direction: column; gap: .2rem; min-width: 0; }
.small-widget label.checkbox { flex-direction: row; align-items: center; gap: .4rem; }
.small-widget input[type=range] { width: 9rem; accent-color: var(--slider); }
.small-widget :is(textarea, button) { font: inherit; color: inherit; padding: .3rem .5rem; max-width: 100%;
  background: var(--field); border: 1px solid var(--muted); border-radius: .3rem; }
.small-widget button[aria-disabled=true] { opacity: .5; }
.small-widget :is(input, textarea, button, circle, .scroll):focus-visible { outline: 3px solid var(--focus); outline-offset: 1px; }
.small-widget .status { margin: .6rem 0; min-height: 3em; }
.small-widget .side { display: flex; flex-wrap: wrap; gap: .6rem 1.2rem; align-items: start; }
.small-widget .side > * { min-width: 0; max-width: 100%; }
.small-widget svg { fill: var(--text); font-size: 12px; max-width: 100%; height: auto; }
.small-widget svg text { paint-order: stroke; stroke: var(--surface); stroke-width: 3px; }
.small-widget .scroll { overflow-x: auto; max-width: 100%;
  background: linear-gradient(to left, var(--surface) 80%, transparent) right / 1rem 100% no-repeat local,
    linear-gradient(to left, rgb(128 128 128 / 60%), transparent) right / .8rem calc(100% - 4px) no-repeat scroll; } /* a shadow until it is scrolled to its end */
.small-widget .scroll table { border-collapse: collapse; width: auto; margin: 0; font-size: .85rem; font-variant-numeric: tabular-nums; }
.small-widget .scroll :is(th, td) { padding: .15rem .3rem; text-align: end; border-bottom: 1px solid var(--border); white-space: nowrap; }
.small-widget .scroll tbody :is(th, td) { background: none; color: inherit; }
@media (max-width: 30rem) {
  .small-widget { padding: .6rem; }
  .small-widget .scroll table { font-size: .78rem; }
  .small-widget .scroll :is(th, td) { padding: .15rem .26rem; }
  .small-widget label:has(input[type=range]) { flex-basis: 100%; }
  .small-widget input[type=range] { width: 100%; height: 2.2rem; }
  .small-widget label.checkbox { min-height: 2.2rem; }
  .small-widget textarea { font-size: 1rem; } /* Safari zooms in when a field with a smaller font is tapped */
}
@media (max-width: 23rem) {
  .small-widget .scroll table { font-size: .72rem; }
  .small-widget .scroll :is(th, td) { padding-inline: .15rem; }
}
.small-widget .caption { margin: .5rem 0 .2rem; }
`;

/** Replace the content of an element with a widget: first the controls, then what they change. */
export function showWidget(el, controls, ...rest) {
  el.replaceChildren(h("style", {}, STYLE), h("div", { class: "small-widget", ...blockShortcuts }, h("div", { class: "controls" }, ...controls), ...rest));
}

/** A slider that shows its value, as `toText` writes it; `onChange` is called when it moves, but not by `set`. */
export function slider(name, range, onChange, toText = String) {
  const label = h("span", { "aria-hidden": "true" });
  const update = () => {
    label.textContent = `${name}: ${toText(Number(input.value))}`;
    input.setAttribute("aria-valuetext", toText(Number(input.value)));
  };
  const input = h("input", { type: "range", "aria-label": name, ...range, oninput: () => { update(); onChange(); } });
  update();
  const set = (value) => { input.value = value; update(); };
  return { el: h("label", {}, label, input), value: () => Number(input.value), set };
}

/** A checkbox; `onChange` is called when it changes. */
export function checkbox(name, checked, onChange) {
  const input = h("input", { type: "checkbox", checked, onchange: onChange });
  return { el: h("label", { class: "checkbox" }, input, name), value: () => input.checked };
}

/**
 * Radio buttons that look like chips.
 *
 * @param {string} legend the name of the group.
 * @param {(string | Element)[][]} contents what each chip shows.
 * @param {number} chosen the index of the chip that is chosen at first.
 * @param {function(number)} onChange called with the index of the newly chosen chip.
 */
export function radios(legend, contents, chosen, onChange) {
  const name = uniqueName("radios"); // the browser lets one button of each name be chosen
  const chip = (content, i) =>
    h("label", {}, h("input", { type: "radio", name, checked: i === chosen, onchange: () => onChange(i) }), ...content);
  return h("fieldset", { class: "radios" }, h("legend", {}, legend), ...contents.map(chip));
}

/** Format a number with a real minus sign, and with none before a zero. */
export const format = (value, digits = 2) => value.toFixed(digits).replace(/^-(0\.?0*)$/, "$1").replace("-", "−");

/** Format a vector: "(0.14, −0.99)". */
export const formatVector = (vector, digits = 2) => `(${vector.map((value) => format(value, digits)).join(", ")})`;

/** A paragraph that describes the current state; screen readers announce its changes. */
export const statusLine = () => h("p", { class: "status", "aria-live": "polite" });

/** A table with column names, some of which may be empty, and rows that start with their name. A wide table scrolls horizontally. */
export function table(caption, columns, rows) {
  const head = h("tr", {}, ...columns.map((name) => (name ? h("th", { scope: "col" }, name) : h("td"))));
  const lines = rows.map(([name, ...cells]) => h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((cell) => h("td", {}, cell))));
  const box = { class: "scroll", tabindex: "0", role: "group", "aria-label": caption };
  return h("div", {}, h("p", { class: "caption" }, caption), h("div", box, h("table", {}, h("thead", {}, head), h("tbody", {}, ...lines))));
}

/** Positive weights that sum to one. */
export function softmax(scores) {
  const highest = Math.max(...scores);
  const exps = scores.map((score) => Math.exp(score - highest));
  const sum = exps.reduce((a, b) => a + b, 0);
  return exps.map((one) => one / sum);
}

/** A bar whose length is proportional to a fraction. */
export const bar = (fraction, colour, width = 90) =>
  h("span", { style: `display: inline-block; forced-color-adjust: none; vertical-align: middle; height: .8em; width: ${(fraction * width).toFixed(1)}px; background: ${colour}` });
