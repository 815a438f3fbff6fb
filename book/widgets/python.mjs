// Check answers with Python. One worker serves all exercises of a page; it is started when it is first needed.

let worker = null, loading = null, last = Promise.resolve();

/** The next message of the worker. */
const reply = (worker) =>
  new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => resolve(data);
    worker.onerror = ({ message }) => reject(new Error(message?.replace(/^(Uncaught )?\w*Error: /, "") || "Python stopped"));
  });

function stop() {
  worker?.terminate();
  worker = loading = null;
}

/** Start Python, if it isn't running; resolves when it is ready. */
export function start() {
  if (!loading) {
    worker = new Worker(new URL("python_worker.mjs", import.meta.url), { type: "module" });
    loading = reply(worker);
    loading.catch(stop); // so that the next call tries again
  }
  return loading;
}

async function run(request, seconds) {
  await start();
  let timer;
  const late = new Promise((resolve) => { timer = setTimeout(resolve, 1000 * seconds, null); });
  try {
    const answer = reply(worker);
    worker.postMessage(request);
    const result = await Promise.race([answer, late]);
    if (!result) {
      stop();
      start(); // for the next check
    }
    return result;
  } catch (error) {
    stop();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Check an answer, after the checks that are under way.
 *
 * @param {{ topic: string, setup: string, name: string, code: string }} request see `check_answer` in exercises/page.py.
 * @returns {Promise<{ isRight: boolean, text: string } | null>} null if Python was stopped because time ran out.
 */
export function check(request, seconds) {
  const result = last.then(() => run(request, seconds));
  last = result.catch(() => {});
  return result;
}
