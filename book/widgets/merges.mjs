// Byte-pair encoding on the reader's own words, merge by merge (chapter 8). The same merges in the same order as
// transformer/data/bpe.py, counted anew at each step: slow for a corpus, quick enough for a sentence.

import { h } from "./html.mjs";
import { OUTPUT, show, table, teller } from "./parts.mjs";

const MARK = "▁", LONGEST = 16, CAP = 300;

const characters = (text) => [...text];

/** Which string comes first by code points; JavaScript's own order is by halves of characters. */
function compare(a, b) {
  const [ours, theirs] = [a, b].map((text) => characters(text).map((one) => one.codePointAt(0)));
  const i = ours.findIndex((one, place) => one !== theirs[place]);
  return i < 0 ? ours.length - theirs.length : ours[i] - (theirs[i] ?? -1);
}

/** Cut text where no merge may cross: "A cat." gives "▁A", "▁cat", ".". */
export function splitWords(text) {
  return text.replaceAll(MARK, " ").split(/\s+/u).filter(Boolean).flatMap((word) => {
    const [first, ...others] = word.match(/\p{L}+|\P{L}+/gu);
    return [MARK + first, ...others];
  });
}

/** Join the pair wherever it stands, from left to right. */
export function mergePair(symbols, [a, b]) {
  const merged = [];
  for (const symbol of symbols) {
    merged.push(merged.at(-1) === a && symbol === b ? merged.pop() + symbol : symbol);
  }
  return merged;
}

/** The pairs of neighbours and how often they stand in the words, the next to be merged first. */
export function countPairs(spelled) {
  const counts = new Map();
  for (const { symbols, count } of spelled) {
    symbols.slice(1).forEach((right, i) => {
      const pair = [symbols[i], right], key = pair.join("\n"), symbol = pair.join("");
      const size = characters(symbol).length;
      if (size > LONGEST) return;
      counts.set(key, { pair, symbol, size, count: (counts.get(key)?.count ?? 0) + count });
    });
  }
  const order = (a, b) => b.count - a.count || a.size - b.size || compare(a.symbol, b.symbol);
  return [...counts.values()].sort(order);
}

/** Each step of learning: the words as they are spelled before it, and the pairs, the first of which it merges. */
export function learn(words, most = Infinity) {
  const frequency = new Map();
  for (const word of words) frequency.set(word, (frequency.get(word) ?? 0) + 1);
  let spelled = [...frequency].map(([word, count]) => ({ symbols: characters(word), count }));
  const steps = [];
  for (;;) {
    const pairs = countPairs(spelled);
    steps.push({ spelled, pairs });
    if (!pairs.length || steps.length > most) return steps;
    spelled = spelled.map(({ symbols, count }) => ({ symbols: mergePair(symbols, pairs[0].pair), count }));
  }
}

/** The merges alone. */
export const merges = (words, most) => learn(words, most).slice(0, -1).map(({ pairs: [{ pair, count }] }) => ({ pair, count }));

function render({ el }) {
  let steps = [], at = 0;
  const text = h("input", { type: "text", value: "tea tea tea tea tea teapot teapot pot pot pot seat seat", maxlength: CAP, autocomplete: "off", spellcheck: "false", oninput: () => { learnt(); draw(); } });
  const go = (by) => () => { at = Math.min(Math.max(at + by, 0), steps.length - 1); draw(); };
  const button = (name, by) => h("button", { type: "button", onclick: go(by) }, name);
  const told = teller(), words = h("div"), leading = h("div");
  const buttons = [button("One merge back", -1), button("One merge on", 1), button("To the end", Infinity), button("To the start", -Infinity)];
  const learnt = () => { [steps, at] = [learn(splitWords(text.value.slice(0, CAP))), 0]; };
  const box = (made) => (symbol) =>
    h("span", { style: `border: 1px solid var(--muted); border-bottom: 4px solid ${symbol === made ? OUTPUT : "transparent"}; border-radius: .2rem; padding: 0 .2rem; margin-right: .15rem` }, symbol);

  function draw() {
    const { spelled, pairs } = steps[at];
    const last = at ? steps[at - 1].pairs[0] : null;
    const made = last?.pair.join("");
    const name = ({ pair: [a, b] }) => `${a} + ${b}`;
    const times = (count) => (count === 1 ? "once" : `${count} times`);
    told.textContent = [
      `${at} of ${steps.length - 1} merges.`,
      last ? `The last one made ${made}.` : "Every word is spelled in characters; ▁ marks where it starts.",
      pairs.length ? `Next: ${name(pairs[0])}, ${times(pairs[0].count)}.` : "No pair is left.",
    ].join(" ");
    words.replaceChildren(table("The words, and how often each occurs", ["", "symbols"], spelled.map(({ symbols, count }) => [`${count} ×`, h("div", { style: "text-align: start" }, ...symbols.map(box(made)))])));
    leading.replaceChildren(table("The next pairs: the first is merged", ["", "how often"], pairs.slice(0, 6).map((one) => [name(one), `${one.count}`])));
  }

  const field = h("label", { style: "flex: 1 0 100%" }, `Your words (up to ${CAP} characters)`, text);
  show(el, [field, ...buttons], told, h("div", { class: "side" }, words, leading));
  learnt();
  draw();
}

export default { render };
