// Does in Firefox what test_live.py does in Chromium, and prints what was seen: node firefox.mjs FOLDER FIREFOX ADDRESS SENTENCE BOX
// Puppeteer, which is installed in FOLDER, drives a Firefox as it is; Playwright wants one of its own.

import { createRequire } from "node:module";

const [folder, executablePath, address, sentence, box] = process.argv.slice(2);
const puppeteer = createRequire(`${folder}/`)("puppeteer-core");
const browser = await puppeteer.launch({ browser: "firefox", executablePath, headless: true, timeout: 120_000 });
const tab = await browser.newPage();
tab.setDefaultTimeout(120_000);
const wrong = [], hosts = new Set();
tab.on("pageerror", (error) => wrong.push(error.message));
tab.on("console", (message) => { if (message.type() === "error") wrong.push(message.text()); });
tab.on("request", (request) => hosts.add(new URL(request.url()).hostname || "none")); // a data: address has none

/** The best translation and its score, once the page tells that they are there. */
async function translated(act) {
  await tab.$eval(".translator [role=status]", (told) => { told.textContent = ""; });
  await act();
  await tab.waitForFunction(() => document.querySelector(".translator [role=status]").textContent.includes("in your browser"));
  return tab.$eval(".translator .best tbody tr", ({ cells }) => [cells[1].textContent, cells[3].textContent]);
}

await tab.goto(address);
await tab.$eval(".widget", (widget) => widget.scrollIntoView());
await tab.waitForSelector(".translator .best tbody tr");
const found = [];
found.push(
  await translated(async () => {
    await tab.$eval(".translator input[type=text]", (input) => { input.value = ""; });
    await tab.type(".translator input[type=text]", sentence);
  }),
);
found.push(await translated(() => tab.$eval(`[aria-label="${box}"]`, (one) => one.click())));
console.log(JSON.stringify({ found, wrong, hosts: [...hosts] }));
await browser.close();
