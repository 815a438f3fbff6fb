// A model that was handed over as bytes, and the bundled modules. test_bundles.py writes both and runs this file.
//
// BUNDLES: where the modules are; EXPECTED: a folder with the model's files, and expected.json with PyTorch's answers.

import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const { BUNDLES, EXPECTED } = process.env;
const { Translator, fromBytes } = await import(pathToFileURL(join(BUNDLES, "translation.mjs")));
const { beamSearch } = await import(pathToFileURL(join(BUNDLES, "search.mjs")));

/** A file as a notebook hands it over: a view somewhere in a longer buffer. */
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
  for (const { sentence, found } of JSON.parse(readFileSync(join(EXPECTED, "expected.json"), "utf8"))) {
    const best = beamSearch(model, [...tokenizer.encode(sentence), 2], { nBest: 4 });
    assert.deepEqual(best.map(({ tokens }) => tokenizer.decode(tokens)), found.map(([text]) => text));
    best.forEach(({ score }, i) => assert.ok(Math.abs(score - found[i][1]) < 1e-3, `${score}, not ${found[i][1]}`));
  }
});

test("a file that is missing is named", async () => {
  await assert.rejects(Translator.load(fromBytes({})), /best\.json was not handed over/);
});
