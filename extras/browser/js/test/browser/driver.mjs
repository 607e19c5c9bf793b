// Drives Chromium for the tests in Python: one JSON array a line in, one JSON object a line out.
//
//     node driver.mjs /usr/bin/chromium --no-sandbox …

import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";

import { chromium } from "playwright-core";

// Milliseconds after which a wait is aborted: a loaded machine is no error.
const HANGS = 240_000;
const [executablePath, ...args] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args, timeout: HANGS });
let page = null;
let changed = false; // whether a script was added to the page
let messages = [];

const commands = {
  /** A page, in the place of the last one; `script` runs in it before anything of its own. */
  async open(url, { script = null, ...options } = {}) {
    if (page && !script && !changed) await page.goto("about:blank");
    else {
      await page?.context().close();
      page = await (await browser.newContext()).newPage();
      page.setDefaultTimeout(HANGS);
      page.on("console", (message) => ["error", "warning"].includes(message.type()) && messages.push(`${message.type()}: ${message.text()}`));
      page.on("pageerror", (error) => messages.push(`page: ${error.stack}`));
      if (script) await page.addInitScript(script);
      changed = Boolean(script);
    }
    messages = [];
    await commands.emulate(options);
    await page.goto(url);
  },
  /** Change the size of the page, and the colours that its user prefers. */
  async emulate({ viewport = { width: 1280, height: 720 }, colorScheme = "light" } = {}) {
    await page.setViewportSize(viewport);
    await page.emulateMedia({ colorScheme });
  },
  /** The body of an async function of one argument; its value comes back as JSON. (As text: a page's own policy may forbid eval.) */
  evaluate: (body, argument = null) => page.evaluate(`(async (argument) => {${body}\n})(${JSON.stringify(argument)})`),
  async wait(expression, timeout = HANGS) {
    for (const end = Date.now() + timeout; !(await page.evaluate(`Boolean(${expression})`)); ) {
      if (Date.now() > end) throw new Error(`this did not come true: ${expression}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  },
  address: () => page?.url() ?? "",
  text: (selector) => page.locator(selector).innerText(),
  click: (selector) => page.locator(selector).click(),
  press: (key) => page.keyboard.press(key),
  /** Press the mouse at the first point of the page, and move it over the others. */
  async drag(points) {
    for (const [number, [x, y]] of points.entries()) {
      await page.mouse.move(x, y, { steps: 4 });
      if (!number) await page.mouse.down();
    }
    await page.mouse.up();
  },
  fill: (selector, value) => page.locator(selector).fill(value),
  select: (selector, value) => page.locator(selector).selectOption(value).then(() => null),
  files: (selector, paths) => page.locator(selector).setInputFiles(paths),
  /** Click, and return the name and the bytes of the file that is downloaded. */
  async download(selector) {
    const [file] = await Promise.all([page.waitForEvent("download"), page.locator(selector).click()]);
    return [file.suggestedFilename(), (await readFile(await file.path())).toString("base64")];
  },
  screenshot: (path) => page.screenshot({ path, fullPage: true }).then(() => null),
  /** The errors and warnings since the last call, or since the page was opened. */
  messages: () => messages.splice(0),
};

for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...given] = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await commands[name](...given)) ?? null };
  } catch (error) {
    answer = { error: String(error.message ?? error) };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
