// Every stage of the model with the numbers of one sentence: tokens, embeddings, layers, logits, probabilities, the chosen token.

import { h, withoutMark } from "./html.mjs";
import { drawLayer } from "./layers.mjs";
import { format, radios, slider, softmax } from "./parts.mjs";
import { lengthLimit } from "./search.mjs";
import { EOS } from "./tokenizer.mjs";
import { VECTORS_STYLE, strips, thinStrips } from "./vectors.mjs";

/** The tables of logits and probabilities show this many tokens. */
const MOST_PROBABLE = 8;

/** The position that is shown at first: in the decoder, there should be tokens before it to attend to. */
const FIRST_POSITION = 2;

export const STAGES_STYLE = `${VECTORS_STYLE}
.translator .stages p { margin: .3rem 0 .6rem; font-size: .95rem; }
.translator .stages h4 { font-size: 1rem; margin: 1.3rem 0 .3rem; color: inherit; }
.translator .stages h5 { font-size: .95rem; margin: 1.1rem 0 .2rem; color: inherit; }
.translator .radios { border: 0; padding: 0; margin: .4rem 0; display: flex; flex-wrap: wrap; gap: .3rem; min-width: 0; }
.translator .radios legend { font-size: .85rem; color: var(--muted); float: none; margin: 0 0 .2rem; padding: 0; }
.translator .radios label { display: block; position: relative; border: 1px solid var(--border); border-radius: .3rem; padding: .3rem .5rem;
  font-size: .85rem; background: var(--field); overflow-wrap: anywhere; }
.translator .radios input { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; opacity: 0; cursor: pointer; }
.translator .radios label:has(:checked) { border-color: var(--slider); box-shadow: inset 0 0 0 1px var(--slider); font-weight: 600; }
.translator .radios label:has(:focus-visible) { outline: 3px solid var(--focus); outline-offset: 1px; }
.translator .target-tokens label:has(:checked) ~ label { border-style: dashed; }
.translator .radios.maps { display: grid; grid-template-columns: repeat(var(--wide), minmax(0, max-content)); }
.translator .radios canvas { display: block; width: 3.4rem; max-width: 100%; aspect-ratio: 1; image-rendering: pixelated; margin: .25rem auto .1rem; }
.translator .stage { border: 1px solid var(--border); border-radius: .4rem; background: var(--field); margin: .4rem 0; }
.translator .stage > summary { display: flex; gap: .6rem; align-items: baseline; padding: .5rem .7rem; list-style: none; }
.translator .stage > summary::-webkit-details-marker { display: none; }
.translator .stage > summary::after { content: "+"; font-family: var(--monospace); color: var(--muted); }
.translator .stage[open] > summary::after { content: "−"; }
.translator .stage .place { flex: none; width: 1.6rem; line-height: 1.5rem; text-align: center; border: 1px solid var(--muted); border-radius: 50%; font-size: .8rem; }
.translator .stage .shape { flex: 0 1 auto; margin-inline-start: auto; font: .8rem var(--monospace); color: var(--muted); text-align: end; }
.translator .stage > .unfolded { padding: 0 .7rem .5rem; }
.translator .tokens { display: flex; flex-wrap: wrap; gap: .3rem; list-style: none; padding: 0; margin: .4rem 0; }
.translator .tokens li { display: flex; flex-direction: column; align-items: center; border: 1px solid var(--border); border-radius: .3rem;
  padding: .1rem .4rem; margin: 0; font: .85rem var(--monospace); overflow-wrap: anywhere; }
.translator .tokens span { color: var(--muted); font-size: .75rem; }
.translator table.numbers { width: 100%; border-collapse: collapse; font-size: .85rem; margin: .3rem 0; font-variant-numeric: tabular-nums; }
.translator table.numbers :is(th, td) { padding: .12rem .35rem; text-align: end; font-weight: normal; white-space: nowrap; border-bottom: 1px solid var(--border);
  background: none; color: inherit; }
.translator table.numbers thead th { color: var(--muted); }
.translator table.numbers :is(.token, [scope=row]) { text-align: start; }
.translator table.numbers .key { text-align: start; width: 22%; }
.translator table.numbers .bar { width: 34%; min-width: 3.5rem; }
.translator table.numbers .bar span { display: block; height: .8em; min-width: 1px; background: #0072B2; }
.translator table.numbers .chosen th { font-weight: 700; }
.translator table.numbers canvas { display: block; width: 100%; height: .8rem; image-rendering: pixelated; }
@media (forced-colors: active) {
  .translator .bar span { forced-color-adjust: none; }
  .translator .radios label:has(:checked) { outline: 2px solid Highlight; }
}
@media (max-width: 30rem) {
  .translator .stage > .unfolded { padding: 0 .5rem .5rem; }
  .translator table.numbers .key { display: none; }
  .translator .radios.maps { grid-template-columns: repeat(var(--narrow), minmax(0, max-content)); }
}
`;

const CHAPTERS = {
  "05_positional_encoding": "Positional encoding",
  "06_layers": "Encoder and decoder layers",
  "07_full_model": "The full model",
  "08_subword_tokenization": "Subword tokenization",
  "12_decoding": "Decoding",
};

const percent = (probability) => `${(100 * probability).toFixed(2)} %`;

/**
 * Create the stages, which are empty until they are shown.
 *
 * @param {string} [chapters] the address of the folder of the book's chapters. In a notebook there is none: then chapters are
 *   named but not linked.
 * @returns {{el: Element, parts: Object<string, Element>, show: function(Object), clear: function(), shown: function(): ?Object}}
 *   `parts` has the stages by name. `show` takes a sentence, which `shown` returns: the `model`, the ids `source`, with eos, and
 *   `target`, with bos, the `vocabulary`, and the `record` and the `logits` from decoding the target.
 */
export function createStages(chapters) {
  let sentence = null; // what is shown
  let sourcePosition = FIRST_POSITION, targetPosition = FIRST_POSITION; // the tokens whose vectors are shown
  const chosenHeads = {}; // the name of an attention layer → the head that is shown
  const openLayers = new Set(); // the names of the layers that are unfolded

  const sourceTokens = h("div"), targetTokens = h("div", { class: "target-tokens" }), bars = h("div");
  const temperature = slider("Temperature", { min: 0.1, max: 3, step: 0.1, value: 1 }, () => drawBars(), (value) => value.toFixed(1));
  const choice = h("p", { "aria-live": "polite" });
  const next = h("button", { type: "button", onclick: () => { moveTo((targetPosition + 1) % sentence.target.length); next.focus(); } });

  // Name → title, a function that describes the result in a few words, and one that returns the content.
  const STAGES = {
    tokens: ["Tokens", () => `${sentence.source.length} ids`, drawTokens],
    embeddings: ["Embeddings and positions", () => shape(sentence.source.length), drawEmbeddings],
    encoder: ["Encoder layers", () => `${sentence.model.encoder.length} layers`, () => drawLayers("encoder")],
    target: ["The target so far", () => shape(targetPosition + 1), drawTarget],
    decoder: ["Decoder layers", () => `${sentence.model.decoder.length} layers`, () => drawLayers("decoder")],
    logits: ["Logits", () => `${vocabularySize()} numbers`, drawLogits],
    softmax: ["Softmax", () => `${vocabularySize()} probabilities`, drawSoftmax],
    chosen: ["The chosen token", () => piece(chosenToken()), drawChosen],
  };
  const parts = Object.fromEntries(
    Object.entries(STAGES).map(([name, [title, , content]], i) => [name, stage(content, h("span", { class: "place", "aria-hidden": "true" }, `${i + 1}`), title)]),
  );
  const el = h(
    "div",
    { class: "stages" },
    h(
      "p",
      {},
      "All numbers here come from your sentence. A strip is a vector, with a colour for each dimension: brown for negative " +
        "numbers, teal for positive ones, pale near zero. Point at a strip, or use the arrow keys, to read any of its numbers.",
    ),
    h("h4", {}, "The encoder reads the whole sentence at once"),
    sourceTokens,
    ...["tokens", "embeddings", "encoder"].map((name) => parts[name]),
    h("h4", {}, "The decoder writes the translation, token by token"),
    targetTokens,
    ...["target", "decoder", "logits", "softmax", "chosen"].map((name) => parts[name]),
  );
  return { el, parts, show, clear, shown: () => sentence };

  /** A stage, whose content is computed only while it is unfolded. */
  function stage(content, ...title) {
    const unfolded = h("div", { class: "unfolded" });
    const details = h("details", { class: "stage" }, h("summary", {}, ...title, h("span", { class: "shape" })), unfolded);
    details.draw = () => unfolded.replaceChildren(...(details.open && sentence ? content() : []));
    details.addEventListener("toggle", () => details.draw());
    return details;
  }

  function show(newSentence) {
    sentence = newSentence;
    sourcePosition = Math.min(sourcePosition, sentence.source.length - 1);
    targetPosition = Math.min(targetPosition, sentence.target.length - 1);
    const chips = (ids) => ids.map((id) => [piece(id)]);
    sourceTokens.replaceChildren(radios("Follow a token of the source:", chips(sentence.source), sourcePosition, (i) => { sourcePosition = i; draw(); }));
    targetTokens.replaceChildren(radios("Choose the token to be predicted:", chips([...sentence.target.slice(1), EOS]), targetPosition, moveTo));
    draw();
  }

  function clear() {
    sentence = null;
    sourceTokens.replaceChildren();
    targetTokens.replaceChildren();
    for (const part of Object.values(parts)) {
      part.querySelector(".shape").textContent = "";
      part.draw();
    }
  }

  function draw() {
    for (const [name, [, describe]] of Object.entries(STAGES)) {
      parts[name].querySelector(".shape").textContent = describe();
      parts[name].draw();
    }
  }

  /** Show the prediction of another token. */
  function moveTo(position) {
    targetPosition = position;
    targetTokens.querySelectorAll("input")[position].checked = true;
    draw();
  }

  function piece(id) {
    return withoutMark(sentence.vocabulary[id]);
  }

  function shape(length) {
    return `${length} × ${sentence.model.config.d_model}`;
  }

  function vocabularySize() {
    return sentence.model.config.vocab_size.toLocaleString("en");
  }

  /** The token after the target so far. */
  function chosenToken() {
    return sentence.target[targetPosition + 1] ?? EOS;
  }

  /** What a stage does, and the chapters that explain it. */
  function explain(words, ...names) {
    const link = (name) => {
      const title = `Chapter ${Number(name.slice(0, 2))}, ${CHAPTERS[name]}`;
      return chapters ? h("a", { href: `${chapters}${name}.html` }, title) : title;
    };
    return h("p", {}, `${words} `, ...names.flatMap((name, i) => (i ? ["; ", link(name)] : [link(name)])), ".");
  }

  function drawTokens() {
    const item = (id) => h("li", {}, sentence.vocabulary[id], h("span", {}, `${id}`));
    return [
      explain("The tokenizer splits the sentence into words and pieces of words from its vocabulary; ▁ marks the start of a word. The model gets only their ids, the numbers below.", "08_subword_tokenization"),
      h("ol", { class: "tokens", "aria-label": "Tokens of the source, with their ids" }, ...sentence.source.map(item)),
    ];
  }

  function drawEmbeddings() {
    return [
      explain("Each id selects a learned vector, its embedding. Adding a vector for the position tells the model where in the sentence the token is.", "07_full_model", "05_positional_encoding"),
      ...drawSums(sentence.source, sentence.model.source_embedding, sentence.record.outputs.source, sourcePosition),
    ];
  }

  function drawTarget() {
    const ids = sentence.target.slice(0, targetPosition + 1);
    return [
      explain("The decoder gets <bos>, which marks the beginning, and the tokens that it has written so far, as embeddings plus positions.", "12_decoding"),
      ...drawSums(ids, sentence.model.target_embedding, sentence.record.outputs.target, targetPosition),
    ];
  }

  /** The embedding, the position and the sum of one token; the sums of all tokens. */
  function drawSums(ids, table, sums, position) {
    const { model } = sentence;
    const rows = [
      [`embedding of ${piece(ids[position])}, times √${model.config.d_model}`, model.scaledEmbedding(ids[position], table)],
      [`vector of position ${position}`, model.positionVector(position)],
      ["sum", sums[position]],
    ];
    return [strips(rows), h("p", {}, "The sums of all tokens go into the first layer:"), thinStrips(ids.map(piece), sums.slice(0, ids.length), position)];
  }

  function drawLayers(side) {
    const { model, record } = sentence;
    const isEncoder = side === "encoder";
    const position = isEncoder ? sourcePosition : targetPosition;
    const ids = isEncoder ? sentence.source : sentence.target.slice(0, position + 1);
    const input = (i) => (i ? `${side}.${i - 1}.residuals.${isEncoder ? 1 : 2}` : isEncoder ? "source" : "target");
    const layers = model[side].map((layer, i) => {
      const element = stage(() => drawLayer(sentence, layer, input(i), position, chosenHeads), `Layer ${i + 1}`);
      element.open = openLayers.has(layer.name);
      element.draw();
      element.addEventListener("toggle", () => openLayers[element.open ? "add" : "delete"](layer.name));
      return element;
    });
    return [
      isEncoder
        ? explain("In every layer, self-attention lets each token gather information from all the others, and a feed-forward network then processes each token by itself.", "06_layers")
        : explain("In every layer, the newest token attends to the tokens written so far, then to the encoder's output, and then goes through a feed-forward network.", "06_layers"),
      ...layers,
      h("p", {}, isEncoder ? "The encoder's output has a vector for each token; the decoder attends to these:" : "The next token is predicted from the last of these vectors:"),
      thinStrips(ids.map(piece), record.outputs[`${side}_norm`].slice(0, ids.length), position),
    ];
  }

  /** The most probable next tokens as a table, with the text of `number` and a bar of the length `fraction`, from 0 to 1. */
  function tokenTable(name, number, fraction) {
    const row = (id) =>
      h(
        "tr",
        { class: id === chosenToken() ? "chosen" : "" },
        h("th", { scope: "row" }, piece(id)),
        h("td", {}, number(id)),
        h("td", { class: "bar" }, h("span", { style: `width: ${(100 * fraction(id)).toFixed(2)}%` })),
      );
    const titles = ["token", name].map((title) => h("th", { scope: "col", class: title }, title));
    return h("table", { class: "numbers" }, h("thead", {}, h("tr", {}, ...titles, h("td"))), h("tbody", {}, ...ranking().slice(0, MOST_PROBABLE).map(row)));
  }

  /** All token ids, the most probable one first. */
  function ranking() {
    const logits = sentence.logits[targetPosition];
    return [...logits.keys()].sort((a, b) => logits[b] - logits[a]);
  }

  function drawLogits() {
    const logits = sentence.logits[targetPosition];
    const [lowest, highest] = logits.reduce(([low, high], logit) => [Math.min(low, logit), Math.max(high, logit)], [Infinity, -Infinity]);
    return [
      explain("The decoder's last vector is compared with a vector for each token of the vocabulary. Each dot product is a logit: the higher, the better the token fits.", "07_full_model"),
      strips([["the decoder's last vector", sentence.record.outputs.decoder_norm[targetPosition]]]),
      h("p", {}, `The ${vocabularySize()} logits range from ${format(lowest)} to ${format(highest)}. The highest are:`),
      tokenTable("logit", (id) => format(logits[id]), (id) => (logits[id] - lowest) / (highest - lowest)),
    ];
  }

  function drawSoftmax() {
    drawBars();
    return [
      explain("Softmax turns the logits, divided by the temperature, into probabilities. A low temperature favours the most probable token; a high one makes the tokens more equal.", "12_decoding"),
      temperature.el,
      bars,
      h("p", {}, "Beam search, which found the translation above, uses temperature 1. Other temperatures matter only if the next token is sampled."),
    ];
  }

  function drawBars() {
    const probabilities = softmax(sentence.logits[targetPosition].map((logit) => logit / temperature.value()));
    const others = ranking().slice(MOST_PROBABLE).reduce((sum, id) => sum + probabilities[id], 0);
    bars.replaceChildren(
      tokenTable("probability", (id) => percent(probabilities[id]), (id) => probabilities[id]),
      h("p", {}, `All other tokens together: ${percent(others)}`),
    );
  }

  function drawChosen() {
    const id = chosenToken();
    const rank = ranking().indexOf(id) + 1;
    const probability = percent(softmax(sentence.logits[targetPosition])[id]);
    const isForced = id === EOS && sentence.target.length === lengthLimit(sentence.model, sentence.source);
    const reason =
      rank === 1 ? "It is the most probable token."
      : isForced ? "This is the longest translation that the search allows, so it has to end here."
      : `It is only number ${rank}, but the translation as a whole gets a higher score with it.`;
    choice.textContent = `The translation continues with ${piece(id)}, which has a probability of ${probability}. ${reason}`;
    next.textContent = id === EOS ? "Back to the first token" : "Predict the next token";
    return [
      explain("The chosen token is appended to the target, and the decoder runs again, until it chooses <eos>, the end. Beam search follows several choices at once.", "12_decoding"),
      choice,
      next,
    ];
  }
}
