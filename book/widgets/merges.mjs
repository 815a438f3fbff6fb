// Byte-pair encoding on the reader's own words, merge by merge (chapter 8). The same merges in the same order as
// transformer/data/bpe.py, but all pairs are counted again at each step: slow for a corpus, fast enough for a sentence.

import { h } from "./html.mjs";
import { OUTPUT, showWidget, statusLine, table } from "./parts.mjs";

const MARK = "▁", MAX_PIECE = 16, MAX_TEXT = 300;

const characters = (text) => [...text];

/** Compare strings by code points; JavaScript's own order is by UTF-16 code units. */
function compare(a, b) {
  const [left, right] = [a, b].map((text) => characters(text).map((character) => character.codePointAt(0)));
  const i = left.findIndex((codePoint, position) => codePoint !== right[position]);
  return i < 0 ? left.length - right.length : left[i] - (right[i] ?? -1);
}

/** Split a text into words, which merges don't cross: "A cat." becomes "▁A", "▁cat", ".". */
export function splitWords(text) {
  return text.replaceAll(MARK, " ").split(/\s+/u).filter(Boolean).flatMap((word) => {
    const [first, ...others] = word.match(/\p{L}+|\P{L}+/gu);
    return [MARK + first, ...others];
  });
}

/** Merge every occurrence of a pair, from left to right. */
export function mergePair(symbols, [a, b]) {
  const merged = [];
  for (const symbol of symbols) {
    merged.push(merged.at(-1) === a && symbol === b ? merged.pop() + symbol : symbol);
  }
  return merged;
}

/** Return the pairs of neighbouring symbols with their counts; the pair to merge next comes first. */
export function countPairs(words) {
  const counts = new Map();
  for (const { symbols, count } of words) {
    symbols.slice(1).forEach((right, i) => {
      const pair = [symbols[i], right], key = pair.join("\n"), symbol = pair.join("");
      const size = characters(symbol).length;
      if (size > MAX_PIECE) return;
      counts.set(key, { pair, symbol, size, count: (counts.get(key)?.count ?? 0) + count });
    });
  }
  const order = (a, b) => b.count - a.count || a.size - b.size || compare(a.symbol, b.symbol);
  return [...counts.values()].sort(order);
}

/** Return the steps of learning: the words before each step, as symbols, and the pairs, the first of which is merged. */
export function learn(words, maxMerges = Infinity) {
  const frequency = new Map();
  for (const word of words) frequency.set(word, (frequency.get(word) ?? 0) + 1);
  let split = [...frequency].map(([word, count]) => ({ symbols: characters(word), count }));
  const steps = [];
  for (;;) {
    const pairs = countPairs(split);
    steps.push({ words: split, pairs });
    if (!pairs.length || steps.length > maxMerges) return steps;
    split = split.map(({ symbols, count }) => ({ symbols: mergePair(symbols, pairs[0].pair), count }));
  }
}

/** Return the merges without the steps. */
export const merges = (words, maxMerges) => learn(words, maxMerges).slice(0, -1).map(({ pairs: [{ pair, count }] }) => ({ pair, count }));

function render({ el }) {
  let steps = [], step = 0;
  const text = h("textarea", { rows: 2, maxlength: MAX_TEXT, autocomplete: "off", autocapitalize: "off", spellcheck: "false", oninput: () => { restart(); draw(); } }, "tea tea tea tea tea teapot teapot pot pot pot seat seat");
  const move = (by) => () => { step = Math.min(Math.max(step + by, 0), steps.length - 1); draw(); };
  const MOVES = { "Previous merge": -1, "Next merge": 1, "To the end": Infinity, "To the start": -Infinity };
  const buttons = Object.entries(MOVES).map(([name, by]) => h("button", { type: "button", onclick: move(by) }, name));
  const status = statusLine(), wordTable = h("div"), pairTable = h("div");
  const restart = () => { [steps, step] = [learn(splitWords(text.value.slice(0, MAX_TEXT))), 0]; };
  const box = (newSymbol) => (symbol) =>
    h("span", { style: `border: 1px solid var(--muted); box-shadow: 0 4px ${symbol === newSymbol ? OUTPUT : "transparent"}; border-radius: .2rem; padding: 0 .2rem; margin-right: .15rem` }, symbol);

  function draw() {
    const { words, pairs } = steps[step];
    Object.values(MOVES).forEach((by, i) => buttons[i].setAttribute("aria-disabled", step === (by < 0 ? 0 : steps.length - 1)));
    const last = step ? steps[step - 1].pairs[0] : null;
    const newSymbol = last?.pair.join("");
    const name = ({ pair: [a, b] }) => `${a} + ${b}`;
    const times = (count) => (count === 1 ? "once" : `${count} times`);
    status.textContent = [
      `${step} of ${steps.length - 1} merges.`,
      last ? `The last one made ${newSymbol}.` : "Every word is a sequence of characters; ▁ marks its start.",
      pairs.length ? `Next: ${name(pairs[0])}, ${times(pairs[0].count)}.` : "No pairs are left.",
    ].join(" ");
    wordTable.replaceChildren(table("The words, and how often each occurs", ["", "symbols"], words.map(({ symbols, count }) => [`${count} ×`, h("div", { style: "text-align: start" }, ...symbols.map(box(newSymbol)))])));
    const rows = pairs.slice(0, 6).map((pair) => [name(pair), `${pair.count}`]);
    pairTable.replaceChildren(...(rows.length ? [table("The most frequent pairs: the first is merged next", ["", "count"], rows)] : []));
  }

  const field = h("label", { style: "flex: 1 0 100%" }, `Your words (up to ${MAX_TEXT} characters)`, text);
  showWidget(el, [field, ...buttons], status, h("div", { class: "side" }, wordTable, pairTable));
  restart();
  draw();
}

export default { render };
