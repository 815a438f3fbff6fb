// A trained model with its tokenizer, as in transformer/translation.py, from files of this site.

import { Transformer } from "./model.mjs";
import { readTensors } from "./safetensors.mjs";
import { Tokenizer } from "./tokenizer.mjs";

export class Translator {
  constructor(model, tokenizer) {
    this.model = model;
    this.tokenizer = tokenizer;
  }

  /**
   * A model from its folder on this site.
   *
   * @param {string} folder the address of a folder with best.json, the weights that it names, and tokenizer.model.
   */
  static async load(folder) {
    const fetched = async (name) => {
      const response = await fetch(`${folder}/${name}`);
      if (!response.ok) throw new Error(`${name}: ${response.status} ${response.statusText}`);
      return response;
    };
    const bytes = async (name) => (await fetched(name)).arrayBuffer();
    const described = await (await fetched("best.json")).json();
    const [weights, tokenizer] = await Promise.all([bytes(described.weights.file), bytes("tokenizer.model")]);
    return new Translator(new Transformer(described.model, readTensors(weights)), new Tokenizer(tokenizer));
  }
}
