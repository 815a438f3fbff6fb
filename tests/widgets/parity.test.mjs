// Compare the JavaScript model with PyTorch's. test_parity.py writes PyTorch's results into a folder and runs this file.
//
// WIDGETS: the folder of the modules, or BUNDLE: the path of the bundle. EXPECTED: the folder of PyTorch's results.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const { BUNDLE, EXPECTED, WIDGETS } = process.env;
const widget = (name) => import(pathToFileURL(BUNDLE ?? join(WIDGETS, name)));
const { readTensors } = await widget("safetensors.mjs");
const { splitSentences } = await widget("sentences.mjs");
const { EOS, Tokenizer } = await widget("tokenizer.mjs");
const { Transformer, startRecord } = await widget("model.mjs");
const { beamSearch, greedySearch } = await widget("search.mjs");

const { tolerance, score_tolerance, models, texts } = JSON.parse(readFileSync(join(EXPECTED, "expected.json"), "utf8"));

function bytes(path) {
  const { buffer, byteOffset, byteLength } = readFileSync(path);
  return buffer.slice(byteOffset, byteOffset + byteLength);
}

/** Return the largest difference between vectors and a tensor's rows; beyond the end of a vector the row must be zero. */
function difference(vectors, { shape, data }) {
  const width = shape.at(-1);
  assert.equal(vectors.length * width, data.length, `another shape than ${shape}`);
  const differences = data.map((value, i) => Math.abs(value - (vectors[Math.floor(i / width)][i % width] ?? 0)));
  return differences.reduce((largest, value) => (value <= largest ? largest : value), 0); // NaN counts as large
}

function assertSame(ours, theirs) {
  assert.deepEqual(ours.tokens, theirs.tokens);
  assert.ok(Math.abs(ours.logProbability - theirs.log_probability) <= score_tolerance, "the log-probability");
  assert.ok(Math.abs(ours.score - theirs.score) <= score_tolerance, "the score");
}

function assertSameTensors(ours, theirs) {
  assert.deepEqual(Object.keys(ours).sort(), Object.keys(theirs).sort());
  for (const [name, { shape, data }] of Object.entries(theirs)) {
    assert.deepEqual(ours[name].shape, shape, name);
    assert.ok(ours[name].data.length === data.length && data.every((value, i) => value === ours[name].data[i]), name);
  }
}

test("texts are split into the same sentences", () => {
  for (const [text, sentences] of texts) assert.deepEqual(splitSentences(text), sentences, JSON.stringify(text));
});

for (const { name, folder, forward, searches, strings, decodings } of models) {
  const checkpoint = JSON.parse(readFileSync(join(folder, "best.json"), "utf8"));
  const weights = readTensors(bytes(join(folder, checkpoint.weights.file)));
  const model = new Transformer(checkpoint.model, weights);
  const tensors = readTensors(bytes(join(EXPECTED, `${name}.safetensors`)));
  const tokenizer = strings.length ? new Tokenizer(bytes(join(folder, "tokenizer.model"))) : null;

  const dequantized = join(folder, "expected.safetensors");
  if (existsSync(dequantized)) test(`${name}: the weights are exactly those that PyTorch has`, () => assertSameTensors(weights, readTensors(bytes(dequantized))));

  test(`${name}: logits, attention weights and the outputs of all parts, with and without ablated heads`, (t) => {
    const worst = { logits: 0, weights: 0, outputs: 0 };
    forward.forEach(({ source, target, ablated }, i) => {
      const record = startRecord();
      model.ablated = ablated;
      const logits = model.forward(source, target, record);
      model.ablated = {};
      worst.logits = Math.max(worst.logits, difference(logits, tensors[`${i}.logits`]));
      const weights = Object.entries(record.weights).map(([layer, heads]) => [layer, heads.flat()]);
      for (const [kind, parts] of Object.entries({ weights, outputs: Object.entries(record.outputs) })) {
        const prefix = `${i}.${kind}.`;
        const names = Object.keys(tensors).filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length));
        assert.deepEqual(parts.map(([part]) => part).sort(), names.sort());
        for (const [part, vectors] of parts) worst[kind] = Math.max(worst[kind], difference(vectors, tensors[prefix + part]));
      }
    });
    t.diagnostic(`${name}: ${forward.length} sentences; largest differences: ${JSON.stringify(worst)}`);
    assert.ok(Object.values(worst).every((one) => one <= tolerance), JSON.stringify(worst));
  });

  test(`${name}: greedy search`, () => {
    for (const { source, greedy } of searches) assert.deepEqual(greedySearch(model, source), greedy);
  });

  test(`${name}: beam search, its scores and its trace`, (t) => {
    const startTime = performance.now();
    for (const { source, beam_size, length_penalty, n_best, hypotheses, trace } of searches) {
      const candidates = [];
      const settings = { beamSize: beam_size, lengthPenalty: length_penalty, nBest: n_best, trace: candidates };
      const results = beamSearch(model, source, settings);
      assert.equal(results.length, hypotheses.length);
      results.forEach((result, i) => assertSame(result, hypotheses[i]));
      if (!trace) continue;
      const key = ({ length, parent, token, fate, beam }) => [length, parent, token, fate, beam].join();
      // Rounding decides which of two candidates with nearly the same score is the last one that is listed, and dropped.
      const isTie = (one, other) => one.length === other.length && one.fate === "dropped" && other.fate === "dropped";
      const differing = candidates.filter((candidate, i) => key(candidate) !== key(trace[i]) && !isTie(candidate, trace[i]));
      assert.equal(candidates.length, trace.length);
      assert.deepEqual(differing.map(key), []);
      candidates.forEach((candidate, i) => assert.ok(Math.abs(candidate.score - trace[i].score) <= score_tolerance));
    }
    const milliseconds = (performance.now() - startTime) / searches.length;
    t.diagnostic(`${name}: ${searches.length} sentences, ${milliseconds.toFixed(0)} ms each`);
  });

  if (!tokenizer) continue;

  test(`${name}: sentences and their translations as text`, () => {
    for (const { text, source, hypotheses, translations } of searches) {
      assert.deepEqual([...tokenizer.encode(text), EOS], source);
      assert.deepEqual(hypotheses.map(({ tokens }) => tokenizer.decode(tokens)), translations);
    }
  });

  test(`${name}: hard strings`, (t) => {
    for (const { text, normalised, rules, ids, decoded } of strings) {
      if (ids === null) {
        assert.throws(() => tokenizer.encode(text), /not valid Unicode/);
        continue;
      }
      assert.equal(tokenizer.normalize(text), normalised, JSON.stringify(text));
      if (rules !== null) assert.equal(tokenizer.applyRules(text), rules, JSON.stringify(text));
      assert.deepEqual(tokenizer.encode(text), ids, JSON.stringify(text));
      assert.equal(tokenizer.decode(ids), decoded, JSON.stringify(text));
    }
    t.diagnostic(`${name}: ${strings.length} strings`);
  });

  test(`${name}: random ids as text`, () => {
    for (const { ids, decoded } of decodings) assert.equal(tokenizer.decode(ids), decoded, ids.join());
  });
}
