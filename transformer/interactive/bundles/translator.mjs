// Made by `make notebooks` with esbuild@0.25.12 from book/widgets (ca58f9be6174): change it there, not here (9a310d02878c).
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
var word = (piece) => piece.replace(/^▁(?=.)/u, "");

// heatmap.mjs
var LARGEST = 40;
var STOPS = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
function colour(weight) {
  const at = Math.min(weight, 1) * (STOPS.length - 1);
  const low = Math.min(Math.floor(at), STOPS.length - 2);
  return STOPS[low].map((value, i) => Math.round(value + (at - low) * (STOPS[low + 1][i] - value)));
}
function smallMap(rows) {
  const width = Math.max(...rows.map((row) => row.length));
  const canvas = h("canvas", { width, height: rows.length, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, rows.length);
  rows.forEach((row, y) => {
    for (let x = 0; x < width; x++) image.data.set([...colour(row[x] ?? 0), 255], 4 * (y * width + x));
  });
  context.putImageData(image, 0, 0);
  return canvas;
}
function largeMap(rows, queries, keys) {
  const cut2 = rows.length > LARGEST || keys.length > LARGEST;
  const shown = keys.slice(0, LARGEST);
  const told = h("p", { class: "told", "aria-live": "polite" }, "Point at a cell, or tab to a row, to read it.");
  const strongest = (row) => row.indexOf(Math.max(...row));
  const say = (q, k) => {
    told.textContent = `${word(queries[q])} → ${word(keys[k])}: ${(rows[q][k] ?? 0).toFixed(3)}`;
  };
  const line = (row, q) => h(
    "tr",
    { tabindex: "0", onfocus: () => say(q, strongest(row)) },
    h("th", { scope: "row" }, word(queries[q])),
    ...shown.map(
      (_, k) => h("td", { style: `background: rgb(${colour(row[k] ?? 0)})`, onpointerenter: () => say(q, k) })
    )
  );
  const head = h("tr", {}, h("td"), ...shown.map((key) => h("th", { scope: "col" }, h("span", {}, word(key)))));
  const table = h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows.slice(0, LARGEST).map(line)));
  const note = cut2 ? [h("p", {}, `The first ${LARGEST} pieces of each side.`)] : [];
  return h("div", { class: "large" }, told, h("div", { class: "scroll" }, table), ...note);
}

// tokenizer.mjs
var PAD = 0;
var BOS = 1;
var EOS = 2;
var UNK = 3;
var WHITE_SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;
function tidied(text) {
  if (/\p{Surrogate}/u.test(text)) throw new Error("the text has half a character: it is not valid Unicode");
  return text.normalize("NFKC").replaceAll("▁", " ").split(WHITE_SPACE).filter(Boolean).join(" ");
}
var NORMAL = 1;
var UNKNOWN = 2;
var CONTROL = 3;
var BPE = 2;
function* fields(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const varint = () => {
    let value = 0, scale = 1, byte;
    do {
      byte = bytes[at++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte & 128);
    return value;
  };
  while (at < bytes.length) {
    const key = varint();
    const field = Math.floor(key / 8);
    switch (key % 8) {
      case 0:
        yield [field, varint()];
        break;
      case 1:
        yield [field, view.getFloat64(at, true)];
        at += 8;
        break;
      case 2: {
        const end = varint() + at;
        yield [field, bytes.subarray(at, end)];
        at = end;
        break;
      }
      case 5:
        yield [field, view.getFloat32(at, true)];
        at += 4;
        break;
      default:
        throw new Error("this is not a SentencePiece model, or it is damaged");
    }
  }
}
var Tokenizer = class {
  /** @param {ArrayBuffer} model the bytes of a .model file. */
  constructor(model) {
    const text = new TextDecoder();
    this.vocabulary = [];
    this.types = [];
    this.ids = /* @__PURE__ */ new Map();
    this.scores = [];
    for (const [field, value] of fields(new Uint8Array(model))) {
      if (field === 1) {
        const { 1: piece, 2: score = 0, 3: type = NORMAL } = Object.fromEntries(fields(value));
        const id = this.vocabulary.push(text.decode(piece)) - 1;
        this.types.push(type);
        this.scores.push(score);
        if (type === NORMAL) this.ids.set(this.vocabulary[id], id);
        else if (type !== UNKNOWN && type !== CONTROL) throw new Error("pieces of bytes or of a user are not read here");
      } else if (field === 2) {
        if (Object.fromEntries(fields(value))[3] !== BPE) throw new Error("this tokenizer is not byte-pair encoding");
      } else if (field === 3) {
        this.#readRules(Object.fromEntries(fields(value))[2]);
      }
    }
  }
  /** The rules of normalisation: a trie of what is replaced, and the text that replaces it. */
  #readRules(bytes) {
    const copy = bytes.slice();
    const size = new DataView(copy.buffer).getUint32(0, true);
    this.trie = new Uint32Array(copy.buffer, 4, size / 4);
    this.replacements = copy.subarray(4 + size);
  }
  /** The longest rule that text has at a place: [bytes it replaces, where its replacement starts], or null. */
  #rule(bytes, at) {
    const { trie } = this;
    const offset = (unit) => unit >>> 10 << ((unit & 512) >>> 6);
    let node = offset(trie[0]), found = null;
    for (let i = at; i < bytes.length; i++) {
      node ^= bytes[i];
      const unit = trie[node];
      if ((unit & 2147483903) !== bytes[i]) break;
      node ^= offset(unit);
      if (unit & 256) found = [i + 1 - at, trie[node] & 2147483647];
    }
    return found;
  }
  /** The text as the tokenizer sees it: as in Python, first `tidied`, then the model's own rules. */
  normalize(text) {
    return this.replaced(tidied(text));
  }
  /** The model's own rules alone. After `tidied`, they still know characters that are newer than this browser. */
  replaced(text) {
    const bytes = new TextEncoder().encode(text);
    const found = [];
    const emit = (byte) => {
      if (byte !== 32 || found.length && found.at(-1) !== 32) found.push(byte);
    };
    for (let at = 0; at < bytes.length; ) {
      const rule = this.#rule(bytes, at);
      if (rule) {
        at += rule[0];
        for (let i = rule[1]; this.replacements[i]; i++) emit(this.replacements[i]);
      } else {
        do
          emit(bytes[at++]);
        while ((bytes[at] & 192) === 128);
      }
    }
    while (found.at(-1) === 32) found.pop();
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(new Uint8Array(found));
  }
  /**
   * Ids of the text's pieces, without bos and eos.
   *
   * @param {string} text
   * @returns {number[]}
   */
  encode(text) {
    const normal = this.normalize(text);
    const ids = normal ? normal.split(" ").flatMap((word2) => this.#merge(["▁", ...word2])) : [];
    return ids.filter((id, i) => id !== UNK || ids[i - 1] !== UNK);
  }
  /** Byte-pair encoding of one word: merge the two neighbours whose piece was learned first, until none are left. */
  #merge(symbols) {
    const rank = (i) => this.scores[this.ids.get(symbols[i] + symbols[i + 1])] ?? -Infinity;
    const ranks = symbols.slice(1).map((_, i) => rank(i));
    for (; ; ) {
      let best = -1, highest = -Infinity;
      for (let i = 0; i < ranks.length; i++) if (ranks[i] > highest) highest = ranks[best = i];
      if (best < 0) return symbols.map((symbol) => this.ids.get(symbol) ?? UNK);
      symbols.splice(best, 2, symbols[best] + symbols[best + 1]);
      ranks.splice(best, 1);
      if (best > 0) ranks[best - 1] = rank(best - 1);
      if (best < ranks.length) ranks[best] = rank(best);
    }
  }
  /** The text of these ids. Special tokens leave nothing, but UNK " ⁇ ". */
  decode(ids) {
    let text = "";
    for (const id of ids) {
      if (id === UNK) text += " ⁇ ";
      else if (this.types[id] === NORMAL) {
        const piece = this.vocabulary[id];
        text += (text ? piece : piece.replace(/^▁/u, "")).replaceAll("▁", " ");
      }
    }
    return text;
  }
  /** The pieces themselves, for showing; "▁" marks the start of a word. */
  pieces(ids) {
    return Array.from(ids, (id) => this.vocabulary[id]);
  }
};

// search.mjs
var EXTRA_LENGTH = 50;
var lengthPenalty = (length, alpha) => ((5 + length) / 6) ** alpha;
var lengthLimit = (model, source) => Math.min(source.length + EXTRA_LENGTH, model.config.max_length);
function* beamSearchSteps(model, source, { beam = 4, alpha = 0.6, nBest = 1, trace } = {}) {
  if (!(nBest >= 1 && nBest <= beam)) throw new Error(`nBest must be from 1 to beam; got ${nBest}, beam ${beam}`);
  if (!(alpha >= 0)) throw new Error(`alpha must not be negative; got ${alpha}`);
  const limit = lengthLimit(model, source);
  const cache = model.startCache(model.encode(source));
  const finished = [];
  let living = [{ tokens: [], logProbability: 0 }];
  for (let length = 1; ; length++) {
    const logits = model.decodeStep(living.map(({ tokens }) => tokens.at(-1) ?? BOS), cache);
    const candidates = living.flatMap(
      ({ logProbability }, parent) => bestTokens(logits[parent], 2 * beam, length === limit).map((best) => ({
        length,
        parent,
        token: best.token,
        logProbability: logProbability + best.logProbability,
        score: (logProbability + best.logProbability) / lengthPenalty(length, alpha),
        fate: "dropped",
        beam: null
      }))
    ).sort((a, b) => b.logProbability - a.logProbability).slice(0, 2 * beam);
    trace?.push(...candidates);
    const next = [];
    candidates.forEach((candidate, place) => {
      const { tokens } = living[candidate.parent];
      const { token, logProbability, score } = candidate;
      if (token === EOS) {
        if (place >= beam) return;
        candidate.fate = "finished";
        finished.push({ tokens, logProbability, score });
      } else if (next.length < beam) {
        candidate.fate = "kept";
        candidate.beam = next.length;
        next.push({ tokens: [...tokens, token], logProbability, parent: candidate.parent });
      }
    });
    finished.sort((a, b) => b.score - a.score);
    if (isDone(finished, next, limit, alpha, nBest)) return finished.slice(0, nBest);
    model.follow(cache, next.map(({ parent }) => parent));
    living = next;
    yield length;
  }
}
function isDone(finished, living, limit, alpha, nBest) {
  if (!living.length) return true;
  if (finished.length < nBest) return false;
  return living[0].logProbability / lengthPenalty(limit, alpha) <= finished[nBest - 1].score;
}
function bestTokens(logits, count, endsHere) {
  let top = -Infinity, total = 0;
  for (let i = 0; i < logits.length; i++) if (logits[i] > top) top = logits[i];
  for (let i = 0; i < logits.length; i++) total += Math.exp(logits[i] - top);
  const logTotal = top + Math.log(total);
  const found = [];
  for (let token = 0; token < logits.length; token++) {
    const logit = logits[token];
    if (token === PAD || token === BOS || endsHere && token !== EOS) continue;
    if (found.length === count && logit <= found[count - 1].logit) continue;
    let place = found.length;
    while (place && found[place - 1].logit < logit) place--;
    found.splice(place, 0, { token, logit, logProbability: logit - logTotal });
    if (found.length > count) found.pop();
  }
  return found;
}

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

// model.mjs
function linear(x, weight, bias, rows) {
  const width = x.length;
  const y = new Float32Array(rows);
  for (let row = 0, at = 0; row < rows; row++, at += width) {
    let a = 0, b = 0, c = 0, d = 0;
    for (let i = 0; i < width; i += 4) {
      a += weight[at + i] * x[i];
      b += weight[at + i + 1] * x[i + 1];
      c += weight[at + i + 2] * x[i + 2];
      d += weight[at + i + 3] * x[i + 3];
    }
    y[row] = a + b + c + d + (bias ? bias[row] : 0);
  }
  return y;
}
function layerNorm(x, { weight, bias }) {
  let mean = 0, variance = 0;
  for (const value of x) mean += value / x.length;
  for (const value of x) variance += (value - mean) ** 2 / x.length;
  const scale = 1 / Math.sqrt(variance + 1e-5);
  return x.map((value, i) => (value - mean) * scale * weight[i] + bias[i]);
}
function softmax(scores) {
  let top = -Infinity, total = 0;
  for (const score of scores) top = Math.max(top, score);
  for (let i = 0; i < scores.length; i++) total += scores[i] = Math.exp(scores[i] - top);
  for (let i = 0; i < scores.length; i++) scores[i] /= total;
}
var add = (x, y) => x.map((value, i) => value + y[i]);
function sinusoidalEncoding(position, d_model) {
  return Float32Array.from({ length: d_model }, (_, i) => {
    const angle = position * 1e4 ** (-(i - i % 2) / d_model);
    return i % 2 ? Math.cos(angle) : Math.sin(angle);
  });
}
var MultiHeadAttention = class {
  constructor(name, model) {
    const { d_model, n_heads } = model.config;
    const { weight, bias } = model.part(`${name}.query_key_value`);
    this.name = name;
    this.model = model;
    this.d_model = d_model;
    this.n_heads = n_heads;
    this.query = { weight: weight.subarray(0, d_model * d_model), bias: bias.subarray(0, d_model) };
    this.keyValue = { weight: weight.subarray(d_model * d_model), bias: bias.subarray(d_model) };
    this.output = model.part(`${name}.output`);
  }
  /** The key and the value of a position. */
  project(x) {
    const both = linear(x, this.keyValue.weight, this.keyValue.bias, 2 * this.d_model);
    return { key: both.subarray(0, this.d_model), value: both.subarray(this.d_model) };
  }
  /**
   * Look from x at some positions: softmax(QKᵀ / √d_k) V in each head (§3.2.1).
   *
   * @param {Float32Array} x one position.
   * @param {{key: Float32Array, value: Float32Array}[]} positions what `project` gave for each that may be looked at.
   * @param {Object} [record] is given the weights: `record[name][head]` gets one more row.
   */
  attend(x, positions, record) {
    const { d_model, n_heads } = this;
    const d_head = d_model / n_heads;
    const query = linear(x, this.query.weight, this.query.bias, d_model);
    const heads = new Float32Array(d_model);
    for (let head = 0; head < n_heads; head++) {
      const first = head * d_head, end = first + d_head;
      const weights = new Float32Array(positions.length);
      for (let p = 0; p < positions.length; p++) {
        const { key } = positions[p];
        let score = 0;
        for (let i = first; i < end; i++) score += query[i] * key[i];
        weights[p] = score / Math.sqrt(d_head);
      }
      softmax(weights);
      if (record) (record[this.name] ??= Array.from({ length: n_heads }, () => []))[head].push(weights);
      if (this.model.off[this.name]?.includes(head)) continue;
      for (let p = 0; p < positions.length; p++) {
        const { value } = positions[p];
        for (let i = first; i < end; i++) heads[i] += weights[p] * value[i];
      }
    }
    return linear(heads, this.output.weight, this.output.bias, d_model);
  }
};
var Layer = class {
  constructor(name, model) {
    this.norm = model.config.norm;
    this.d_ff = model.config.d_ff;
    this.self_attention = new MultiHeadAttention(`${name}.self_attention`, model);
    const decoding = name.startsWith("decoder");
    if (decoding) this.cross_attention = new MultiHeadAttention(`${name}.cross_attention`, model);
    this.inner = model.part(`${name}.feed_forward.inner`);
    this.outer = model.part(`${name}.feed_forward.outer`);
    this.norms = (decoding ? [0, 1, 2] : [0, 1]).map((i) => model.part(`${name}.residuals.${i}.norm`));
  }
  /** What a sublayer reads: x, or with norm="pre" the norm of x. */
  before(x, i) {
    return this.norm === "pre" ? layerNorm(x, this.norms[i]) : x;
  }
  /** x with what its sublayer computed added; with norm="post" the norm of that. */
  after(x, added, i) {
    const sum = add(x, added);
    return this.norm === "pre" ? sum : layerNorm(sum, this.norms[i]);
  }
  /** Two linear layers with a ReLU between them (§3.3). */
  feedForward(x) {
    const inner = linear(x, this.inner.weight, this.inner.bias, this.d_ff);
    for (let i = 0; i < inner.length; i++) if (inner[i] < 0) inner[i] = 0;
    return linear(inner, this.outer.weight, this.outer.bias, x.length);
  }
};
var Transformer = class {
  /** Heads that add nothing: an attention's name, for example "decoder.1.cross_attention" → heads of it. */
  off = {};
  /**
   * @param {Object} config what `best.json` has under "model".
   * @param {Object<string, {shape: number[], data: Float32Array}>} weights from `readTensors`.
   */
  constructor(config, weights) {
    if (config.positions === "rotary") throw new Error("rotary positions are not read here");
    if (config.d_model % 4 || config.d_ff % 4) throw new Error("d_model and d_ff must be multiples of 4");
    this.config = config;
    this.weights = weights;
    const layers = [...Array(config.n_layers).keys()];
    this.encoder = layers.map((i) => new Layer(`encoder.${i}`, this));
    this.decoder = layers.map((i) => new Layer(`decoder.${i}`, this));
    this.source_embedding = this.part("source_embedding").weight;
    this.target_embedding = this.part("target_embedding").weight ?? this.source_embedding;
    this.unembedding = this.part("unembedding").weight ?? this.target_embedding;
    this.encoder_norm = this.part("encoder_norm");
    this.decoder_norm = this.part("decoder_norm");
  }
  /** The weight and the bias of a part of the model. */
  part(name) {
    return { weight: this.weights[`${name}.weight`]?.data, bias: this.weights[`${name}.bias`]?.data };
  }
  /** A token's vector times √d_model, plus its position's (§3.4, §3.5). */
  embed(id, position, embedding) {
    const { d_model, vocab_size, max_length } = this.config;
    if (!(id >= 0 && id < vocab_size)) throw new Error(`ids must be from 0 to ${vocab_size - 1}; got ${id}`);
    if (position >= max_length) throw new Error(`the model reads at most ${max_length} tokens`);
    const where = this.weights.positions ? this.weights.positions.data.subarray(position * d_model, (position + 1) * d_model) : sinusoidalEncoding(position, d_model);
    const vector = embedding.subarray(id * d_model, (id + 1) * d_model);
    return vector.map((value, i) => value * Math.sqrt(d_model) + where[i]);
  }
  /**
   * Read the source.
   *
   * @param {number[]} source token ids, with eos.
   * @param {Object} [record] is given all heads' weights, see `attend`.
   * @returns {Float32Array[]} the memory: a vector for each position.
   */
  encode(source, record) {
    let xs = source.map((id, position) => this.embed(id, position, this.source_embedding));
    for (const layer of this.encoder) {
      const read = xs.map((x) => layer.before(x, 0));
      const positions = read.map((x) => layer.self_attention.project(x));
      xs = xs.map((x, i) => layer.after(x, layer.self_attention.attend(read[i], positions, record), 0));
      xs = xs.map((x) => layer.after(x, layer.feedForward(layer.before(x, 1)), 1));
    }
    return this.config.norm === "pre" ? xs.map((x) => layerNorm(x, this.encoder_norm)) : xs;
  }
  /**
   * What decoding keeps between steps: for each layer the memory's keys and values, and each hypothesis's own.
   *
   * @param {Float32Array[]} memory
   */
  startCache(memory) {
    return {
      length: 0,
      memory: this.decoder.map((layer) => memory.map((x) => layer.cross_attention.project(x))),
      past: [this.decoder.map(() => [])]
      // hypothesis → layer → a key and a value for each position
    };
  }
  /** Each hypothesis goes on from the past of its parent. A key or a value is never copied, only named again. */
  follow(cache, parents) {
    cache.past = parents.map((parent) => cache.past[parent].map((layer) => [...layer]));
  }
  /**
   * One more position of each hypothesis; those before are in the cache.
   *
   * @param {number[]} tokens the newest token of each hypothesis.
   * @param {Object} cache is advanced by one position.
   * @param {Object} [record] is given all heads' weights, see `attend`.
   * @returns {Float32Array[]} for each hypothesis a score for every token of the vocabulary.
   */
  decodeStep(tokens, cache, record) {
    const logits = tokens.map((token, hypothesis) => {
      let x = this.embed(token, cache.length, this.target_embedding);
      this.decoder.forEach((layer, l) => {
        const past = cache.past[hypothesis][l];
        const read = layer.before(x, 0);
        past.push(layer.self_attention.project(read));
        x = layer.after(x, layer.self_attention.attend(read, past, record), 0);
        x = layer.after(x, layer.cross_attention.attend(layer.before(x, 1), cache.memory[l], record), 1);
        x = layer.after(x, layer.feedForward(layer.before(x, 2)), 2);
      });
      if (this.config.norm === "pre") x = layerNorm(x, this.decoder_norm);
      return linear(x, this.unembedding, null, this.config.vocab_size);
    });
    cache.length += 1;
    return logits;
  }
  /**
   * Score every next token of a target: bos and a translation, without its eos.
   *
   * @returns {Float32Array[]} logits: `[t]` scores the token after `target[0 … t]`.
   */
  forward(source, target, record) {
    const cache = this.startCache(this.encode(source, record));
    return target.map((token) => this.decodeStep([token], cache, record)[0]);
  }
};

// safetensors.mjs
var halves = null;
function half(bits) {
  const sign = bits & 32768 ? -1 : 1;
  const exponent = bits >> 10 & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}
function readTensors(file) {
  const start = 8 + Number(new DataView(file).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(file, 8, start - 8)));
  delete header.__metadata__;
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets }] of Object.entries(header)) {
    const bytes = file.slice(start + data_offsets[0], start + data_offsets[1]);
    if (dtype === "F32") {
      tensors[name] = { shape, data: new Float32Array(bytes) };
    } else if (dtype === "F16") {
      halves ??= Float32Array.from({ length: 1 << 16 }, (_, bits) => half(bits));
      const stored = new Uint16Array(bytes);
      const data = new Float32Array(stored.length);
      for (let i = 0; i < data.length; i++) data[i] = halves[stored[i]];
      tensors[name] = { shape, data };
    } else {
      throw new Error(`${name} is ${dtype}; this reads F16 and F32`);
    }
  }
  return tensors;
}

// translation.mjs
var fromFolder = (address) => async (name) => {
  const response = await fetch(`${address}/${name}`);
  if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
  return response.arrayBuffer();
};
var fromBytes = (files) => async (name) => {
  if (!files[name]) throw new Error(`${name} was not handed over`);
  const { buffer, byteOffset, byteLength } = files[name];
  return buffer.slice(byteOffset, byteOffset + byteLength);
};
var Translator = class _Translator {
  constructor(model, tokenizer) {
    this.model = model;
    this.tokenizer = tokenizer;
  }
  /**
   * A model from its files: best.json, the weights that it names, and tokenizer.model.
   *
   * @param {function(string): Promise<ArrayBuffer>} read gives the bytes of one of them.
   */
  static async load(read) {
    const described = JSON.parse(new TextDecoder().decode(await read("best.json")));
    const [weights, tokenizer] = await Promise.all([read(described.weights.file), read("tokenizer.model")]);
    return new _Translator(new Transformer(described.model, readTensors(weights)), new Tokenizer(tokenizer));
  }
};

// tree.mjs
var COLUMN = 58;
var ROW = 46;
var COLOURS = { kept: "#0072B2", finished: "#009E73", dropped: "#808080" };
var SAYS = { kept: "lives on", finished: "finished", dropped: "dropped" };
function legend() {
  const entries = Object.entries(SAYS).flatMap(([fate, text]) => [
    h("span", { style: `color: ${COLOURS[fate]}`, "aria-hidden": "true" }, "● "),
    `${text}; `
  ]);
  return h("p", { class: "told" }, ...entries, "a thick line leads to the winner; each number is a score.");
}
function arranged(trace, vocabulary) {
  const nodes = [];
  let beams = [void 0];
  let becomes = [];
  let place = 0;
  for (const candidate of trace) {
    if (nodes.length && candidate.length > nodes.at(-1).length) [beams, becomes, place] = [becomes, [], 0];
    const parent = beams[candidate.parent];
    const piece = vocabulary[candidate.token];
    const node = { ...candidate, place: place++, piece, text: (parent?.text ?? "") + piece, from: parent };
    if (candidate.beam !== null) becomes[candidate.beam] = node;
    nodes.push(node);
  }
  const ended = nodes.filter(({ fate }) => fate === "finished");
  let at = ended.reduce((best, one) => best && best.score >= one.score ? best : one, void 0);
  for (; at; at = at.from) at.winner = true;
  return nodes;
}
function searchTree(trace, vocabulary, label) {
  const nodes = arranged(trace, vocabulary);
  const width = COLUMN * (Math.max(...nodes.map(({ place }) => place)) + 1);
  const height = ROW * nodes.at(-1).length + 10;
  const x = ({ place }) => COLUMN * (place + 0.5);
  const y = ({ length }) => ROW * (length - 0.5);
  const lines = nodes.filter(({ from }) => from).map(
    (node) => h("line", {
      x1: x(node.from),
      y1: y(node.from),
      x2: x(node),
      y2: y(node),
      stroke: COLOURS[node.fate],
      "stroke-width": node.winner ? 4 : 1,
      opacity: node.fate === "dropped" ? 0.4 : 1
    })
  );
  const dots = nodes.map(
    (node) => h(
      "g",
      { class: node.winner ? "winner" : "" },
      h("title", {}, `${node.text.replaceAll("▁", " ").trim()}
log-probability ${node.logProbability.toFixed(2)}, score ${node.score.toFixed(3)}, ${node.fate}`),
      h("circle", { cx: x(node), cy: y(node), r: node.winner ? 6 : 3.5, fill: COLOURS[node.fate] }),
      h("text", { x: x(node), y: y(node) - 9, "text-anchor": "middle" }, word(node.piece).slice(0, 10)),
      h("text", { x: x(node), y: y(node) + 17, "text-anchor": "middle", class: "score" }, node.score.toFixed(2))
    )
  );
  return h("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, ...lines, ...dots);
}
function searchTable(trace, vocabulary, lang) {
  const nodes = arranged(trace, vocabulary);
  const row = (node) => h(
    "tr",
    {},
    h("th", { scope: "row", lang }, node.text.replaceAll("▁", " ").trim()),
    ...[node.logProbability.toFixed(2), node.score.toFixed(3)].map((value) => h("td", { class: "number" }, value)),
    h("td", {}, node.winner ? `${SAYS[node.fate]}, the winner's way` : SAYS[node.fate])
  );
  const step = (_, i) => {
    const rows = nodes.filter(({ length }) => length === i + 1).map(row);
    return h("tbody", {}, h("tr", {}, h("th", { scope: "rowgroup", colspan: 4 }, `Step ${i + 1}`)), ...rows);
  };
  const columns = { candidate: "", "log-probability": "number", score: "number", "what becomes of it": "" };
  const head = h("tr", {}, ...Object.entries(columns).map(([name, is]) => h("th", { scope: "col", class: is }, name)));
  return h("table", { class: "steps" }, h("thead", {}, head), ...Array.from({ length: nodes.at(-1).length }, step));
}

// translator.mjs
var LONGEST = 200;
var MOST_PIECES = 64;
var SLICE = 12;
var ATTENTIONS = {
  cross_attention: "Cross-attention: the translation looks at the source",
  encoder_self: "Encoder: the source looks at itself",
  decoder_self: "Decoder: the translation looks at itself"
};
var STYLE = `
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
var pause = () => new Promise((resume) => setTimeout(resume));
function cut(text) {
  const characters = [...text.slice(0, 4 * LONGEST)];
  return characters.length > LONGEST ? characters.slice(0, LONGEST).join("") : text;
}
function render({ model, el }) {
  const models = model.get("models");
  const files = model.get("files");
  const loaded = /* @__PURE__ */ new Map();
  let off = {};
  let enlarged = null;
  let run = 0;
  let weighed = null;
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
  const allOn = h("button", { type: "button", onclick: () => {
    off = {};
    drawHeads(null);
    start(0);
  } }, "Switch all heads on");
  el.replaceChildren(
    h("style", {}, STYLE),
    h(
      "div",
      { class: "translator", ...keepKeys },
      h(
        "form",
        { onsubmit: (event) => {
          event.preventDefault();
          start(0);
        } },
        ...models.length > 1 ? [h("label", { class: "wide" }, "Model", which)] : [],
        h("label", { class: "wide" }, "Sentence", sentence),
        h("label", {}, beamTold, beam),
        h("label", {}, alphaTold, alpha)
      ),
      examples,
      told,
      translation,
      pieces,
      h("details", { open: true }, h("summary", {}, "The best translations"), best),
      h("details", { open: true }, h("summary", {}, "The search: every candidate weighed"), legend(), tree, inWords),
      h("details", { open: true }, h("summary", {}, "Every head"), allOn, large, heads)
    )
  );
  choose();
  function choose() {
    const chosen = models[which.value];
    off = {};
    enlarged = null;
    examples.replaceChildren(
      ...chosen.sentences.length ? ["Try: "] : [],
      ...chosen.sentences.map(
        (one) => h("button", { type: "button", lang: chosen.languages[0], onclick: () => {
          sentence.value = one;
          start(0);
        } }, one)
      )
    );
    sentence.value = chosen.sentences[0] ?? "";
    translation.textContent = chosen.translations[0] ?? "";
    [sentence.lang, translation.lang] = chosen.languages;
    clear();
    start(0);
  }
  function clear() {
    weighed = null;
    for (const part of [pieces, best, tree, steps, large, heads]) part.replaceChildren();
  }
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
  async function ready({ name, megabytes }) {
    if (!loaded.has(name)) {
      told.textContent = `Loading the model, ${megabytes} MB.`;
      if (translation.textContent) told.textContent += " Until then, this translation is one made before.";
      const read = () => files ? fromBytes(files[name]) : fromFolder(`${model.get("folder")}${name}`);
      loaded.set(name, pause().then(() => Translator.load(read())));
      loaded.get(name).catch(() => loaded.delete(name));
    }
    return loaded.get(name);
  }
  async function translate(translator, stale) {
    const { model: model2, tokenizer } = translator;
    const text = cut(sentence.value);
    const all = tokenizer.encode(text);
    const ids = all.slice(0, Math.min(MOST_PIECES, model2.config.max_length - 1));
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
    model2.off = off;
    const trace = [];
    const settings = { beam: Number(beam.value), alpha: Number(alpha.value), nBest: Number(beam.value), trace };
    const steps2 = beamSearchSteps(model2, source, settings);
    let step = steps2.next();
    while (!step.done) {
      await breathe();
      if (stale()) return;
      step = steps2.next();
    }
    const hypotheses = step.value;
    const took = performance.now() - began;
    const record = {};
    const target = [BOS, ...hypotheses[0].tokens];
    const cache = model2.startCache(model2.encode(source, record));
    for (const token of target) {
      await breathe();
      if (stale()) return;
      model2.decodeStep([token], cache, record);
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
  function tellSteps() {
    steps.replaceChildren(...inWords.open && weighed ? [searchTable(...weighed, translation.lang)] : []);
  }
  function table(hypotheses, tokenizer) {
    const row = ({ tokens, logProbability, score }, i) => h(
      "tr",
      {},
      h("td", { class: "number" }, `${i + 1}`),
      h("td", { lang: translation.lang }, tokenizer.decode(tokens)),
      ...[logProbability.toFixed(2), score.toFixed(3), `${tokens.length}`].map((v) => h("td", { class: "number" }, v))
    );
    const names = ["", "translation", "log-probability", "score", "tokens"];
    const column = (name) => h("th", { scope: "col", class: name === "translation" ? "" : "number" }, name);
    const head = h("tr", {}, ...names.map((name) => name ? column(name) : h("td")));
    return h("table", { class: "best" }, h("thead", {}, head), h("tbody", {}, ...hypotheses.map(row)));
  }
  function drawHeads(shown) {
    if (!shown) {
      heads.querySelectorAll("input").forEach((box) => {
        box.checked = true;
      });
      heads.querySelectorAll(".off").forEach((one2) => one2.classList.remove("off"));
      return;
    }
    const focused = document.activeElement?.dataset.head;
    const enlarge = () => {
      large.replaceChildren();
      if (!enlarged) return;
      const [name, head] = enlarged;
      const queries = name.startsWith("encoder") ? shown.source : shown.target;
      const keys = name.endsWith("cross_attention") ? shown.source : queries;
      const close = h("button", { type: "button", onclick: () => {
        enlarged = null;
        enlarge();
      } }, "Close");
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
      const show = () => {
        enlarged = [name, head];
        enlarge();
        large.scrollIntoView({ block: "nearest", behavior: "instant" });
      };
      const named = `${name}, head ${head + 1}`;
      return h(
        "div",
        { class: isOff() ? "head off" : "head" },
        h("button", { type: "button", onclick: show, "aria-label": `Enlarge ${named}`, "data-head": `map ${named}` }, smallMap(rows)),
        h(
          "label",
          {},
          h("input", { type: "checkbox", onchange: toggle, checked: !isOff(), "aria-label": `${named} is on`, "data-head": `box ${named}` }),
          `head ${head + 1}`
        )
      );
    };
    const kind = (name) => name.endsWith("cross_attention") ? "cross_attention" : `${name.split(".")[0]}_self`;
    const wasOpen = Object.fromEntries([...heads.children].map((fold) => [fold.dataset.kind, fold.open]));
    heads.replaceChildren(
      ...Object.entries(ATTENTIONS).map(
        ([of, title]) => h(
          "details",
          { "data-kind": of, open: wasOpen[of] ?? of === "cross_attention" },
          h("summary", {}, title),
          ...Object.entries(shown.record).filter(([name]) => kind(name) === of).map(
            ([name, found]) => h("fieldset", { class: "layer" }, h("legend", {}, name), ...found.map((rows, head) => one(name, head, rows)))
          )
        )
      )
    );
    enlarge();
    if (focused) heads.querySelector(`[data-head="${focused}"]`)?.focus();
  }
}
var translator_default = { render };
export {
  translator_default as default
};
