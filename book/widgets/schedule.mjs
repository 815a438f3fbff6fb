// The learning rate over the steps, and where its peak is (chapter 11). `learningRate` is that of transformer/schedule.py.

import { chart } from "./chart.mjs";
import { h } from "./html.mjs";
import { KEY, PLAIN, QUERY, show, slider, table, teller } from "./parts.mjs";

/** factor · d_model^-0.5 · min(step^-0.5, step · warmup^-1.5) (§5.3); steps count from 1. */
export function learningRate(step, dModel, warmup = 4000, factor = 1) {
  return factor * dModel ** -0.5 * Math.min(step ** -0.5, step * warmup ** -1.5);
}

const STEPS = 20000;

function render({ el }) {
  const count = (n) => n.toLocaleString("en");
  const width = slider("d_model", { min: 6, max: 11, value: 9 }, draw, (n) => count(2 ** n));
  const warmup = slider("warm-up", { min: 500, max: 16000, step: 500, value: 4000 }, draw, count);
  const factor = slider("factor", { min: 0.1, max: 3, step: 0.1, value: 1 }, draw, (one) => one.toFixed(1));
  const told = teller(), picture = h("div"), numbers = h("div");

  function draw() {
    const [d, w, f] = [2 ** width.value(), warmup.value(), factor.value()];
    const rate = (step) => learningRate(step, d, w, f);
    const raised = (digits) => [...digits].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");
    const scientific = (one) => one.toExponential(2).replace(/e-(\d+)/, (_, digits) => ` · 10⁻${raised(digits)}`);
    const peak = rate(w), papers = learningRate(4000, 512), top = 1.25 * Math.max(peak, papers);
    told.textContent =
      `The peak is ${scientific(peak)}, at step ${count(w)}: factor / √(d_model · warm-up) = ${f.toFixed(1)} / √(${count(d)} · ${count(w)}). ` +
      `The paper's base model (grey) has ${scientific(papers)}, so this is ${(peak / papers).toFixed(2)} times as high.`;
    const steps = [1, ...Array.from({ length: 100 }, (_, i) => ((i + 1) * STEPS) / 100)];
    const curve = (how) => [...new Set([...steps, w])].sort((a, b) => a - b).map((step) => [step, how(step)]);
    picture.replaceChildren(chart(
      told.textContent,
      [{ points: curve((step) => learningRate(step, 512)), colour: PLAIN, width: 1.5 }, { points: curve(rate), colour: QUERY, width: 3 }],
      [{ at: [w, peak], colour: KEY, name: `peak ${scientific(peak)}` }],
      { x: STEPS, y: top, xName: `steps, to ${count(STEPS)}`, yName: `learning rate, to ${scientific(top)}` },
    ));
    const at = [[1, "the first"], [w / 2, "half of the warm-up"], [w, "the peak"], [4 * w, "four times as far: half"], [100000, "the base model's last"]];
    numbers.replaceChildren(table("The rate at some steps", ["step", "rate", "which"], at.map(([step, which]) => [count(step), scientific(rate(step)), which])));
  }

  show(el, [width, warmup, factor].map((one) => one.el), told, h("div", { class: "side" }, picture, numbers));
  draw();
}

export default { render };
