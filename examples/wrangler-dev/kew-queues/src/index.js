// Producer bindings for `wrangler dev`: what is sent to them goes to the queues of a Kew that runs.
//
// An application binds `Queue` as a service, with the queue's name in `props`. `send` and `sendBatch` take what a queue
// binding takes, and resolve once Kew has stored the messages.

import { WorkerEntrypoint } from "cloudflare:workers";

export class Queue extends WorkerEntrypoint {
  /** Sends one message. */
  async send(body, options) {
    return this.#post("messages", message({ ...options, body }));
  }

  /** Sends an array of messages, each with its own options: all or none. */
  async sendBatch(messages, options) {
    return this.#post("messages/batch", { messages: messages.map(message), ...delay(options) });
  }

  async #post(path, body) {
    const id = await this.#id();
    const { metadata } = await this.#ask(`/${id}/${path}`, { method: "POST", body: JSON.stringify(body) });
    const { backlog_count, backlog_bytes, oldest_message_timestamp_ms } = metadata.metrics;
    const metrics = {
      backlogCount: backlog_count,
      backlogBytes: backlog_bytes,
      oldestMessageTimestamp: new Date(oldest_message_timestamp_ms),
    };
    return { metadata: { metrics } };
  }

  /** The id of the queue with the name in `props`. Asked each time: the queue may have been made anew. */
  async #id() {
    const { queue } = this.ctx.props;
    const found = await this.#ask(`?name=${encodeURIComponent(queue)}`);
    const exact = found.find(({ queue_name }) => queue_name === queue);
    if (exact === undefined) {
      throw new Error(`Kew at ${this.env.KEW_URL} has no queue "${queue}": make it with wrangler queues create`);
    }
    return exact.queue_id;
  }

  async #ask(path, init) {
    const { KEW_URL, KEW_ACCOUNT, KEW_TOKEN } = this.env;
    const headers = { authorization: `Bearer ${KEW_TOKEN}`, "content-type": "application/json" };
    let response;
    try {
      response = await fetch(`${KEW_URL}/accounts/${KEW_ACCOUNT}/queues${path}`, { ...init, headers });
    } catch (error) {
      throw new Error(`Kew does not answer at ${KEW_URL}: ${error.message}`);
    }
    const reply = await response.json().catch(() => undefined);
    if (reply?.errors === undefined) {
      throw new Error(`What answers at ${KEW_URL} is not Kew's Cloudflare API (status ${response.status})`);
    }
    if (!reply.success) {
      const why = reply.errors.map(({ code, message }) => `${message} (${code})`).join("; ");
      const isToken = response.status === 401 || response.status === 403;
      throw new Error(isToken ? `${why}: KEW_TOKEN is no token of Kew at ${KEW_URL} that may read and write queues` : why);
    }
    return reply.result;
  }
}

/** A message as Kew's API takes it. */
function message({ body, contentType = "json", ...options }) {
  switch (contentType) {
    case "json":
    case "text":
      return { body, content_type: contentType, ...delay(options) };
    case "bytes":
      return { body: base64(body), content_type: "bytes", ...delay(options) };
    default:
      throw new TypeError(`contentType is "json", "text" or "bytes" here, not "${contentType}"`);
  }
}

function delay({ delaySeconds } = {}) {
  return delaySeconds === undefined ? {} : { delay_seconds: delaySeconds };
}

function base64(body) {
  const isView = ArrayBuffer.isView(body);
  if (!isView && !(body instanceof ArrayBuffer)) {
    throw new TypeError('a body of contentType "bytes" is an ArrayBuffer or a view of one');
  }
  const bytes = isView ? new Uint8Array(body.buffer, body.byteOffset, body.byteLength) : new Uint8Array(body);
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

export default {
  fetch() {
    return new Response("This Worker has no page; applications bind its entrypoint Queue.\n", { status: 404 });
  },
};
