// One layer at one position, with its numbers: self-attention, cross-attention and the feed-forward network, each with its
// residual connection and its layer normalisation.

import { gridOfHeads, smallMap } from "./heatmap.mjs";
import { h, withoutMark } from "./html.mjs";
import { format, radios } from "./parts.mjs";
import { drawVector, fullColour, strips } from "./vectors.mjs";

/** What each kind of attention is called, and what it does. */
const EXPLANATIONS = {
  "encoder self_attention": ["Self-attention", "The token's query is compared with the key of every token. The resulting weights decide how much of each token's value goes into the output."],
  "decoder self_attention": ["Masked self-attention", "The newest token attends to itself and to the tokens before it, because later tokens don't exist yet."],
  "decoder cross_attention": ["Cross-attention", "The query comes from the target; the keys and values come from the encoder's output. This is where the decoder looks at the source."],
};

/**
 * The content of a layer's stage.
 *
 * @param {Object} sentence what is shown, see `createStages`.
 * @param {Object} layer of the model.
 * @param {string} input the name of the recorded vectors that the layer gets.
 * @param {number} position of the token whose vectors are shown.
 * @param {Object} chosenHeads the head that is shown for each attention layer; a reader's choice is written back.
 * @returns {Element[]}
 */
export function drawLayer(sentence, layer, input, position, chosenHeads) {
  const { config } = sentence.model;
  const output = (name) => sentence.record.outputs[name][position];
  const side = layer.cross_attention ? "decoder" : "encoder";
  const names = layer.cross_attention ? ["self_attention", "cross_attention", "feed_forward"] : ["self_attention", "feed_forward"];

  return names.flatMap((name, i) => {
    const residual = `${layer.name}.residuals.${i}`;
    const isPre = config.norm === "pre";
    const [title, explanation, inside] = name === "feed_forward" ? feedForward() : attention(name);
    const rows = [
      ["x", output(i ? `${layer.name}.residuals.${i - 1}` : input)],
      h("div", { class: "inset" }, ...(isPre ? [strips([["LayerNorm(x)", output(`${residual}.norm`)]])] : []), ...inside),
      [`update: ${title.toLowerCase()} output`, output(`${layer.name}.${name}`)],
      [isPre ? "x + update" : "LayerNorm(x + update)", output(residual)],
    ];
    return [h("h5", {}, title), h("p", {}, explanation), strips(rows)];
  });

  function attention(name) {
    const keys = side === "decoder" && name === "self_attention" ? sentence.target.slice(0, position + 1) : sentence.source;
    const pieces = keys.map((id) => withoutMark(sentence.vocabulary[id]));
    return [...EXPLANATIONS[`${side} ${name}`], drawHeads(sentence, `${layer.name}.${name}`, pieces, position, chosenHeads)];
  }

  function feedForward() {
    const hidden = output(`${layer.name}.feed_forward.inner`).map((value) => Math.max(value, 0));
    const active = hidden.filter((value) => value > 0).length;
    const explanation =
      `Each token goes separately through two linear layers, from ${config.d_model} to ${config.d_ff} dimensions and back. The ReLU ` +
      `between them sets negative numbers to zero; ${active} of the ${config.d_ff} hidden units are active here.`;
    return ["Feed-forward network", explanation, [strips([["hidden units, after the ReLU", hidden]])]];
  }
}

/** The heads of an attention layer to choose from, and the numbers of the chosen one for one query. */
function drawHeads(sentence, name, keys, position, chosenHeads) {
  const weights = sentence.record.weights[name];
  const numbers = h("div");
  const show = (head) => {
    chosenHeads[name] = head;
    numbers.replaceChildren(...drawHead(sentence, name, head, keys, position));
  };
  const queries = name.startsWith("encoder") ? weights[0].length : position + 1; // later ones don't exist yet
  const thumbnails = weights.map((rows, head) => [smallMap(rows.slice(0, queries)), `head ${head + 1}`]);
  show(Math.min(chosenHeads[name] ?? 0, weights.length - 1)); // another model may have fewer heads
  const choice = radios("Attention weights of all heads; choose one:", thumbnails, chosenHeads[name], show);
  choice.classList.add("maps");
  choice.style.cssText = gridOfHeads(weights.length);
  return [choice, numbers];
}

/** One head for one query: the query, and for each token its key, score and weight; then the weighted sum of the values. */
function drawHead({ model, record }, name, head, keys, position) {
  const d_head = model.config.d_model / model.config.n_heads;
  const slice = (vector) => vector.subarray(head * d_head, (head + 1) * d_head);
  const query = slice(record.outputs[`${name}.query`][position]);
  const keyVectors = record.outputs[`${name}.key`].slice(0, keys.length).map(slice);
  const weights = record.weights[name][head][position];
  const full = fullColour(keyVectors);
  const row = (token, i) => {
    const score = keyVectors[i].reduce((sum, value, j) => sum + value * query[j], 0) / Math.sqrt(d_head);
    return h(
      "tr",
      {},
      h("th", { scope: "row" }, token),
      h("td", { class: "key" }, drawVector(keyVectors[i], full)),
      h("td", {}, format(score)),
      h("td", {}, format(weights[i])),
      h("td", { class: "bar" }, h("span", { style: `width: ${100 * weights[i]}%` })),
    );
  };
  const titles = ["token", "key", `q·k / √${d_head}`, "weight"];
  const columns = titles.map((title) => h("th", { scope: "col", class: title }, title));
  const table = h("table", { class: "numbers" }, h("thead", {}, h("tr", {}, ...columns, h("td"))), h("tbody", {}, ...keys.map(row)));
  const isOff = model.ablated[name]?.includes(head);
  const scroll = { class: "scroll", tabindex: "0", role: "group", "aria-label": `The weights of head ${head + 1}` };
  return [
    strips([[`query of head ${head + 1}`, query]]),
    h("div", scroll, table),
    strips([[isOff ? `output of head ${head + 1}: zeros, because it is off` : `output of head ${head + 1}: the weighted sum of the values`, slice(record.outputs[`${name}.heads`][position])]]),
  ];
}
