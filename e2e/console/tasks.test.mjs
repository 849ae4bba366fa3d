// What operators do, with the keyboard alone; and without scripts.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { flaws, follow, launch, open, picture, sent, tabTo } from "./browser.mjs";
import { fill, hash, start, TOKEN } from "./server.mjs";

let [kew, strict, browser] = [];

before(async () => {
  kew = await start();
  await fill(kew);
  strict = await start(["--auth", "strict"], config());
  await strict.api("/queues", { name: "orders" });
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await kew?.stop();
  await strict?.stop();
});

const config = () => `
[admin]
token = "${TOKEN}"
[[admin.users]]
name = "bert"
password_hash = "${hash("secret")}"
role = "read-only"
`;

const heading = (page) => page.locator("h1").innerText();
const type = async (page, name, text) => {
  await tabTo(page, name);
  await page.keyboard.type(text);
};

for (const javaScriptEnabled of [true, false]) {
  const how = javaScriptEnabled ? "with the script" : "without the script";

  test(`a queue is made, sent to, looked at, purged and deleted by keyboard, ${how}`, async () => {
    const { page, context, faults } = await open(browser, kew.url, { javaScriptEnabled });
    const name = javaScriptEnabled ? "scripted" : "plain";
    await page.goto("/");
    await follow(page, "New queue", "a");
    await type(page, "Name", name);
    await follow(page, "Make the queue", "button");
    assert.equal(await heading(page), name);
    await follow(page, "Send", "a");
    await type(page, "Body", '{"order":{"id":17}}');
    await follow(page, "Send", "button");
    await page.getByText("The message was sent.").waitFor();
    await follow(page, name, "a");
    await type(page, "JSON value", "$.order.id=17");
    await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
    assert.equal(await page.locator("tbody tr").count(), 1);
    assert.match(page.url(), /json=/);
    await follow(page, "Pause deliveries", "button");
    await page.getByText("Deliveries are paused.").waitFor();
    await follow(page, "Resume deliveries", "button");
    await follow(page, "Settings", "a");
    await tabTo(page, "visibility_seconds");
    await page.keyboard.press("Control+A");
    await page.keyboard.type("45");
    await follow(page, "Save the settings", "button");
    assert.equal(await page.locator("#visibility_seconds").inputValue(), "45");
    await type(page, `Type ${name} to confirm`, name);
    await follow(page, "Purge", "button");
    await page.getByText("All messages were deleted.").waitFor();
    await follow(page, "Settings", "a");
    await type(page, `Type ${name} to confirm`, "");
    await type(page, `Type ${name} to confirm`, name);
    await follow(page, "Delete the queue", "button");
    await page.getByText("The queue was deleted.").waitFor();
    assert.deepEqual(faults, []);
    await context.close();
  });
}

test("a message is found by its id, extended, released and deleted by keyboard", async () => {
  await kew.api("/queues/webhooks/messages", { body: "leased once" });
  const { messages } = await kew.api("/queues/webhooks/receive", { visibility_seconds: 600 });
  const { page, context, faults } = await open(browser, kew.url);
  await page.goto("/");
  // Copied with blanks around it.
  await tabTo(page, "Id of a message");
  await page.keyboard.insertText(`   ${messages[0].id} `);
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  assert.match(await heading(page), new RegExp(messages[0].id));
  await follow(page, "Extend", "button");
  await page.getByText("The lease ends at another time now.").waitFor();
  await follow(page, "Release", "button");
  await page.getByText("The lease was ended.").waitFor();
  await tabTo(page, "I am sure");
  await page.keyboard.press("Space");
  await follow(page, "Delete", "button");
  await page.getByText("Not done yet").waitFor();
  await follow(page, "Begin now", "button");
  await page.getByText("The message was deleted.").waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test("dead letters are counted, corrected and moved back by keyboard", async () => {
  const { page, context, faults } = await open(browser, kew.url);
  await page.goto("/queues/orders-dead/dead-letters");
  await follow(page, "Only count", "button");
  await page.getByText("3 messages would be moved").waitFor();
  await follow(page, "Back to the dead letters", "a");
  await follow(page, "Correct and resend", "a");
  await tabTo(page, "Body", "textarea");
  await page.keyboard.press("Control+A");
  await page.keyboard.type('{"order":{"id":0,"corrected":true}}');
  await follow(page, "Send", "button");
  await page.getByText("The message was sent.").waitFor();
  await page.goto("/queues/orders-dead/dead-letters");
  await page.getByText("2 messages can be moved now.").waitFor();
  await tabTo(page, "At most, messages a second");
  await page.keyboard.type("1");
  await follow(page, "Move them", "button");
  await follow(page, "Begin now", "button");
  // The page loads itself again until the task has ended.
  await page.getByText("done", { exact: true }).waitFor();
  await page.getByText("2 moved, 0 left").waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test("a few letters lead to a screen, to a queue, and to other colours", async () => {
  const { page, context, faults } = await open(browser, kew.url, { colorScheme: "light" });
  // Before the first page: a request that is begun just as the browser is asked to hold requests is seen by nobody.
  let lateBy = 0;
  await page.route("**/api/v1/queues?*", async (route) => {
    await delay(lateBy);
    await route.continue();
  });
  await page.goto("/queues/orders");
  await page.keyboard.press("Control+K");
  await page.keyboard.type("audit");
  await page.waitForFunction(() => document.querySelectorAll("[role=option]").length === 1);
  await picture(page, "palette-light");
  assert.deepEqual(await flaws(page), []);
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  assert.equal(await heading(page), "Audit log");
  await follow(page, "Queues", "a");
  await page.keyboard.press("Control+K");
  await page.keyboard.type("pay");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  assert.match(await heading(page), /payments.fifo/);
  await tabTo(page, "Go to", "button");
  await page.keyboard.press("Enter");
  await page.keyboard.type("colour");
  await page.waitForFunction(() => document.querySelectorAll("[role=option]").length === 3);
  // The queues that the last letter asks for come late, and leave what was chosen meanwhile.
  lateBy = 300;
  const late = page.waitForResponse(/prefix=colours/);
  await page.keyboard.type("s");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await late;
  await picture(page, "palette-dark");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
  // Who closes the list before its queues come goes nowhere.
  await page.keyboard.press("Control+K");
  const unwanted = page.waitForResponse(/prefix=audit/);
  await page.keyboard.type("audit");
  await page.keyboard.press("Enter");
  await page.keyboard.press("Escape");
  await unwanted;
  await delay(100);
  assert.equal(await page.getByRole("dialog").count(), 0);
  assert.match(await heading(page), /payments.fifo/);
  assert.deepEqual(faults, []);
  await context.close();
});

test("people sign in by keyboard, choose colours, see no forms that act, and sign out", async () => {
  const { page, context, faults, may } = await open(browser, strict.url, { colorScheme: "light" });
  may.add("401");
  await page.goto("/queues/orders?state=any");
  assert.equal(await heading(page), "Sign in");
  await picture(page, "sign-in-users-light");
  assert.deepEqual(await flaws(page), []);
  await type(page, "User", "bert");
  await type(page, "Password", "wrong");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  await page.getByRole("alert").waitFor();
  await type(page, "User", "bert");
  await type(page, "Password", "secret");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  assert.equal(await heading(page), "orders");
  assert.equal(await page.getByRole("button", { name: "Pause deliveries" }).count(), 0);
  await follow(page, "Dark", "button");
  assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
  assert.equal(await heading(page), "orders");
  await picture(page, "reader-dark");
  assert.deepEqual(await flaws(page), []);
  await follow(page, "Sign out", "button");
  assert.equal(await heading(page), "Sign in");
  await type(page, "Admin token", TOKEN);
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  await page.getByText("token, operator").waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test("a page that is left open after its session has ended leads to the sign-in", async () => {
  const { page, context, faults, may } = await open(browser, strict.url);
  may.add("401");
  await page.goto("/queues/orders?state=any");
  await type(page, "User", "bert");
  await type(page, "Password", "secret");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  await context.clearCookies();
  await page.locator("[data-pulse-at]").getByText("not live: you are signed out.").waitFor();
  await picture(page, "signed-out-light");
  assert.deepEqual(await flaws(page), []);
  await follow(page, "Sign in", "a");
  assert.equal(await heading(page), "Sign in");
  assert.match(page.url(), /orders\?state=any$/);
  assert.deepEqual(faults, []);
  await context.close();
});

for (const colorScheme of ["light", "dark"]) {
  test(`a deletion is undone by keyboard, in ${colorScheme} colours`, async () => {
    const { id } = await kew.api("/queues/webhooks/messages", { body: "stays" });
    const { page, context, faults } = await open(browser, kew.url, { colorScheme });
    await page.goto(`/queues/webhooks/messages/${id}`);
    await tabTo(page, "I am sure");
    await page.keyboard.press("Space");
    await follow(page, "Delete", "button");
    await page.getByText("Not done yet").waitFor();
    // The page is not loaded again while somebody is in it.
    await tabTo(page, "Undo", "button");
    await picture(page, `later-${colorScheme}`);
    assert.deepEqual(await flaws(page), []);
    await page.keyboard.press("Enter");
    await page.getByText("nothing was changed").waitFor();
    await follow(page, "Back", "a");
    await page.getByText("stays").first().waitFor();
    assert.deepEqual(faults, []);
    await context.close();
  });

  test(`single letters lead where the list says, in ${colorScheme} colours`, async () => {
    const { page, context, faults } = await open(browser, kew.url, { colorScheme });
    await page.goto("/queues/orders-dead");
    await page.keyboard.press("?");
    const list = page.getByRole("dialog", { name: "Shortcuts of this page" });
    await list.getByText("Dead letters").waitFor();
    await picture(page, `shortcuts-${colorScheme}`);
    assert.deepEqual(await flaws(page), []);
    await page.keyboard.press("Escape");
    await Promise.all([page.waitForURL("**/dead-letters"), page.keyboard.press("d")]);
    await Promise.all([page.waitForURL("**/alarms"), page.keyboard.press("a")]);
    await page.keyboard.press("f");
    await page.keyboard.type("q?");
    assert.equal(await page.getByLabel("Id of a message").inputValue(), "q?");
    await page.getByRole("button", { name: "Shortcuts" }).click();
    await list.getByLabel("Single letters lead there").uncheck();
    await list.getByRole("button", { name: "Close" }).click();
    await page.keyboard.press("q");
    await page.keyboard.press("?");
    assert.match(page.url(), /alarms$/);
    assert.equal(await list.isVisible(), false);
    assert.deepEqual(faults, []);
    await context.close();
  });
}

test("a slow move of dead letters is watched and cancelled by keyboard", async () => {
  for (const name of ["slow-from", "slow-to"]) await kew.api("/queues", { name });
  for (let number = 0; number < 20; number += 1) await kew.api("/queues/slow-from/messages", { body: `letter ${number}` });
  const { page, context, faults } = await open(browser, kew.url);
  await page.goto("/queues/slow-from/dead-letters");
  await type(page, "To", "slow-to");
  await type(page, "At most, messages a second", "1");
  await follow(page, "Move them", "button");
  await follow(page, "Begin now", "button");
  await page.getByRole("heading", { name: "Messages are being moved" }).waitFor();
  await follow(page, "Cancel", "button");
  await page.getByRole("heading", { name: "The move was cancelled" }).waitFor();
  assert.deepEqual(await flaws(page), []);
  assert.deepEqual(faults, []);
  await context.close();
});

test("a delayed message is promoted by keyboard", async () => {
  const { id } = await kew.api("/queues/webhooks/messages", { body: "late", delay_seconds: 600 });
  const { page, context, faults } = await open(browser, kew.url);
  await page.goto(`/queues/webhooks/messages/${id}`);
  await follow(page, "Promote", "button");
  await page.getByText("The delay was ended.").waitFor();
  assert.equal((await kew.api(`/messages/${id}`, undefined, "GET")).state, "visible");
  assert.deepEqual(faults, []);
  await context.close();
});

test("a suggested visibility timeout is taken by keyboard", async () => {
  const { page, context, faults } = await open(browser, kew.url);
  await page.goto("/queues/thumbnails/leases");
  await follow(page, "Set the visibility timeout to 5 s", "button");
  assert.equal((await kew.api("/queues/thumbnails", undefined, "GET")).settings.visibility_seconds, 5);
  await page.goto("/queues/thumbnails/leases");
  await page.getByText("The visibility timeout suits that").waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

test("groups and deduplication ids are looked up by keyboard, and a FIFO message is sent", async () => {
  const { page, context, faults } = await open(browser, kew.url);
  await page.goto("/queues/payments.fifo/groups");
  await type(page, "Deduplication id", "anna-open");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  await page.getByText("It was sent first as").waitFor();
  await page.goto("/queues/payments.fifo/groups");
  await type(page, "Group begins with", "be");
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  assert.equal(await page.locator("tbody tr").count(), 1);
  await page.goto("/queues/payments.fifo/send");
  await type(page, "Body", "refund");
  await type(page, "Group", "anna");
  await type(page, "Deduplication id", "anna-refund");
  await follow(page, "Send", "button");
  await page.getByText("The message was sent.").waitFor();
  assert.deepEqual(faults, []);
  await context.close();
});

for (const colorScheme of ["light", "dark"]) {
  test(`a store in a directory is backed up by keyboard, in ${colorScheme} colours`, async () => {
    const filed = await start([], "", true);
    await filed.api("/queues", { name: "orders" });
    const { page, context, faults } = await open(browser, filed.url, { colorScheme });
    await page.goto("/store");
    await type(page, "Directory, as an absolute path", `${filed.directory}/backup`);
    await follow(page, "Back up", "button");
    for (let look = 0; look < 100 && (await page.getByText("Look again").count()) > 0; look += 1) {
      await follow(page, "Look again", "a");
    }
    await page.getByText("done", { exact: true }).waitFor();
    await picture(page, `backup-${colorScheme}`);
    assert.deepEqual(await flaws(page), []);
    assert.deepEqual(faults, []);
    await context.close();
    await filed.stop();
  });
}

test("each page has a task here that sends each of its forms by keyboard", async () => {
  const table = await readFile(new URL("../../crates/console/src/pages/places.rs", import.meta.url), "utf8");
  const forms = [...table.matchAll(/\("(\/[^"]+)", FormOp::/g)].map(([, path]) => path);
  assert.ok(forms.length >= 19, forms.join(" "));
  const isSent = (form) => [...sent].some((path) => new RegExp(`^${form.replace(/\{\w+\}/g, "[^/]+")}$`).test(path));
  // Only a store that several nodes serve shows them: crates/console/tests/console/pages/fleet.rs sends them.
  const ofFleet = ["/shards/{shard}/hand-over", "/shards/{shard}/move"];
  assert.deepEqual(forms.filter((form) => !isSent(form)), ofFleet);
});
