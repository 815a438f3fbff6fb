// Do in Firefox what test_live.py does in Chromium, and print the results: node firefox.mjs FOLDER FIREFOX ADDRESS SENTENCE CHECKBOX
// Puppeteer, which is installed in FOLDER, can control any Firefox; Playwright needs its own build.

import { createRequire } from "node:module";

const [folder, executablePath, address, sentence, checkbox] = process.argv.slice(2);
const puppeteer = createRequire(`${folder}/`)("puppeteer-core");
const browser = await puppeteer.launch({ browser: "firefox", executablePath, headless: true, timeout: 120_000 });
const tab = await browser.newPage();
tab.setDefaultTimeout(120_000);
const errors = [], hosts = new Set();
tab.on("pageerror", (error) => errors.push(error.message));
tab.on("console", (message) => { if (message.type() === "error") errors.push(message.text()); });
tab.on("request", (request) => hosts.add(new URL(request.url()).hostname || "none")); // a data: address has none

/** Do something, and return the best translation and its score when the page has shown them. */
async function translationAfter(act) {
  await tab.$eval(".translator [role=status]", (status) => { status.textContent = ""; });
  await act();
  await tab.waitForFunction(() => document.querySelector(".translator [role=status]").textContent.includes("in your browser"));
  return tab.$eval(".translator .best tbody tr", ({ cells }) => [cells[1].textContent, cells[3].textContent]);
}

await tab.goto(address);
await tab.$eval(".widget", (widget) => widget.scrollIntoView());
await tab.waitForSelector(".translator .best tbody tr");
const translations = [];
translations.push(
  await translationAfter(async () => {
    await tab.$eval(".translator textarea", (input) => { input.value = ""; });
    await tab.type(".translator textarea", sentence);
  }),
);
translations.push(await translationAfter(() => tab.$eval(`[aria-label="${checkbox}"]`, (input) => input.click())));
console.log(JSON.stringify({ translations, errors, hosts: [...hosts] }));
await browser.close();
