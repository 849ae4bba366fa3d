// cloudflare for TypeScript: every call of its queues resource, one queue per scenario.

import Cloudflare from "cloudflare";
import assert from "node:assert/strict";
import { createInterface } from "node:readline";

const ACCOUNT = "0123456789abcdef0123456789abcdef";
const account = { account_id: ACCOUNT };
const baseURL = `${process.env.KEW_CLOUDFLARE}/client/v4`;
const client = new Cloudflare({ apiToken: "all", baseURL, maxRetries: 0 });
const told = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function clock(seconds) {
  console.log(`CLOCK ${seconds * 1000}`);
  await told.next();
}

async function queue(name, settings) {
  return (await client.queues.create({ ...account, queue_name: `ts-${name}`, settings })).queue_id;
}

async function pulled(name, settings = {}, further = {}) {
  const id = await queue(name);
  await client.queues.consumers.create(id, { ...account, type: "http_pull", settings, ...further });
  return id;
}

const push = (id, body, further = {}) =>
  client.queues.messages.push(id, { ...account, body, content_type: "text", ...further });
const pull = async (id, further = {}) =>
  (await client.queues.messages.pull(id, { ...account, batch_size: 100, ...further })).messages;
const ack = (id, further) => client.queues.messages.ack(id, { ...account, ...further });
const bodies = (messages) => messages.map((message) => message.body);

async function refused(status, code, promise) {
  await assert.rejects(promise, (error) => {
    assert.ok(error instanceof Cloudflare.APIError, String(error));
    assert.deepEqual([error.status, error.errors[0].code], [status, code]);
    return true;
  });
}

async function all(pages) {
  const items = [];
  for await (const item of pages) items.push(item);
  return items;
}

const scenarios = {
  async a_message_is_pushed_pulled_and_acknowledged() {
    const id = await pulled("life");
    const sent = await push(id, "hello");
    assert.equal(sent.metadata.metrics.backlog_count, 1);
    const answer = await client.queues.messages.pull(id, { ...account });
    assert.equal(answer.message_backlog_count, 1);
    const [message] = answer.messages;
    assert.deepEqual([message.body, message.attempts, message.id.length], ["hello", 1, 32]);
    assert.deepEqual(await pull(id), []);
    const settled = await ack(id, { acks: [{ lease_id: message.lease_id }] });
    assert.deepEqual({ ...settled }, { ackCount: 1, retryCount: 0, warnings: {} });
    await clock(60);
    assert.deepEqual(await pull(id), []);
  },

  async all_kinds_of_body_come_back() {
    const id = await pulled("bodies");
    await client.queues.messages.push(id, { ...account, body: { a: [1, "ü"] }, content_type: "json" });
    await push(id, "Grüße 🚀 \"\n");
    const [json, text] = await pull(id);
    assert.deepEqual(JSON.parse(Buffer.from(json.body, "base64")), { a: [1, "ü"] });
    assert.equal(json.metadata["CF-Content-Type"], "json");
    assert.equal(text.body, "Grüße 🚀 \"\n");
  },

  async a_batch_is_all_or_nothing() {
    const id = await pulled("batch");
    const messages = [1, 2, 3].map((number) => ({ body: String(number), content_type: "text" }));
    await client.queues.messages.bulkPush(id, { ...account, messages, delay_seconds: 5 });
    assert.deepEqual(await pull(id), []);
    await clock(5);
    assert.deepEqual(bodies(await pull(id)), ["1", "2", "3"]);
    messages.push({ body: "4", content_type: "text", delay_seconds: 86_401 });
    await refused(400, 10203, client.queues.messages.bulkPush(id, { ...account, messages }));
    await refused(400, 10207, client.queues.messages.bulkPush(id, { ...account, messages: [] }));
    assert.equal((await client.queues.getMetrics(id, account)).backlog_count, 3);
  },

  async delays_and_retries_follow_their_precedence() {
    const id = await queue("delays", { delivery_delay: 60 });
    await client.queues.consumers.create(id, { ...account, type: "http_pull", settings: { retry_delay: 30 } });
    await push(id, "late");
    await push(id, "now", { delay_seconds: 0 });
    const [now] = await pull(id);
    assert.equal(now.body, "now");
    const retries = [{ lease_id: now.lease_id }];
    assert.equal((await ack(id, { retries })).retryCount, 1);
    await clock(29);
    assert.deepEqual(await pull(id), []);
    await clock(1);
    const [again] = await pull(id);
    assert.equal(again.attempts, 2);
    await ack(id, { retries: [{ lease_id: again.lease_id, delay_seconds: 0 }] });
    assert.deepEqual(bodies(await pull(id)), ["now"]);
  },

  async what_fails_too_often_goes_to_the_dead_letter_queue() {
    const id = await pulled("failing", { max_retries: 1 }, { dead_letter_queue: "ts-dead" });
    const [dead] = await all(client.queues.list(account, { query: { name: "ts-dead" } }));
    await client.queues.consumers.create(dead.queue_id, { ...account, type: "http_pull" });
    await push(id, "poison");
    for (const attempts of [1, 2]) {
      const [message] = await pull(id, { visibility_timeout_ms: 1000 });
      assert.equal(message.attempts, attempts);
      await clock(2);
    }
    assert.deepEqual(await pull(id), []);
    const [letter] = await pull(dead.queue_id);
    assert.deepEqual([letter.body, letter.attempts], ["poison", 1]);
    await refused(409, 11005, client.queues.delete(dead.queue_id, account));
  },

  async queues_are_made_listed_changed_and_deleted() {
    const id = await queue("queues", { delivery_delay: 5, message_retention_period: 600 });
    const shown = await client.queues.get(id, account);
    assert.deepEqual(shown.settings, { delivery_delay: 5, delivery_paused: false, message_retention_period: 600 });
    const edited = await client.queues.edit(id, { ...account, settings: { delivery_paused: true } });
    assert.deepEqual(edited.settings, { delivery_delay: 5, delivery_paused: true, message_retention_period: 600 });
    const replaced = await client.queues.update(id, { ...account, queue_name: "ts-renamed" });
    assert.equal(replaced.settings.message_retention_period, 345_600);
    const names = (await all(client.queues.list(account))).map((queue) => queue.queue_name);
    assert.ok(names.includes("ts-renamed") && !names.includes("ts-queues"), names.join());
    assert.equal((await client.queues.delete(id, account)).success, true);
    await refused(404, 11000, client.queues.get(id, account));
    await refused(400, 11003, client.queues.create({ ...account, queue_name: "a b" }));
  },

  async consumers_are_added_listed_changed_and_removed() {
    const id = await queue("consumers");
    const worker = { ...account, type: "worker", script_name: "w" };
    const made = await client.queues.consumers.create(id, { ...worker, settings: { batch_size: 30 } });
    assert.deepEqual([made.script_name, made.settings.batch_size], ["w", 30]);
    await refused(409, 11004, client.queues.consumers.create(id, worker));
    const path = [made.consumer_id, { ...account, queue_id: id }];
    const changed = await client.queues.consumers.update(made.consumer_id, { ...worker, queue_id: id });
    assert.equal(changed.settings.batch_size, 10);
    assert.equal((await client.queues.consumers.get(...path)).consumer_id, made.consumer_id);
    assert.equal((await all(client.queues.consumers.list(id, account))).length, 1);
    assert.equal((await client.queues.consumers.delete(...path)).success, true);
    assert.deepEqual(await all(client.queues.consumers.list(id, account)), []);
    await refused(405, 0, client.queues.messages.pull(id, account));
  },

  async messages_are_peeked_at_and_purged() {
    const id = await pulled("purge");
    for (const body of ["a", "b", "c"]) await push(id, body);
    const { messages } = await client.queues.messages.peek(id, { ...account, batch_size: 1 });
    assert.deepEqual([messages[0].body, messages[0].attempts], ["a", 0]);
    const refs = [{ ref: messages[0].ref }, { ref: "nonsense" }];
    const purged = await client.queues.messages.purge(id, { ...account, refs });
    assert.equal(purged.errors.length, 1);
    assert.equal((await client.queues.getMetrics(id, account)).backlog_count, 2);
    await client.queues.purge.start(id, { ...account, delete_messages_permanently: true });
    assert.ok((await client.queues.purge.status(id, account)).started_at);
    assert.deepEqual(await pull(id), []);
  },

  async tokens_open_what_they_may() {
    const id = await pulled("tokens");
    const as = (apiToken) => new Cloudflare({ apiToken, baseURL, maxRetries: 0 }).queues;
    const message = { ...account, body: "m", content_type: "text" };
    await as("writes").messages.push(id, message);
    await refused(403, 10106, as("reads").messages.push(id, message));
    assert.equal((await as("reads").getMetrics(id, account)).backlog_count, 1);
    await refused(403, 10000, as("writes").get(id, account));
    await refused(403, 10106, as("reads").messages.pull(id, account));
    await refused(403, 10000, as("wrong").get(id, account));
  },
};

for (const [name, play] of Object.entries(scenarios)) {
  try {
    await play();
    console.log(`PASS ${name}`);
  } catch (error) {
    console.error(error);
    console.log(`FAIL ${name}: ${String(error.message).replaceAll("\n", " ").slice(0, 500)}`);
  }
}
process.exit(0);
