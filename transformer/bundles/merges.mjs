// Made by `make notebooks` from merges.mjs in book/widgets and what it imports: change it there.

const $html = (() => {
// Make elements: h("button", { type: "button", onclick }, "Press") is a button that says Press.

const SVG = ["svg", "g", "line", "circle", "text", "title"];

/** An element with attributes, listeners (names that start with "on"), and children: elements or text. */
function h(tag, attributes = {}, ...children) {
  const el = SVG.includes(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (value === true) el.setAttribute(name, "");
    else if (value !== false && value !== undefined) el.setAttribute(name, value);
  }
  el.append(...children);
  return el;
}

/**
 * For a widget's outermost element: JupyterLab takes a key that is pressed on a slider or a button for one of its commands,
 * and "dd" deletes a cell, unless that very element says that the key is its own. Text fields need not say it.
 */
const keepKeys = {
  onfocusin: ({ target }) => target.matches(":read-write") || target.setAttribute("data-lm-suppress-shortcuts", ""),
};

/** A piece as people read it: without the mark of a word's start. */
const word = (piece) => piece.replace(/^▁(?=.)/u, "");

return { h, keepKeys };
})();

const $theme = (() => {
// The colours of the place where a widget stands: the book's, else JupyterLab's, else the browser's own.

/** For the style of a widget's outermost element. What stands on what comes from the same of the three places. */
const THEME = `
  --text: var(--pst-color-text-base, var(--jp-content-font-color1, CanvasText));
  --muted: var(--pst-color-text-muted, var(--jp-content-font-color2, color-mix(in srgb, CanvasText 72%, Canvas)));
  --surface: var(--pst-color-surface, var(--jp-layout-color1, color-mix(in srgb, CanvasText 5%, Canvas)));
  --field: var(--pst-color-background, var(--jp-layout-color0, Canvas));
  --border: var(--pst-color-border, var(--jp-border-color1, color-mix(in srgb, CanvasText 30%, Canvas)));
  --focus: var(--pst-color-accent, var(--jp-brand-color1, CanvasText));
  --slider: var(--pst-color-primary, var(--jp-brand-color1, auto));
  --monospace: var(--pst-font-family-monospace, var(--jp-code-font-family, monospace));
  background: var(--surface); color: var(--text);
`;

return { THEME };
})();

const $parts = (() => {
// What the small pictures of the chapters have in common: their look, sliders, switches, tables.

const { h, keepKeys } = $html;
const { THEME } = $theme;

/** Okabe and Ito's colours, with the same meaning as in transformer/plots/style.py. For fills and lines, not for text. */
const QUERY = "#0072B2", KEY = "#E69F00", VALUE = "#009E73", OUTPUT = "#CC79A7", WRONG = "#D55E00", PLAIN = "#808080";

const STYLE = `
.answers { ${THEME} border: 1px solid var(--border); border-radius: .4rem; padding: 1rem; margin: 1rem 0; font-size: .9rem; }
.answers .controls { display: flex; flex-wrap: wrap; gap: .6rem 1.2rem; align-items: end; }
.answers label { display: flex; flex-direction: column; gap: .2rem; min-width: 0; }
.answers label.switch { flex-direction: row; align-items: center; gap: .4rem; }
.answers input[type=range] { width: 9rem; accent-color: var(--slider); }
.answers :is(input[type=text], button) { font: inherit; color: inherit; padding: .3rem .5rem; max-width: 100%;
  background: var(--field); border: 1px solid var(--muted); border-radius: .3rem; }
.answers button:disabled { opacity: .5; }
.answers :is(input, button, circle, .scroll):focus-visible { outline: 3px solid var(--focus); outline-offset: 1px; }
.answers .told { margin: .6rem 0; min-height: 3em; }
.answers .side { display: flex; flex-wrap: wrap; gap: .6rem 1.2rem; align-items: start; }
.answers .side > * { min-width: 0; max-width: 100%; }
.answers svg { fill: var(--text); font-size: 12px; max-width: 100%; height: auto; }
.answers .scroll { overflow-x: auto; max-width: 100%; }
.answers .scroll table { border-collapse: collapse; width: auto; margin: 0; font-size: .85rem; font-variant-numeric: tabular-nums; }
.answers .scroll :is(th, td) { padding: .15rem .3rem; text-align: end; border-bottom: 1px solid var(--border); white-space: nowrap; }
.answers .scroll tbody :is(th, td) { background: none; color: inherit; }
@media (max-width: 30rem) {
  .answers { padding: .6rem; }
  .answers .scroll table { font-size: .78rem; }
  .answers .scroll :is(th, td) { padding: .15rem .18rem; }
}
.answers .caption { margin: .5rem 0 .2rem; }
`;

/** Put a picture into its place: controls first, then what they change. */
function show(el, controls, ...rest) {
  el.replaceChildren(h("style", {}, STYLE), h("div", { class: "answers", ...keepKeys }, h("div", { class: "controls" }, ...controls), ...rest));
}

/** A slider that shows its value, as `say` words it; `changed` is called when it moves. */
function slider(name, range, changed, say = String) {
  const told = h("span", { "aria-hidden": "true" });
  const tell = () => {
    told.textContent = `${name}: ${say(Number(input.value))}`;
    input.setAttribute("aria-valuetext", say(Number(input.value)));
  };
  const input = h("input", { type: "range", "aria-label": name, ...range, oninput: () => { tell(); changed(); } });
  tell();
  return { el: h("label", {}, told, input), value: () => Number(input.value) };
}

/** A box to tick. */
function tick(name, checked, changed) {
  const input = h("input", { type: "checkbox", checked, onchange: changed });
  return { el: h("label", { class: "switch" }, input, name), value: () => input.checked };
}

/** The sentence that says what there is to see now, to the eye and to a screen reader. */
const teller = () => h("p", { class: "told", "aria-live": "polite" });

/** A table: names of the columns, and rows that begin with their own name. Too wide a table scrolls in its own box. */
function table(caption, columns, rows) {
  const head = h("tr", {}, ...columns.map((name) => h("th", { scope: "col" }, name)));
  const lines = rows.map(([name, ...cells]) => h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((cell) => h("td", {}, cell))));
  const box = { class: "scroll", tabindex: "0", role: "group", "aria-label": caption };
  return h("div", {}, h("p", { class: "caption" }, caption), h("div", box, h("table", {}, h("thead", {}, head), h("tbody", {}, ...lines))));
}

/** Shares that sum to one. */
function softmax(scores) {
  const highest = Math.max(...scores);
  const exps = scores.map((score) => Math.exp(score - highest));
  const sum = exps.reduce((a, b) => a + b, 0);
  return exps.map((one) => one / sum);
}

/** A bar as long as a share. */
const bar = (share, colour, width = 90) =>
  h("span", { style: `display: inline-block; vertical-align: middle; height: .8em; width: ${(share * width).toFixed(1)}px; background: ${colour}` });

return { OUTPUT, show, table, teller };
})();

// Byte-pair encoding on the reader's own words, merge by merge (chapter 8). The same merges in the same order as
// transformer/bpe.py, counted anew at each step: slow for a corpus, quick enough for a sentence.

const { h } = $html;
const { OUTPUT, show, table, teller } = $parts;

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
