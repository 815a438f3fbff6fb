// Do in WebKit what other tests do in Chromium, and print the results as JSON: node webkit.mjs FOLDER PORT TASK ARGUMENT ...
// Selenium is installed in FOLDER, and WebKitWebDriver listens on PORT. The tasks are the functions below.

import { createRequire } from "node:module";

const [folder, port, task, ...args] = process.argv.slice(2);
const { Builder, By } = createRequire(`${folder}/`)("selenium-webdriver");
const browser = await new Builder().usingServer(`http://127.0.0.1:${port}`).withCapabilities({ browserName: "MiniBrowser" }).build();
const run = (script, ...values) => browser.executeScript(script, ...values);
const until = (script, ...values) => browser.wait(() => run(script, ...values), 120_000, script);

const COMPLETE = `return document.readyState === "complete"
  && [...document.querySelectorAll("[id^=altair-viz]")].every((box) => box.querySelector("svg, canvas"))
  && document.querySelectorAll(".math").length <= document.querySelectorAll("mjx-container").length
  && [...document.images].every((image) => image.complete)`;
const DEFECTS = `const defects = [];
  const excess = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  if (excess > 1) defects.push("the page scrolls horizontally by " + excess + " pixels");
  for (const image of document.images) if (!image.naturalWidth) defects.push("no image: " + image.src);
  if (document.querySelector("mjx-merror")) defects.push("a formula has an error");
  return defects`;
const DRAWN = `return [...document.querySelectorAll(".widget:not([data-widget=exercise])")].every(
  (widget) => widget.querySelector("button, input, select, textarea"))`;

const tasks = {
  /** Open pages, wide and narrow, and return their defects. */
  async pages(address, ...pages) {
    const found = {};
    for (const page of pages) {
      for (const width of [1300, 390]) {
        await browser.manage().window().setRect({ width, height: 900 });
        await browser.get(address + page);
        await until(COMPLETE);
        await run("document.querySelectorAll('.widget').forEach((widget) => widget.scrollIntoView())");
        await until(DRAWN);
        const defects = await run(DEFECTS);
        if (defects.length) found[`${page}, ${await run("return innerWidth")} pixels`] = defects;
      }
    }
    return found;
  },

  /** Return the best translation of a sentence and its score, with all heads and without that of a checkbox. */
  async translator(address, sentence, checkbox) {
    const status = "document.querySelector('.translator [role=status]')";
    const translated = `return ${status}?.textContent.includes("in your browser")`;
    async function translationAfter(act) {
      await run(`${status}.textContent = ""`);
      await act();
      await until(translated);
      return run("const { cells } = document.querySelector('.translator .best tbody tr'); return [cells[1].textContent, cells[3].textContent]");
    }
    await browser.get(address);
    await run("document.querySelector('.widget').scrollIntoView()");
    await until(translated);
    const input = await browser.findElement(By.css(".translator textarea"));
    const complete = await translationAfter(async () => {
      await input.clear();
      await input.sendKeys(sentence);
    });
    return [complete, await translationAfter(() => run("document.querySelector(`[aria-label='${arguments[0]}']`).click()", checkbox))];
  },

  /** Return what the first exercise of a page says about each of some answers. */
  async exercise(address, ...answers) {
    const [widget, result] = ["[data-widget=exercise]", "[data-widget=exercise] pre:is(.right, .wrong)"];
    const press = `[...document.querySelectorAll("${widget} button")].find(({ textContent }) => textContent === arguments[0])`;
    await browser.get(address);
    await run(`document.querySelector("${widget}").scrollIntoView()`);
    await until(`return ${press}`, "Try it here");
    await run(`${press}.click()`, "Try it here");
    await until(`return ${press}`, "Check");
    const said = [];
    for (const answer of answers) {
      const editor = await browser.findElement(By.css(`${widget} textarea`));
      await run("arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input', { bubbles: true }))", editor, answer);
      await until(`return !document.querySelector("${result}")`);
      await run(`${press}.click()`, "Check");
      await until(`return document.querySelector("${result}")`);
      said.push((await run(`return document.querySelector("${result}").innerText`)).trim());
    }
    return said;
  },
};

try {
  console.log(JSON.stringify(await tasks[task](...args)));
} finally {
  await browser.quit();
}
