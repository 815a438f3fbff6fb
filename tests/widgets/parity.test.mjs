// The page's model against PyTorch's. test_parity.py writes what PyTorch says into a folder and runs this file.
//
// WIDGETS: the folder of the modules, or BUNDLE: the path of the bundle. EXPECTED: the folder of PyTorch's answers.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const { BUNDLE, EXPECTED, WIDGETS } = process.env;
const widget = (name) => import(pathToFileURL(BUNDLE ?? join(WIDGETS, name)));
const { readTensors } = await widget("safetensors.mjs");
const { EOS, Tokenizer } = await widget("tokenizer.mjs");
const { Transformer } = await widget("model.mjs");
const { beamSearch, greedySearch } = await widget("search.mjs");

const { tolerance, score_tolerance, models } = JSON.parse(readFileSync(join(EXPECTED, "expected.json"), "utf8"));

function bytes(path) {
  const { buffer, byteOffset, byteLength } = readFileSync(path);
  return buffer.slice(byteOffset, byteOffset + byteLength);
}

/** The largest difference between vectors and a tensor's rows; where a vector ends sooner, the row must be zero. */
function difference(vectors, { shape, data }) {
  const width = shape.at(-1);
  assert.equal(vectors.length * width, data.length, `another shape than ${shape}`);
  const apart = data.map((value, i) => Math.abs(value - (vectors[Math.floor(i / width)][i % width] ?? 0)));
  return apart.reduce((largest, one) => (one <= largest ? largest : one), 0); // NaN is large
}

function same(ours, theirs) {
  assert.deepEqual(ours.tokens, theirs.tokens);
  assert.ok(Math.abs(ours.logProbability - theirs.log_probability) <= score_tolerance, "the log-probability");
  assert.ok(Math.abs(ours.score - theirs.score) <= score_tolerance, "the score");
}

for (const { name, folder, forward, searches, strings } of models) {
  const described = JSON.parse(readFileSync(join(folder, "best.json"), "utf8"));
  const model = new Transformer(described.model, readTensors(bytes(join(folder, described.weights.file))));
  const tensors = readTensors(bytes(join(EXPECTED, `${name}.safetensors`)));
  const tokenizer = strings.length ? new Tokenizer(bytes(join(folder, "tokenizer.model"))) : null;

  test(`${name}: logits, and the attention of every head, with heads on and off`, (t) => {
    const worst = { logits: 0, attention: 0 };
    forward.forEach(({ source, target, off }, i) => {
      const record = {};
      model.off = off;
      const logits = model.forward(source, target, record);
      model.off = {};
      worst.logits = Math.max(worst.logits, difference(logits, tensors[`${i}.logits`]));
      for (const [layer, heads] of Object.entries(record)) {
        worst.attention = Math.max(worst.attention, difference(heads.flat(), tensors[`${i}.${layer}`]));
      }
      assert.equal(Object.keys(record).length, 3 * described.model.n_layers);
    });
    t.diagnostic(`${name}: ${forward.length} sentences; furthest apart: ${JSON.stringify(worst)}`);
    assert.ok(worst.logits <= tolerance && worst.attention <= tolerance, JSON.stringify(worst));
  });

  test(`${name}: greedy search`, () => {
    for (const { source, greedy } of searches) assert.deepEqual(greedySearch(model, source), greedy);
  });

  test(`${name}: beam search, its scores and its trace`, (t) => {
    const began = performance.now();
    for (const { source, beam, alpha, n_best, hypotheses, trace } of searches) {
      const weighed = [];
      const found = beamSearch(model, source, { beam, alpha, nBest: n_best, trace: weighed });
      assert.equal(found.length, hypotheses.length);
      found.forEach((one, i) => same(one, hypotheses[i]));
      if (!trace) continue;
      const chosen = ({ length, parent, token, fate, beam }) => [length, parent, token, fate, beam].join();
      assert.deepEqual(weighed.map(chosen), trace.map(chosen));
      weighed.forEach((one, i) => assert.ok(Math.abs(one.score - trace[i].score) <= score_tolerance));
    }
    const each = (performance.now() - began) / searches.length;
    t.diagnostic(`${name}: ${searches.length} sentences, ${each.toFixed(0)} ms each`);
  });

  if (!tokenizer) continue;

  test(`${name}: sentences and their translations as text`, () => {
    for (const { text, source, hypotheses, translations } of searches) {
      assert.deepEqual([...tokenizer.encode(text), EOS], source);
      assert.deepEqual(hypotheses.map(({ tokens }) => tokenizer.decode(tokens)), translations);
    }
  });

  test(`${name}: hard strings`, (t) => {
    for (const { text, normal, replaced, ids, decoded } of strings) {
      if (ids === null) {
        assert.throws(() => tokenizer.encode(text), /not valid Unicode/);
        continue;
      }
      assert.equal(tokenizer.normalize(text), normal, JSON.stringify(text));
      if (replaced !== null) assert.equal(tokenizer.replaced(text), replaced, JSON.stringify(text));
      assert.deepEqual(tokenizer.encode(text), ids, JSON.stringify(text));
      assert.equal(tokenizer.decode(ids), decoded, JSON.stringify(text));
    }
    t.diagnostic(`${name}: ${strings.length} strings`);
  });
}
