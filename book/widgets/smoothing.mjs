// Label smoothing: the target distribution, and the loss for each probability of the correct token (chapter 10). As in the
// first convention of the chapter, ε is shared by all tokens, including the correct one.

import { chart } from "./chart.mjs";
import { h } from "./html.mjs";
import { KEY, OUTPUT, PLAIN, QUERY, bar, format, showWidget, slider, statusLine, table } from "./parts.mjs";

/** Return the target probabilities q of the correct token and of each other token. */
export const smoothedTarget = (vocabulary, smoothing) => [1 - smoothing + smoothing / vocabulary, smoothing / vocabulary];

/** Return -Σ q·ln p if the correct token has the probability p and all others share the rest equally (§5.4). */
export function smoothedLoss(p, vocabulary, smoothing) {
  const [right, other] = smoothedTarget(vocabulary, smoothing);
  const rest = (vocabulary - 1) * other * Math.log((1 - p) / (vocabulary - 1));
  return -right * Math.log(p) - (smoothing ? rest : 0);
}

const STYLE = "@media (max-width: 30rem) { .smoothing td span { display: none !important } }"; // no room for the bars

function render({ el }) {
  const power = (n) => (2 ** n).toLocaleString("en");
  const percent = (p) => `${(100 * p).toFixed(1)}%`;
  const probability = slider("probability of the correct token", { min: 0.005, max: 0.995, step: 0.005, value: 0.6 }, draw, percent);
  const smoothing = slider("smoothing ε", { min: 0, max: 0.4, step: 0.01, value: 0.1 }, draw, (e) => e.toFixed(2));
  const size = slider("vocabulary", { min: 1, max: 15, value: 10 }, draw, power);
  const status = statusLine(), picture = h("div"), numbers = h("div", { class: "smoothing" });

  function draw() {
    const [p, e, V] = [probability.value(), smoothing.value(), 2 ** size.value()];
    const [right, other] = smoothedTarget(V, e);
    const loss = smoothedLoss(p, V, e), best = Math.min(right, 0.9999);
    const effect = Math.abs(p - right) < 5e-4 ? "changes nothing" : p < right ? "raises the model's probability" : "lowers the model's probability";
    status.textContent =
      `The model gives the correct token ${percent(p)}, and the target is ${percent(right)}, so a gradient step ${effect}. ` +
      `The loss is ${loss.toFixed(3)} (${(-Math.log(p)).toFixed(3)} without smoothing); ` +
      (e ? `the lowest possible loss is ${smoothedLoss(right, V, e).toFixed(3)}.` : "the loss has no minimum: it only approaches 0.");
    const probabilities = Array.from({ length: 100 }, (_, i) => (i + 0.5) / 100).concat(0.999);
    const curve = (lossAt) => probabilities.map((x) => [x, lossAt(x)]);
    picture.replaceChildren(chart(
      status.textContent,
      [{ points: curve((x) => -Math.log(x)), colour: PLAIN, width: 2, dashes: "5 4" }, { points: curve((x) => smoothedLoss(x, V, e)), colour: OUTPUT, width: 3 }],
      [...(e ? [{ at: [best, smoothedLoss(best, V, e)], colour: QUERY, name: "minimum", below: Math.abs(p - best) < 0.15 }] : []), { at: [p, loss], colour: KEY, name: loss.toFixed(2) }],
      { x: 1, y: 6, xName: "probability of the correct token (0 to 1)", yName: "loss (0 to 6; dashed: hard target)" },
    ));
    const row = (name, target, model) => [name, `${target.toFixed(5)} `, bar(target, OUTPUT), `${model.toFixed(5)} `, bar(model, KEY), format(model - target, 5)];
    numbers.replaceChildren(table("Probability of one token: target and model", ["", "target q", "", "model p", "", "p − q"],
      [row("correct token", right, p), row("each other", other, (1 - p) / (V - 1))]));
  }

  showWidget(el, [probability, smoothing, size].map((control) => control.el), h("style", {}, STYLE), status, picture, numbers);
  draw();
}

export default { render };
