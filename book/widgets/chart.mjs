// Curves over an axis, for the small pictures.

import { h } from "./html.mjs";
import { PLAIN } from "./parts.mjs";

/**
 * Curves over an axis, as an SVG element.
 *
 * @param {string} label what is said in its place where it is not seen.
 * @param {Object[]} curves each with its `points` [x, y], `colour` and `width`.
 * @param {Object[]} marks dots: each with its `at` [x, y], `colour` and `name`.
 * @param {Object} ends the largest `x` and `y`, and the names of both axes, `xName` and `yName`.
 */
export function chart(label, curves, marks, { x, y, xName, yName }) {
  const [W, H, LEFT, LOW] = [300, 170, 10, 140];
  const place = ([a, b]) => [LEFT + (a / x) * (W - 2 * LEFT), LOW - (Math.min(b, y) / y) * (LOW - 24)];
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
