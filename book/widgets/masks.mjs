// Build a mask, and see what the softmax makes of it: before, as it must be, or too late (chapter 4).

import { h } from "./html.mjs";
import { QUERY, WRONG, show, slider, softmax, table, teller, tick } from "./parts.mjs";

const WORDS = ["<bos>", "er", "war", "sehr", "müde"];

/** The queries' scores for the keys. */
export const SCORES = [
  [0.4, 1.2, -0.6, 0.1, 0.9],
  [1.5, 0.3, 0.8, -0.4, 1.9],
  [-0.2, 1.7, 0.5, 0.6, 1.1],
  [0.9, -0.5, 1.0, 0.2, 2.1],
  [0.1, 1.3, 0.7, 1.6, -0.3],
];

/** True = may attend: a real key, that does not lie in the future if `lookAhead`. */
export function targetMask(length, padding, lookAhead) {
  const places = [...Array(length).keys()];
  return places.map((query) => places.map((key) => key < length - padding && (!lookAhead || key <= query)));
}

/**
 * The weights that attention gives; a row that may attend to nothing is all zeros.
 *
 * @param {number[][]} scores a row for each query.
 * @param {boolean[][]} mask true = may attend.
 * @param {boolean} late the classic bug: hide only after the softmax.
 */
export function maskedWeights(scores, mask, late = false) {
  return scores.map((row, q) => {
    const seen = row.map((score, k) => (late || mask[q][k] ? score : -Infinity));
    const weights = seen.some(Number.isFinite) ? softmax(seen) : row.map(() => 0);
    return weights.map((weight, k) => (mask[q][k] ? weight : 0));
  });
}

function render({ el }) {
  const n = WORDS.length;
  let mask = targetMask(n, 1, true);
  const anew = () => { mask = targetMask(n, padding.value(), lookAhead.value()); draw(); };
  const padding = slider("padding at the end", { min: 0, max: n - 1, value: 1 }, anew);
  const lookAhead = tick("hide the future", true, anew);
  const late = tick("the bug: mask after the softmax", false, () => draw());
  const told = teller(), weights = h("div");
  const word = (i) => (i < n - padding.value() ? WORDS[i] : "<pad>");
  const cells = SCORES.map((row, q) =>
    row.map((score, k) =>
      h("button", { type: "button", onclick: () => { mask[q][k] = !mask[q][k]; draw(); }, style: "width: 2.5rem; padding: .2rem 0" }, score.toFixed(1)),
    ),
  );
  const scores = h("div");
  let named = "";

  function draw() {
    const names = [...Array(n).keys()].map(word);
    if (names.join() !== named) { // the buttons stay where they are, so that the focus stays with them
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
    const shade = (weight) =>
      h("span", { style: `display: block; padding: 0 .2rem; border-radius: .2rem; border-bottom: .4em solid color-mix(in srgb, ${QUERY} ${(100 * weight).toFixed(0)}%, transparent)` }, weight.toFixed(2));
    const sum = (one) => h("strong", { style: one > 0.9995 ? "" : `border-bottom: .4em solid ${WRONG}` }, one.toFixed(2));
    weights.replaceChildren(
      table("Weights: a row is what a query looks at", ["", ...names, "sum"],
        found.map((row, q) => [names[q], ...row.map((weight, k) => (mask[q][k] ? shade(weight) : "–")), sum(sums[q])])),
    );
    const empty = sums.filter((one) => one === 0).length;
    const short = sums.filter((one) => one > 0 && one < 0.9995).length;
    told.textContent = [
      short ? `${short} of ${n} rows sum to less than one: what is hidden was still counted below the fraction line.`
        : "Each row with something to look at sums to one.",
      empty ? `${empty} ${empty === 1 ? "row has" : "rows have"} nothing to look at: all zeros.` : "",
    ].join(" ").trim();
  }

  show(el, [padding.el, lookAhead.el, late.el], told, h("div", { class: "side" }, scores, weights));
  draw();
}

export default { render };
