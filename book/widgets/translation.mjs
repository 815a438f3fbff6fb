// A trained model with its tokenizer, as transformer/translation.py: text in, text out.

import { Transformer } from "./model.mjs";
import { readTensors } from "./safetensors.mjs";
import { beamSearch } from "./search.mjs";
import { EOS, Tokenizer } from "./tokenizer.mjs";

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
    const tokenizer = fetched("tokenizer.model").then((response) => response.arrayBuffer());
    const described = await (await fetched("best.json")).json();
    const weights = await (await fetched(described.weights.file)).arrayBuffer();
    return new Translator(new Transformer(described.model, readTensors(weights)), new Tokenizer(await tokenizer));
  }

  /** A sentence's ids as the model reads them: with eos at the end. */
  encode(sentence) {
    const ids = this.tokenizer.encode(sentence);
    const longest = this.model.config.max_length - 1;
    if (!ids.length) throw new Error("the sentence is empty: there is nothing to translate");
    if (ids.length > longest) throw new Error(`a sentence has ${ids.length} tokens; the model reads at most ${longest}`);
    return [...ids, EOS];
  }

  /** The sentence's `nBest` translations by beam search, best first. */
  beam(sentence, settings) {
    return beamSearch(this.model, this.encode(sentence), settings).map((hypothesis) => ({
      text: this.tokenizer.decode(hypothesis.tokens),
      hypothesis,
    }));
  }
}
