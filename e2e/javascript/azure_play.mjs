// @azure/storage-queue: every operation of its queue and service clients, one queue per scenario.

import {
  AccountSASPermissions,
  AccountSASResourceTypes,
  AccountSASServices,
  QueueClient,
  QueueSASPermissions,
  QueueServiceClient,
  StorageSharedKeyCredential,
  generateAccountSASQueryParameters,
} from "@azure/storage-queue";
import assert from "node:assert/strict";
import { createInterface } from "node:readline";

const ACCOUNT = "devstoreaccount1";
const KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
const ENDPOINT = `${process.env.KEW_AZURE}/${ACCOUNT}`;
const OPTIONS = { retryOptions: { maxTries: 1 } };
const credential = new StorageSharedKeyCredential(ACCOUNT, KEY);
const service = QueueServiceClient.fromConnectionString(
  `DefaultEndpointsProtocol=http;AccountName=${ACCOUNT};AccountKey=${KEY};QueueEndpoint=${ENDPOINT};`,
  OPTIONS,
);
const told = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function clock(seconds) {
  console.log(`CLOCK ${seconds * 1000}`);
  await told.next();
}

async function queue(name, options) {
  const client = service.getQueueClient(`javascript-${name}`);
  await client.create(options);
  return client;
}

async function received(client, options) {
  return (await client.receiveMessages(options)).receivedMessageItems;
}

async function peeked(client) {
  return (await client.peekMessages({ numberOfMessages: 32 })).peekedMessageItems.map((item) => item.messageText);
}

async function refused(statusCode, code, promise) {
  await assert.rejects(promise, (error) => {
    assert.deepEqual([error.name, error.statusCode, error.code], ["RestError", statusCode, code]);
    assert.equal(error.details.errorCode, code);
    return true;
  });
}

async function all(iterator) {
  const items = [];
  for await (const item of iterator) items.push(item);
  return items;
}

const soon = () => new Date(Date.now() + 3_600_000);

const scenarios = {
  async a_message_is_put_got_peeked_and_deleted() {
    const client = await queue("life");
    const sent = await client.sendMessage("hello");
    assert.equal(sent.expiresOn - sent.insertedOn, 7 * 86_400_000);
    const [shown] = (await client.peekMessages()).peekedMessageItems;
    assert.deepEqual([shown.messageId, shown.messageText, shown.dequeueCount], [sent.messageId, "hello", 0]);
    const [got] = await received(client, { visibilityTimeout: 10 });
    assert.deepEqual([got.messageId, got.messageText, got.dequeueCount], [sent.messageId, "hello", 1]);
    assert.deepEqual(await received(client), []);
    await client.deleteMessage(got.messageId, got.popReceipt);
    await refused(404, "MessageNotFound", client.deleteMessage(got.messageId, got.popReceipt));
    await clock(11);
    assert.deepEqual(await received(client), []);
  },

  async all_kinds_of_text_come_back() {
    const client = await queue("texts");
    // Not a line feed: the client leaves those out of what it sends.
    const texts = ["<a b='c'>&amp; ]]></a>", " Grüße, 世界 🚀 ", "tab\tend", "a".repeat(65_536), "<".repeat(65_536)];
    texts.push(Buffer.from([0, 255, 1, 254]).toString("base64"));
    for (const text of texts) await client.sendMessage(text);
    const got = await received(client, { numberOfMessages: 32 });
    assert.deepEqual(got.map((message) => message.messageText), texts);
    await refused(413, "RequestBodyTooLarge", client.sendMessage("é".repeat(32_769)));
  },

  async an_update_changes_text_time_and_receipt() {
    const client = await queue("updates");
    await client.sendMessage("one");
    const [first] = await received(client, { visibilityTimeout: 5 });
    const updated = await client.updateMessage(first.messageId, first.popReceipt, "two", 0);
    assert.notEqual(updated.popReceipt, first.popReceipt);
    await refused(400, "PopReceiptMismatch", client.updateMessage(first.messageId, first.popReceipt, "x", 1));
    await refused(400, "PopReceiptMismatch", client.deleteMessage(first.messageId, first.popReceipt));
    const [second] = await received(client, { visibilityTimeout: 5 });
    assert.deepEqual([second.messageText, second.dequeueCount], ["two", 2]);
    const kept = await client.updateMessage(second.messageId, second.popReceipt, undefined, 0);
    assert.deepEqual(await peeked(client), ["two"]);
    const emptied = await client.updateMessage(second.messageId, kept.popReceipt, "", 5);
    await clock(6);
    assert.deepEqual(await peeked(client), [""]);
    await client.deleteMessage(second.messageId, emptied.popReceipt);
    assert.deepEqual(await peeked(client), []);
  },

  async messages_wait_expire_or_stay_for_ever() {
    const client = await queue("times");
    const never = await client.sendMessage("never", { messageTimeToLive: -1 });
    assert.equal(never.expiresOn.getUTCFullYear(), 9999);
    const largest = await client.sendMessage("largest", { messageTimeToLive: Number.MAX_SAFE_INTEGER });
    assert.equal(largest.expiresOn.getUTCFullYear(), 9999);
    await client.sendMessage("brief", { messageTimeToLive: 5 });
    await client.sendMessage("later", { visibilityTimeout: 10 });
    assert.deepEqual(await peeked(client), ["never", "largest", "brief"]);
    await clock(5);
    assert.deepEqual(await peeked(client), ["never", "largest"]);
    await clock(5);
    assert.deepEqual(await peeked(client), ["never", "largest", "later"]);
    await client.clearMessages();
    assert.equal((await client.getProperties()).approximateMessagesCount, 0);
    await refused(400, "InvalidQueryParameterValue", client.sendMessage("x", { messageTimeToLive: 0 }));
    await refused(400, "OutOfRangeQueryParameterValue", client.receiveMessages({ numberOfMessages: 33 }));
  },

  async queues_come_and_go() {
    const client = service.getQueueClient("javascript-comes");
    assert.equal(await client.exists(), false);
    assert.equal((await client.deleteIfExists()).succeeded, false);
    assert.equal((await client.createIfNotExists({ metadata: { colour: "red" } })).succeeded, true);
    assert.equal((await client.createIfNotExists({ metadata: { colour: "red" } })).succeeded, false);
    assert.equal((await client.createIfNotExists({ metadata: { colour: "blue" } })).succeeded, false);
    await refused(409, "QueueAlreadyExists", client.create({ metadata: { colour: "blue" } }));
    assert.equal(await client.exists(), true);
    assert.equal((await client.deleteIfExists()).succeeded, true);
    await refused(404, "QueueNotFound", client.delete());
    await refused(404, "QueueNotFound", client.sendMessage("x"));
    await refused(404, "QueueNotFound", client.getProperties());
    await refused(400, "InvalidResourceName", service.createQueue("no--name"));
  },

  async metadata_is_set_shown_and_cleared() {
    const client = await queue("meta", { metadata: { ShoeSize: "44", colour: "red" } });
    assert.deepEqual((await client.getProperties()).metadata, { shoesize: "44", colour: "red" });
    const listed = () => all(service.listQueues({ prefix: "javascript-meta", includeMetadata: true }));
    assert.deepEqual((await listed())[0].metadata, { ShoeSize: "44", colour: "red" });
    await client.setMetadata({ other: "1" });
    assert.deepEqual((await listed())[0].metadata, { other: "1" });
    await client.setMetadata({});
    assert.deepEqual((await client.getProperties()).metadata, {});
    await refused(400, "InvalidMetadata", client.setMetadata({ "a-b": "1" }));
  },

  async lists_come_in_pages() {
    const names = Array.from({ length: 5 }, (_, n) => `javascript-page-${n}`);
    for (const name of names) await service.createQueue(name);
    const pages = await all(service.listQueues({ prefix: "javascript-page-" }).byPage({ maxPageSize: 2 }));
    assert.deepEqual(pages.map((page) => page.queueItems.length), [2, 2, 1]);
    assert.deepEqual(pages.flatMap((page) => page.queueItems.map((item) => item.name)), names);
    const [first] = pages;
    const rest = service.listQueues({ prefix: "javascript-page-" });
    const later = await all(rest.byPage({ continuationToken: first.continuationToken }));
    assert.deepEqual(later.flatMap((page) => page.queueItems.map((item) => item.name)), names.slice(2));
    for (const name of names) await service.deleteQueue(name);
  },

  async service_properties_come_back_and_pages_are_let_in() {
    const retentionPolicy = { enabled: true, days: 7 };
    const rule = { allowedOrigins: "https://a.example", allowedMethods: "GET,PUT", maxAgeInSeconds: 60 };
    const cors = [{ ...rule, allowedHeaders: "x-ms-*", exposedHeaders: "" }];
    await service.setProperties({
      queueAnalyticsLogging: { version: "1.0", deleteProperty: true, read: true, write: false, retentionPolicy },
      hourMetrics: { version: "1.0", enabled: true, includeAPIs: false, retentionPolicy },
      cors,
    });
    const shown = await service.getProperties();
    assert.equal(shown.queueAnalyticsLogging.deleteProperty, true);
    assert.deepEqual(shown.hourMetrics.retentionPolicy, retentionPolicy);
    assert.equal(shown.cors[0].allowedOrigins, "https://a.example");
    assert.equal(shown.cors[0].maxAgeInSeconds, 60);
    const preflight = (origin) =>
      fetch(`${ENDPOINT}/any`, { method: "OPTIONS", headers: { origin, "access-control-request-method": "PUT" } });
    assert.equal((await preflight("https://a.example")).headers.get("access-control-max-age"), "60");
    assert.equal((await preflight("https://b.example")).status, 403);
    await service.setProperties({ cors: [] });
    assert.equal((await preflight("https://a.example")).status, 403);
  },

  async stored_policies_come_back_and_open() {
    const client = await queue("policies");
    const accessPolicy = { permissions: "ra", startsOn: new Date(Date.now() - 3_600_000), expiresOn: soon() };
    await client.setAccessPolicy([{ id: "staff", accessPolicy }]);
    const { signedIdentifiers } = await client.getAccessPolicy();
    assert.deepEqual(signedIdentifiers, [{ id: "staff", accessPolicy }]);
    const guest = new QueueClient(await client.generateSasUrl({ identifier: "staff" }), undefined, OPTIONS);
    await guest.sendMessage("let in");
    await refused(403, "AuthorizationPermissionMismatch", guest.receiveMessages());
    await client.setAccessPolicy([]);
    await refused(403, "AuthenticationFailed", guest.sendMessage("x"));
  },

  async sas_urls_open_what_they_say() {
    const client = await queue("sas");
    const options = { permissions: QueueSASPermissions.parse("rp"), expiresOn: soon() };
    const guest = new QueueClient(await client.generateSasUrl(options), undefined, OPTIONS);
    await client.sendMessage("x");
    assert.deepEqual(await peeked(guest), ["x"]);
    assert.equal((await received(guest)).length, 1);
    await refused(403, "AuthorizationPermissionMismatch", guest.sendMessage("x"));
    const account = {
      permissions: AccountSASPermissions.parse("rwdlacup"),
      resourceTypes: AccountSASResourceTypes.parse("sco").toString(),
      services: AccountSASServices.parse("q").toString(),
      expiresOn: soon(),
    };
    const sas = generateAccountSASQueryParameters(account, credential).toString();
    const owner = new QueueServiceClient(`${ENDPOINT}?${sas}`, undefined, OPTIONS);
    assert.equal((await all(owner.listQueues({ prefix: "javascript-sas" }))).length, 1);
    const forged = new QueueServiceClient(`${ENDPOINT}?${sas.replace("sp=rw", "sp=wr")}`, undefined, OPTIONS);
    await refused(403, "AuthenticationFailed", all(forged.listQueues()));
    const stranger = new QueueServiceClient(ENDPOINT, new StorageSharedKeyCredential(ACCOUNT, "d3Jvbmc="), OPTIONS);
    await refused(403, "AuthenticationFailed", stranger.getProperties());
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
