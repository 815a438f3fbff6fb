// Line charts for the small widgets.

import { h } from "./html.mjs";
import { PLAIN } from "./parts.mjs";

/**
 * Draw curves and dots, as an SVG element.
 *
 * @param {string} label the text alternative.
 * @param {Object[]} curves each with `points` [x, y], `colour` and `width`, and `dashes` if it is dashed, as in stroke-dasharray.
 * @param {Object[]} dots each with `at` [x, y], `colour` and `name`, which is below the dot if `below` is true and there is room.
 * @param {Object} axes the maxima `x` and `y`, and the labels of both axes, `xName` and `yName`.
 */
export function chart(label, curves, dots, { x, y, xName, yName }) {
  const [W, H, LEFT, BOTTOM] = [300, 170, 10, 140];
  const toPixels = ([a, b]) => [LEFT + (a / x) * (W - 2 * LEFT), BOTTOM - (Math.min(b, y) / y) * (BOTTOM - 24)];
  const line = ({ points, colour, width, dashes }) =>
    h("polyline", { points: points.map(toPixels).join(" "), fill: "none", stroke: colour, "stroke-width": width, "stroke-dasharray": dashes, "stroke-linejoin": "round" });
  const axis = (end) => line({ points: [[0, 0], end], colour: PLAIN, width: 1 });
  const circles = dots.map(({ at, colour, name, below }) => {
    const [cx, cy] = toPixels(at);
    const anchor = cx > W - 70 ? "end" : cx < 70 ? "start" : "middle";
    const top = below && cy < BOTTOM - 18 ? cy + 16 : cy - 9;
    return h("g", {}, h("circle", { cx, cy, r: 5, fill: colour }), h("text", { x: cx, y: top, "text-anchor": anchor }, name));
  });
  const labels = [[LEFT, 12, "start", yName], [W - LEFT, H - 12, "end", xName], [LEFT, H - 12, "start", "0"]];
  const texts = labels.map(([at, top, anchor, text]) => h("text", { x: at, y: top, "text-anchor": anchor }, text));
  const box = { viewBox: `0 0 ${W} ${H}`, width: 1.2 * W, height: 1.2 * H, role: "img", "aria-label": label };
  return h("svg", box, axis([x, 0]), axis([0, y]), ...curves.map(line), ...circles, ...texts);
}
