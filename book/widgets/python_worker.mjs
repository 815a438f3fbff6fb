// Python in a worker, which doesn't block the page and can be stopped. It reports when it is ready. After that, each message
// to it has the arguments of check_answer in exercises/page.py, and its reply has what that function returns.

import { loadPyodide } from "../pyodide/pyodide.mjs";

// If Pyodide's WebAssembly can't be loaded, it logs that and waits for ever. Thrown outside Pyodide, the error ends the worker.
const { instantiateStreaming } = WebAssembly;
WebAssembly.instantiateStreaming = (...args) =>
  instantiateStreaming(...args).catch((error) => {
    setTimeout(() => { throw error; });
    throw error;
  });

const python = await loadPyodide();
const course = await fetch(new URL("../pyodide/course.zip", import.meta.url));
if (!course.ok) throw new Error(`course.zip: ${course.status}`);
python.unpackArchive(await course.arrayBuffer(), "zip");
const { check_answer } = python.pyimport("exercises.page");

onmessage = ({ data: { topic, setup, name, code } }) => {
  const [isRight, text] = check_answer(topic, setup, name, code);
  postMessage({ isRight, text });
};
postMessage("ready");
