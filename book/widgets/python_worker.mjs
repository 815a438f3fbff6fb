// Python, in a worker: it doesn't hold up the page, and can be stopped. It says when it is ready; then each message to it is
// what exercises/page.py's check_answer takes, and its answer what that returns.

import { loadPyodide } from "../pyodide/pyodide.mjs";

const python = await loadPyodide();
const course = await fetch(new URL("../pyodide/course.zip", import.meta.url));
python.unpackArchive(await course.arrayBuffer(), "zip");
const { check_answer } = python.pyimport("exercises.page");

onmessage = ({ data: { topic, setup, name, code } }) => {
  const [isRight, text] = check_answer(topic, setup, name, code);
  postMessage({ isRight, text });
};
postMessage("ready");
