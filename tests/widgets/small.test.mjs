// Compare what the small widgets compute with the package. test_small.py writes the package's results and runs this file.
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

/** Check that two values have the same structure and strings, and close numbers. */
function assertClose(ours, theirs, where) {
  if (typeof theirs === "number") {
    assert.ok(Math.abs(ours - theirs) <= tolerance * Math.max(1, Math.abs(theirs)), `${where}: ${ours}, not ${theirs}`);
  } else if (theirs !== null && typeof theirs === "object") {
    assert.deepEqual(Object.keys(ours), Object.keys(theirs), where);
    for (const key of Object.keys(theirs)) assertClose(ours[key], theirs[key], `${where}.${key}`);
  } else assert.equal(ours, theirs, where);
}

for (const [name, list] of Object.entries(cases)) {
  test(name, async () => {
    const module = BUNDLE ? (await import(pathToFileURL(BUNDLE))).widgets[name] : await import(pathToFileURL(join(WIDGETS, `${name}.mjs`)));
    assert.equal(typeof module.default.render, "function");
    for (const [name, args, result] of list) assertClose(module[name](...args), result, `${name}(${JSON.stringify(args)})`);
  });
}
