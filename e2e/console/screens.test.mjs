// Every screen in both themes: axe finds no flaw, the browser logs no error, nothing is asked of other servers.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { flaws, launch, open, picture } from "./browser.mjs";
import { fill, start } from "./server.mjs";

const THEMES = ["light", "dark"];
let [kew, browser, ids] = [];

before(async () => {
  kew = await start();
  ids = await fill(kew);
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await kew?.stop();
});

/** All screens: a name, and where each is. */
const screens = () => [
  ["queues", "/"],
  ["queues-none", "/?prefix=none"],
  ["new-queue", "/new-queue"],
  ["queue", "/queues/orders"],
  ["queue-in-flight", "/queues/orders?state=in_flight"],
  ["queue-delayed", "/queues/orders?state=delayed"],
  ["queue-bad-search", "/queues/orders?json=x"],
  ["queue-fifo", "/queues/payments.fifo"],
  ["queue-empty", "/queues/emails"],
  ["calendar", "/queues/orders/delayed"],
  ["leases", "/queues/thumbnails/leases"],
  ["leases-held", "/queues/orders/leases"],
  ["leases-none", "/queues/emails/leases"],
  ["send", "/queues/orders/send"],
  ["send-template", "/queues/orders/send?template=sqs-attributes"],
  ["send-fifo", "/queues/payments.fifo/send"],
  ["settings", "/queues/orders/settings"],
  ["settings-fifo", "/queues/payments.fifo/settings"],
  ["message-leased", `/queues/orders/messages/${ids.leased}`],
  ["message-odd", `/queues/orders/messages/${ids.odd}`],
  ["message-hex", `/queues/orders/messages/${ids.odd}?view=hex`],
  ["dead-letters", "/queues/orders-dead/dead-letters"],
  ["resend", `/queues/orders-dead/messages/${ids.dead}/resend`],
  ["groups", "/queues/payments.fifo/groups?id=anna-open"],
  ["charts", "/queues/orders/charts?seconds=300"],
  ["redrive", `/redrives/${ids.task}`],
  ["push", "/push"],
  ["store", "/store"],
  ["alarms", "/alarms"],
  ["config", "/config"],
  ["audit", "/audit"],
  ["sign-in", "/sign-in"],
];
/** Pages that say what is wrong; a browser logs their status. */
const troubles = [
  ["not-found", "/queues/none"],
  ["nothing", "/nothing"],
  ["bad-id", "/messages?id=x"],
];

for (const theme of THEMES) {
  test(`screens in ${theme} colours`, async (t) => {
    const { page, context, faults, may } = await open(browser, kew.url, { colorScheme: theme });
    for (const [name, path] of [...screens(), ...troubles]) {
      await t.test(name, async () => {
        faults.length = 0;
        may.clear();
        if (troubles.some(([trouble]) => trouble === name)) may.add("Failed to load resource");
        await page.goto(path, { waitUntil: "load" });
        const details = page.locator("details");
        for (let number = 0; number < (await details.count()); number += 1) {
          await details.nth(number).evaluate((one) => (one.open = true));
        }
        await picture(page, `${name}-${theme}`);
        assert.deepEqual(await flaws(page), []);
        assert.deepEqual(faults, []);
        const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(width <= 0, `the page is ${width} pixels wider than its window`);
      });
    }
    await context.close();
  });
}

/** Rows of which a small window shows much less than their height: what makes them high is out of sight. */
const blankRows = () => {
  const height = (cell) => {
    const content = document.createRange();
    content.selectNodeContents(cell);
    return content.getBoundingClientRect().height;
  };
  const isBlank = (row) => {
    const seen = [...row.cells].filter((cell) => cell.getBoundingClientRect().left < innerWidth - 40);
    return row.getBoundingClientRect().height > 2 * Math.max(20, ...seen.map(height));
  };
  return [...document.querySelectorAll(".wide tbody tr")].filter(isBlank).map((row) => row.innerText.slice(0, 80));
};

for (const theme of THEMES) {
  test(`screens fit a small window in ${theme} colours`, async (t) => {
    const viewport = { width: 360, height: 740 };
    const { page, context } = await open(browser, kew.url, { viewport, colorScheme: theme });
    for (const [name, path] of screens()) {
      await t.test(name, async () => {
        await page.goto(path, { waitUntil: "load" });
        await picture(page, `${name}-small-${theme}`);
        const width = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(width <= 0, `the page is ${width} pixels wider than its window`);
        assert.deepEqual(await page.evaluate(blankRows), []);
      });
    }
    await context.close();
  });
}

/** Cells whose text takes more than one line, or is wider than its cell. */
const broken = (cells) => {
  const isBroken = (cell) => {
    const content = document.createRange();
    content.selectNodeContents(cell);
    const { height, right } = content.getBoundingClientRect();
    return height > 30 || right > cell.getBoundingClientRect().right + 1;
  };
  return cells.filter(isBroken).map((cell) => cell.innerText);
};

test("names and types of attributes are not broken by long values", async () => {
  const long = "n".repeat(256);
  const attributes = {
    "correlation-id": "w".repeat(900),
    [long]: "a value of several words",
    size: { type: "Number.bytes", value: "17" },
  };
  const { id } = await kew.api("/queues/emails/messages", { body: "x", attributes });
  for (const [name, width] of [["large", 1280], ["small", 360]]) {
    const { page, context, faults } = await open(browser, kew.url, { viewport: { width, height: 740 } });
    await page.goto(`/queues/emails/messages/${id}`);
    await picture(page, `attributes-${name}-light`);
    assert.deepEqual(await flaws(page), []);
    const cells = page.locator(".attributes th, .attributes td.quiet");
    const lines = await cells.evaluateAll(broken);
    if (name === "large") assert.deepEqual(lines, [long]);
    assert.ok(!lines.includes("correlation-id") && !lines.includes("String"), lines.join(" "));
    const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wider <= 0, `the page is ${wider} pixels wider than its window`);
    assert.deepEqual(faults, []);
    await context.close();
  }
  await kew.api(`/queues/emails/messages/${id}/delete`, {});
});

test("a time that is left counts down, and says when it is over", async () => {
  await kew.api("/queues/webhooks/messages", { body: "late", delay_seconds: 90 });
  const { page, context, faults } = await open(browser, kew.url);
  await page.clock.install();
  await page.goto("/queues/webhooks?state=delayed");
  const left = page.locator("[data-until]");
  await left.getByText(/^in 1 min/).waitFor();
  await page.clock.fastForward(60_000);
  await left.getByText(/^in [12]\d s$/).waitFor();
  await page.clock.fastForward(30_000);
  await left.getByText("over; load again", { exact: true }).waitFor();
  await picture(page, "countdown-over-light");
  assert.deepEqual(await flaws(page), []);
  assert.deepEqual(faults, []);
  await context.close();
});

test("figures live, pause and go on", async () => {
  const { page, context, faults } = await open(browser, kew.url);
  await page.goto("/?prefix=thumb");
  const visible = page.locator('[data-live="thumbnails/visible"]');
  assert.equal(await visible.textContent(), "0");
  await kew.api("/queues/thumbnails/messages", { body: "x" });
  await page.waitForFunction(() => document.querySelector('[data-live="thumbnails/visible"]').textContent === "1");
  await page.getByRole("button", { name: "Pause live figures" }).click();
  assert.equal(await page.locator("[data-pulse-state]").textContent(), "Live figures are paused.");
  await kew.api("/queues", { name: "thumb-new" });
  await page.getByRole("button", { name: "Pause live figures" }).click();
  await page.getByText("The list has changed.").waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test("a page whose server is stopped says that it does not answer", async () => {
  const stopped = await start();
  await stopped.api("/queues", { name: "orders" });
  const { page, context, faults, may } = await open(browser, stopped.url);
  may.add("net::ERR_");
  const at = page.locator("[data-pulse-at]");
  await page.clock.install();
  await page.goto("/queues/orders");
  await at.getByText("as of").waitFor();
  await stopped.stop();
  let asked = 0;
  page.on("request", () => (asked += 1));
  await delay(3000);
  assert.ok(asked <= 4, `${asked} requests in 3 s`);
  await page.clock.fastForward(13_000);
  await at.getByText("not live: the server does not answer").waitFor();
  await picture(page, "stopped-light");
  assert.deepEqual(await flaws(page), []);
  assert.deepEqual(faults, []);
  await context.close();
});

test("a page says when its figures come again, and when its queue is gone", async () => {
  await kew.api("/queues", { name: "short-lived" });
  const { page, context, faults, may } = await open(browser, kew.url);
  may.add("Failed to load resource");
  const at = page.locator("[data-pulse-at]");
  await page.clock.install();
  await page.goto("/queues/short-lived");
  await at.getByText("as of").waitFor();
  await page.route("**/live/**", (route) => route.abort("connectionrefused"));
  await delay(6000);
  await page.clock.fastForward(13_000);
  await at.getByText("not live: the server does not answer").waitFor();
  await page.unroute("**/live/**");
  await page.clock.fastForward(10_000);
  await at.getByText("as of").waitFor();
  await kew.api("/queues/short-lived", {}, "DELETE");
  await at.getByText("not live: this is gone").waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test("a page of a queue says when it has changed", async () => {
  await kew.api("/queues", { name: "watched" });
  const { page, context, faults } = await open(browser, kew.url);
  await page.goto("/queues/watched");
  await page.locator("[data-pulse-at]").getByText("as of").waitFor();
  const hint = page.getByText("The queue has changed.");
  assert.equal(await hint.isVisible(), false);
  await kew.api("/queues/watched/messages", { body: "x" });
  await hint.waitFor();
  await picture(page, "queue-changed-light");
  assert.deepEqual(await flaws(page), []);
  await Promise.all([page.waitForNavigation(), page.getByRole("link", { name: "Load it again" }).click()]);
  assert.equal(await hint.isVisible(), false);
  await kew.api("/queues/watched/pause", {});
  await hint.waitFor();
  await page.getByRole("link", { name: "Load it again" }).click();
  await page.getByRole("button", { name: "Resume deliveries" }).waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test("a hostile body does nothing, and is copied as it is", async () => {
  const { page, context, faults } = await open(browser, kew.url, { permissions: ["clipboard-read", "clipboard-write"] });
  await page.goto(`/queues/orders/messages/${ids.odd}`);
  await page.getByText("Show it with kew").click();
  await page.getByRole("button", { name: "Copy" }).first().click();
  await page.getByRole("button", { name: "Copied" }).waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.ok(copied.startsWith(`kew message show ${ids.odd}`), copied);
  assert.deepEqual(faults, []);
  await context.close();
});
