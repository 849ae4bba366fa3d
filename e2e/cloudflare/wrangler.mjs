// What the scripts of wrangler share: its program, a home of its own, the server's API, and what scenarios wait for.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const ACCOUNT = "00000000000000000000000000000000";
const BASE = `${process.env.KEW_CLOUDFLARE}/client/v4`;
export const NEW = fileURLToPath(new URL("node_modules/wrangler/bin/wrangler.js", import.meta.url));
export const home = mkdtempSync(join(tmpdir(), "kew-wrangler-"));
export const env = {
  PATH: process.env.PATH,
  HOME: home,
  CI: "1",
  NO_COLOR: "1",
  WRANGLER_SEND_METRICS: "false",
  CLOUDFLARE_API_BASE_URL: BASE,
  CLOUDFLARE_API_TOKEN: "any",
  CLOUDFLARE_ACCOUNT_ID: ACCOUNT,
};

/** Exit code and everything that was printed. */
export function wrangler(program, cwd, words, input) {
  return new Promise((resolve) => {
    const options = { cwd, env, timeout: 120_000 };
    const child = execFile(process.execPath, [program, ...words], options, (error, out, errors) =>
      resolve({ code: error ? (error.code ?? 1) : 0, text: out + errors }),
    );
    child.stdin.end(input ?? "");
  });
}

export async function runs(program, cwd, words, input) {
  const { code, text } = await wrangler(program, cwd, words, input);
  assert.equal(code, 0, text);
  return text;
}

export async function api(method, path, body) {
  const headers = { authorization: "Bearer any" };
  const answer = await fetch(`${BASE}/accounts/${ACCOUNT}${path}`, { method, headers, body: body && JSON.stringify(body) });
  const reply = await answer.json();
  assert.ok(reply.success, JSON.stringify(reply));
  return reply.result;
}

/** Makes a queue. Returns its id. */
export const queue = async (name) => (await api("POST", "/queues", { queue_name: name })).queue_id;

/** The messages of a queue, at most 100; none is taken. */
export async function peek(id) {
  return (await api("POST", `/queues/${id}/messages/peek`, { batch_size: 100 })).messages;
}

/** Waits at most a minute until `is` answers something true. Returns that. */
export async function until(what, is) {
  for (let tries = 0; tries < 1_200; tries += 1) {
    const found = await is();
    if (found) return found;
    await sleep(50);
  }
  assert.fail(`waited in vain for ${what}`);
}

/** Plays scenarios one after the other, says what became of each, and ends the process. */
export async function play(scenarios) {
  for (const [name, scenario] of Object.entries(scenarios)) {
    try {
      await scenario();
      console.log(`PASS ${name}`);
    } catch (error) {
      console.error(error);
      console.log(`FAIL ${name}: ${String(error.message).replaceAll("\n", " ").slice(0, 500)}`);
    }
  }
  rmSync(home, { recursive: true, force: true });
  process.exit(0);
}
