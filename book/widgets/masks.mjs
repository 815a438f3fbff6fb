// Edit a mask and see the resulting weights, if it is applied before the softmax or, wrongly, after it (chapter 4).

import { h } from "./html.mjs";
import { PLAIN, WRONG, checkbox, format, showWidget, slider, softmax, statusLine, table } from "./parts.mjs";

const WORDS = ["<bos>", "it", "was", "very", "tired"];

/** The scores: a row for each query, a column for each key. */
export const SCORES = [
  [0.4, 1.2, -0.6, 0.1, 0.9],
  [1.5, 0.3, 0.8, -0.4, 1.9],
  [-0.2, 1.7, 0.5, 0.6, 1.1],
  [0.9, -0.5, 1.0, 0.2, 2.1],
  [0.1, 1.3, 0.7, 1.6, -0.3],
];

/** Return a mask, true = may attend: a key that isn't padding and, with `lookAhead`, not later than the query. */
export function targetMask(length, padding, lookAhead) {
  const positions = [...Array(length).keys()];
  return positions.map((query) => positions.map((key) => key < length - padding && (!lookAhead || key <= query)));
}

/**
 * Return the attention weights; a row that may attend to no key is all zeros.
 *
 * @param {number[][]} scores a row for each query.
 * @param {boolean[][]} mask true = may attend.
 * @param {boolean} late the common bug: the mask is applied after the softmax.
 */
export function maskedWeights(scores, mask, late = false) {
  return scores.map((row, q) => {
    const masked = row.map((score, k) => (late || mask[q][k] ? score : -Infinity));
    const weights = masked.some(Number.isFinite) ? softmax(masked) : row.map(() => 0);
    return weights.map((weight, k) => (mask[q][k] ? weight : 0));
  });
}

function render({ el }) {
  const n = WORDS.length;
  let mask = targetMask(n, 1, true);
  const reset = () => { mask = targetMask(n, padding.value(), lookAhead.value()); draw(); };
  const padding = slider("padding at the end", { min: 0, max: n - 1, value: 1 }, reset);
  const lookAhead = checkbox("hide later positions", true, reset);
  const late = checkbox("the bug: mask after the softmax", false, () => draw());
  const status = statusLine(), weights = h("div");
  const word = (i) => (i < n - padding.value() ? WORDS[i] : "<pad>");
  const cells = SCORES.map((row, q) =>
    row.map((score, k) =>
      h("button", { type: "button", onclick: () => { mask[q][k] = !mask[q][k]; draw(); }, style: "width: 2.5rem; padding: .4rem 0" }, format(score, 1)),
    ),
  );
  const scores = h("div");
  let headers = "";

  function draw() {
    const names = [...Array(n).keys()].map(word);
    if (names.join() !== headers) { // otherwise the buttons are kept, so that the focus is not lost
      headers = names.join();
      scores.replaceChildren(table("Scores: press a cell to hide or show its key", ["", ...names], cells.map((row, q) => [names[q], ...row])));
    }
    cells.forEach((row, q) => row.forEach((cell, k) => {
      cell.setAttribute("aria-pressed", `${!mask[q][k]}`);
      cell.setAttribute("aria-label", `query ${names[q]}, key ${names[k]}, score ${cell.textContent}: hidden`);
      cell.style.textDecoration = mask[q][k] ? "none" : "line-through";
      cell.style.background = mask[q][k] ? "" : "color-mix(in srgb, var(--muted) 30%, transparent)";
    }));
    const attentionWeights = maskedWeights(SCORES, mask, late.value());
    const sums = attentionWeights.map((row) => row.reduce((a, b) => a + b, 0));
    const line = (weight) =>
      h("span", { style: `display: block; height: .4em; forced-color-adjust: none; background: color-mix(in srgb, ${PLAIN} ${(100 * weight).toFixed(0)}%, transparent)` });
    const shade = (weight) => h("span", { style: "display: block; padding: 0 .2rem" }, weight.toFixed(2), line(weight));
    const total = (sum) => h("strong", { style: sum > 0.9995 ? "" : `border-bottom: .4em solid ${WRONG}` }, sum.toFixed(2));
    weights.replaceChildren(
      table("Weights: each row shows which keys a query attends to", ["", ...names, "sum"],
        attentionWeights.map((row, q) => [names[q], ...row.map((weight, k) => (mask[q][k] ? shade(weight) : "–")), total(sums[q])])),
    );
    const empty = sums.filter((sum) => sum === 0).length;
    const short = sums.filter((sum) => sum > 0 && sum < 0.9995).length;
    status.textContent = [
      short ? `${short} of ${n} rows sum to less than one: hidden keys still count in the denominator of the softmax.`
        : "Every row with at least one visible key sums to one.",
      empty ? `${empty} ${empty === 1 ? "row has" : "rows have"} no key to attend to: all zeros.` : "",
    ].join(" ").trim();
  }

  showWidget(el, [padding.el, lookAhead.el, late.el], status, h("div", { class: "side" }, scores, weights));
  draw();
}

export default { render };
