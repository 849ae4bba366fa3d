// Makes the calls it is told with the AWS SDK for JavaScript, version 3.
// One JSON object a line in, one a line out; xtask/src/e2e/agent.rs says what they hold.

import * as sdk from "@aws-sdk/client-sqs";
import { createInterface } from "node:readline";

const clients = new Map();

function client({ endpoint, region, key, secret }) {
  const name = [endpoint, region, key].join(" ");
  if (!clients.has(name)) {
    const credentials = { accessKeyId: key, secretAccessKey: secret };
    clients.set(name, new sdk.SQSClient({ endpoint, region, credentials }));
  }
  return clients.get(name);
}

/** The input with blobs as bytes. */
function decoded(value) {
  if (Array.isArray(value)) return value.map(decoded);
  if (value === null || typeof value !== "object") return value;
  const entry = ([name, inner]) => [name, name === "BinaryValue" ? Buffer.from(inner, "base64") : decoded(inner)];
  return Object.fromEntries(Object.entries(value).map(entry));
}

/** The output with bytes as Base64. */
function encoded(value) {
  if (value instanceof Uint8Array) return Buffer.from(value).toString("base64");
  if (Array.isArray(value)) return value.map(encoded);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, encoded(inner)]));
}

async function answer(call) {
  try {
    const command = new sdk[`${call.action}Command`](decoded(call.input));
    const { $metadata, ...output } = await client(call).send(command);
    if (!$metadata.requestId) throw new Error("an answer without a request id");
    return { output: encoded(output) };
  } catch (error) {
    if (!(error instanceof sdk.SQSServiceException)) return { broken: String(error.stack) };
    // A modelled error is an instance of the class of its name.
    const modelled = sdk[error.name] && error instanceof sdk[error.name];
    return { error: { class: modelled ? error.name : "", code: error.Code ?? error.name, message: error.message } };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const call = JSON.parse(line);
  answer(call).then((told) => process.stdout.write(`${JSON.stringify({ id: call.id, ...told })}\n`));
}
process.exit(0);
