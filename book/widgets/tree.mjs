// The tree of a beam search: every candidate, what happened to it, and the path to the best translation. It is the same
// figure as that of transformer/plots/beam_tree.py, and a table with the same content for screen readers and keyboards.

import { h, withoutMark } from "./html.mjs";
import { format } from "./parts.mjs";

/** Pixels: a column, which is narrower where there is less room, a row, and the margins; the right one has room for a score. */
const COLUMN = 58, NARROWEST = 36, ROW = 46, LEFT = 6, RIGHT = 14;
const COLOURS = { kept: "#0072B2", finished: "#009E73", dropped: "#808080" };

/** The legend of the tree. */
export function legend() {
  const entries = Object.entries(COLOURS).flatMap(([fate, colour]) => [
    h("span", { style: `color: ${colour}`, "aria-hidden": "true" }, "● "),
    `${fate}; `,
  ]);
  return h(
    "p",
    { class: "status" },
    ...entries,
    "the thick line leads to the best translation; numbers are scores. The search doesn't end with the first <eos>: it " +
      "continues until there are as many finished translations as the beam size, and no unfinished one can overtake them.",
  );
}

/** Return each candidate with its column, its text and its parent, and mark those that lead to the best translation. */
function layout(trace, vocabulary) {
  const nodes = [];
  let beams = [undefined]; // the nodes of the previous step, by beam
  let nextBeams = [];
  let column = 0;
  for (const candidate of trace) {
    if (nodes.length && candidate.length > nodes.at(-1).length) [beams, nextBeams, column] = [nextBeams, [], 0];
    const parent = beams[candidate.parent];
    const piece = vocabulary[candidate.token];
    const node = { ...candidate, column: column++, piece, text: (parent?.text ?? "") + piece, parentNode: parent };
    if (candidate.beam !== null) nextBeams[candidate.beam] = node;
    nodes.push(node);
  }
  const finished = nodes.filter(({ fate }) => fate === "finished");
  let node = finished.reduce((best, other) => (best && best.score >= other.score ? best : other), undefined);
  for (; node; node = node.parentNode) node.onBestPath = true;
  return nodes;
}

const shorten = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

/**
 * Draw the tree, as an SVG element.
 *
 * @param {Object[]} trace the candidates, from `beamSearch`.
 * @param {string[]} vocabulary the pieces by id.
 * @param {string} label the text alternative.
 * @param {number} room the width in pixels that the tree should fit into, if it can.
 */
export function searchTree(trace, vocabulary, label, room) {
  const nodes = layout(trace, vocabulary);
  const columns = Math.max(...nodes.map(({ column }) => column)) + 1;
  const columnWidth = Math.max(NARROWEST, Math.min(COLUMN, (room - LEFT - RIGHT) / columns));
  const isNarrow = columnWidth < 0.85 * COLUMN; // too narrow for a score beside a dot: it goes below
  const letters = ({ onBestPath }) => (isNarrow ? Math.floor(columnWidth / (onBestPath ? 7 : 5.4)) : 10); // bold is wider
  const width = LEFT + columnWidth * columns + RIGHT;
  const height = ROW * nodes.at(-1).length + 10;
  const x = ({ column }) => LEFT + columnWidth * (column + 0.5);
  const y = ({ length }) => ROW * (length - 0.5);
  const lines = nodes
    .filter(({ parentNode }) => parentNode)
    .map((node) =>
      h("line", {
        x1: x(node.parentNode), y1: y(node.parentNode), x2: x(node), y2: y(node), stroke: COLOURS[node.fate],
        "stroke-width": node.onBestPath ? 4 : 1, opacity: node.fate === "dropped" ? 0.4 : 1,
      }),
    );
  const dots = nodes.map((node) =>
    h(
      "g",
      { class: node.onBestPath ? "best-path" : "" },
      h("title", {}, `${node.text.replaceAll("▁", " ").trim()}\nlog-probability ${format(node.logProbability)}, score ${format(node.score, 3)}, ${node.fate}`),
      h("circle", { cx: x(node), cy: y(node), r: node.onBestPath ? 6 : 3.5, fill: COLOURS[node.fate] }),
      h("text", { x: x(node), y: y(node) - 9, "text-anchor": "middle" }, shorten(withoutMark(node.piece), letters(node))),
      h("text", isNarrow ? { x: x(node), y: y(node) + 16, "text-anchor": "middle", class: "score" } : { x: x(node) + 10, y: y(node) + 4, class: "score" }, format(node.score)),
    ),
  );
  return h("svg", { class: isNarrow ? "narrow" : "", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, ...lines, ...dots);
}

/**
 * Return a table of all candidates, step by step.
 *
 * @param {Object[]} trace as above.
 * @param {string[]} vocabulary as above.
 * @param {string} lang the language of the translations.
 */
export function searchTable(trace, vocabulary, lang) {
  const nodes = layout(trace, vocabulary);
  const row = (node) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", lang }, node.text.replaceAll("▁", " ").trim()),
      ...[format(node.logProbability), format(node.score, 3)].map((value) => h("td", { class: "number" }, value)),
      h("td", {}, node.onBestPath ? `${node.fate}, on the best path` : node.fate),
    );
  const step = (_, i) => {
    const rows = nodes.filter(({ length }) => length === i + 1).map(row);
    return h("tbody", {}, h("tr", {}, h("th", { scope: "rowgroup", colspan: 4 }, `Step ${i + 1}`)), ...rows);
  };
  const columns = { candidate: "", "log-probability": "number", score: "number", result: "" };
  const head = h("tr", {}, ...Object.entries(columns).map(([name, className]) => h("th", { scope: "col", class: className }, name)));
  return h("table", { class: "steps" }, h("thead", {}, head), ...Array.from({ length: nodes.at(-1).length }, step));
}
