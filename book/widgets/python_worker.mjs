// Python, in a worker: it doesn't hold up the page, and can be stopped. It says when it is ready; then each message to it is
// what exercises/page.py's check_answer takes, and its answer what that returns.

import { loadPyodide } from "../pyodide/pyodide.mjs";

// If Pyodide's WebAssembly can't be loaded, it logs that and waits for ever. Thrown outside of it, the error ends the worker.
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
