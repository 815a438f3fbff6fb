// The live translator: it shows the translation of a sentence, the beam search and every attention head, without a server.

import { gridOfHeads, largeMap, smallMap } from "./heatmap.mjs";
import { blockShortcuts, h, uniqueName } from "./html.mjs";
import { startRecord, withHead } from "./model.mjs";
import { format, slider } from "./parts.mjs";
import { listCharacters, looksLike, withoutUnknown } from "./remarks.mjs";
import { beamSearchSteps, lengthLimit } from "./search.mjs";
import { shorten, splitSentences } from "./sentences.mjs";
import { drawImage, fromFragment, toFragment } from "./share.mjs";
import { STAGES_STYLE, createStages } from "./stages.mjs";
import { THEME } from "./theme.mjs";
import { BOS, EOS } from "./tokenizer.mjs";
import { TOUR_STYLE, createTour, mostImportantHead, translatorSteps } from "./tour.mjs";
import { Translator, fromBytes, fromFolder } from "./translation.mjs";
import { legend, searchTable, searchTree } from "./tree.mjs";

/** Longer input is truncated, at the end of a sentence or word if possible, and the page shows a note. */
const MAX_CHARACTERS = 200, MAX_TOKENS = 64;

/**
 * The page says that the model is guessing if the geometric mean of a sentence's token probabilities is below this. The
 * course's models have thresholds of their own, measured by `python -m book.live_models`.
 */
const UNSURE = 0.55;

/** Milliseconds of computation after which the browser may draw and handle events. */
const SLICE = 12;

/** The initial settings, with which the translations of the examples were computed in advance. */
const BEAM_SIZE = 4, LENGTH_PENALTY = 0.6;

/** Links from other pages to the live translator, which carry the sentence along. */
const TRANSLATOR_LINKS = 'a[href*="book/live.html"]:not(.notes a)';

const IN_ADVANCE = "The translation shown was computed in advance.";

/** The groups of heads: what their layers are called, the title, and what rows and columns are. */
const HEAD_GROUPS = {
  cross_attention: [
    "cross-attention",
    "Cross-attention: the translation attends to the source",
    "Each row is a token of the translation that is being predicted, as in the chapters; the decoder has read only the tokens before it. Each column is a token of the source.",
  ],
  encoder_self: [
    "encoder self-attention",
    "Encoder self-attention: the source attends to itself",
    "Rows and columns are the tokens of the source.",
  ],
  decoder_self: [
    "decoder self-attention",
    "Decoder self-attention: the translation attends to itself",
    "Each row is again a token that is being predicted; the columns are the tokens that the decoder has read: <bos>, which marks the beginning, then the translation. " +
      "A row can attend to the token right before its own and to earlier ones.",
  ],
};

/** Return the key in `HEAD_GROUPS` of an attention layer. */
const groupOf = (name) => (name.endsWith("cross_attention") ? "cross_attention" : `${name.split(".")[0]}_self`);

/** Return which layer an attention layer is in, counted from 1: "layer 3" for "decoder.2.cross_attention". */
const layerOf = (name) => `layer ${Number(name.split(".")[1]) + 1}`;

/** Return what an attention layer is called: "cross-attention, layer 3". */
const titleOf = (name) => `${HEAD_GROUPS[groupOf(name)][0]}, ${layerOf(name)}`;

const capitalize = (text) => text[0].toUpperCase() + text.slice(1);

const STYLE = `
.translator { ${THEME} border: 1px solid var(--border); border-radius: .4rem; padding: 1rem; margin: 1rem 0; }
.translator form { display: flex; flex-wrap: wrap; gap: .8rem 1.2rem; }
.translator label { display: flex; flex-direction: column; gap: .2rem; font-size: .9rem; min-width: 0; }
.translator label.wide { flex: 1 0 100%; }
.translator [hidden] { display: none; }
.translator :is(textarea, select, button) { font: inherit; color: inherit; max-width: 100%; padding: .3rem .5rem;
  background: var(--field); border: 1px solid var(--muted); border-radius: .3rem; }
.translator textarea { width: 100%; resize: none; field-sizing: content; max-height: 8lh; }
.translator :is(input, textarea, select, button, summary, tr, .scroll):focus-visible { outline: 3px solid var(--focus); }
.translator button { cursor: pointer; font-size: .9rem; }
.translator :is(button, select) { min-height: 2rem; }
.translator input[type=range] { width: 9rem; accent-color: var(--slider); }
.translator .language { font-size: .9rem; margin: .8rem 0 0; }
.translator :is(.translation, .unsure, .tour p) { overflow-wrap: anywhere; }
.translator .translation { font-size: 1.35rem; margin: 0 0 .6rem; min-height: 2rem; }
.translator .status, .translator .about { color: var(--muted); margin: .4rem 0; font-size: .9rem; }
.translator .status { min-height: 1.5em; }
.translator .unsure { margin: .4rem 0; padding-left: .6rem; border-left: 3px solid var(--focus); }
.translator .notes { flex: 1 0 100%; }
.translator .notes:empty { display: none; }
.translator.busy :is(.result, .stages) { opacity: .4; transition: opacity .15s .25s; } /* not during typing, on a fast machine */
.translator .unsure:empty { display: none; }
.translator .settings { margin: .6rem 0; }
.translator .examples { margin: .6rem 0; display: flex; flex-wrap: wrap; gap: .4rem; align-items: baseline; font-size: .85rem; }
.translator .examples button { font-size: .85rem; border-radius: 1rem; text-align: start; padding: .25rem .7rem; }
.translator .share { display: flex; gap: .4rem; margin: .6rem 0; }
.translator .share button { font-size: .85rem; padding: .2rem .6rem; }
.translator .scroll { overflow: auto; max-height: 34rem; background: /* a shadow where there is more */
  linear-gradient(to left, var(--surface) 50%, transparent) right / 2rem 100% no-repeat local,
  linear-gradient(to top, var(--surface) 50%, transparent) bottom / 100% 2rem no-repeat local,
  linear-gradient(to left, rgb(128 128 128 / 60%), transparent) right / .8rem 100% no-repeat scroll,
  linear-gradient(to top, rgb(128 128 128 / 60%), transparent) bottom / 100% .8rem no-repeat scroll; }
.translator .tree { max-height: 46rem; }
.translator .scroll svg { max-width: none; fill: var(--text); font-size: 11px; }
.translator .scroll svg.narrow { font-size: 9.5px; }
.translator svg text { paint-order: stroke; stroke: var(--surface); stroke-width: 3px; }
.translator svg .score { font-size: .86em; fill: var(--muted); }
.translator svg .best-path text { font-weight: bold; }
.translator summary { cursor: pointer; padding: .3rem 0; font-weight: 600; }
.translator :is(.best, .steps) { width: 100%; border-collapse: collapse; font-size: .9rem; }
.translator :is(.best, .steps) :is(th, td) { text-align: start; padding: .2rem .3rem; border-bottom: 1px solid var(--border); }
.translator :is(.best, .steps) .number { text-align: end; font-variant-numeric: tabular-nums; }
.translator .steps th[scope=row] { font-weight: normal; }
.translator .steps th[scope=rowgroup] { padding-top: 1rem; }
.translator .layer { display: grid; grid-template-columns: repeat(var(--wide), minmax(0, 4.6rem)); gap: .5rem; border: 0; padding: 0; margin: .5rem 0; }
.translator .layer legend { font-size: .8rem; float: none; margin: 0; }
.translator .head { display: flex; flex-direction: column; gap: .2rem; }
.translator .head button { padding: 2px; line-height: 0; }
.translator .head canvas { width: 100%; aspect-ratio: 1; image-rendering: pixelated; }
.translator .head label { flex-direction: row; align-items: center; font-size: .8rem; min-height: 2rem; }
.translator .head.off canvas { opacity: .2; }
.translator .in-python { margin: .4rem 0; font-size: .9rem; }
.translator .in-python summary { font-weight: normal; }
.translator .large table { border-collapse: collapse; font-size: .8rem; width: auto; margin: 0; }
.translator .large :is(td, th) { padding: 0; min-width: 1.3rem; height: 1.3rem; font-weight: normal; }
.translator .large th { white-space: nowrap; padding: 0 .3rem; text-align: end; }
.translator .large thead th { vertical-align: bottom; height: auto; padding: .3rem 0; }
.translator .large thead span { writing-mode: vertical-rl; }
${STAGES_STYLE}${TOUR_STYLE}
@media (max-width: 30rem) {
  .translator { padding: .6rem; }
  .translator input[type=range] { height: 2rem; }
  .translator .translation { min-height: 2lh; } /* so that the examples mostly stay where they are */
  .translator .tree { max-height: none; }
  .translator .layer { grid-template-columns: repeat(var(--narrow), minmax(0, 6rem)); }
  .translator .examples { flex-wrap: nowrap; overflow-x: auto; padding: 3px; margin: .5rem -3px; } /* one row, to be scrolled */
  .translator .examples button { flex: none; max-width: none; }
  .translator :is(.best, .steps) { font-size: .78rem; }
  .translator :is(.best, .steps) :is(th, td) { padding-inline: .2rem; }
}
@media (forced-colors: active) { .translator .large td { forced-color-adjust: none; } }
@media print { .translator .scroll { max-height: none; } }
`;

/** Return the name of a language: "German" for "de". */
const nameOf = (language) => new Intl.DisplayNames("en", { type: "language" }).of(language);

/** Return why something failed, as a part of a sentence. */
const reason = (error) => error.message.replace(/\.$/, "");

const pause = () => new Promise((resume) => setTimeout(resume));

/** Return the part of a text that is translated. */
const truncate = (text) => shorten(text, MAX_CHARACTERS);

/** Return the last words of a text. */
function ending(text) {
  const end = text.split(" ").slice(-4).join(" ").slice(-30);
  return end === text ? end : `… ${end}`;
}

function render({ model, el }) {
  const models = model.get("models"); // the models to choose from
  const folded = model.get("folded"); // whether the search and the heads are folded away at first
  const shared = model.get("shared"); // whether the page's address may carry the sentence and the settings
  const files = model.get("files"); // a model's name → its files as bytes; if missing, they are fetched from the folder
  const loaded = new Map(); // a model's name → the promise of its translator
  const ready = new Set(); // the names of the models that are loaded
  let ablated = {}; // the heads that are off, as in `Transformer.ablated`
  let ablatedByTour = null; // the head that the tour switched off: [name of its layer, head]
  let enlarged = null; // the head in the large heat map: [name of its layer, head]
  let restored = ""; // the part of the address after "#" that was shown last
  let isForeign = false; // whether a link is for a model that the page doesn't have, until the reader is told so
  let run = 0; // the number of the newest run; older ones stop
  let finished = 0; // the number of the run whose results are shown
  let search = null; // the search that is shown: [its candidates, the vocabulary]
  let found = new Map(); // a sentence of the text → its source ids, the candidates of its search, its translations, and the time
  let foundWith = ""; // the model and the settings of these searches

  const notesName = uniqueName("notes");
  const notes = h("div", { class: "notes", id: notesName, "aria-live": "polite" }); // on the text, right below it
  const translateNow = (event) => { event.preventDefault(); start(0); };
  const modelMenu = h("select", { onchange: chooseModel }, ...models.map(({ title }, i) => h("option", { value: i }, title)));
  const sentence = h("textarea", {
    rows: 1, autocomplete: "off", spellcheck: "false", enterkeyhint: "go", "aria-describedby": notesName,
    oninput: () => start(200), onkeydown: (event) => { if (event.key === "Enter" && !event.isComposing) translateNow(event); },
  });
  const chosenMenu = h("select", { onchange: () => start(0) });
  const chosen = h("label", { class: "wide", hidden: true }, "Sentence to inspect", chosenMenu);
  const beamSize = slider("Beam size", { min: 1, max: 8, value: BEAM_SIZE }, () => start(200));
  const lengthPenalty = slider("Length penalty", { min: 0, max: 2, step: 0.1, value: LENGTH_PENALTY }, () => start(200), (value) => value.toFixed(1));
  const share = h(
    "div",
    { class: "share" },
    h("button", { type: "button", onclick: () => copy("The link is", address) }, "Copy link"),
    h("button", { type: "button", onclick: () => copy("The image is", image) }, "Copy as image"),
  );
  const examples = h("div", { class: "examples", role: "group", "aria-label": "Examples" });
  const from = h("span"), to = h("p", { class: "language" });
  const translation = h("p", { class: "translation result", "aria-live": "polite" });
  const status = h("p", { class: "status", role: "status" });
  const unsure = h("p", { class: "unsure result", "aria-live": "polite" });
  const about = h("p", { class: "about" });
  const best = h("div", { class: "result scroll", tabindex: "0", role: "group", "aria-label": "The best translations" });
  const wideTree = h("p", { class: "status", hidden: true }, "The tree is wider than the page: scroll it sideways to see the rest.");
  const tree = h("div", { class: "result scroll tree", tabindex: "0", role: "group", "aria-label": "Search tree" });
  const steps = h("div", { class: "result scroll", tabindex: "0", role: "group", "aria-label": "The search, step by step" });
  const stepsFold = h("details", { ontoggle: () => drawSteps() }, h("summary", {}, "The search step by step, as a table"), steps);
  const stages = createStages(model.get("chapters"));
  const large = h("div", { class: "enlarged result" });
  const heads = h("div", { class: "result" });
  const allOn = h("button", { type: "button", onclick: () => { ablated = {}; drawHeads(null); start(0); } }, "Switch all heads on");
  const form = h(
    "form",
    { onsubmit: translateNow },
    ...(models.length > 1 ? [h("label", { class: "wide" }, "Model", modelMenu)] : []),
    h("label", { class: "wide" }, from, sentence),
    notes,
  );
  const treeFold = h("details", { open: !folded }, h("summary", {}, "Beam search: every candidate"), legend(), wideTree, tree, stepsFold);
  const howToRead =
    "Each square is the heat map of one attention head: its rows attend to its columns, and the lighter a cell, the larger the weight. " +
    "Click a map to enlarge it; untick a head to ablate it (switch it off).";
  const headsFold = h("details", { open: !folded }, h("summary", {}, "Attention heads"), h("p", { class: "status" }, howToRead), allOn, large, heads);
  const { tokens, embeddings, softmax } = stages.parts;
  tokens.open = folded; // there, only the beginning is unfolded
  const parts = { input: form, tokens, embeddings, softmax, tree: treeFold, heads: headsFold };
  const tour = createTour(translatorSteps(parts, ablateOneHead, restoreHeads));

  const root = h(
    "div",
    { class: "translator", ...blockShortcuts },
    form,
    to,
    translation,
    unsure,
    examples,
    ...(shared ? [share] : []),
    status,
    ...(folded ? [] : [about, tour]),
    h(
      "details",
      { class: "how", open: !folded },
      h("summary", {}, "See how it did that"),
      ...(folded ? [tour] : []),
      chosen,
      h("details", { open: true }, h("summary", {}, "Every stage of the computation"), stages.el),
      h("form", { class: "settings" }, beamSize.el, lengthPenalty.el),
      h("details", { open: true }, h("summary", {}, "The best translations"), best),
      treeFold,
      headsFold,
    ),
    ...(folded ? [about] : []), // below, so that a phone's first screen shows what can be unfolded
  );
  el.replaceChildren(h("style", {}, STYLE), root);
  chooseModel();
  if (shared) {
    restore();
    addEventListener("hashchange", () => { if (restore()) root.scrollIntoView(); });
    document.querySelectorAll('a[href="#tour"]').forEach((link) => {
      link.addEventListener("click", (event) => { event.preventDefault(); tour.click(); });
    });
  }

  /**
   * Show what a link in the address carries, but not again if the reader returns to it from another part of the page.
   *
   * @returns {boolean} whether it is shown.
   */
  function restore() {
    if (location.hash === "#tour") tour.click();
    const link = fromFragment(location.hash);
    if (!link || location.hash === restored) return false;
    restored = location.hash;
    const index = models.findIndex(({ name }) => name === link.model);
    if (index >= 0 && index !== Number(modelMenu.value)) {
      modelMenu.value = index;
      chooseModel();
    }
    sentence.value = link.sentence;
    translation.textContent = "";
    if (link.beamSize) beamSize.set(link.beamSize);
    if (link.lengthPenalty) lengthPenalty.set(link.lengthPenalty);
    ablated = index >= 0 ? link.ablated : {}; // another model has other heads
    isForeign = Boolean(link.model) && index < 0;
    start(0);
    return true;
  }

  /** Return the part of an address after "#" that carries the sentence and the settings. */
  function fragment() {
    const { name } = models[modelMenu.value];
    return toFragment({ sentence: truncate(sentence.value), model: name, beamSize: beamSize.value(), lengthPenalty: lengthPenalty.value(), ablated });
  }

  /** Return the address of this page with the sentence and the settings. */
  function address() {
    const link = new URL(fragment(), location.href).href;
    return new ClipboardItem({ "text/plain": new Blob([link], { type: "text/plain" }) });
  }

  /** Return an image of the translation and of what the last layer attends to in the chosen sentence, or null if there is none yet. */
  function image() {
    if (finished !== run || !stages.shown()) return null;
    const { source, target, vocabulary, record } = stages.shown();
    const [layer, heads] = Object.entries(record.weights).filter(([name]) => name.endsWith("cross_attention")).at(-1);
    const tokens = (ids) => ids.map((id) => vocabulary[id]);
    const off = Object.entries(ablated).flatMap(([name, ones]) => ones.map((head) => `${titleOf(name)}, head ${head + 1}`));
    const note = [`Mean weights of the ${titleOf(layer)}`, ...(off.length ? [`off: ${off.join("; ")}`] : []), document.title.split(" — ").at(-1)].join(" · ");
    const canvas = drawImage({ texts: [truncate(sentence.value), translation.textContent], source: tokens(source), target: tokens([...target.slice(1), EOS]), heads, note });
    return new ClipboardItem({ "image/png": new Promise((resume) => canvas.toBlob(resume)) });
  }

  /** Copy something to the clipboard, and say so. */
  async function copy(what, make) {
    if (!navigator.clipboard) {
      status.textContent = "Browsers allow copying only on https pages.";
      return;
    }
    const item = make();
    if (!item) {
      status.textContent = "There is no translation to copy yet.";
      return;
    }
    try {
      await navigator.clipboard.write([item]);
      status.textContent = `${what} on your clipboard.`;
    } catch (error) {
      status.textContent = `The browser didn't allow copying: ${reason(error)}.`;
    }
  }

  /** Switch to the chosen model and its examples; the first comes with a translation that was computed in advance. */
  function chooseModel() {
    const { sentences, languages, about: text } = models[modelMenu.value];
    ablated = {};
    ablatedByTour = null;
    enlarged = null;
    examples.replaceChildren(
      ...(sentences.length ? ["Try: "] : []),
      ...sentences.map((example) =>
        h("button", { type: "button", lang: languages[0], onclick: () => { sentence.value = example; start(0); } }, example),
      ),
    );
    sentence.value = sentences[0] ?? "";
    about.textContent = text ?? "";
    [sentence.lang, translation.lang] = languages;
    [from.textContent, to.textContent] = languages.every(Boolean) ? languages.map(nameOf) : ["Sentence", "Translation"];
    clear();
    start(0);
  }

  /** Remove the results. */
  function clear() {
    search = null;
    found.clear();
    chosen.hidden = true;
    for (const part of [notes, unsure, best, tree, steps, large, heads]) part.replaceChildren();
    stages.clear();
  }

  /** Return whether the settings are those of the translations that were computed in advance. */
  function isInitial() {
    return beamSize.value() === BEAM_SIZE && lengthPenalty.value() === LENGTH_PENALTY && !Object.values(ablated).flat().length;
  }

  /** Dim the results for the previous text or settings until there are new ones. */
  function setBusy(isBusy) {
    root.classList.toggle("busy", isBusy);
    translation.setAttribute("aria-busy", isBusy);
  }

  /** Translate the sentence, unless something changes within `delay` milliseconds; return whether this finished. */
  async function start(delay) {
    const thisRun = ++run;
    const isStale = () => run !== thisRun;
    setBusy(found.size > 0);
    const isFinished = await attempt(delay, isStale);
    if (isStale()) return false;
    if (isFinished) finished = thisRun;
    setBusy(false);
    return isFinished;
  }

  /** Do the work of `start` until the run is stale. */
  async function attempt(delay, isStale) {
    const { sentences, translations } = models[modelMenu.value];
    if (!found.size) translation.textContent = (isInitial() && translations[sentences.indexOf(sentence.value)]) || "";
    // The live translator's page continues with the same sentence.
    const hash = sentence.value.trim() ? fragment() : "";
    if (folded) document.querySelectorAll(TRANSLATOR_LINKS).forEach((link) => { link.hash = hash; });
    await new Promise((resume) => setTimeout(resume, delay));
    if (isStale()) return false;
    let translator;
    try {
      translator = await loadTranslator(models[modelMenu.value]);
    } catch (error) {
      if (isStale()) return false;
      status.textContent = `The model could not be loaded (${reason(error)}). Press Enter in the sentence to try again.`;
      if (translation.textContent) status.textContent += ` ${IN_ADVANCE}`;
      return false;
    }
    try {
      return !isStale() && (await translate(translator, isStale));
    } catch (error) {
      if (isStale()) return false;
      status.textContent = `The translation failed: ${reason(error)}.`;
      translation.textContent = "";
      clear();
      return false;
    }
  }

  /** Return the translator of a model, which is loaded once. */
  async function loadTranslator({ name, megabytes }) {
    if (!ready.has(name)) {
      status.textContent = `Loading the model (${megabytes} MB).`;
      if (translation.textContent) status.textContent += ` ${IN_ADVANCE}`;
    }
    if (!loaded.has(name)) {
      const readFile = () => (files ? fromBytes(files[name]) : fromFolder(`${model.get("folder")}${name}`));
      loaded.set(name, pause().then(() => Translator.load(readFile()))); // so that the status is drawn first
      loaded.get(name).catch(() => loaded.delete(name)); // so that it is tried again
    }
    const translator = await loaded.get(name);
    ready.add(name);
    return translator;
  }

  /** Translate the text, sentence by sentence, and show the search and the heads of the chosen sentence; return whether this finished. */
  async function translate({ model, tokenizer }, isStale) {
    const shortened = truncate(sentence.value);
    const { text, leftOut, plain } = withoutUnknown(shortened, tokenizer);
    const sentences = splitSentences(text).filter((one) => tokenizer.encode(one).length);
    const encoded = sentences.map((one) => tokenizer.encode(one));
    const maxTokens = Math.min(MAX_TOKENS, model.config.max_length - 1);
    const remarks = [];
    const isOtherLanguage = looksLike(text, ...[...models[modelMenu.value].languages].reverse());
    if (isOtherLanguage) remarks.push(otherLanguage());
    if (shortened !== sentence.value) {
      remarks.push(`This text is longer than ${MAX_CHARACTERS} characters, so only its beginning is translated, up to “${ending(shortened)}”`);
    }
    if (leftOut.length) remarks.push(`The model doesn't know these characters, so they are left out: ${listCharacters(leftOut)}`);
    if (plain.length) remarks.push(`The model doesn't know these letters, so they lose their accents: ${listCharacters(plain)}`);
    if (encoded.some((ids) => ids.length > maxTokens)) remarks.push(`Only the first ${maxTokens} tokens of a sentence are translated.`);
    if (!sentences.length) {
      status.textContent = sentence.value.trim() ? "There is nothing left to translate." : "Type a sentence.";
      translation.replaceChildren();
      clear();
      showNotes(remarks);
      return true;
    }
    showNotes(remarks);
    const startTime = performance.now();
    const meanwhile = found.size ? " Meanwhile, you see the previous translation." : translation.textContent ? ` ${IN_ADVANCE}` : "";
    let lastPause = startTime, isSlow = false;
    const goOn = async () => {
      if (performance.now() - lastPause > SLICE) {
        await pause();
        lastPause = performance.now();
        if (lastPause - startTime > 500 && !isSlow) status.textContent = `Translating ...${meanwhile}`;
        isSlow = lastPause - startTime > 500;
      }
      return !isStale();
    };

    const { trainedOn, threshold = UNSURE } = models[modelMenu.value];
    const existing = ([name, heads]) => [name, [...new Set(heads)].filter((head) => model.hasHead(name, head))];
    ablated = Object.fromEntries(Object.entries(ablated).map(existing)); // a link may carry others
    model.ablated = ablated;
    const settings = { beamSize: beamSize.value(), lengthPenalty: lengthPenalty.value(), nBest: beamSize.value() };
    const searchedWith = JSON.stringify([modelMenu.value, settings, ablated]);
    const known = searchedWith === foundWith ? found : new Map(); // during typing, most sentences stay the same
    const next = new Map();
    for (const [i, one] of sentences.entries()) {
      if (next.has(one)) continue;
      const result = known.get(one) ?? (await findTranslations(model, [...encoded[i].slice(0, maxTokens), EOS], settings, goOn));
      if (!result) return false;
      next.set(one, result);
    }
    [found, foundWith] = [next, searchedWith];
    const results = sentences.map((one) => found.get(one));
    translation.textContent = results.map(({ hypotheses }) => tokenizer.decode(hypotheses[0].tokens)).join(" ") || "(an empty translation)";
    unsure.textContent = isOtherLanguage ? "" : doubt(results, sentences, threshold, trainedOn);
    const kept = Math.min(chosenMenu.selectedIndex, sentences.length - 1); // the same sentence as before, during typing
    chosenMenu.replaceChildren(...sentences.map((one, i) => h("option", { value: i, selected: i === Math.max(kept, 0) }, one)));
    chosen.hidden = sentences.length === 1;
    if (!(await explain({ model, tokenizer }, results[chosenMenu.value], goOn))) return false;

    const milliseconds = [...found.values()].reduce((total, one) => total + one.milliseconds, 0);
    const report = [`Translated in ${milliseconds.toFixed(0)} ms in your browser.`];
    const isCutOff = ({ source, hypotheses }) => hypotheses[0].tokens.length + 1 === lengthLimit(model, source); // eos counts
    if (results.some(isCutOff)) report.push("A translation was cut off at the search's maximum length.");
    if (isForeign) report.push("The link is for a model that this page doesn't have.");
    isForeign = false;
    const ablatedCount = Object.values(ablated).flat().length;
    if (ablatedCount) report.push(`${ablatedCount} ${ablatedCount === 1 ? "head is" : "heads are"} off.`);
    status.textContent = report.join(" ");
    return true;
  }

  /** Show remarks on the text, each a string or an element. */
  function showNotes(remarks) {
    const paragraphs = remarks.map((one) => h("p", { class: "unsure" }, one));
    if (notes.textContent !== paragraphs.map(({ textContent }) => textContent).join("")) notes.replaceChildren(...paragraphs);
  }

  /** Return a remark that the text is in the target language, with an offer to switch to a model for the reverse direction. */
  function otherLanguage() {
    const { languages, reverse } = models[modelMenu.value];
    const [ours, theirs] = languages.map(nameOf);
    const remark = h("span", {}, `This looks like ${theirs}, but the model translates from ${ours}. `);
    const index = models.findIndex(({ name }) => name === reverse);
    const page = document.querySelector(TRANSLATOR_LINKS);
    if (index >= 0) {
      const change = () => {
        const text = sentence.value;
        modelMenu.value = index;
        chooseModel();
        sentence.value = text;
        translation.textContent = "";
        start(0);
        sentence.focus();
      };
      remark.append(h("button", { type: "button", onclick: change }, `Translate from ${theirs} to ${ours}`));
    } else if (folded && reverse && page) {
      const hash = toFragment({ sentence: truncate(sentence.value), model: reverse, beamSize: BEAM_SIZE, lengthPenalty: LENGTH_PENALTY, ablated: {} });
      remark.append(h("a", { href: page.href.replace(/#.*/s, "") + hash }, `Translate from ${theirs} to ${ours}`));
    }
    return remark;
  }

  /** Return the translations of a source, and how they were found; null if the run became stale. */
  async function findTranslations(model, source, settings, goOn) {
    const startTime = performance.now(), trace = [];
    const searchSteps = beamSearchSteps(model, source, { ...settings, trace });
    let step = searchSteps.next();
    while (!step.done) {
      if (!(await goOn())) return null;
      step = searchSteps.next();
    }
    return { source, trace, hypotheses: step.value, milliseconds: performance.now() - startTime };
  }

  /** Return a warning that names the sentence whose translation the model is least sure of; "" if it is sure of all. */
  function doubt(results, sentences, threshold, trainedOn) {
    const probabilities = results.map(({ hypotheses: [{ tokens, logProbability }] }) => Math.exp(logProbability / (tokens.length + 1))); // eos counts
    const lowest = Math.min(...probabilities);
    if (lowest >= threshold) return "";
    const where = sentences.length > 1 ? ` at “${sentences[probabilities.indexOf(lowest)]}”` : "";
    return (
      `The model is guessing${where}: its tokens have an average probability of only ${Math.round(100 * lowest)} %.` +
      (trainedOn ? ` It was trained only on ${trainedOn}.` : "")
    );
  }

  /** Show how a sentence was translated; return whether this finished. */
  async function explain({ model, tokenizer }, { source, trace, hypotheses }, goOn) {
    // Decode the best translation again, token by token, to record what every part computes.
    const record = startRecord();
    const target = [BOS, ...hypotheses[0].tokens];
    const logits = [];
    const cache = model.startCache(model.encode(source, record), record);
    for (const token of target) {
      if (!(await goOn())) return false;
      logits.push(model.decodeStep([token], cache, record)[0]);
    }
    best.replaceChildren(nBestTable(hypotheses, tokenizer));
    const text = tokenizer.decode(hypotheses[0].tokens);
    const label = `Search tree of ${trace.length} candidates. The best translation: ${text}. The table below has the same content.`;
    search = [trace, tokenizer.vocabulary];
    const svg = searchTree(...search, label, form.clientWidth);
    tree.replaceChildren(svg);
    wideTree.hidden = svg.getAttribute("width") <= form.clientWidth;
    drawSteps();
    stages.show({ model, source, target, vocabulary: tokenizer.vocabulary, record, logits });
    drawHeads({ record, source: tokenizer.pieces(source), read: tokenizer.pieces(target), predicted: tokenizer.pieces([...target.slice(1), EOS]) });
    return true;
  }

  /** For the tour: switch off the head that the translation depends on most, and describe the effect. */
  async function ablateOneHead(isShown) {
    const changed = "The sentence or the settings have changed: come back to this step in a moment.";
    if (!sentence.value.trim()) return "Type a sentence first, then come back to this step.";
    if ((finished !== run && !(await start(0))) || !stages.shown()) return changed;
    const before = translation.textContent, thisRun = run;
    const [name, head] = await mostImportantHead(stages.shown(), pause);
    if (!isShown()) return "";
    if (run !== thisRun) return changed;
    ablatedByTour = [name, head];
    ablated = withHead(ablated, name, head, false);
    if (!(await start(0))) return changed;
    const after = translation.textContent;
    const change = after === before ? "The translation stays the same: the other heads make up for it." : `Before: “${before}” Now: “${after}”`;
    return `Of all cross-attention heads, head ${head + 1} in ${layerOf(name)} matters most for this sentence, so it has been switched off. ${change} To test another sentence, go back, type it, and return to this step.`;
  }

  /** For the tour: undo `ablateOneHead`. */
  function restoreHeads() {
    if (!ablatedByTour) return;
    ablated = withHead(ablated, ...ablatedByTour, true);
    ablatedByTour = null;
    start(0);
  }

  /** Fill the table of the search, but only if it is unfolded. */
  function drawSteps() {
    steps.replaceChildren(...(stepsFold.open && search ? [searchTable(...search, translation.lang)] : []));
  }

  function nBestTable(hypotheses, tokenizer) {
    const row = ({ tokens, logProbability, score }, i) =>
      h(
        "tr",
        {},
        h("td", { class: "number" }, `${i + 1}`),
        h("td", { lang: translation.lang }, tokenizer.decode(tokens)),
        ...[format(logProbability, 3), format(score, 3), `${tokens.length + 1}`].map((value) => h("td", { class: "number" }, value)),
      );
    const names = ["", "translation", "log-probability", "score", "tokens with <eos>"];
    const column = (name) => h("th", { scope: "col", class: name === "translation" ? "" : "number" }, name);
    const head = h("tr", {}, ...names.map((name) => (name ? column(name) : h("td"))));
    return h("table", { class: "best" }, h("thead", {}, head), h("tbody", {}, ...hypotheses.map(row)));
  }

  /**
   * Draw the small heat maps of all heads, and the large one if a head is enlarged; null only turns all checkboxes on. The rows
   * of the decoder's maps are labelled with the tokens that are predicted, as in the chapters.
   */
  function drawHeads(weights) {
    if (!weights) {
      heads.querySelectorAll("input").forEach((box) => { box.checked = true; });
      heads.querySelectorAll(".off").forEach((head) => head.classList.remove("off"));
      return;
    }
    const focused = document.activeElement?.dataset.head; // to restore the focus, as the elements are replaced
    const drawLarge = () => {
      large.replaceChildren();
      if (!enlarged) return;
      const [name, head] = enlarged;
      const queries = name.startsWith("encoder") ? weights.source : weights.predicted;
      const keys = groupOf(name) === "decoder_self" ? weights.read : weights.source;
      const closeLarge = () => {
        enlarged = null;
        drawLarge();
        heads.querySelector(`[data-head="map ${name}, head ${head + 1}"]`)?.focus();
      };
      const close = h("button", { type: "button", onclick: closeLarge }, "Close");
      large.append(
        h("p", {}, h("strong", {}, capitalize(`${titleOf(name)}, head ${head + 1}`)), " ", close),
        h("p", { class: "status" }, HEAD_GROUPS[groupOf(name)][2]),
        largeMap(weights.record.weights[name][head], queries, keys),
        h(
          "details",
          { class: "in-python" },
          h("summary", {}, "This head in Python"),
          h("code", {}, `with ablate_heads(translator.model, {"${name}": [${head}]}):`),
          " switches it off. Python counts layers and heads from 0.",
        ),
      );
    };
    const headElement = (name, head, rows) => {
      const isOff = () => ablated[name]?.includes(head) ?? false;
      const toggle = ({ target }) => {
        ablated = withHead(ablated, name, head, target.checked);
        target.closest(".head").classList.toggle("off", isOff());
        start(0);
      };
      const show = () => { enlarged = [name, head]; drawLarge(); large.scrollIntoView({ block: "nearest", behavior: "instant" }); };
      const label = `${titleOf(name)}, head ${head + 1}`, key = `${name}, head ${head + 1}`;
      return h(
        "div",
        { class: isOff() ? "head off" : "head" },
        h("button", { type: "button", onclick: show, "aria-label": `Enlarge ${label}`, "data-head": `map ${key}` }, smallMap(rows)),
        h(
          "label",
          {},
          h("input", { type: "checkbox", onchange: toggle, checked: !isOff(), "aria-label": `${capitalize(label)} is on`, "data-head": `box ${key}` }),
          `head ${head + 1}`,
        ),
      );
    };
    const wasOpen = Object.fromEntries([...heads.children].map((fold) => [fold.dataset.kind, fold.open]));
    heads.replaceChildren(
      ...Object.entries(HEAD_GROUPS).map(([key, [, title, rowsAndColumns]]) =>
        h(
          "details",
          { "data-kind": key, open: wasOpen[key] ?? key === "cross_attention" },
          h("summary", {}, title),
          h("p", { class: "status" }, rowsAndColumns),
          ...Object.entries(weights.record.weights)
            .filter(([name]) => groupOf(name) === key)
            .map(([name, layer]) =>
              h("fieldset", { class: "layer", style: gridOfHeads(layer.length) }, h("legend", {}, capitalize(layerOf(name))), ...layer.map((rows, head) => headElement(name, head, rows))),
            ),
        ),
      ),
    );
    drawLarge();
    if (focused) heads.querySelector(`[data-head="${focused}"]`)?.focus();
  }
}

export default { render };
