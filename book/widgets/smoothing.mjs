// Label smoothing: the target, and what the loss says as the model grows surer of the right word (chapter 10). The
// first convention of the chapter: all words share ε, the right one too.

import { chart } from "./chart.mjs";
import { h } from "./html.mjs";
import { KEY, PLAIN, QUERY, bar, show, slider, table, teller } from "./parts.mjs";

/** What the right word and each other one should have: q. */
export const smoothedTarget = (vocabulary, smoothing) => [1 - smoothing + smoothing / vocabulary, smoothing / vocabulary];

/** -Σ q·ln p, if the right word has the probability p and all others share the rest evenly (§5.4). */
export function smoothedLoss(p, vocabulary, smoothing) {
  const [right, other] = smoothedTarget(vocabulary, smoothing);
  const rest = (vocabulary - 1) * other * Math.log((1 - p) / (vocabulary - 1));
  return -right * Math.log(p) - (smoothing ? rest : 0);
}

function render({ el }) {
  const power = (n) => (2 ** n).toLocaleString("en");
  const percent = (p) => `${(100 * p).toFixed(1)}%`;
  const sure = slider("probability of the right word", { min: 0.005, max: 0.995, step: 0.005, value: 0.6 }, draw, percent);
  const smoothing = slider("smoothing ε", { min: 0, max: 0.4, step: 0.01, value: 0.1 }, draw, (e) => e.toFixed(2));
  const words = slider("vocabulary", { min: 1, max: 15, value: 10 }, draw, power);
  const told = teller(), picture = h("div"), numbers = h("div");

  function draw() {
    const [p, e, V] = [sure.value(), smoothing.value(), 2 ** words.value()];
    const [right, other] = smoothedTarget(V, e);
    const loss = smoothedLoss(p, V, e), best = Math.min(right, 0.9999);
    const push = Math.abs(p - right) < 5e-4 ? "leaves it as it is" : p < right ? "asks for more" : "asks for less";
    told.textContent =
      `The model gives the right word ${percent(p)}, the target ${percent(right)}: the gradient ${push}. ` +
      `Loss ${loss.toFixed(3)}, without smoothing ${(-Math.log(p)).toFixed(3)}; ` +
      (e ? `no model can get below ${smoothedLoss(right, V, e).toFixed(3)}.` : "there is no lowest, only ever lower.");
    const at = Array.from({ length: 100 }, (_, i) => (i + 0.5) / 100).concat(0.999);
    const curve = (how) => at.map((one) => [one, how(one)]);
    picture.replaceChildren(chart(
      told.textContent,
      [{ points: curve((one) => -Math.log(one)), colour: PLAIN, width: 1.5 }, { points: curve((one) => smoothedLoss(one, V, e)), colour: QUERY, width: 3 }],
      [{ at: [best, smoothedLoss(best, V, e)], colour: QUERY, name: "lowest" }, { at: [p, loss], colour: KEY, name: loss.toFixed(2) }],
      { x: 1, y: 6, xName: "probability of the right word, to 1", yName: "loss, to 6 (grey: without smoothing)" },
    ));
    const row = (name, want, has) => [name, `${want.toFixed(5)} `, bar(want, QUERY), `${has.toFixed(5)} `, bar(has, KEY), (has - want).toFixed(5)];
    numbers.replaceChildren(table("One word's share: what it should be, and what the model gives", ["", "target q", "", "model p", "", "p − q"],
      [row("the right word", right, p), row("each other word", other, (1 - p) / (V - 1))]));
  }

  show(el, [sure, smoothing, words].map((one) => one.el), told, picture, numbers);
  draw();
}

export default { render };
