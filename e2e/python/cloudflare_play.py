"""cloudflare for Python, its client that blocks and its client that does not, each scenario with both."""

import asyncio
import base64
import inspect
import json
import os
import sys
import traceback

import cloudflare
from cloudflare import AsyncCloudflare, Cloudflare

ACCOUNT = "0123456789abcdef0123456789abcdef"
BASE = os.environ["KEW_CLOUDFLARE"] + "/client/v4"


async def done(answer):
    """The answer of either client."""
    return await answer if inspect.isawaitable(answer) else answer


async def listed(pages):
    """All entries of a list, from either client."""
    if hasattr(pages, "__aiter__"):
        return [entry async for entry in pages]
    return list(await done(pages))


def clock(seconds):
    print(f"CLOCK {seconds * 1000}", flush=True)
    sys.stdin.readline()


class Family:
    """One of the two clients; `name` keeps their queues apart."""

    def __init__(self, name, make):
        self.name, self.make = name, make
        self.queues = self.as_holder_of("all")

    def as_holder_of(self, token):
        return self.make(api_token=token, base_url=BASE, max_retries=0).queues

    async def queue(self, name, **settings):
        made = self.queues.create(
            account_id=ACCOUNT, queue_name=f"{self.name}-{name}", extra_body={"settings": settings}
        )
        return (await done(made)).queue_id

    async def pulled(self, name, settings=None, **further):
        queue = await self.queue(name)
        await done(
            self.queues.consumers.create(
                queue, account_id=ACCOUNT, type="http_pull", settings=settings or {}, **further
            )
        )
        return queue

    async def push(self, queue, body, **further):
        further.setdefault("content_type", "text")
        return await done(self.queues.messages.push(queue, account_id=ACCOUNT, body=body, **further))

    async def pull(self, queue, **further):
        further.setdefault("batch_size", 100)
        return (await done(self.queues.messages.pull(queue, account_id=ACCOUNT, **further))).messages

    async def ack(self, queue, **entries):
        return await done(self.queues.messages.ack(queue, account_id=ACCOUNT, **entries))

    async def backlog(self, queue):
        return (await done(self.queues.get_metrics(queue, account_id=ACCOUNT))).backlog_count


async def refused(status, code, call):
    try:
        await done(call())
    except cloudflare.APIStatusError as error:
        told = (error.status_code, error.errors[0].code)
        assert told == (status, code), told
    else:
        raise AssertionError(f"it was not refused with {code}")


async def a_message_is_published_pulled_and_settled(family):
    queue = await family.pulled("life")
    sent = await family.push(queue, "hello")
    assert sent.metadata.metrics.backlog_count == 1
    (message,) = await family.pull(queue)
    assert (message.body, message.attempts, len(message.id)) == ("hello", 1, 32)
    assert await family.pull(queue) == []
    clock(30)
    (again,) = await family.pull(queue)
    assert again.attempts == 2
    settled = await family.ack(queue, acks=[{"lease_id": again.lease_id}])
    assert (settled.ack_count, settled.retry_count, settled.warnings) == (1, 0, {})
    late = await family.ack(queue, acks=[{"lease_id": message.lease_id}])
    assert late.ack_count == 0 and list(late.warnings) == [message.lease_id]
    assert await family.backlog(queue) == 0


async def json_and_text_come_back_as_they_were(family):
    queue = await family.pulled("bodies")
    await family.push(queue, {"a": [1, "ü", None]}, content_type="json")
    await family.push(queue, " Grüße, 世界 🚀 \r\n")
    document, text = await family.pull(queue)
    assert json.loads(base64.b64decode(document.body)) == {"a": [1, "ü", None]}
    assert document.metadata["CF-Content-Type"] == "json"
    assert text.body == " Grüße, 世界 🚀 \r\n"


async def a_batch_waits_together_and_is_all_or_nothing(family):
    queue = await family.pulled("batch")
    messages = [{"body": body, "content_type": "text"} for body in ("a", "b")]
    messages.append({"body": "now", "content_type": "text", "delay_seconds": 0})
    push = lambda **further: family.queues.messages.bulk_push(queue, account_id=ACCOUNT, **further)
    await done(push(messages=messages, delay_seconds=600))
    assert [message.body for message in await family.pull(queue)] == ["now"]
    clock(600)
    assert [message.body for message in await family.pull(queue, visibility_timeout_ms=1000)] == ["a", "b", "now"]
    await refused(400, 10202, lambda: push(messages=messages, delay_seconds=-1))
    await refused(413, 10206, lambda: push(messages=messages * 34))
    assert await family.backlog(queue) == 3


async def retries_wait_and_failures_become_dead_letters(family):
    dead_name = f"{family.name}-dead"
    settings = {"max_retries": 1, "retry_delay": 60}
    queue = await family.pulled("failing", settings, dead_letter_queue=dead_name)
    dead = (await listed(family.queues.list(account_id=ACCOUNT, extra_query={"name": dead_name})))[0].queue_id
    await done(family.queues.consumers.create(dead, account_id=ACCOUNT, type="http_pull"))
    await family.push(queue, "poison")
    (first,) = await family.pull(queue)
    assert (await family.ack(queue, retries=[{"lease_id": first.lease_id}])).retry_count == 1
    clock(59)
    assert await family.pull(queue) == []
    clock(1)
    (second,) = await family.pull(queue)
    assert second.attempts == 2
    await family.ack(queue, retries=[{"lease_id": second.lease_id, "delay_seconds": 3600}])
    (letter,) = await family.pull(dead)
    assert (letter.body, letter.attempts, letter.id) == ("poison", 1, first.id)


async def queues_are_made_changed_and_deleted(family):
    queue = await family.queue("queues", delivery_delay=5, message_retention_period=600)
    edited = await done(family.queues.edit(queue, account_id=ACCOUNT, settings={"delivery_paused": True}))
    kept = (edited.settings.delivery_delay, edited.settings.message_retention_period)
    assert (kept, edited.settings.delivery_paused) == ((5, 600), True)
    replaced = await done(family.queues.update(queue, account_id=ACCOUNT, queue_name=f"{family.name}-renamed"))
    assert (replaced.settings.message_retention_period, replaced.queue_id) == (345_600, queue)
    names = [entry.queue_name for entry in await listed(family.queues.list(account_id=ACCOUNT))]
    assert f"{family.name}-renamed" in names and f"{family.name}-queues" not in names
    assert (await done(family.queues.delete(queue, account_id=ACCOUNT))).success
    await refused(404, 11000, lambda: family.queues.get(queue, account_id=ACCOUNT))


async def consumers_are_added_changed_and_removed(family):
    queue = await family.queue("consumers")
    consumers = family.queues.consumers
    worker = {"account_id": ACCOUNT, "type": "worker", "script_name": "w"}
    made = await done(consumers.create(queue, **worker, settings={"batch_size": 30}))
    assert (made.script_name, made.settings.batch_size) == ("w", 30)
    await refused(409, 11004, lambda: consumers.create(queue, **worker))
    changed = await done(consumers.update(made.consumer_id, queue_id=queue, **worker))
    assert changed.settings.batch_size == 10
    assert len(await listed(consumers.list(queue, account_id=ACCOUNT))) == 1
    removed = await done(consumers.delete(made.consumer_id, account_id=ACCOUNT, queue_id=queue))
    assert removed.success
    await refused(405, 0, lambda: family.queues.messages.pull(queue, account_id=ACCOUNT))


async def peeked_messages_are_purged_by_reference(family):
    queue = await family.pulled("purge")
    for body in ("a", "b"):
        await family.push(queue, body)
    seen = (await done(family.queues.messages.peek(queue, account_id=ACCOUNT, batch_size=1))).messages
    assert (seen[0].body, seen[0].attempts) == ("a", 0)
    purged = await done(family.queues.messages.purge(queue, account_id=ACCOUNT, refs=[{"ref": seen[0].ref}]))
    assert (purged.errors, purged.warnings) == ([], {})
    assert await family.backlog(queue) == 1
    await done(family.queues.purge.start(queue, account_id=ACCOUNT, delete_messages_permanently=True))
    assert (await done(family.queues.purge.status(queue, account_id=ACCOUNT))).started_at
    assert await family.backlog(queue) == 0


async def tokens_reach_as_far_as_their_permissions(family):
    queue = await family.pulled("tokens")
    push = lambda token: family.as_holder_of(token).messages.push(
        queue, account_id=ACCOUNT, body="m", content_type="text"
    )
    await done(push("writes"))
    await refused(403, 10106, lambda: push("reads"))
    await refused(403, 10000, lambda: push("wrong"))
    await refused(403, 10000, lambda: family.as_holder_of("writes").get(queue, account_id=ACCOUNT))
    shown = await done(family.as_holder_of("reads").get_metrics(queue, account_id=ACCOUNT))
    assert shown.backlog_count == 1


SCENARIOS = (
    a_message_is_published_pulled_and_settled,
    json_and_text_come_back_as_they_were,
    a_batch_waits_together_and_is_all_or_nothing,
    retries_wait_and_failures_become_dead_letters,
    queues_are_made_changed_and_deleted,
    consumers_are_added_changed_and_removed,
    peeked_messages_are_purged_by_reference,
    tokens_reach_as_far_as_their_permissions,
)


async def play_all():
    families = (Family("blocking", Cloudflare), Family("asyncio", AsyncCloudflare))
    for scenario in SCENARIOS:
        for family in families:
            try:
                await scenario(family)
            except Exception as error:
                traceback.print_exc()
                told = repr(error).replace("\n", " ")[:500]
                print(f"FAIL {scenario.__name__}: {family.name}: {told}", flush=True)
                break
        else:
            print(f"PASS {scenario.__name__}", flush=True)


asyncio.run(play_all())
