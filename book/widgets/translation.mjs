// A trained model with its tokenizer, as in transformer/translator.py, loaded from three files.

import { Transformer } from "./model.mjs";
import { readTensors } from "./safetensors.mjs";
import { Tokenizer } from "./tokenizer.mjs";

/** Return a function for `Translator.load` that fetches the files from an address. */
export const fromFolder = (address) => async (name) => {
  const response = await fetch(`${address}/${name}`);
  if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
  return response.arrayBuffer();
};

/** Return a function for `Translator.load` that reads the files from bytes: by name, each a view of a buffer. */
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
   * Load a model from its files: best.json, the weights that it names, and tokenizer.model.
   *
   * @param {function(string): Promise<ArrayBuffer>} returns the bytes of the file of this name.
   */
  static async load(read) {
    const checkpoint = JSON.parse(new TextDecoder().decode(await read("best.json")));
    const [weights, tokenizer] = await Promise.all([read(checkpoint.weights.file), read("tokenizer.model")]);
    return new Translator(new Transformer(checkpoint.model, readTensors(weights)), new Tokenizer(tokenizer));
  }
}
