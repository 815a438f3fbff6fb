// The guided tour of the live translator for newcomers: a panel that goes from part to part and explains each one.

import { h, uniqueName } from "./html.mjs";
import { withHead } from "./model.mjs";
import { logSumExp } from "./search.mjs";
import { EOS } from "./tokenizer.mjs";

export const TOUR_STYLE = `
.translator .tour { border: 1px solid var(--border); border-inline-start: 5px solid var(--focus); border-radius: .4rem; background: var(--field); padding: .7rem .9rem; margin: .8rem 0;
  scroll-margin-top: 1rem; }
.translator .tour p { margin: .2rem 0 .6rem; }
.translator .tour .step { font-weight: 600; }
.translator .tour .buttons { display: flex; flex-wrap: wrap; gap: .5rem; margin: 0; }
.translator .tour .buttons :last-child { margin-inline-start: auto; }
.translator .tour button:disabled { opacity: .5; cursor: default; }
.translator .tour-target { outline: 2px solid var(--focus); outline-offset: 4px; border-radius: .3rem; }
`;

/**
 * Create a tour. Its panel is put right before the part that a step explains, so that nothing is covered on a phone, and the
 * Tab key leads from the panel into that part.
 *
 * @param {Object[]} steps each with a `title`; the `target`, an element whose folds are opened; `text`, two sentences, or a
 *   function that does something and returns a promise of the text; and optionally `undo`, called when the step is left.
 *   The function is passed a callback that tells whether the step is still shown.
 * @returns {Element} the button that starts the tour.
 */
export function createTour(steps) {
  let current = null; // the index of the step, or null if the tour is closed
  let visits = 0; // how often a step was shown or left; only the newest visit of a step may continue
  const title = h("p", { class: "step" });
  const text = h("p", { id: uniqueName("tour"), "aria-live": "polite" });
  const back = h("button", { type: "button", onclick: () => goTo(current - 1) }, "Back");
  const next = h("button", { type: "button", onclick: () => (current + 1 < steps.length ? goTo(current + 1) : close()) });
  const stop = h("button", { type: "button", onclick: () => close() }, "Close");
  const panel = h("div", { class: "tour", role: "dialog", "aria-describedby": text.id }, title, text, h("div", { class: "buttons" }, back, next, stop));
  const start = h("button", { type: "button", onclick: () => goTo(0) }, "Take the tour");
  const closeOnEscape = (event) => { if (event.key === "Escape") close(); };
  return start;

  async function goTo(index) {
    leave();
    if (current === null) start.closest(".translator").addEventListener("keydown", closeOnEscape);
    current = index;
    const step = steps[index];
    title.textContent = `Step ${index + 1} of ${steps.length}: ${step.title}`;
    panel.setAttribute("aria-label", title.textContent);
    text.textContent = typeof step.text === "string" ? step.text : "Just a moment ...";
    back.disabled = index === 0;
    next.textContent = index + 1 < steps.length ? "Next" : "Finish";
    for (let part = step.target; part; part = part.parentElement) if (part.matches("details")) part.open = true;
    step.target.classList.add("tour-target");
    step.target.before(panel);
    next.focus({ preventScroll: true });
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    panel.scrollIntoView({ block: "start", behavior: isCalm ? "instant" : "smooth" });
    if (typeof step.text === "string") return;
    const visit = visits;
    const isShown = () => visits === visit;
    const result = await step.text(isShown);
    if (isShown()) text.textContent = result;
  }

  /** Undo what the current step did. */
  function leave() {
    visits++;
    if (current === null) return;
    steps[current].target.classList.remove("tour-target");
    steps[current].undo?.();
  }

  function close() {
    if (current === null) return;
    leave();
    current = null;
    panel.remove();
    start.closest(".translator").removeEventListener("keydown", closeOnEscape);
    start.focus();
  }
}

/**
 * The steps through the live translator, from the top of the page to its bottom.
 *
 * @param {Object<string, Element>} parts what to show: `input`, `tokens`, `embeddings`, `softmax`, `tree` and `heads`.
 * @param {function(function): Promise<string>} ablate switches a head off, and describes the effect.
 * @param {function()} restore switches it on again.
 */
export const translatorSteps = ({ input, tokens, embeddings, softmax, tree, heads }, ablate, restore) => [
  {
    title: "a sentence",
    target: input,
    text: "Type a sentence, or press one of the examples. The translation appears as you type, because the model runs in your browser.",
  },
  {
    title: "tokens",
    target: tokens,
    text: "The model reads neither letters nor words, but tokens: common words, and pieces of rarer ones. All it gets is a number for each token.",
  },
  {
    title: "embeddings",
    target: embeddings,
    text: "Each number selects a vector that the model has learned, the token's embedding, and a second vector for the position is added. Each strip of colours is such a vector: brown for negative numbers, teal for positive ones.",
  },
  {
    title: "probabilities",
    target: softmax,
    text: "The layers of the encoder and the decoder transform these vectors. The output is a probability for each token in the vocabulary: how likely it is to be next. Move the slider to see how the temperature changes the probabilities.",
  },
  {
    title: "the search",
    target: tree,
    text: "The model could just take the most probable token every time, but beam search follows several candidates at once. Each dot is one of them, and the thick line leads to the translation that won.",
  },
  {
    title: "attention",
    target: heads,
    text: "In the layers, tokens exchange information by attention. Each square shows one attention head: the lighter a cell, the more its row attends to its column. In cross-attention, each row is a token that is being predicted, and the columns are the tokens of the source.",
  },
  { title: "one head switched off", target: heads, text: ablate, undo: restore },
];

/**
 * Return the cross-attention head that a translation depends on most: ablating it lowers the probability most.
 *
 * @param {Object} sentence as in `createStages`.
 * @param {function(): Promise} pause called between the heads, so that the page stays responsive.
 * @returns {Promise<[string, number]>} the name of the attention layer, and the index of the head.
 */
export async function mostImportantHead({ model, target, record }, pause) {
  const memory = record.outputs.encoder_norm;
  let lowest = Infinity, important;
  for (const { cross_attention } of model.decoder) {
    for (let head = 0; head < cross_attention.n_heads; head++) {
      await pause();
      const { ablated } = model;
      model.ablated = withHead(ablated, cross_attention.name, head, false);
      const logProbability = scoreTarget(model, memory, target);
      model.ablated = ablated;
      if (logProbability < lowest) [lowest, important] = [logProbability, [cross_attention.name, head]];
    }
  }
  return important;
}

/** The log-probability of a translation, given with its bos and without its eos. */
function scoreTarget(model, memory, target) {
  const cache = model.startCache(memory);
  return target.reduce((sum, token, i) => {
    const [logits] = model.decodeStep([token], cache);
    return sum + logits[target[i + 1] ?? EOS] - logSumExp(logits);
  }, 0);
}
