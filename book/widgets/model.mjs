// The model of transformer/model.py for a single sentence, with the same names and the same numbers.
//
// It is simpler in one respect: a sequence is an array of vectors, one for each position, so there is no padding and there
// are no masks. Positions of the encoder attend to all others. The decoder computes one position at a time, so it can't
// attend to later positions: they don't exist yet.

import { sinusoidalEncoding } from "./positions.mjs";

/** Return weight · x + bias, where the weight is (rows, x.length), row-major. */
function linear(x, weight, bias, rows) {
  const width = x.length;
  const y = new Float32Array(rows);
  for (let row = 0, at = 0; row < rows; row++, at += width) {
    // Four independent sums instead of one let the processor compute them in parallel.
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

/** Normalise the vector to mean 0 and variance 1, then apply a learned scale and shift (§3.1). */
function layerNorm(x, { weight, bias }) {
  let mean = 0, variance = 0;
  for (const value of x) mean += value / x.length;
  for (const value of x) variance += (value - mean) ** 2 / x.length;
  const scale = 1 / Math.sqrt(variance + 1e-5);
  return x.map((value, i) => (value - mean) * scale * weight[i] + bias[i]);
}

/** Turn scores, one for each key, into weights that sum to one, in place. */
function softmax(scores) {
  let highest = -Infinity, total = 0;
  for (const score of scores) highest = Math.max(highest, score);
  for (let i = 0; i < scores.length; i++) total += scores[i] = Math.exp(scores[i] - highest);
  for (let i = 0; i < scores.length; i++) scores[i] /= total;
}

const add = (x, y) => x.map((value, i) => value + y[i]);

/**
 * A record of what a model computes on its way to the logits, which its methods fill if they are given one.
 *
 * `weights`: the name of an attention layer → for each head its weights, a row for each query.
 * `outputs`: the name of a part → its output, a vector for each position. The names are those of PyTorch's modules, for
 * example "encoder.0.residuals.1" or "decoder.2.feed_forward.inner". In addition, "source" and "target" are what the first
 * layer of each side gets, and an attention layer has a "query", "key" and "value", and "heads", the outputs of all its heads;
 * in these, the heads are side by side.
 */
export const startRecord = () => ({ weights: {}, outputs: {} });

/** Return the value of `Transformer.ablated` after a head has been switched on or off. */
export function withHead(ablated, name, head, isOn) {
  const others = (ablated[name] ?? []).filter((other) => other !== head);
  return { ...ablated, [name]: isOn ? others : [...others, head] };
}

/** Append a vector to the recorded outputs of a part, if there is a record; return the vector. */
function keep(record, name, vector) {
  if (record) (record.outputs[name] ??= []).push(vector);
  return vector;
}

/** Several attention heads in parallel, each in its own slice of d_model / n_heads dimensions (§3.2.2). */
class MultiHeadAttention {
  constructor(name, model) {
    const { d_model, n_heads } = model.config;
    const { weight, bias } = model.part(`${name}.query_key_value`);
    this.name = name;
    this.model = model;
    this.d_model = d_model;
    this.n_heads = n_heads;
    // W_Q, W_K and W_V are stacked in one matrix.
    this.query = { weight: weight.subarray(0, d_model * d_model), bias: bias.subarray(0, d_model) };
    this.keyValue = { weight: weight.subarray(d_model * d_model), bias: bias.subarray(d_model) };
    this.output = model.part(`${name}.output`);
  }

  /** Return the key and the value of a position. */
  project(x, record) {
    const both = linear(x, this.keyValue.weight, this.keyValue.bias, 2 * this.d_model);
    return {
      key: keep(record, `${this.name}.key`, both.subarray(0, this.d_model)),
      value: keep(record, `${this.name}.value`, both.subarray(this.d_model)),
    };
  }

  /**
   * Attend from x to some positions: softmax(QKᵀ / √d_k) V in each head (§3.2.1).
   *
   * @param {Float32Array} x the vector of one position.
   * @param {{key: Float32Array, value: Float32Array}[]} positions the result of `project` for each position to attend to.
   * @param {Object} [record] from `startRecord`; it grows by one position.
   */
  attend(x, positions, record) {
    const { d_model, n_heads } = this;
    const d_head = d_model / n_heads;
    const query = keep(record, `${this.name}.query`, linear(x, this.query.weight, this.query.bias, d_model));
    const heads = new Float32Array(d_model); // the heads' outputs, side by side
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
      if (record) ((record.weights[this.name] ??= Array.from({ length: n_heads }, () => []))[head]).push(weights);
      if (this.model.ablated[this.name]?.includes(head)) continue; // an ablated head outputs zeros
      for (let p = 0; p < positions.length; p++) {
        const { value } = positions[p];
        for (let i = first; i < end; i++) heads[i] += weights[p] * value[i];
      }
    }
    keep(record, `${this.name}.heads`, heads);
    return keep(record, this.name, linear(heads, this.output.weight, this.output.bias, d_model));
  }
}

/** A layer of the encoder or of the decoder; the decoder's has one more sublayer, cross-attention (§3.1). */
class Layer {
  constructor(name, model) {
    this.name = name;
    this.norm = model.config.norm;
    this.d_ff = model.config.d_ff;
    this.self_attention = new MultiHeadAttention(`${name}.self_attention`, model);
    const decoding = name.startsWith("decoder");
    if (decoding) this.cross_attention = new MultiHeadAttention(`${name}.cross_attention`, model);
    this.inner = model.part(`${name}.feed_forward.inner`);
    this.outer = model.part(`${name}.feed_forward.outer`);
    this.norms = (decoding ? [0, 1, 2] : [0, 1]).map((i) => model.part(`${name}.residuals.${i}.norm`));
  }

  /** Return the input of a sublayer: x, or with norm="pre" the normalised x. */
  sublayerInput(x, i, record) {
    return this.norm === "pre" ? keep(record, `${this.name}.residuals.${i}.norm`, layerNorm(x, this.norms[i])) : x;
  }

  /** Add the output of a sublayer to x, and with norm="post" normalise the sum. */
  addAndNorm(x, output, i, record) {
    const sum = add(x, output);
    return keep(record, `${this.name}.residuals.${i}`, this.norm === "pre" ? sum : layerNorm(sum, this.norms[i]));
  }

  /** Apply two linear layers with a ReLU between them (§3.3). */
  feedForward(x, record) {
    const inner = linear(x, this.inner.weight, this.inner.bias, this.d_ff);
    if (record) keep(record, `${this.name}.feed_forward.inner`, inner.slice());
    for (let i = 0; i < inner.length; i++) if (inner[i] < 0) inner[i] = 0;
    return keep(record, `${this.name}.feed_forward`, linear(inner, this.outer.weight, this.outer.bias, x.length));
  }
}

/** The encoder–decoder of the paper: source and target ids in, logits of the next token out. */
export class Transformer {
  /** Heads that are ablated: the name of an attention layer, such as "decoder.1.cross_attention" → indices of its heads. */
  ablated = {};

  /**
   * @param {Object} config the value of "model" in `best.json`.
   * @param {Object<string, {shape: number[], data: Float32Array}>} weights from `readTensors`.
   */
  constructor(config, weights) {
    if (config.positions === "rotary") throw new Error("rotary positions are not supported");
    if (config.d_model % 4 || config.d_ff % 4) throw new Error("d_model and d_ff must be multiples of 4");
    this.config = config;
    this.weights = weights;
    const layers = [...Array(config.n_layers).keys()];
    this.encoder = layers.map((i) => new Layer(`encoder.${i}`, this));
    this.decoder = layers.map((i) => new Layer(`decoder.${i}`, this));
    // A tied matrix is stored once, under the first of its names.
    this.source_embedding = this.part("source_embedding").weight;
    this.target_embedding = this.part("target_embedding").weight ?? this.source_embedding;
    this.unembedding = this.part("unembedding").weight ?? this.target_embedding;
    this.encoder_norm = this.part("encoder_norm");
    this.decoder_norm = this.part("decoder_norm");
  }

  /** Return the weight and the bias of a part of the model. */
  part(name) {
    return { weight: this.weights[`${name}.weight`]?.data, bias: this.weights[`${name}.bias`]?.data };
  }

  /** Return whether the model has a head: the name of its attention layer, and its index. */
  hasHead(name, head) {
    return Boolean(this.part(`${name}.query_key_value`).weight) && head < this.config.n_heads;
  }

  /** Return a token's embedding times √d_model (§3.4). */
  scaledEmbedding(id, embedding) {
    const { d_model, vocab_size } = this.config;
    if (!(id >= 0 && id < vocab_size)) throw new Error(`ids must be from 0 to ${vocab_size - 1}; got ${id}`);
    return embedding.subarray(id * d_model, (id + 1) * d_model).map((value) => value * Math.sqrt(d_model));
  }

  /** Return the vector of a position, sinusoidal or learned (§3.5). */
  positionVector(position) {
    const { d_model, max_length } = this.config;
    if (position >= max_length) throw new Error(`the model supports at most ${max_length} tokens`);
    if (!this.weights.positions) return Float32Array.from(sinusoidalEncoding(position, d_model));
    return this.weights.positions.data.subarray(position * d_model, (position + 1) * d_model);
  }

  /** Return the input of the first layer: a token's embedding times √d_model, plus the vector of its position. */
  embed(id, position, embedding) {
    return add(this.scaledEmbedding(id, embedding), this.positionVector(position));
  }

  /**
   * Encode the source.
   *
   * @param {number[]} source token ids, with eos.
   * @param {Object} [record] from `startRecord`, to be filled.
   * @returns {Float32Array[]} the memory: a vector for each position.
   */
  encode(source, record) {
    let xs = source.map((id, position) => keep(record, "source", this.embed(id, position, this.source_embedding)));
    for (const layer of this.encoder) {
      const inputs = xs.map((x) => layer.sublayerInput(x, 0, record));
      const positions = inputs.map((x) => layer.self_attention.project(x, record));
      xs = xs.map((x, i) => layer.addAndNorm(x, layer.self_attention.attend(inputs[i], positions, record), 0, record));
      xs = xs.map((x) => layer.addAndNorm(x, layer.feedForward(layer.sublayerInput(x, 1, record), record), 1, record));
    }
    if (this.config.norm === "pre") xs = xs.map((x) => layerNorm(x, this.encoder_norm));
    return xs.map((x) => keep(record, "encoder_norm", x));
  }

  /**
   * Return the cache for decoding: in each layer the keys and values of the memory, and those of each hypothesis.
   *
   * @param {Float32Array[]} memory from `encode`.
   * @param {Object} [record] from `startRecord`, to be filled.
   */
  startCache(memory, record) {
    return {
      length: 0,
      memory: this.decoder.map((layer) => memory.map((x) => layer.cross_attention.project(x, record))),
      hypotheses: [this.decoder.map(() => [])], // hypothesis → layer → a key and a value for each position
    };
  }

  /** Let each hypothesis continue from its parent. The keys and values are shared, not copied. */
  reorder(cache, parents) {
    cache.hypotheses = parents.map((parent) => cache.hypotheses[parent].map((layer) => [...layer]));
  }

  /**
   * Compute one more position of each hypothesis; the previous ones are in the cache.
   *
   * @param {number[]} tokens the newest token of each hypothesis.
   * @param {Object} cache from `startCache`; it grows by one position.
   * @param {Object} [record] from `startRecord`, to be filled.
   * @returns {Float32Array[]} for each hypothesis the logits of the next token, one for every token of the vocabulary.
   */
  decodeStep(tokens, cache, record) {
    const logits = tokens.map((token, hypothesis) => {
      let x = keep(record, "target", this.embed(token, cache.length, this.target_embedding));
      this.decoder.forEach((layer, l) => {
        const past = cache.hypotheses[hypothesis][l];
        const input = layer.sublayerInput(x, 0, record);
        past.push(layer.self_attention.project(input, record)); // a position also attends to itself
        x = layer.addAndNorm(x, layer.self_attention.attend(input, past, record), 0, record);
        x = layer.addAndNorm(x, layer.cross_attention.attend(layer.sublayerInput(x, 1, record), cache.memory[l], record), 1, record);
        x = layer.addAndNorm(x, layer.feedForward(layer.sublayerInput(x, 2, record), record), 2, record);
      });
      if (this.config.norm === "pre") x = layerNorm(x, this.decoder_norm);
      keep(record, "decoder_norm", x);
      return linear(x, this.unembedding, null, this.config.vocab_size);
    });
    cache.length += 1;
    return logits;
  }

  /**
   * Return the logits of every next token of a target: bos and a translation, without its eos.
   *
   * @param {Object} [record] from `startRecord`, to be filled.
   * @returns {Float32Array[]} logits: `[t]` are those of the token after `target[0 … t]`.
   */
  forward(source, target, record) {
    const cache = this.startCache(this.encode(source, record), record);
    return target.map((token) => this.decodeStep([token], cache, record)[0]);
  }
}
