// Text to token ids and back, as transformer/data/tokenizer.py does it: the same .model file, read without SentencePiece.

export const PAD = 0, BOS = 1, EOS = 2, UNK = 3;

/** What Python's str.split takes for white space. It is not quite what \s is here. */
const WHITE_SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;

/** NFKC, and single spaces for white space and for "▁", which is SentencePiece's own mark of a space. */
function tidied(text) {
  if (/\p{Surrogate}/u.test(text)) throw new Error("the text has half a character: it is not valid Unicode");
  return text.normalize("NFKC").replaceAll("▁", " ").split(WHITE_SPACE).filter(Boolean).join(" ");
}

const NORMAL = 1, UNKNOWN = 2, CONTROL = 3, BPE = 2;

/** The fields of a protobuf message: pairs of a field's number and its value, a number, or bytes. */
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
      case 0: yield [field, varint()]; break;
      case 1: yield [field, view.getFloat64(at, true)]; at += 8; break;
      case 2: { const end = varint() + at; yield [field, bytes.subarray(at, end)]; at = end; break; }
      case 5: yield [field, view.getFloat32(at, true)]; at += 4; break;
      default: throw new Error("this is not a SentencePiece model, or it is damaged");
    }
  }
}

export class Tokenizer {
  /** @param {ArrayBuffer} model the bytes of a .model file. */
  constructor(model) {
    const text = new TextDecoder();
    this.vocabulary = []; // id → the piece
    this.types = [];
    this.ids = new Map(); // piece → its id, of those that text is made of
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
    const copy = bytes.slice(); // so that it starts where 32-bit numbers may start
    const size = new DataView(copy.buffer).getUint32(0, true);
    this.trie = new Uint32Array(copy.buffer, 4, size / 4);
    this.replacements = copy.subarray(4 + size);
  }

  /** The longest rule that text has at a place: [bytes it replaces, where its replacement starts], or null. */
  #rule(bytes, at) {
    // A "double array": from a node, byte b leads to the node at its offset XOR b, if that one is labelled b.
    const { trie } = this;
    const offset = (unit) => (unit >>> 10) << ((unit & 512) >>> 6);
    let node = offset(trie[0]), found = null;
    for (let i = at; i < bytes.length; i++) {
      node ^= bytes[i];
      const unit = trie[node];
      if ((unit & 0x800000ff) !== bytes[i]) break;
      node ^= offset(unit);
      if (unit & 256) found = [i + 1 - at, trie[node] & 0x7fffffff];
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
      if (byte !== 32 || (found.length && found.at(-1) !== 32)) found.push(byte); // single spaces, none at the start
    };
    for (let at = 0; at < bytes.length; ) {
      const rule = this.#rule(bytes, at);
      if (rule) {
        at += rule[0];
        for (let i = rule[1]; this.replacements[i]; i++) emit(this.replacements[i]);
      } else {
        do emit(bytes[at++]); while ((bytes[at] & 0xc0) === 0x80); // the rest of a character
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
    const ids = normal ? normal.split(" ").flatMap((word) => this.#merge(["▁", ...word])) : [];
    return ids.filter((id, i) => id !== UNK || ids[i - 1] !== UNK); // a run of unknown pieces is one
  }

  /** Byte-pair encoding of one word: merge the two neighbours whose piece was learned first, until none are left. */
  #merge(symbols) {
    const rank = (i) => this.scores[this.ids.get(symbols[i] + symbols[i + 1])] ?? -Infinity;
    const ranks = symbols.slice(1).map((_, i) => rank(i));
    for (;;) {
      let best = -1, highest = -Infinity;
      for (let i = 0; i < ranks.length; i++) if (ranks[i] > highest) highest = ranks[(best = i)];
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
      if (id === UNK) text += " \u2047 ";
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
}
