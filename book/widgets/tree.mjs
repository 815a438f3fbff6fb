// A beam search from above: every candidate that it weighed, what became of it, and the way of the winner.
// The same picture as transformer/plots/beam_tree.py; and the same in words, for whoever cannot see it or goes by keyboard.

import { h, word } from "./html.mjs";

const COLUMN = 58, ROW = 46;
const COLOURS = { kept: "#0072B2", finished: "#009E73", dropped: "#808080" };
const SAYS = { kept: "lives on", finished: "finished", dropped: "dropped" };

/** What the colours mean. */
export function legend() {
  const entries = Object.entries(SAYS).flatMap(([fate, text]) => [
    h("span", { style: `color: ${COLOURS[fate]}`, "aria-hidden": "true" }, "● "),
    `${text}; `,
  ]);
  return h("p", { class: "told" }, ...entries, "a thick line leads to the winner; each number is a score.");
}

/** Each candidate with its place, its words so far, and the candidate it goes on from; and which are the winner's. */
function arranged(trace, vocabulary) {
  const nodes = [];
  let beams = [undefined]; // the nodes that the last step's beams stand at
  let becomes = [];
  let place = 0;
  for (const candidate of trace) {
    if (nodes.length && candidate.length > nodes.at(-1).length) [beams, becomes, place] = [becomes, [], 0];
    const parent = beams[candidate.parent];
    const piece = vocabulary[candidate.token];
    const node = { ...candidate, place: place++, piece, text: (parent?.text ?? "") + piece, from: parent };
    if (candidate.beam !== null) becomes[candidate.beam] = node;
    nodes.push(node);
  }
  const ended = nodes.filter(({ fate }) => fate === "finished");
  let at = ended.reduce((best, one) => (best && best.score >= one.score ? best : one), undefined);
  for (; at; at = at.from) at.winner = true;
  return nodes;
}

/**
 * The picture, as an SVG element.
 *
 * @param {Object[]} trace what beam search has left.
 * @param {string[]} vocabulary the pieces by id.
 * @param {string} label what is said in its place where it is not seen.
 */
export function searchTree(trace, vocabulary, label) {
  const nodes = arranged(trace, vocabulary);
  const width = COLUMN * (Math.max(...nodes.map(({ place }) => place)) + 1);
  const height = ROW * nodes.at(-1).length + 10;
  const x = ({ place }) => COLUMN * (place + 0.5);
  const y = ({ length }) => ROW * (length - 0.5);
  const lines = nodes
    .filter(({ from }) => from)
    .map((node) =>
      h("line", {
        x1: x(node.from), y1: y(node.from), x2: x(node), y2: y(node), stroke: COLOURS[node.fate],
        "stroke-width": node.winner ? 4 : 1, opacity: node.fate === "dropped" ? 0.4 : 1,
      }),
    );
  const dots = nodes.map((node) =>
    h(
      "g",
      { class: node.winner ? "winner" : "" },
      h("title", {}, `${node.text.replaceAll("▁", " ").trim()}\nlog-probability ${node.logProbability.toFixed(2)}, score ${node.score.toFixed(3)}, ${node.fate}`),
      h("circle", { cx: x(node), cy: y(node), r: node.winner ? 6 : 3.5, fill: COLOURS[node.fate] }),
      h("text", { x: x(node), y: y(node) - 9, "text-anchor": "middle" }, word(node.piece).slice(0, 10)),
      h("text", { x: x(node), y: y(node) + 17, "text-anchor": "middle", class: "score" }, node.score.toFixed(2)),
    ),
  );
  return h("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, ...lines, ...dots);
}

/**
 * The picture in words: a table of all candidates, step by step.
 *
 * @param {Object[]} trace as above.
 * @param {string[]} vocabulary as above.
 * @param {string} lang the language of the translations.
 */
export function searchTable(trace, vocabulary, lang) {
  const nodes = arranged(trace, vocabulary);
  const row = (node) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", lang }, node.text.replaceAll("▁", " ").trim()),
      ...[node.logProbability.toFixed(2), node.score.toFixed(3)].map((value) => h("td", { class: "number" }, value)),
      h("td", {}, node.winner ? `${SAYS[node.fate]}, the winner's way` : SAYS[node.fate]),
    );
  const step = (_, i) => {
    const rows = nodes.filter(({ length }) => length === i + 1).map(row);
    return h("tbody", {}, h("tr", {}, h("th", { scope: "rowgroup", colspan: 4 }, `Step ${i + 1}`)), ...rows);
  };
  const columns = { candidate: "", "log-probability": "number", score: "number", "what becomes of it": "" };
  const head = h("tr", {}, ...Object.entries(columns).map(([name, is]) => h("th", { scope: "col", class: is }, name)));
  return h("table", { class: "steps" }, h("thead", {}, head), ...Array.from({ length: nodes.at(-1).length }, step));
}
