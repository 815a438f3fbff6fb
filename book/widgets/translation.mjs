// A trained model with its tokenizer, as in transformer/translator.py: made of three files, wherever they lie.

import { Transformer } from "./model.mjs";
import { readTensors } from "./safetensors.mjs";
import { Tokenizer } from "./tokenizer.mjs";

/** Files at an address: what `Translator.load` reads with. */
export const fromFolder = (address) => async (name) => {
  const response = await fetch(`${address}/${name}`);
  if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
  return response.arrayBuffer();
};

/** A reader of files that are given as bytes: by name, each a view of a buffer. */
export const fromBytes = (files) => async (name) => {
  if (!files[name]) throw new Error(`${name} is missing`);
  const { buffer, byteOffset, byteLength } = files[name];
  return buffer.slice(byteOffset, byteOffset + byteLength);
};

export class Translator {
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
    return new Translator(new Transformer(described.model, readTensors(weights)), new Tokenizer(tokenizer));
  }
}
