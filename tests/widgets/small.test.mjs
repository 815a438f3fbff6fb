// What the small widgets compute, against the package. test_small.py writes what Python says and runs this file.
//
// WIDGETS: the folder of the modules, or BUNDLE: the path of the bundle.
// EXPECTED: a JSON file with the cases of each module: [function, arguments, result].

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

const { BUNDLE, EXPECTED, WIDGETS } = process.env;
const { tolerance, cases } = JSON.parse(readFileSync(EXPECTED, "utf8"));

/** The same shape and words, and numbers that are close. */
function close(ours, theirs, where) {
  if (typeof theirs === "number") {
    assert.ok(Math.abs(ours - theirs) <= tolerance * Math.max(1, Math.abs(theirs)), `${where}: ${ours}, not ${theirs}`);
  } else if (theirs !== null && typeof theirs === "object") {
    assert.deepEqual(Object.keys(ours), Object.keys(theirs), where);
    for (const key of Object.keys(theirs)) close(ours[key], theirs[key], `${where}.${key}`);
  } else assert.equal(ours, theirs, where);
}

for (const [name, list] of Object.entries(cases)) {
  test(name, async () => {
    const module = BUNDLE ? (await import(pathToFileURL(BUNDLE))).widgets[name] : await import(pathToFileURL(join(WIDGETS, `${name}.mjs`)));
    assert.equal(typeof module.default.render, "function");
    for (const [made, given, result] of list) close(module[made](...given), result, `${made}(${JSON.stringify(given)})`);
  });
}
