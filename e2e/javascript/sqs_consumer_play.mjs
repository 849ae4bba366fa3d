// sqs-consumer: the handler loop many Node services are built on, one queue per scenario.

import * as sdk from "@aws-sdk/client-sqs";
import assert from "node:assert/strict";
import { createInterface } from "node:readline";
import { setTimeout as rest } from "node:timers/promises";
import { Consumer } from "sqs-consumer";

const PATIENCE_MS = 30_000;
const sqs = new sdk.SQSClient({
  endpoint: process.env.KEW_ENDPOINT,
  region: "us-east-1",
  credentials: { accessKeyId: "any", secretAccessKey: "any" },
});
const told = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

const ask = (action, input) => sqs.send(new sdk[`${action}Command`](input));

async function clock(seconds) {
  console.log(`CLOCK ${seconds * 1000}`);
  await told.next();
}

async function queue(name, attributes) {
  return (await ask("CreateQueue", { QueueName: `consumer-${name}`, Attributes: attributes })).QueueUrl;
}

async function send(queueUrl, ...bodies) {
  const Entries = bodies.map((MessageBody, n) => ({ Id: `${n}`, MessageBody }));
  await ask("SendMessageBatch", { QueueUrl: queueUrl, Entries });
}

/** Messages still there: visible and in flight. */
async function left(queueUrl) {
  const AttributeNames = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"];
  const { Attributes } = await ask("GetQueueAttributes", { QueueUrl: queueUrl, AttributeNames });
  return AttributeNames.map((name) => Number(Attributes[name]));
}

async function until(what, isTrue) {
  const begun = Date.now();
  while (!(await isTrue())) {
    if (Date.now() - begun > PATIENCE_MS) throw new Error(`not in time: ${what}`);
    await rest(20);
  }
}

const emptied = (queueUrl) =>
  until("an empty queue", async () => (await left(queueUrl)).every((count) => count === 0));

/** Runs a consumer while `during` looks on. */
async function consume(options, during) {
  const errors = [];
  const consumer = Consumer.create({ sqs, waitTimeSeconds: 1, suppressFifoWarning: true, ...options });
  for (const event of ["error", "processing_error", "timeout_error"]) {
    consumer.on(event, (error) => errors.push(error));
  }
  consumer.start();
  try {
    await during(errors);
  } finally {
    consumer.stop({ abort: true });
  }
}

const scenarios = {
  async messages_are_handled_once_and_deleted() {
    const queueUrl = await queue("plain");
    const seen = [];
    const handleMessage = async (message) => {
      seen.push(message.Body);
      return message;
    };
    await consume({ queueUrl, handleMessage }, async (errors) => {
      await send(queueUrl, "1", "2", "3");
      await emptied(queueUrl);
      assert.deepEqual(seen.sort(), ["1", "2", "3"]);
      assert.deepEqual(errors, []);
    });
  },

  async of_a_batch_only_what_the_handler_names_is_deleted() {
    const queueUrl = await queue("batch");
    await send(queueUrl, "keep", "done 1", "done 2");
    let batch;
    const handleMessageBatch = async (messages) => {
      batch = messages.map((message) => message.Body);
      return messages.filter((message) => message.Body.startsWith("done"));
    };
    await consume({ queueUrl, batchSize: 10, handleMessageBatch }, async (errors) => {
      await until("two deletions", async () => (await left(queueUrl)).join() === "0,1");
      assert.deepEqual(batch, ["keep", "done 1", "done 2"]);
      assert.deepEqual(errors, []);
    });
  },

  async a_message_whose_handler_fails_comes_back_at_once() {
    const queueUrl = await queue("fails");
    const counts = [];
    const handleMessage = async (message) => {
      counts.push(message.Attributes.ApproximateReceiveCount);
      if (counts.length < 3) throw new Error("not yet");
      return message;
    };
    const options = { terminateVisibilityTimeout: true, messageSystemAttributeNames: ["ApproximateReceiveCount"] };
    await consume({ queueUrl, handleMessage, ...options }, async (errors) => {
      await send(queueUrl, "x");
      await until("a third try", () => counts.length >= 3);
      await emptied(queueUrl);
      assert.deepEqual(counts, ["1", "2", "3"]);
      assert.equal(errors.length, 2);
    });
  },

  async a_heartbeat_keeps_a_message_hidden_while_it_is_worked_on() {
    const queueUrl = await queue("heartbeat");
    let finish;
    let begun = 0;
    const handleMessage = async (message) => {
      begun += 1;
      await new Promise((resolve) => (finish = resolve));
      return message;
    };
    // The queue hides for 30 seconds; the heart beats every second of real time.
    const options = { visibilityTimeout: 30, heartbeatInterval: 1 };
    await consume({ queueUrl, handleMessage, ...options }, async (errors) => {
      await send(queueUrl, "long work");
      await until("work begun", () => begun === 1);
      for (let beat = 0; beat < 3; beat += 1) {
        await rest(1_500);
        await clock(25);
      }
      // 75 seconds after the receive: without heartbeats it would have been offered twice.
      assert.equal((await ask("ReceiveMessage", { QueueUrl: queueUrl })).Messages, undefined);
      finish();
      await emptied(queueUrl);
      assert.equal(begun, 1);
      assert.deepEqual(errors, []);
    });
  },

  async a_missing_queue_is_told_as_an_error() {
    const queueUrl = `${process.env.KEW_ENDPOINT}/000000000000/consumer-none`;
    await consume({ queueUrl, handleMessage: async (message) => message }, async (errors) => {
      await until("an error", () => errors.length > 0);
      assert.equal(errors[0].name, "SQSError");
      assert.match(errors[0].message, /specified queue does not exist/);
      assert.match(errors[0].code, /QueueDoesNotExist|NonExistentQueue/);
    });
  },
};

for (const [name, play] of Object.entries(scenarios)) {
  try {
    await play();
    console.log(`PASS ${name}`);
  } catch (error) {
    console.error(error);
    console.log(`FAIL ${name}: ${String(error.message).replaceAll("\n", " ")}`);
  }
}
process.exit(0);
