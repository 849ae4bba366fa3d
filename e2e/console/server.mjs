// A Kew with something to look at: started on free ports over a store in memory, filled through its admin API.

import { execFileSync, spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

const PROGRAM = process.env.KEW_PROGRAM ?? "target/debug/kew";
/** The server refuses variables of ours that it does not know. */
const ENVIRONMENT = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith("KEW_")));
const PATIENCE_MS = 30_000;

export const TOKEN = "a-token-for-tests";

/** The hash of a password, as the server's settings want it. */
export const hash = (password) => execFileSync(PROGRAM, ["admin", "hash"], { input: password, env: ENVIRONMENT }).toString().trim();

/** Starts a server; `config` are the lines of its file. Its store is in memory unless it is to have files. */
export const start = async (flags = [], config = "", hasFiles = false) => {
  const directory = await mkdtemp(join(tmpdir(), "kew-console-"));
  const [ports, file] = [join(directory, "ports.json"), join(directory, "kew.toml")];
  await writeFile(file, config, { mode: 0o600 });
  const listeners = ["sqs", "azure", "cloudflare", "admin"].flatMap((name) => [`--${name}`, "127.0.0.1:0"]);
  const store = hasFiles ? join(directory, "data") : "memory";
  const words = ["serve", "--store", store, "--config", file, "--ports-file", ports, ...listeners, ...flags];
  const child = spawn(PROGRAM, words, { stdio: ["ignore", "ignore", "inherit"], env: ENVIRONMENT });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const begun = Date.now();
  let bound = null;
  while (!bound) {
    if (child.exitCode !== null) throw new Error(`${PROGRAM} ended with ${child.exitCode}`);
    if (Date.now() - begun > PATIENCE_MS) throw new Error(`${PROGRAM} is not ready`);
    bound = await readFile(ports, "utf8").then(JSON.parse).catch(() => null);
    if (!bound) await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const url = `http://${bound.admin}`;
  const stop = async () => {
    child.kill("SIGTERM");
    await ended;
    await rm(directory, { recursive: true, force: true });
  };
  return { url, stop, directory, api: (path, body, method = "POST") => ask(url, path, body, method) };
};

const ask = async (url, path, body, method) => {
  const headers = { "Content-Type": "application/json", Authorization: `Bearer ${TOKEN}` };
  const reply = await fetch(`${url}/api/v1${path}`, { method, headers, body: JSON.stringify(body) });
  if (!reply.ok) throw new Error(`${method} ${path}: ${reply.status} ${await reply.text()}`);
  return reply.json();
};

/** Queues and messages of every kind and state. */
export const fill = async (kew) => {
  await kew.api("/queues", { name: "orders-dead" });
  const settings = { dead_letters_to: "orders-dead", max_attempts: 2, visibility_seconds: 60 };
  await kew.api("/queues", { name: "orders", settings });
  await kew.api("/queues", { name: "payments.fifo" });
  await kew.api("/queues", { name: "a-quite-long-name-of-a-queue-that-takes-long-to-type-every-day" });
  for (const name of ["emails", "invoices", "thumbnails", "webhooks"]) await kew.api("/queues", { name });
  for (let number = 0; number < 60; number += 1) {
    const body = JSON.stringify({ order: { id: number, lines: [{ sku: `A-${number}`, count: 2 }] }, paid: number % 2 === 0 });
    await kew.api("/queues/orders/messages", { body, content_type: "json" });
  }
  // Some are leased too often and go to the dead-letter queue; some stay leased, some are delayed.
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const { messages } = await kew.api("/queues/orders/receive", { max: 3, visibility_seconds: 60 });
    await kew.api("/queues/orders/settle", { release: messages.map((one) => one.receipt) });
  }
  await kew.api("/queues/orders/receive", { max: 4, visibility_seconds: 600 });
  await kew.api("/queues/orders/messages", { body: "a late one", delay_seconds: 900 });
  await kew.api("/queues/orders/messages", { body: "a very late one", delay_seconds: 40_000 });
  const hostile = "<script>alert(1)</script>\u202eevil\u0000 <img src=x onerror=alert(1)>";
  const odd = await kew.api("/queues/orders/messages", { body: hostile, attributes: { "colour": "<b>red</b>" } });
  const bytes = Buffer.from([0, 1, 2, 254, 255]).toString("base64");
  await kew.api("/queues/orders/messages", { body_base64: bytes, content_type: "bytes" });
  for (const group of ["anna", "bert"]) {
    for (const step of ["open", "pay", "close"]) {
      await kew.api("/queues/payments.fifo/messages", { body: step, group, deduplication_id: `${group}-${step}` });
    }
  }
  await kew.api("/queues/payments.fifo/receive", { max: 1, visibility_seconds: 600 });
  const { messages } = await kew.api("/queues/orders/messages?state=in_flight&limit=1", undefined, "GET");
  const dead = await kew.api("/queues/orders-dead/messages?limit=1", undefined, "GET");
  // What a heat map is made of: messages that a consumer had for a while, in two lengths.
  for (const pause of [0, 150]) {
    for (let number = 0; number < 12; number += 1) await kew.api("/queues/thumbnails/messages", { body: `image ${number}` });
    const { messages: worked } = await kew.api("/queues/thumbnails/receive", { max: 12 });
    await new Promise((done) => setTimeout(done, pause));
    await kew.api("/queues/thumbnails/settle", { delete: worked.map((one) => one.receipt) });
  }
  await kew.api("/queues/emails/messages", { body: "moved slowly" });
  await kew.api("/queues/emails/messages", { body: "moved slowly, too" });
  const { task } = await kew.api("/queues/emails/redrive", { to: "invoices", per_second: 1 });
  return { odd: odd.id, leased: messages[0].id, dead: dead.messages[0].id, task };
};
