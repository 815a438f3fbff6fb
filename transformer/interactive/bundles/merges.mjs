// Made by `make notebooks` with esbuild@0.25.12 from book/widgets (ca58f9be6174): change it there, not here (5375e4fa6420).
// html.mjs
var SVG = ["svg", "g", "line", "circle", "text", "title"];
function h(tag, attributes = {}, ...children) {
  const el = SVG.includes(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) el.addEventListener(name.slice(2), value);
    else if (value === true) el.setAttribute(name, "");
    else if (value !== false && value !== void 0) el.setAttribute(name, value);
  }
  el.append(...children);
  return el;
}
var keepKeys = {
  onfocusin: ({ target }) => target.matches(":read-write") || target.setAttribute("data-lm-suppress-shortcuts", "")
};

// theme.mjs
var THEME = `
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

// parts.mjs
var OUTPUT = "#CC79A7";
var STYLE = `
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
function show(el, controls, ...rest) {
  el.replaceChildren(h("style", {}, STYLE), h("div", { class: "answers", ...keepKeys }, h("div", { class: "controls" }, ...controls), ...rest));
}
var teller = () => h("p", { class: "told", "aria-live": "polite" });
function table(caption, columns, rows) {
  const head = h("tr", {}, ...columns.map((name) => h("th", { scope: "col" }, name)));
  const lines = rows.map(([name, ...cells]) => h("tr", {}, h("th", { scope: "row" }, name), ...cells.map((cell) => h("td", {}, cell))));
  const box = { class: "scroll", tabindex: "0", role: "group", "aria-label": caption };
  return h("div", {}, h("p", { class: "caption" }, caption), h("div", box, h("table", {}, h("thead", {}, head), h("tbody", {}, ...lines))));
}

// merges.mjs
var MARK = "▁";
var LONGEST = 16;
var CAP = 300;
var characters = (text) => [...text];
function compare(a, b) {
  const [ours, theirs] = [a, b].map((text) => characters(text).map((one) => one.codePointAt(0)));
  const i = ours.findIndex((one, place) => one !== theirs[place]);
  return i < 0 ? ours.length - theirs.length : ours[i] - (theirs[i] ?? -1);
}
function splitWords(text) {
  return text.replaceAll(MARK, " ").split(/\s+/u).filter(Boolean).flatMap((word) => {
    const [first, ...others] = word.match(/\p{L}+|\P{L}+/gu);
    return [MARK + first, ...others];
  });
}
function mergePair(symbols, [a, b]) {
  const merged = [];
  for (const symbol of symbols) {
    merged.push(merged.at(-1) === a && symbol === b ? merged.pop() + symbol : symbol);
  }
  return merged;
}
function countPairs(spelled) {
  const counts = /* @__PURE__ */ new Map();
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
function learn(words, most = Infinity) {
  const frequency = /* @__PURE__ */ new Map();
  for (const word of words) frequency.set(word, (frequency.get(word) ?? 0) + 1);
  let spelled = [...frequency].map(([word, count]) => ({ symbols: characters(word), count }));
  const steps = [];
  for (; ; ) {
    const pairs = countPairs(spelled);
    steps.push({ spelled, pairs });
    if (!pairs.length || steps.length > most) return steps;
    spelled = spelled.map(({ symbols, count }) => ({ symbols: mergePair(symbols, pairs[0].pair), count }));
  }
}
var merges = (words, most) => learn(words, most).slice(0, -1).map(({ pairs: [{ pair, count }] }) => ({ pair, count }));
function render({ el }) {
  let steps = [], at = 0;
  const text = h("input", { type: "text", value: "tea tea tea tea tea teapot teapot pot pot pot seat seat", maxlength: CAP, autocomplete: "off", spellcheck: "false", oninput: () => {
    learnt();
    draw();
  } });
  const go = (by) => () => {
    at = Math.min(Math.max(at + by, 0), steps.length - 1);
    draw();
  };
  const button = (name, by) => h("button", { type: "button", onclick: go(by) }, name);
  const told = teller(), words = h("div"), leading = h("div");
  const buttons = [button("One merge back", -1), button("One merge on", 1), button("To the end", Infinity), button("To the start", -Infinity)];
  const learnt = () => {
    [steps, at] = [learn(splitWords(text.value.slice(0, CAP))), 0];
  };
  const box = (made) => (symbol) => h("span", { style: `border: 1px solid var(--muted); border-bottom: 4px solid ${symbol === made ? OUTPUT : "transparent"}; border-radius: .2rem; padding: 0 .2rem; margin-right: .15rem` }, symbol);
  function draw() {
    const { spelled, pairs } = steps[at];
    const last = at ? steps[at - 1].pairs[0] : null;
    const made = last?.pair.join("");
    const name = ({ pair: [a, b] }) => `${a} + ${b}`;
    const times = (count) => count === 1 ? "once" : `${count} times`;
    told.textContent = [
      `${at} of ${steps.length - 1} merges.`,
      last ? `The last one made ${made}.` : "Every word is spelled in characters; ▁ marks where it starts.",
      pairs.length ? `Next: ${name(pairs[0])}, ${times(pairs[0].count)}.` : "No pair is left."
    ].join(" ");
    words.replaceChildren(table("The words, and how often each occurs", ["", "symbols"], spelled.map(({ symbols, count }) => [`${count} ×`, h("div", { style: "text-align: start" }, ...symbols.map(box(made)))])));
    leading.replaceChildren(table("The next pairs: the first is merged", ["", "how often"], pairs.slice(0, 6).map((one) => [name(one), `${one.count}`])));
  }
  const field = h("label", { style: "flex: 1 0 100%" }, `Your words (up to ${CAP} characters)`, text);
  show(el, [field, ...buttons], told, h("div", { class: "side" }, words, leading));
  learnt();
  draw();
}
var merges_default = { render };
export {
  countPairs,
  merges_default as default,
  learn,
  mergePair,
  merges,
  splitWords
};
