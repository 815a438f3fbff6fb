// The live translator: a sentence goes in, and its translation, the search and every head come out, with no server.

import { largeMap, smallMap } from "./heatmap.mjs";
import { h, keepKeys, word } from "./html.mjs";
import { beamSearchSteps } from "./search.mjs";
import { THEME } from "./theme.mjs";
import { BOS, EOS, UNK } from "./tokenizer.mjs";
import { Translator, fromBytes, fromFolder } from "./translation.mjs";
import { legend, searchTable, searchTree } from "./tree.mjs";

/** Longer input is cut here, and the page says so: first characters, then pieces. */
const LONGEST = 200, MOST_PIECES = 64;

/** Milliseconds of work after which the browser may draw and listen. */
const SLICE = 12;

const ATTENTIONS = {
  cross_attention: "Cross-attention: the translation looks at the source",
  encoder_self: "Encoder: the source looks at itself",
  decoder_self: "Decoder: the translation looks at itself",
};

const STYLE = `
.translator { ${THEME} border: 1px solid var(--border); border-radius: .4rem; padding: 1rem; margin: 1rem 0; }
.translator form { display: flex; flex-wrap: wrap; gap: .8rem 1.2rem; }
.translator label { display: flex; flex-direction: column; gap: .2rem; font-size: .9rem; min-width: 0; }
.translator label.wide { flex: 1 0 100%; }
.translator :is(input[type=text], select, button) { font: inherit; color: inherit; max-width: 100%; padding: .3rem .5rem;
  background: var(--field); border: 1px solid var(--muted); border-radius: .3rem; }
.translator :is(input, select, button, summary, tr, .scroll):focus-visible { outline: 3px solid var(--focus); }
.translator button { cursor: pointer; font-size: .9rem; }
.translator input[type=range] { width: 9rem; accent-color: var(--slider); }
.translator .translation { font-size: 1.35rem; margin: .6rem 0; min-height: 2rem; }
.translator .told { color: var(--muted); min-height: 1.5em; margin: .4rem 0; font-size: .9rem; }
.translator .pieces { display: flex; flex-wrap: wrap; gap: .25rem; list-style: none; padding: 0; margin: .4rem 0; }
.translator .pieces li { border: 1px solid var(--border); border-radius: .25rem; padding: 0 .3rem;
  font-family: var(--monospace); font-size: .85rem; overflow-wrap: anywhere; }
.translator .examples { margin-top: .8rem; display: flex; flex-wrap: wrap; gap: .4rem; align-items: baseline; }
.translator .scroll { overflow: auto; max-height: 34rem; }
.translator .scroll svg { max-width: none; fill: var(--text); font-size: 11px; }
.translator svg text { paint-order: stroke; stroke: var(--surface); stroke-width: 3px; }
.translator svg .score { font-size: 9.5px; fill: var(--muted); }
.translator svg .winner text { font-weight: bold; }
.translator summary { cursor: pointer; padding: .3rem 0; font-weight: 600; }
.translator :is(.best, .steps) { width: 100%; border-collapse: collapse; font-size: .9rem; }
.translator :is(.best, .steps) :is(th, td) { text-align: start; padding: .2rem .3rem; border-bottom: 1px solid var(--border); }
.translator :is(.best, .steps) .number { text-align: end; font-variant-numeric: tabular-nums; }
.translator .steps th[scope=row] { font-weight: normal; }
.translator .steps th[scope=rowgroup] { padding-top: 1rem; }
.translator .layer { display: flex; flex-wrap: wrap; gap: .5rem; border: 0; padding: 0; margin: .5rem 0; }
.translator .layer legend { font-size: .8rem; font-family: var(--monospace); float: none; margin: 0; }
.translator .head { display: flex; flex-direction: column; gap: .2rem; width: 4.6rem; }
.translator .head button { padding: 2px; line-height: 0; }
.translator .head canvas { width: 100%; aspect-ratio: 1; image-rendering: pixelated; }
.translator .head label { flex-direction: row; align-items: center; font-size: .8rem; padding: .2rem 0; }
.translator .head.off canvas { opacity: .2; }
.translator .large table { border-collapse: collapse; font-size: .8rem; width: auto; margin: 0; }
.translator .large :is(td, th) { padding: 0; min-width: 1.3rem; height: 1.3rem; font-weight: normal; }
.translator .large th { white-space: nowrap; padding: 0 .3rem; text-align: end; }
.translator .large thead th { vertical-align: bottom; height: auto; }
.translator .large thead span { writing-mode: vertical-rl; }
@media (max-width: 30rem) {
  .translator { padding: .6rem; }
  .translator :is(.best, .steps) { font-size: .78rem; }
}
@media print { .translator .scroll { max-height: none; } }
`;

const pause = () => new Promise((resume) => setTimeout(resume));

/** What was typed, as much of it as is translated. */
function cut(text) {
  const characters = [...text.slice(0, 4 * LONGEST)]; // whole characters, of which no more are taken than needed
  return characters.length > LONGEST ? characters.slice(0, LONGEST).join("") : text;
}

function render({ model, el }) {
  const models = model.get("models"); // what there is to choose from
  const files = model.get("files"); // a model's name → its files as bytes; without, they lie at an address
  const loaded = new Map(); // a model's name → its translator, or the promise of it
  let off = {}; // heads that are switched off, as `Transformer.off` has them
  let enlarged = null; // which head is shown large: [its layer's name, head]
  let run = 0; // the newest run; an older one gives up
  let weighed = null; // what the last search weighed: [its candidates, the vocabulary]

  const input = (attributes) => h("input", { oninput: () => start(200), ...attributes });
  const which = h("select", { onchange: choose }, ...models.map(({ title }, i) => h("option", { value: i }, title)));
  const sentence = input({ type: "text", autocomplete: "off", spellcheck: "false" });
  const beam = input({ type: "range", min: 1, max: 8, value: 4 });
  const alpha = input({ type: "range", min: 0, max: 2, step: 0.1, value: 0.6 });
  const beamTold = h("span"), alphaTold = h("span");
  const examples = h("div", { class: "examples", role: "group", "aria-label": "Examples" });
  const translation = h("p", { class: "translation", "aria-live": "polite" });
  const told = h("p", { class: "told", role: "status" });
  const pieces = h("ol", { class: "pieces", "aria-label": "Pieces of the source" });
  const best = h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "The best translations" });
  const tree = h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Search tree" });
  const steps = h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "The search, step by step" });
  const inWords = h("details", { ontoggle: () => tellSteps() }, h("summary", {}, "The same, step by step, in words"), steps);
  const large = h("div");
  const heads = h("div");
  const allOn = h("button", { type: "button", onclick: () => { off = {}; drawHeads(null); start(0); } }, "Switch all heads on");

  el.replaceChildren(
    h("style", {}, STYLE),
    h(
      "div",
      { class: "translator", ...keepKeys },
      h(
        "form",
        { onsubmit: (event) => { event.preventDefault(); start(0); } },
        ...(models.length > 1 ? [h("label", { class: "wide" }, "Model", which)] : []),
        h("label", { class: "wide" }, "Sentence", sentence),
        h("label", {}, beamTold, beam),
        h("label", {}, alphaTold, alpha),
      ),
      examples,
      told,
      translation,
      pieces,
      h("details", { open: true }, h("summary", {}, "The best translations"), best),
      h("details", { open: true }, h("summary", {}, "The search: every candidate weighed"), legend(), tree, inWords),
      h("details", { open: true }, h("summary", {}, "Every head"), allOn, large, heads),
    ),
  );
  choose();

  /** Another model: its examples, the first of them with the translation that came with the page. */
  function choose() {
    const chosen = models[which.value];
    off = {};
    enlarged = null;
    examples.replaceChildren(
      ...(chosen.sentences.length ? ["Try: "] : []),
      ...chosen.sentences.map((one) =>
        h("button", { type: "button", lang: chosen.languages[0], onclick: () => { sentence.value = one; start(0); } }, one),
      ),
    );
    sentence.value = chosen.sentences[0] ?? "";
    translation.textContent = chosen.translations[0] ?? "";
    [sentence.lang, translation.lang] = chosen.languages;
    clear();
    start(0);
  }

  /** Nothing is found yet. */
  function clear() {
    weighed = null;
    for (const part of [pieces, best, tree, steps, large, heads]) part.replaceChildren();
  }

  /** Translate what is there now, after a pause in which nobody types. */
  async function start(wait) {
    const mine = ++run;
    const stale = () => run !== mine;
    beamTold.textContent = `Beam width: ${beam.value}`;
    alphaTold.textContent = `Length penalty α: ${Number(alpha.value).toFixed(1)}`;
    await new Promise((resume) => setTimeout(resume, wait));
    if (stale()) return;
    try {
      const translator = await ready(models[which.value]);
      if (!stale()) await translate(translator, stale);
    } catch (error) {
      if (stale()) return;
      told.textContent = `This does not work: ${error.message}.`;
      translation.textContent = "";
    }
  }

  /** A model's translator, loaded once. */
  async function ready({ name, megabytes }) {
    if (!loaded.has(name)) {
      told.textContent = `Loading the model, ${megabytes} MB.`;
      if (translation.textContent) told.textContent += " Until then, this translation is one made before.";
      const read = () => (files ? fromBytes(files[name]) : fromFolder(`${model.get("folder")}${name}`));
      loaded.set(name, pause().then(() => Translator.load(read()))); // what was told is drawn first
      loaded.get(name).catch(() => loaded.delete(name)); // another try may do better
    }
    return loaded.get(name);
  }

  async function translate(translator, stale) {
    const { model, tokenizer } = translator;
    const text = cut(sentence.value);
    const all = tokenizer.encode(text);
    const ids = all.slice(0, Math.min(MOST_PIECES, model.config.max_length - 1));
    if (!ids.length) {
      told.textContent = "Type a sentence.";
      translation.replaceChildren();
      clear();
      return;
    }
    const source = [...ids, EOS];
    const began = performance.now();
    let drawn = began, slow = false;
    const breathe = async () => {
      if (performance.now() - drawn > SLICE) {
        await pause();
        drawn = performance.now();
        if (drawn - began > 500 && !slow) told.textContent = "Translating ...";
        slow = drawn - began > 500;
      }
    };

    model.off = off;
    const trace = [];
    const settings = { beam: Number(beam.value), alpha: Number(alpha.value), nBest: Number(beam.value), trace };
    const steps = beamSearchSteps(model, source, settings);
    let step = steps.next();
    while (!step.done) {
      await breathe();
      if (stale()) return;
      step = steps.next();
    }
    const hypotheses = step.value;
    const took = performance.now() - began;

    // The winner once more, token by token, to see what its heads look at.
    const record = {};
    const target = [BOS, ...hypotheses[0].tokens];
    const cache = model.startCache(model.encode(source, record));
    for (const token of target) {
      await breathe();
      if (stale()) return;
      model.decodeStep([token], cache, record);
    }

    const notes = [`Translated in ${took.toFixed(0)} ms, in this page.`];
    if (text !== sentence.value) notes.push(`Only the first ${LONGEST} characters were read.`);
    if (ids.length < all.length) notes.push(`Only the first ${ids.length} pieces were read.`);
    if (ids.includes(UNK)) notes.push("The model does not know some of these characters (⁇ or <unk>).");
    const silent = Object.values(off).flat().length;
    if (silent) notes.push(`${silent} ${silent === 1 ? "head is" : "heads are"} off.`);
    told.textContent = notes.join(" ");
    translation.textContent = tokenizer.decode(hypotheses[0].tokens) || "(an empty translation)";
    pieces.replaceChildren(...tokenizer.pieces(source).map((piece) => h("li", {}, piece)));
    best.replaceChildren(table(hypotheses, tokenizer));
    const label = `Search tree of ${trace.length} candidates; the best finished one: ${translation.textContent}. In words below.`;
    weighed = [trace, tokenizer.vocabulary];
    tree.replaceChildren(searchTree(...weighed, label));
    tellSteps();
    drawHeads({ record, source: tokenizer.pieces(source), target: tokenizer.pieces(target) });
  }

  /** The search in words, made only where somebody reads it. */
  function tellSteps() {
    steps.replaceChildren(...(inWords.open && weighed ? [searchTable(...weighed, translation.lang)] : []));
  }

  function table(hypotheses, tokenizer) {
    const row = ({ tokens, logProbability, score }, i) =>
      h(
        "tr",
        {},
        h("td", { class: "number" }, `${i + 1}`),
        h("td", { lang: translation.lang }, tokenizer.decode(tokens)),
        ...[logProbability.toFixed(2), score.toFixed(3), `${tokens.length}`].map((v) => h("td", { class: "number" }, v)),
      );
    const names = ["", "translation", "log-probability", "score", "tokens"];
    const column = (name) => h("th", { scope: "col", class: name === "translation" ? "" : "number" }, name);
    const head = h("tr", {}, ...names.map((name) => (name ? column(name) : h("td"))));
    return h("table", { class: "best" }, h("thead", {}, head), h("tbody", {}, ...hypotheses.map(row)));
  }

  /** The small maps of all heads, and the large one if there is one; without new weights, only which heads are on. */
  function drawHeads(shown) {
    if (!shown) {
      heads.querySelectorAll("input").forEach((box) => { box.checked = true; });
      heads.querySelectorAll(".off").forEach((one) => one.classList.remove("off"));
      return;
    }
    const focused = document.activeElement?.dataset.head; // the boxes are made anew: who goes by keyboard stays
    const enlarge = () => {
      large.replaceChildren();
      if (!enlarged) return;
      const [name, head] = enlarged;
      const queries = name.startsWith("encoder") ? shown.source : shown.target;
      const keys = name.endsWith("cross_attention") ? shown.source : queries;
      const close = h("button", { type: "button", onclick: () => { enlarged = null; enlarge(); } }, "Close");
      large.append(h("p", {}, h("code", {}, name), `, head ${head + 1} `, close), largeMap(shown.record[name][head], queries, keys));
    };
    const one = (name, head, rows) => {
      const isOff = () => off[name]?.includes(head) ?? false;
      const toggle = ({ target }) => {
        const others = (off[name] ?? []).filter((other) => other !== head);
        off = { ...off, [name]: target.checked ? others : [...others, head] };
        target.closest(".head").classList.toggle("off", isOff());
        start(0);
      };
      const show = () => { enlarged = [name, head]; enlarge(); large.scrollIntoView({ block: "nearest", behavior: "instant" }); };
      const named = `${name}, head ${head + 1}`;
      return h(
        "div",
        { class: isOff() ? "head off" : "head" },
        h("button", { type: "button", onclick: show, "aria-label": `Enlarge ${named}`, "data-head": `map ${named}` }, smallMap(rows)),
        h(
          "label",
          {},
          h("input", { type: "checkbox", onchange: toggle, checked: !isOff(), "aria-label": `${named} is on`, "data-head": `box ${named}` }),
          `head ${head + 1}`,
        ),
      );
    };
    const kind = (name) => (name.endsWith("cross_attention") ? "cross_attention" : `${name.split(".")[0]}_self`);
    const wasOpen = Object.fromEntries([...heads.children].map((fold) => [fold.dataset.kind, fold.open]));
    heads.replaceChildren(
      ...Object.entries(ATTENTIONS).map(([of, title]) =>
        h(
          "details",
          { "data-kind": of, open: wasOpen[of] ?? of === "cross_attention" },
          h("summary", {}, title),
          ...Object.entries(shown.record)
            .filter(([name]) => kind(name) === of)
            .map(([name, found]) =>
              h("fieldset", { class: "layer" }, h("legend", {}, name), ...found.map((rows, head) => one(name, head, rows))),
            ),
        ),
      ),
    );
    enlarge();
    if (focused) heads.querySelector(`[data-head="${focused}"]`)?.focus();
  }
}

export default { render };
