// Chromium of the machine, watched: what a page logs as an error, and what it asks of other servers, fails its test.

import { AxeBuilder } from "@axe-core/playwright";
import { mkdir } from "node:fs/promises";
import { chromium } from "playwright-core";

const PROGRAM = process.env.KEW_CHROMIUM ?? "/usr/bin/chromium";
/** Where screenshots are kept; the folder is not part of the repository. */
const PICTURES = process.env.KEW_PICTURES ?? "e2e/.cache/console";

export const launch = async () => {
  await mkdir(PICTURES, { recursive: true });
  return chromium.launch({ executablePath: PROGRAM, headless: true, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
};

/** Where forms were sent to since the tests of this file began: the method is POST, parts of a path are as they came. */
export const sent = new Set();

/** A page of a fresh profile. `faults` collects what must not happen. */
export const open = async (browser, url, options = {}) => {
  const context = await browser.newContext({ baseURL: url, viewport: { width: 1280, height: 800 }, ...options });
  const page = await context.newPage();
  const faults = [];
  const may = new Set();
  page.on("console", (message) => {
    const isExpected = [...may].some((text) => message.text().includes(text));
    if (message.type() === "error" && !isExpected) faults.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => faults.push(`script: ${error}`));
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    return dialog.dismiss();
  });
  page.on("request", (request) => {
    if (request.method() === "POST") sent.add(new URL(request.url()).pathname);
    if (!request.url().startsWith(`${url}/`)) faults.push(`asked elsewhere: ${request.url()}`);
  });
  return { page, context, faults, may };
};

/** What axe finds wrong with a page, one line each. */
export const flaws = async (page) => {
  const { violations } = await new AxeBuilder({ page }).analyze();
  return violations.flatMap((one) => one.nodes.map((node) => `${one.id}: ${node.html.slice(0, 200)} ${node.failureSummary}`));
};

export const picture = (page, name) => page.screenshot({ path: `${PICTURES}/${name}.png`, fullPage: true });

/** Presses Tab until what has the focus is called this. */
export const tabTo = async (page, name, tag = "") => {
  const seen = [];
  for (let press = 0; press < 120; press += 1) {
    await page.keyboard.press("Tab");
    const focus = await page.evaluate(() => {
      const one = document.activeElement;
      const label = one.labels?.[0]?.innerText ?? "";
      const shown = one.getAttribute("aria-label") ?? (label || one.innerText || one.name || "");
      const outline = getComputedStyle(one).outlineStyle;
      return { name: shown.trim().replace(/\s+/g, " "), tag: one.tagName.toLowerCase(), isSeen: outline !== "none" };
    });
    seen.push(`${focus.tag} ${focus.name}`);
    if (focus.name.startsWith(name) && (!tag || focus.tag === tag)) {
      if (!focus.isSeen) throw new Error(`${name} has the focus and does not show it`);
      return;
    }
  }
  throw new Error(`Tab does not reach ${name}; it reaches ${seen.join(", ")}`);
};

/** The same, then Enter, until the next page is there. */
export const follow = async (page, name, tag = "") => {
  await tabTo(page, name, tag);
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
};
