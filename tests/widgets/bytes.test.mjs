// The bundle with a model given as bytes. test_bundle.py writes the expected answers and runs this file.
//
// BUNDLE: the path of the bundle. EXPECTED: a folder with the model's files, and expected.json with PyTorch's answers.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const { BUNDLE, EXPECTED } = process.env;
const { EOS, Translator, beamSearch, fromBytes } = await import(pathToFileURL(BUNDLE));

/** A file as a notebook passes it: a view somewhere in a longer buffer. */
function view(path) {
  const bytes = readFileSync(path);
  const longer = new Uint8Array(bytes.length + 8);
  longer.set(bytes, 3);
  return new DataView(longer.buffer, 3, bytes.length);
}

test("sentences are translated as by PyTorch", async () => {
  const names = readdirSync(join(EXPECTED, "files"));
  const files = Object.fromEntries(names.map((name) => [name, view(join(EXPECTED, "files", name))]));
  const { model, tokenizer } = await Translator.load(fromBytes(files));
  for (const { sentence, nBest } of JSON.parse(readFileSync(join(EXPECTED, "expected.json"), "utf8"))) {
    const hypotheses = beamSearch(model, [...tokenizer.encode(sentence), EOS], { nBest: 4 });
    assert.deepEqual(hypotheses.map(({ tokens }) => tokenizer.decode(tokens)), nBest.map(([text]) => text));
    hypotheses.forEach(({ score }, i) => assert.ok(Math.abs(score - nBest[i][1]) < 1e-3, `${score}, not ${nBest[i][1]}`));
  }
});

test("a missing file is named", async () => {
  await assert.rejects(Translator.load(fromBytes({})), /best\.json is missing/);
});
