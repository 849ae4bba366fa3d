// wrangler: projects deployed straight at Kew, and what their Workers then do. One project, and one pair of queues, for each scenario.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

import { NEW, api, env, home, peek, play, queue, runs, until, wrangler } from "./wrangler.mjs";

const told = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function clock(seconds) {
  console.log(`CLOCK ${seconds * 1000}`);
  await told.next();
}

/** What a command prints to its standard output alone. */
async function printed(program, cwd, words) {
  return new Promise((resolve, reject) =>
    execFile(process.execPath, [program, ...words], { cwd, env, timeout: 120_000 }, (error, out, errors) =>
      error ? reject(new Error(out + errors)) : resolve(out),
    ),
  );
}

/** Status and body of a POST to the server under another host's name. */
function visit(host, body) {
  return new Promise((resolve, reject) => {
    const asked = request(process.env.KEW_CLOUDFLARE, { method: "POST", headers: { host } }, async (reply) => {
      resolve([reply.statusCode, (await reply.toArray()).join("")]);
    });
    asked.on("error", reject).end(body);
  });
}

const shown = (id) => api("GET", `/queues/${id}`);
const send = (id, body, further) => api("POST", `/queues/${id}/messages`, { body, content_type: "json", ...further });

/** What lies in a queue; nothing is taken. */
async function lies(id) {
  return (await peek(id)).map((message) => JSON.parse(Buffer.from(message.body, "base64").toString()));
}

const SHOUT = `export const shout = (text: string): string => text.toUpperCase();\n`;
const CODE = `
import { shout } from "./shout";
interface Env { OUT: Queue; GREETING: string; TOKEN?: string }
export default {
  async queue(batch: MessageBatch<{ name: string; fails?: number }>, env: Env): Promise<void> {
    for (const message of batch.messages) {
      if (message.attempts <= (message.body.fails ?? 0)) { message.retry(); continue; }
      const said = shout(env.GREETING + " " + message.body.name);
      await env.OUT.send({ said, attempts: message.attempts, token: env.TOKEN ?? null });
      message.ack();
    }
  },
};
`;

/** A project in TypeScript whose Worker consumes one queue and produces into another. */
async function project(name, producer = "", consumer = "") {
  const directory = join(home, name);
  mkdirSync(join(directory, "src"), { recursive: true });
  writeFileSync(join(directory, "src/shout.ts"), SHOUT);
  writeFileSync(join(directory, "src/index.ts"), CODE);
  configure(directory, name, producer, consumer);
  return { directory, input: await queue(`${name}-in`), output: await queue(`${name}-out`) };
}

function configure(directory, name, producer = "", consumer = "") {
  const config = `
name = "${name}"
main = "src/index.ts"
compatibility_date = "2024-04-01"
vars = { GREETING = "hello" }

[[queues.producers]]
binding = "OUT"
queue = "${name}-out"
${producer}

[[queues.consumers]]
queue = "${name}-in"
max_batch_timeout = 0
${consumer}
`;
  writeFileSync(join(directory, "wrangler.toml"), config);
}

const scenarios = {
  async a_project_is_deployed_and_its_worker_consumes_and_produces() {
    const { directory, input, output } = await project("plain");
    await send(input, { name: "before" });
    assert.match(await runs(NEW, directory, ["deploy"]), /Consumer for plain-in/);
    await send(input, { name: "after" });
    const found = await until("both", async () => ((await lies(output)).length === 2 ? lies(output) : undefined));
    assert.deepEqual(found.map(({ said }) => said).sort(), ["HELLO AFTER", "HELLO BEFORE"]);
  },

  // [seed] retry_delay of a consumer in the file. A producer's delivery_delay is no longer sent by today's wrangler, which
  // has a command for it.
  async the_retry_delay_of_the_file_and_the_delivery_delay_of_a_queue_take_effect() {
    const { directory, input, output } = await project("delays", "", "retry_delay = 300");
    await runs(NEW, directory, ["deploy"]);
    await runs(NEW, directory, ["queues", "update", "delays-out", "--delivery-delay-secs=60"]);
    assert.equal((await shown(output)).settings.delivery_delay, 60);
    const [consumer] = (await shown(input)).consumers;
    assert.deepEqual([consumer.script, consumer.settings.retry_delay], ["delays", 300]);
    await send(input, { name: "late", fails: 1 });
    await until("the first attempt", async () => (await api("GET", `/queues/${input}/metrics`)).delayed_count === 1);
    await clock(299);
    assert.deepEqual(await lies(output), []);
    await clock(1);
    await until("the second", async () => (await api("GET", `/queues/${output}/metrics`)).delayed_count === 1);
    await clock(60);
    assert.deepEqual(await lies(output), [{ said: "HELLO LATE", attempts: 2, token: null }]);
  },

  async a_secret_is_there_at_once_and_stays_over_deployments() {
    const { directory, input, output } = await project("secrets");
    await runs(NEW, directory, ["deploy"]);
    assert.match(await runs(NEW, directory, ["secret", "put", "TOKEN"], "s3cret"), /Success/);
    assert.match(await runs(NEW, directory, ["secret", "list"]), /TOKEN/);
    await send(input, { name: "one" });
    await until("one", async () => (await lies(output)).length === 1);
    await runs(NEW, directory, ["deploy"]);
    await send(input, { name: "two" });
    const found = await until("two", async () => ((await lies(output)).length === 2 ? lies(output) : undefined));
    assert.deepEqual(found.map(({ token }) => token), ["s3cret", "s3cret"]);
  },

  async the_address_that_is_printed_leads_to_the_fetch_handler() {
    const { directory, output } = await project("visited");
    const code = `export default {
      async fetch(request: Request, env: { OUT: Queue }): Promise<Response> {
        await env.OUT.send({ said: await request.text() });
        return new Response("thank you", { status: 202 });
      },
      async queue(): Promise<void> {},
    };`;
    writeFileSync(join(directory, "src/index.ts"), code);
    const [, host] = (await runs(NEW, directory, ["deploy"])).match(/https:\/\/(visited\.\S+)/);
    for (const name of [host, "visited.kew.localhost"]) {
      const reply = await visit(name, name);
      assert.deepEqual(reply, [202, "thank you"]);
    }
    const said = (await lies(output)).map((message) => message.said);
    assert.deepEqual(said, [host, "visited.kew.localhost"]);
  },

  async the_cron_triggers_of_the_file_ring_on_the_clock_of_the_server() {
    const { directory, output } = await project("rings", "", '[triggers]\ncrons = ["*/5 * * * *"]');
    const code = `export default {
      async scheduled({ cron, scheduledTime }: ScheduledController, env: { OUT: Queue }): Promise<void> {
        await env.OUT.send({ cron, minute: new Date(scheduledTime).getUTCMinutes() % 5 });
      },
      async queue(): Promise<void> {},
    };`;
    writeFileSync(join(directory, "src/index.ts"), code);
    assert.match(await runs(NEW, directory, ["deploy"]), /\*\/5 \* \* \* \*/);
    await clock(600);
    const found = await until("two", async () => ((await lies(output)).length >= 2 ? lies(output) : undefined));
    assert.deepEqual(found[0], { cron: "*/5 * * * *", minute: 0 });
  },

  // Since July 2026 wrangler makes the queues of producers, those without a name as `<Worker>-<binding>`.
  async a_deployment_makes_the_queues_of_its_producers_and_the_next_one_finds_them() {
    const directory = join(home, "makes");
    mkdirSync(directory);
    const code = `export default { async queue(batch, env) {
      for (const { body } of batch.messages) await env.RECEIPT_BOX.send({ said: body.name });
    } };`;
    writeFileSync(join(directory, "index.js"), code);
    const config = `name = "makes"
main = "index.js"
compatibility_date = "2026-04-01"
[[queues.producers]]
binding = "SELF"
queue = "makes-in"
[[queues.producers]]
binding = "RECEIPT_BOX"
[[queues.consumers]]
queue = "makes-in"
max_batch_timeout = 0
`;
    writeFileSync(join(directory, "wrangler.toml"), config);
    const found = async (name) => (await api("GET", `/queues?name=${name}`)).map(({ queue_id }) => queue_id);
    assert.deepEqual(await found("makes-in"), []);
    const first = await runs(NEW, directory, ["deploy"]);
    for (const part of [/new Queue "makes-in"/, /new Queue "makes-receipt-box"/]) assert.match(first, part);
    const ids = [...(await found("makes-in")), ...(await found("makes-receipt-box"))];
    assert.equal(ids.length, 2);
    const again = await runs(NEW, directory, ["deploy"]);
    assert.doesNotMatch(again, /new Queue/);
    assert.deepEqual([...(await found("makes-in")), ...(await found("makes-receipt-box"))], ids);
    await send(ids[0], { name: "made" });
    await until("it", async () => (await lies(ids[1])).length === 1);
    assert.deepEqual(await lies(ids[1]), [{ said: "made" }]);
  },

  async a_stack_in_the_log_of_a_worker_has_places_of_its_source() {
    const directory = join(home, "mapped");
    mkdirSync(join(directory, "src"), { recursive: true });
    // The bundle has both in one file, without the types and the empty lines.
    writeFileSync(join(directory, "src/fails.ts"), `\n\ninterface Order { id: number }\n\nexport function fails(order: Order): never {\n  throw new Error("order " + order.id);\n}\n`);
    writeFileSync(
      join(directory, "src/index.ts"),
      `import { fails } from "./fails";\nexport default { async queue(batch: { messages: { body: { id: number } }[] }) {\n  fails(batch.messages[0].body);\n} };\n`,
    );
    const config = `name = "mapped"
main = "src/index.ts"
compatibility_date = "2026-04-01"
upload_source_maps = true
[[queues.consumers]]
queue = "mapped-in"
max_batch_timeout = 0
max_retries = 0
`;
    writeFileSync(join(directory, "wrangler.toml"), config);
    const input = await queue("mapped-in");
    await runs(NEW, directory, ["deploy"]);
    await send(input, { id: 7 });
    const line = await until("its exception", async () => {
      const { lines } = await api("GET", "/workers/scripts/mapped/kew-log?after=0");
      return lines.find(({ text }) => text.includes("order 7"));
    });
    for (const place of [/at fails \(src\/fails\.ts:6:9\)/, /src\/index\.ts:3:3\)/]) assert.match(line.text, place);
  },

  async a_project_that_does_not_start_fails_its_deployment_and_what_ran_runs_on() {
    const { directory, input, output } = await project("broken");
    await runs(NEW, directory, ["deploy"]);
    writeFileSync(join(directory, "src/shout.ts"), `${SHOUT}throw new Error("broken at the top");\n`);
    const { code, text } = await wrangler(NEW, directory, ["deploy"]);
    assert.notEqual(code, 0, text);
    assert.match(text, /broken at the top/);
    await send(input, { name: "still" });
    await until("it", async () => (await lies(output)).length === 1);
  },

  // [seed] The last writer wins, as a whole: there is no merging.
  async a_deployment_overwrites_what_was_changed_and_a_change_overwrites_a_deployment() {
    const { directory, input } = await project("writers", "", "max_retries = 7\nretry_delay = 30");
    await runs(NEW, directory, ["deploy"]);
    const settings = async () => (await shown(input)).consumers[0].settings;
    assert.deepEqual([(await settings()).max_retries, (await settings()).retry_delay], [7, 30]);
    const { consumer_id } = (await shown(input)).consumers[0];
    const change = { type: "worker", script_name: "writers", settings: { max_retries: 2 } };
    await api("PUT", `/queues/${input}/consumers/${consumer_id}`, change);
    assert.deepEqual([(await settings()).max_retries, (await settings()).retry_delay ?? 0], [2, 0]);
    await runs(NEW, directory, ["deploy"]);
    assert.deepEqual([(await settings()).max_retries, (await settings()).retry_delay], [7, 30]);
    configure(directory, "writers");
    await runs(NEW, directory, ["deploy"]);
    assert.deepEqual([(await settings()).max_retries, (await settings()).retry_delay ?? 0], [3, 0]);
  },

  async versions_are_listed_and_viewed_and_a_rollback_goes_to_what_ran_before() {
    const { directory, input, output } = await project("versions");
    await runs(NEW, directory, ["deploy"]);
    const says = async (name, expected) => {
      await send(input, { name });
      const found = await until(name, async () => (await lies(output)).find(({ said }) => said.endsWith(name.toUpperCase())));
      assert.equal(found.said, `${expected} ${name.toUpperCase()}`);
    };
    await says("one", "HELLO");
    const config = join(directory, "wrangler.toml");
    writeFileSync(config, readFileSync(config, "utf8").replace("hello", "welcome").replace("2024-04-01", "2025-04-01"));
    await runs(NEW, directory, ["versions", "upload", "--tag", "v2", "--message", "another greeting"]);
    await says("two", "HELLO");
    const listed = JSON.parse(await printed(NEW, directory, ["versions", "list", "--json"]));
    assert.deepEqual(listed.map(({ number }) => number), [1, 2]);
    const [first, second] = listed.map(({ id }) => id);
    const viewed = await runs(NEW, directory, ["versions", "view", second]);
    for (const part of [/another greeting/, /v2/, /2025-04-01/, /welcome/, /versions-out/]) assert.match(viewed, part);
    const before = await runs(NEW, directory, ["versions", "view", first]);
    for (const part of [/2024-04-01/, /hello/]) assert.match(before, part);
    await runs(NEW, directory, ["versions", "deploy", `${second}@100%`, "--yes", "--message", "go"]);
    await says("three", "WELCOME");
    assert.match(await runs(NEW, directory, ["rollback", "--yes", "--message", "not yet"]), new RegExp(`${first} has been deployed`));
    await says("four", "HELLO");
    const deployments = JSON.parse(await printed(NEW, directory, ["deployments", "list", "--json"]));
    assert.deepEqual(deployments.map(({ versions }) => versions[0].version_id), [first, second, first]);
    assert.match(await runs(NEW, directory, ["deployments", "list"]), /not yet/);
    assert.match(await runs(NEW, directory, ["deployments", "status"]), new RegExp(first));
  },

  async the_example_of_a_worker_gives_the_receipt_of_its_readme_and_says_so_at_the_terminal() {
    const example = fileURLToPath(new URL("../../examples/worker", import.meta.url));
    const directory = join(home, "example");
    cpSync(example, directory, { recursive: true });
    const bundlers = fileURLToPath(new URL("node_modules/.bin", import.meta.url));
    const options = { cwd: directory, env: { PATH: `${bundlers}:${env.PATH}`, HOME: home } };
    const dev = spawn(process.env.KEW_PROGRAM, ["workers", "dev", "--cloudflare", process.env.KEW_CLOUDFLARE], options);
    let shown = "";
    for (const stream of [dev.stdout, dev.stderr]) stream.on("data", (data) => (shown += data));
    try {
      await until("its deployment", async () => shown.includes("orders consumes orders-in"));
      const readme = readFileSync(join(directory, "README.md"), "utf8");
      const commands = [...readme.matchAll(/```sh\n([^]*?)```/g)].at(-1)[1];
      assert.match(commands, /receipts/);
      const here = commands.replaceAll("http://127.0.0.1:9326", process.env.KEW_CLOUDFLARE);
      const pasted = await new Promise((resolve) =>
        execFile("bash", ["-eu", "-c", here], { cwd: directory, timeout: 60_000 }, (error, out, errors) =>
          resolve({ error, text: out + errors }),
        ),
      );
      assert.equal(pasted.error, null, pasted.text);
      const receipt = Buffer.from(JSON.stringify({ receipt: 7, attempts: 1 })).toString("base64");
      assert.ok(pasted.text.includes(receipt), pasted.text);
      await until("the line of its log", async () => shown.includes("[log] order 7 of orders-in is done"));
      // Once, whichever node is asked.
      for (let asked = 0; asked < 9; asked += 1) {
        const { lines } = await api("GET", "/workers/scripts/orders/kew-log?after=0");
        assert.equal(lines.filter(({ text }) => text === "order 7 of orders-in is done").length, 1);
      }
    } catch (error) {
      throw new Error(`${error.message}; at the terminal: ${shown}`);
    } finally {
      dev.kill();
    }
  },
};

// One after the other: they share a clock.
await play(scenarios);
