// Convert text to token ids and back, as transformer/data/tokenizer.py does: this reads the same .model file without SentencePiece.

export const PAD = 0, BOS = 1, EOS = 2, UNK = 3;

/** White space as Python's str.split defines it, which differs a little from JavaScript's \s. */
export const WHITE_SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/u;

/** Apply NFKC, and replace white space and "▁", which is SentencePiece's own mark of a space, by single spaces. */
function tidy(text) {
  if (/\p{Surrogate}/u.test(text)) throw new Error("the text is not valid Unicode: it contains half a character");
  return text.normalize("NFKC").replaceAll("▁", " ").split(WHITE_SPACE).filter(Boolean).join(" ");
}

const NORMAL = 1, UNKNOWN = 2, CONTROL = 3, BYTE = 6, BPE = 2;

/** Yield the fields of a protobuf message: pairs of a field's number and its value, which is a number or bytes. */
function* fields(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let offset = 0;
  const varint = () => {
    let value = 0, scale = 1, byte;
    do {
      byte = bytes[offset++];
      value += (byte & 127) * scale;
      scale *= 128;
    } while (byte & 128);
    return value;
  };
  while (offset < bytes.length) {
    const key = varint();
    const field = Math.floor(key / 8);
    switch (key % 8) {
      case 0: yield [field, varint()]; break;
      case 1: yield [field, view.getFloat64(offset, true)]; offset += 8; break;
      case 2: { const end = varint() + offset; yield [field, bytes.subarray(offset, end)]; offset = end; break; }
      case 5: yield [field, view.getFloat32(offset, true)]; offset += 4; break;
      default: throw new Error("this is not a SentencePiece model, or it is damaged");
    }
  }
}

/** Return the byte of a piece such as "<0xE2>". */
const byteOf = (piece) => Number(piece.slice(1, -1));

/** Decode UTF-8 as SentencePiece does: each byte that is not part of a valid character becomes U+FFFD. */
function decodeBytes(bytes) {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  let text = "";
  for (let start = 0; start < bytes.length; ) {
    const length = bytes[start] < 0xc0 ? 1 : bytes[start] < 0xe0 ? 2 : bytes[start] < 0xf0 ? 3 : 4;
    try {
      text += decoder.decode(new Uint8Array(bytes.slice(start, start + length)));
      start += length;
    } catch {
      text += "\ufffd";
      start += 1;
    }
  }
  return text;
}

export class Tokenizer {
  /** @param {ArrayBuffer} model the bytes of a .model file. */
  constructor(model) {
    const text = new TextDecoder();
    this.vocabulary = []; // id → piece
    this.types = [];
    this.ids = new Map(); // piece → id, without the special tokens
    this.scores = [];
    this.bytes = []; // byte → the id of its piece; empty without byte fallback
    for (const [field, value] of fields(new Uint8Array(model))) {
      if (field === 1) {
        const { 1: piece, 2: score = 0, 3: type = NORMAL } = Object.fromEntries(fields(value));
        const id = this.vocabulary.push(text.decode(piece)) - 1;
        this.types.push(type);
        this.scores.push(score);
        if (type === NORMAL) this.ids.set(this.vocabulary[id], id);
        else if (type === BYTE) this.bytes[byteOf(this.vocabulary[id])] = id;
        else if (type !== UNKNOWN && type !== CONTROL) throw new Error("user-defined pieces are not supported");
      } else if (field === 2) {
        if (Object.fromEntries(fields(value))[3] !== BPE) throw new Error("this tokenizer is not byte-pair encoding");
      } else if (field === 3) {
        this.#readRules(Object.fromEntries(fields(value))[2]);
      }
    }
  }

  /** Read the normalisation rules: a trie of the strings to replace, and their replacements. */
  #readRules(bytes) {
    const copy = bytes.slice(); // so that the 32-bit numbers are aligned
    const size = new DataView(copy.buffer).getUint32(0, true);
    this.trie = new Uint32Array(copy.buffer, 4, size / 4);
    this.replacements = copy.subarray(4 + size);
  }

  /** Return the longest rule that matches at an offset: [bytes to replace, offset of the replacement], or null. */
  #matchRule(bytes, start) {
    // The trie is a double array: from a node, byte b leads to the node at its offset XOR b, if that one is labelled b.
    const { trie } = this;
    const offset = (unit) => (unit >>> 10) << ((unit & 512) >>> 6);
    let node = offset(trie[0]), rule = null;
    for (let i = start; i < bytes.length; i++) {
      node ^= bytes[i];
      const unit = trie[node];
      if ((unit & 0x800000ff) !== bytes[i]) break;
      node ^= offset(unit);
      if (unit & 256) rule = [i + 1 - start, trie[node] & 0x7fffffff];
    }
    return rule;
  }

  /** Normalise a text as in Python: first `tidy`, then the model's own rules. */
  normalize(text) {
    return this.applyRules(tidy(text));
  }

  /** Apply the model's own rules only. After `tidy` they matter for characters that are newer than the browser. */
  applyRules(text) {
    const bytes = new TextEncoder().encode(text);
    const normalised = [];
    const emit = (byte) => {
      if (byte !== 32 || (normalised.length && normalised.at(-1) !== 32)) normalised.push(byte); // single spaces, none at the start
    };
    for (let offset = 0; offset < bytes.length; ) {
      const rule = this.#matchRule(bytes, offset);
      if (rule) {
        offset += rule[0];
        for (let i = rule[1]; this.replacements[i]; i++) emit(this.replacements[i]);
      } else {
        do emit(bytes[offset++]); while ((bytes[offset] & 0xc0) === 0x80); // all bytes of the character
      }
    }
    while (normalised.at(-1) === 32) normalised.pop();
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(new Uint8Array(normalised));
  }

  /**
   * Return the ids of the text's pieces, without bos and eos.
   *
   * @param {string} text
   * @returns {number[]}
   */
  encode(text) {
    const normal = this.normalize(text);
    const ids = normal ? normal.split(" ").flatMap((word) => this.#merge(["▁", ...word])) : [];
    return ids.filter((id, i) => id !== UNK || ids[i - 1] !== UNK); // consecutive unknown pieces count as one
  }

  /** Encode one word: merge the neighbours whose piece was learned first, until no two neighbours form a piece. */
  #merge(symbols) {
    const rank = (i) => this.scores[this.ids.get(symbols[i] + symbols[i + 1])] ?? -Infinity;
    const ranks = symbols.slice(1).map((_, i) => rank(i));
    for (;;) {
      let best = -1, highest = -Infinity;
      for (let i = 0; i < ranks.length; i++) if (ranks[i] > highest) highest = ranks[(best = i)];
      if (best < 0) return symbols.flatMap((symbol) => this.ids.get(symbol) ?? this.#unknown(symbol));
      symbols.splice(best, 2, symbols[best] + symbols[best + 1]);
      ranks.splice(best, 1);
      if (best > 0) ranks[best - 1] = rank(best - 1);
      if (best < ranks.length) ranks[best] = rank(best);
    }
  }

  /** Return the ids of a character that the vocabulary doesn't have: those of its UTF-8 bytes, or UNK. */
  #unknown(character) {
    return this.bytes.length ? Array.from(new TextEncoder().encode(character), (byte) => this.bytes[byte]) : [UNK];
  }

  /** Return the text of some ids. Special tokens are left out, except UNK, which becomes " ⁇ ". */
  decode(ids) {
    let text = "", bytes = [];
    for (const id of ids) {
      if (this.types[id] === BYTE) {
        bytes.push(byteOf(this.vocabulary[id]));
        continue;
      }
      text += decodeBytes(bytes);
      bytes = [];
      if (id === UNK) text += " \u2047 ";
      else if (this.types[id] === NORMAL) {
        const piece = this.vocabulary[id];
        text += (text ? piece : piece.replace(/^▁/u, "")).replaceAll("▁", " ");
      }
    }
    return text + decodeBytes(bytes);
  }

  /** Return whether an id is that of a byte. */
  isByte(id) {
    return this.types[id] === BYTE;
  }

  /** Return the pieces of some ids, for display; "▁" marks the start of a word. */
  pieces(ids) {
    return Array.from(ids, (id) => this.vocabulary[id]);
  }
}
