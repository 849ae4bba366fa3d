// wrangler: every `queues` command there is, what it prints, and what it did according to the API.

import assert from "node:assert/strict";
import { rmSync } from "node:fs";

import { NEW, api as call, home, wrangler as run } from "./wrangler.mjs";

/** Exit code of a command for queues, and everything that was printed. */
const wrangler = (...words) => run(NEW, home, ["queues", ...words]);

async function prints(words, ...expected) {
  const { code, text } = await wrangler(...words);
  assert.equal(code, 0, text);
  for (const line of expected) assert.ok(text.includes(line), `no "${line}" in ${text}`);
}

async function fails(words, expected) {
  const { code, text } = await wrangler(...words);
  assert.notEqual(code, 0, text);
  assert.ok(text.includes(expected), `no "${expected}" in ${text}`);
}

/** A call of the API of queues. */
const api = (path, body) => call(body ? "POST" : "GET", `/queues${path}`, body);

async function shown(name) {
  return (await api(`?name=${name}`))[0];
}

const scenarios = {
  async queues_are_made_shown_listed_and_deleted() {
    await prints(["create", "one"], "Created queue 'one'");
    const options = ["--delivery-delay-secs=300", "--message-retention-period-secs=600"];
    await prints(["create", "two", ...options], "Created queue 'two'");
    // [seed] --delivery-delay-secs is a default for all messages.
    assert.equal((await shown("two")).settings.delivery_delay, 300);
    assert.equal((await shown("two")).settings.message_retention_period, 600);
    const { queue_id } = await shown("one");
    await prints(["list"], queue_id, " one ", " two ");
    await prints(["info", "one"], `Queue ID: ${queue_id}`, "Number of Consumers: 0");
    await prints(["delete", "two"], "Deleted queue two.");
    assert.equal(await shown("two"), undefined);
    await fails(["create", "one"], "[code: 11009]");
    await fails(["create", "Bad_Name!"], "[code: 11003]");
    await fails(["delete", "two"], 'Queue "two" does not exist.');
  },

  async an_update_changes_one_setting_and_keeps_the_other() {
    await prints(["create", "updated", "--message-retention-period-secs=600"]);
    await prints(["update", "updated", "--delivery-delay-secs=5"], "Updated queue updated.");
    const { settings } = await shown("updated");
    assert.deepEqual(settings, { delivery_delay: 5, delivery_paused: false, message_retention_period: 600 });
  },

  async delivery_is_paused_and_resumed_and_nothing_else_changes() {
    await prints(["create", "paused", "--delivery-delay-secs=5"]);
    await prints(["pause-delivery", "paused"], "Paused message delivery for queue paused.");
    assert.deepEqual([(await shown("paused")).settings.delivery_paused, (await shown("paused")).settings.delivery_delay], [true, 5]);
    await prints(["resume-delivery", "paused"], "Resumed message delivery for queue paused.");
    assert.equal((await shown("paused")).settings.delivery_paused, false);
  },

  async a_purge_empties_the_queue() {
    await prints(["create", "purged"]);
    const { queue_id } = await shown("purged");
    await api(`/${queue_id}/messages`, { body: "m" });
    await prints(["purge", "purged", "--force"], "Purged Queue 'purged'");
    assert.equal((await api(`/${queue_id}/metrics`)).backlog_count, 0);
  },

  async a_puller_is_added_listed_and_removed() {
    await prints(["create", "pulled"]);
    // [seed] --retry-delay-secs, for consumers that pull as for Workers.
    const options = ["--batch-size=7", "--message-retries=2", "--dead-letter-queue=dead", "--visibility-timeout-secs=12", "--retry-delay-secs=60"];
    await prints(["consumer", "http", "add", "pulled", ...options], "Added consumer to queue pulled.");
    const [consumer] = (await shown("pulled")).consumers;
    assert.equal(consumer.dead_letter_queue, "dead");
    assert.deepEqual(consumer.settings, { batch_size: 7, max_retries: 2, retry_delay: 60, visibility_timeout_ms: 12_000 });
    assert.ok(await shown("dead"), "the dead letter queue was made");
    await prints(["consumer", "http", "list", "pulled"], consumer.consumer_id, " 12000 ");
    await prints(["info", "pulled"], "Consumers: HTTP Pull Consumer.", "/messages/pull");
    await fails(["consumer", "http", "add", "pulled"], "[code: 11004]");
    await fails(["delete", "dead"], "[code: 11005]");
    await prints(["consumer", "http", "remove", "pulled"], "Removed consumer from queue pulled.");
    assert.deepEqual((await shown("pulled")).consumers, []);
    await fails(["consumer", "http", "add", "pulled", "--dead-letter-queue=pulled"], "[code: 100127]");
  },

  async a_worker_is_added_listed_and_removed() {
    await prints(["create", "pushed"]);
    const options = ["--batch-size=3", "--batch-timeout=2", "--message-retries=1", "--max-concurrency=4", "--retry-delay-secs=60"];
    await prints(["consumer", "worker", "add", "pushed", "w", ...options], "Added consumer to queue pushed.");
    const [consumer] = (await shown("pushed")).consumers;
    const settings = { batch_size: 3, max_concurrency: 4, max_retries: 1, max_wait_time_ms: 2000, retry_delay: 60 };
    assert.deepEqual([consumer.script, consumer.settings], ["w", settings]);
    await prints(["consumer", "worker", "list", "pushed"], consumer.consumer_id, " w ");
    await prints(["consumer", "list", "pushed"], consumer.consumer_id);
    await prints(["info", "pushed"], "Consumers: worker:w");
    await prints(["consumer", "worker", "remove", "pushed", "w"], "Removed consumer from queue pushed.");
    // The older spelling of the same commands, with the defaults.
    await prints(["consumer", "add", "pushed", "w"], "Added consumer to queue pushed.");
    assert.equal((await shown("pushed")).consumers[0].settings.max_retries, 3);
    await prints(["consumer", "remove", "pushed", "w"], "Removed consumer from queue pushed.");
    assert.deepEqual((await shown("pushed")).consumers, []);
  },

  async subscriptions_are_told_not_to_be_offered() {
    await prints(["create", "subscribed"]);
    await fails(["subscription", "list", "subscribed"], "Event subscriptions are not offered");
  },
};

/** Starting the command line costs seconds of a processor, so a few scenarios run side by side. */
const LANES = 3;
const waiting = Object.entries(scenarios);

async function lane() {
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    const [name, play] = next;
    try {
      await play();
      console.log(`PASS ${name}`);
    } catch (error) {
      console.error(error);
      console.log(`FAIL ${name}: ${String(error.message).replaceAll("\n", " ").slice(0, 500)}`);
    }
  }
}

await Promise.all(Array.from({ length: LANES }, lane));
rmSync(home, { recursive: true, force: true });
process.exit(0);
