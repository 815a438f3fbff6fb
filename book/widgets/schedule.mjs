// The learning rate at each step, and its peak (chapter 11). `learningRate` is that of transformer/schedule.py.

import { chart } from "./chart.mjs";
import { h } from "./html.mjs";
import { KEY, PLAIN, QUERY, showWidget, slider, statusLine, table } from "./parts.mjs";

/** factor · d_model^-0.5 · min(step^-0.5, step · warmup^-1.5) (§5.3); the first step is 1. */
export function learningRate(step, dModel, warmup = 4000, factor = 1) {
  return factor * dModel ** -0.5 * Math.min(step ** -0.5, step * warmup ** -1.5);
}

const STEPS = 20000;

function render({ el }) {
  const count = (n) => n.toLocaleString("en");
  const width = slider("d_model", { min: 6, max: 11, value: 9 }, draw, (n) => count(2 ** n));
  const warmup = slider("warm-up", { min: 500, max: 16000, step: 500, value: 4000 }, draw, count);
  const factor = slider("factor", { min: 0.1, max: 3, step: 0.1, value: 1 }, draw, (value) => value.toFixed(1));
  const status = statusLine(), picture = h("div"), numbers = h("div");

  function draw() {
    const [d, w, f] = [2 ** width.value(), warmup.value(), factor.value()];
    const rate = (step) => learningRate(step, d, w, f);
    const superscript = (digits) => [...digits].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");
    const scientific = (value) => value.toExponential(2).replace(/e-(\d+)/, (_, digits) => ` · 10⁻${superscript(digits)}`);
    const peak = rate(w), basePeak = learningRate(4000, 512), top = 1.25 * Math.max(peak, basePeak);
    status.textContent =
      `The peak is ${scientific(peak)}, at step ${count(w)}: factor / √(d_model · warm-up) = ${f.toFixed(1)} / √(${count(d)} · ${count(w)}). ` +
      `The peak of the paper's base model (grey) is ${scientific(basePeak)}, so this one is ${(peak / basePeak).toFixed(2)} times as high.`;
    const steps = [1, ...Array.from({ length: 100 }, (_, i) => ((i + 1) * STEPS) / 100)];
    const curve = (rateAt) => [...new Set([...steps, w])].sort((a, b) => a - b).map((step) => [step, rateAt(step)]);
    picture.replaceChildren(chart(
      status.textContent,
      [{ points: curve((step) => learningRate(step, 512)), colour: PLAIN, width: 1.5 }, { points: curve(rate), colour: QUERY, width: 3 }],
      [{ at: [w, peak], colour: KEY, name: `peak ${scientific(peak)}` }],
      { x: STEPS, y: top, xName: `step (0 to ${count(STEPS)})`, yName: `learning rate (0 to ${scientific(top)})` },
    ));
    const rows = [[1, "the first step"], [w / 2, "half of the warm-up"], [w, "the peak"], [4 * w, "4 × warm-up: half the peak"], [100000, "base model's last step"]];
    numbers.replaceChildren(table("The learning rate at some steps", ["step", "learning rate", ""], rows.map(([step, which]) => [count(step), scientific(rate(step)), h("span", { style: "white-space: normal" }, which)])));
  }

  showWidget(el, [width, warmup, factor].map((control) => control.el), status, h("div", { class: "side" }, picture, numbers));
  draw();
}

export default { render };
