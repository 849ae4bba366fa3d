// wrangler dev: what a project's producers send reaches a running Kew, through the Worker of examples/wrangler-dev.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { NEW, api, env, home, peek, play, queue, until } from "./wrangler.mjs";

const EXAMPLE = fileURLToPath(new URL("../../examples/wrangler-dev", import.meta.url));
const CODE = `
class Order { lamps = 2 }
const ways = {
  all: (queue) => queue.sendBatch([
    { body: { a: 1 } },
    { body: "text", contentType: "text" },
    { body: new Uint8Array([0, 127, 255]), contentType: "bytes" },
    { body: "later", delaySeconds: 60 },
  ]),
  later: (queue) => queue.send([1], { delaySeconds: 60 }),
  metrics: async (queue) => {
    const { backlogCount, backlogBytes, oldestMessageTimestamp } = (await queue.send("seen")).metadata.metrics;
    return { backlogCount, backlogBytes, isDate: oldestMessageTimestamp instanceof Date };
  },
  tooLate: (queue) => queue.send("never", { delaySeconds: 86_401 }),
  noBytes: (queue) => queue.send("abc", { contentType: "bytes" }),
  instance: (queue) => queue.send(new Order()),
  v8: (queue) => queue.send(new Map(), { contentType: "v8" }),
};
export default {
  async fetch(request, env) {
    const [, way, binding] = new URL(request.url).pathname.split("/");
    try {
      return Response.json({ result: await ways[way](env[binding]) ?? null });
    } catch (error) {
      return Response.json({ error: error.message });
    }
  },
};
`;

/** A copy of the example whose Worker sends to the Kew at this address. */
function project(name, address) {
  const directory = join(home, name);
  cpSync(EXAMPLE, directory, { recursive: true });
  const config = join(directory, "kew-queues/wrangler.toml");
  writeFileSync(config, readFileSync(config, "utf8").replace("http://127.0.0.1:9326", address));
  return directory;
}

/** The same with an application that sends in several ways, and these queues under these bindings. */
function ways(name, queues, address = process.env.KEW_CLOUDFLARE) {
  const directory = project(name, address);
  const services = Object.entries(queues).map(([binding, of]) =>
    `[[env.dev.services]]
binding = "${binding}"
service = "kew-queues"
entrypoint = "Queue"
props = { queue = "${of}" }
`,
  );
  mkdirSync(join(directory, "ways"));
  writeFileSync(join(directory, "ways/index.js"), CODE);
  const config = `name = "ways"\nmain = "index.js"\ncompatibility_date = "2026-04-01"\n\n[env.dev]\n\n`;
  writeFileSync(join(directory, "ways/wrangler.toml"), config + services.join("\n"));
  return directory;
}

/** Runs wrangler dev for an application of a project while `use` asks its address. */
async function dev(directory, application, use) {
  const words = ["dev", "--env", "dev", "--ip", "127.0.0.1", "--port", "0", "--inspector-port", "0"];
  const configs = ["-c", `${application}/wrangler.toml`, "-c", "kew-queues/wrangler.toml"];
  const child = spawn(process.execPath, [NEW, ...words, ...configs], { cwd: directory, env });
  let shown = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (shown += data));
  try {
    const [, address] = await until("its address", () => shown.match(/Ready on (http:\/\/127\.0\.0\.1:\d+)/));
    await use(address);
  } catch (error) {
    throw new Error(`${error.message}; at the terminal: ${shown}`);
  } finally {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill();
    await ended;
  }
}

/** A Kew that checks tokens: without accounts of its own it knows the token `test`. Ends after `use`. */
async function strict(use) {
  const ports = join(home, "strict-ports");
  const words = ["serve", "--store", "memory", "--auth", "strict", "--ports-file", ports, "--cloudflare", "127.0.0.1:0"];
  const others = ["sqs", "azure", "admin"].flatMap((name) => [`--${name}`, "off"]);
  const variables = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("KEW_")));
  const child = spawn(process.env.KEW_PROGRAM, [...words, ...others], { env: variables, stdio: "ignore" });
  try {
    await until("the strict server", () => existsSync(ports));
    await use(`http://${JSON.parse(readFileSync(ports, "utf8")).cloudflare}`);
  } finally {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill();
    await ended;
  }
}

const ask = async (address, path) => (await fetch(`${address}/${path}`)).json();
const body = (message) => Buffer.from(message.body, "base64").toString();

const scenarios = {
  async the_example_sends_its_orders_to_kew() {
    const id = await queue("orders");
    const directory = project("example", process.env.KEW_CLOUDFLARE);
    const commands = [...readFileSync(join(directory, "README.md"), "utf8").matchAll(/```sh\n([^]*?)```/g)].at(-1)[1];
    await dev(directory, "app", async (address) => {
      const here = commands.replaceAll("http://127.0.0.1:8787", address);
      const pasted = await new Promise((resolve) =>
        execFile("bash", ["-eu", "-c", here], { cwd: directory, env, timeout: 60_000 }, (error, out, errors) =>
          resolve({ error, text: out + errors }),
        ),
      );
      assert.equal(pasted.error, null, pasted.text);
      assert.match(pasted.text, /The order was sent/);
      assert.ok(pasted.text.includes(Buffer.from('{"order":"two lamps"}').toString("base64")), pasted.text);
    });
    assert.deepEqual((await peek(id)).map(body), ['{"order":"two lamps"}']);
  },

  async messages_arrive_with_their_content_types_and_delays() {
    const [one, two] = [await queue("one"), await queue("two")];
    await dev(ways("types", { ONE: "one", TWO: "two" }), "ways", async (address) => {
      assert.deepEqual(Object.keys(await ask(address, "all/ONE")), ["result"]);
      const { result } = await ask(address, "metrics/TWO");
      assert.deepEqual(result, { backlogCount: 1, backlogBytes: 6, isDate: true });
      assert.deepEqual(Object.keys(await ask(address, "later/TWO")), ["result"]);
    });
    const found = (await peek(one)).map((message) => [message.metadata["CF-Content-Type"], message.body]);
    const json = Buffer.from('{"a":1}').toString("base64");
    assert.deepEqual(found, [["json", json], ["text", "text"], ["bytes", "AH//"]], "the fourth is delayed");
    assert.deepEqual((await peek(two)).map(body), ['"seen"']);
    const delayed = async (id) => (await api("GET", `/queues/${id}/metrics`)).delayed_count;
    assert.deepEqual([await delayed(one), await delayed(two)], [1, 1]);
  },

  async a_send_that_kew_cannot_take_rejects_and_says_why() {
    const id = await queue("refused");
    await dev(ways("refusals", { REFUSED: "refused", NOWHERE: "nowhere" }), "ways", async (address) => {
      const says = async (path) => (await ask(address, path)).error;
      assert.match(await says("tooLate/REFUSED"), /delay_seconds.*\(\d+\)/);
      assert.match(await says("v8/REFUSED"), /"json", "text" or "bytes"/);
      assert.match(await says("noBytes/REFUSED"), /is an ArrayBuffer or a view of one/);
      assert.match(await says("instance/REFUSED"), /Could not serialize object of type "Order"/);
      assert.match(await says("later/NOWHERE"), /has no queue "nowhere": make it/);
    });
    const other = `${process.env.KEW_CLOUDFLARE}/elsewhere`;
    await dev(ways("other", { OTHER: "refused" }, other), "ways", async (address) => {
      assert.match((await ask(address, "later/OTHER")).error, /\/elsewhere/);
    });
    await dev(ways("nobody", { GONE: "refused" }, "http://127.0.0.1:1"), "ways", async (address) => {
      assert.match((await ask(address, "later/GONE")).error, /Kew does not answer at http:\/\/127\.0\.0\.1:1/);
    });
    assert.deepEqual(await peek(id), []);
  },

  async a_wrong_token_is_named_and_the_right_one_sends() {
    await strict(async (kew) => {
      const headers = { authorization: "Bearer test" };
      const queues = `${kew}/client/v4/accounts/00000000000000000000000000000000/queues`;
      const made = await fetch(queues, { method: "POST", headers, body: JSON.stringify({ queue_name: "guarded" }) });
      assert.equal(made.status, 200, await made.clone().text());
      for (const [token, expected] of [["wrong", /: KEW_TOKEN is no token of Kew at /], ["test", undefined]]) {
        const directory = ways(`token-${token}`, { GUARDED: "guarded" }, kew);
        const config = join(directory, "kew-queues/wrangler.toml");
        writeFileSync(config, readFileSync(config, "utf8").replace('KEW_TOKEN = "test"', `KEW_TOKEN = "${token}"`));
        await dev(directory, "ways", async (address) => {
          const { error } = await ask(address, "later/GUARDED");
          if (expected) assert.match(error, expected);
          else assert.equal(error, undefined);
        });
      }
    });
  },
};

await play(scenarios);
