"""azure-storage-queue, its clients that block and its clients that do not, each scenario with both; boto3 beside them."""

import asyncio
import inspect
import os
import re
import sys
import traceback
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

import boto3
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.storage.queue import (
    AccessPolicy,
    BinaryBase64DecodePolicy,
    BinaryBase64EncodePolicy,
    CorsRule,
    Metrics,
    QueueAnalyticsLogging,
    QueueClient,
    QueueServiceClient,
    RetentionPolicy,
    TextBase64DecodePolicy,
    TextBase64EncodePolicy,
    generate_account_sas,
    generate_queue_sas,
)
from azure.storage.queue.aio import QueueClient as AioQueueClient
from azure.storage.queue.aio import QueueServiceClient as AioQueueServiceClient

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
ENDPOINT = os.environ["KEW_AZURE"] + "/" + ACCOUNT
CONNECTION = f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};QueueEndpoint={ENDPOINT};"
TEXTS = ["plain", "<a b='c'>&amp; ]]></a>", " Grüße, 世界 🚀 ", "tab\tline\nreturn\r\nend", "=" * 10, "&#x41;"]


class Family:
    """One of the two sets of classes; `name` keeps their queues apart."""

    def __init__(self, name, queue, service):
        self.name, self.queue_class, self.service_class = name, queue, service

    @asynccontextmanager
    async def service(self, **options):
        client = self.service_class.from_connection_string(CONNECTION, retry_total=0, **options)
        try:
            yield client
        finally:
            await done(client.close())

    @asynccontextmanager
    async def queue(self, name, make=True, **options):
        client = self.queue_class.from_connection_string(
            CONNECTION, f"{self.name}-{name}", retry_total=0, **options
        )
        try:
            if make:
                await done(client.create_queue())
            yield client
        finally:
            await done(client.close())

    @asynccontextmanager
    async def bearer_of(self, sas, name, endpoint=ENDPOINT):
        client = self.queue_class(endpoint, f"{self.name}-{name}", credential=sas, retry_total=0)
        try:
            yield client
        finally:
            await done(client.close())


FAMILIES = [
    Family("sync", QueueClient, QueueServiceClient),
    Family("aio", AioQueueClient, AioQueueServiceClient),
]


async def done(result):
    return await result if inspect.isawaitable(result) else result


async def all_of(paged):
    if hasattr(paged, "__aiter__"):
        return [item async for item in paged]
    return list(paged)


async def one(paged):
    items = await all_of(paged)
    assert len(items) == 1, items
    return items[0]


async def refused(kind, code, result):
    """`result` is a call not yet made, so that clients that block fail in here."""
    try:
        await done(result())
    except HttpResponseError as error:
        assert type(error) is kind, f"{type(error).__name__}, not {kind.__name__}: {error}"
        assert error.error_code == code, f"{error.error_code}, not {code}"
        return error
    raise AssertionError(f"{code} was expected")


def clock(seconds):
    print(f"CLOCK {seconds * 1000}", flush=True)
    sys.stdin.readline()


def soon():
    return datetime.now(timezone.utc) + timedelta(hours=1)


async def a_message_lives_its_life(family):
    async with family.queue("life") as queue:
        sent = await done(queue.send_message("hello"))
        peeked = await one(await done(queue.peek_messages()))
        assert (peeked.id, peeked.content, peeked.dequeue_count) == (sent.id, "hello", 0)
        got = await done(queue.receive_message(visibility_timeout=10))
        assert (got.id, got.content, got.dequeue_count) == (sent.id, "hello", 1)
        assert got.inserted_on == sent.inserted_on and got.expires_on == sent.expires_on
        assert got.expires_on - got.inserted_on == timedelta(days=7)
        assert await done(queue.receive_message()) is None
        assert await done(queue.peek_messages()) == []
        await done(queue.delete_message(got))
        await refused(ResourceNotFoundError, "MessageNotFound", lambda: queue.delete_message(got))
        clock(11)
        assert await done(queue.receive_message()) is None


async def texts_come_back_as_they_were_sent(family):
    async with family.queue("texts") as queue:
        for text in TEXTS:
            await done(queue.send_message(text))
        got = await all_of(queue.receive_messages(messages_per_page=32))
        assert [message.content for message in got] == TEXTS, [message.content for message in got]


async def base64_is_between_the_clients(family):
    text = dict(message_encode_policy=TextBase64EncodePolicy(), message_decode_policy=TextBase64DecodePolicy())
    binary = dict(message_encode_policy=BinaryBase64EncodePolicy(), message_decode_policy=BinaryBase64DecodePolicy())
    everything = bytes(range(256))
    async with family.queue("text64", **text) as queue, family.queue("text64", make=False) as plain:
        await done(queue.send_message("Grüße 🚀\x01"))
        assert (await one(await done(plain.peek_messages()))).content == "R3LDvMOfZSDwn5qAAQ=="
        assert (await done(queue.receive_message())).content == "Grüße 🚀\x01"
    async with family.queue("binary64", **binary) as queue:
        await done(queue.send_message(everything))
        assert (await done(queue.receive_message())).content == everything


async def a_text_has_64_kib_and_no_more(family):
    async with family.queue("large") as queue:
        for text in ("a" * 65536, "<" * 65536, "é" * 32768):
            await done(queue.send_message(text))
            assert (await done(queue.receive_message())).content == text
        for text in ("a" * 65537, "é" * 32768 + "a"):
            await refused(HttpResponseError, "RequestBodyTooLarge", lambda: queue.send_message(text))


async def receipts_go_stale(family):
    async with family.queue("receipts") as queue:
        await done(queue.send_message("one"))
        first = await done(queue.receive_message(visibility_timeout=5))
        clock(6)
        second = await done(queue.receive_message(visibility_timeout=5))
        assert (second.id, second.dequeue_count) == (first.id, 2)
        await refused(HttpResponseError, "PopReceiptMismatch", lambda: queue.delete_message(first))
        updated = await done(queue.update_message(second, content="two", visibility_timeout=0))
        assert updated.pop_receipt != second.pop_receipt and updated.content == "two"
        await refused(
            HttpResponseError, "PopReceiptMismatch", lambda: queue.update_message(second, visibility_timeout=1)
        )
        third = await done(queue.receive_message(visibility_timeout=5))
        assert (third.content, third.dequeue_count) == ("two", 3)
        kept = await done(queue.update_message(third.id, third.pop_receipt, visibility_timeout=5))
        clock(6)
        await done(queue.delete_message(third.id, kept.pop_receipt))
        sent = await done(queue.send_message("deleted by its sender"))
        await done(queue.delete_message(sent))
        assert await done(queue.peek_messages()) == []


async def messages_appear_and_expire_in_time(family):
    async with family.queue("times") as queue:
        never = await done(queue.send_message("never", time_to_live=-1))
        assert never.expires_on.year == 9999
        await done(queue.send_message("brief", time_to_live=5))
        await done(queue.send_message("later", visibility_timeout=10))
        texts = [message.content for message in await done(queue.peek_messages(max_messages=32))]
        assert texts == ["never", "brief"], texts
        clock(5)
        texts = [message.content for message in await done(queue.peek_messages(max_messages=32))]
        assert texts == ["never"], texts
        clock(5)
        texts = [message.content for message in await done(queue.peek_messages(max_messages=32))]
        assert texts == ["never", "later"], texts
        assert (await done(queue.get_queue_properties())).approximate_message_count == 2
        await refused(
            HttpResponseError, "InvalidQueryParameterValue", lambda: queue.send_message("x", time_to_live=0)
        )
        await refused(
            HttpResponseError,
            "OutOfRangeQueryParameterValue",
            lambda: queue.send_message("x", visibility_timeout=604801, time_to_live=-1),
        )


async def a_queue_is_emptied_whatever_is_hidden(family):
    async with family.queue("clear") as queue:
        for n in range(40):
            await done(queue.send_message(str(n)))
        got = await all_of(queue.receive_messages(messages_per_page=7, max_messages=20))
        assert [message.content for message in got] == [str(n) for n in range(20)]
        await done(queue.clear_messages())
        assert (await done(queue.get_queue_properties())).approximate_message_count == 0
        await done(queue.clear_messages())


async def queues_are_made_found_and_deleted(family):
    async with family.queue("made", make=False) as queue:
        await done(queue.create_queue(metadata={"colour": "red"}))
        await done_again(queue, {"Colour": "red"})
        await refused(
            ResourceExistsError, "QueueAlreadyExists", lambda: queue.create_queue(metadata={"colour": "blue"})
        )
        await done(queue.delete_queue())
        for ask in (
            queue.delete_queue,
            queue.get_queue_properties,
            queue.get_queue_access_policy,
            queue.receive_message,
            queue.clear_messages,
            lambda: queue.send_message("x"),
        ):
            await refused(ResourceNotFoundError, "QueueNotFound", ask)
        await done(queue.create_queue())
        await done(queue.delete_queue())
    for name, code in (("no--name", "InvalidResourceName"), ("x" * 64, "OutOfRangeInput")):
        async with family.service() as service:
            await refused(HttpResponseError, code, lambda: service.create_queue(name))


async def done_again(queue, metadata):
    """The client says that a queue is there already also when it is the same."""
    try:
        await done(queue.create_queue(metadata=metadata))
    except ResourceExistsError:
        return
    raise AssertionError("the queue was made twice")


async def metadata_keeps_its_case(family):
    async with family.queue("meta", make=False) as queue, family.service() as service:
        await done(queue.create_queue(metadata={"ShoeSize": "44", "colour": "red"}))
        shown = (await done(queue.get_queue_properties())).metadata
        assert {name.lower(): value for name, value in shown.items()} == {"shoesize": "44", "colour": "red"}
        listed = await one(service.list_queues(f"{family.name}-meta", include_metadata=True))
        assert listed.metadata == {"ShoeSize": "44", "colour": "red"}, listed.metadata
        await done(queue.set_queue_metadata({"Other": "1"}))
        listed = await one(service.list_queues(f"{family.name}-meta", include_metadata=True))
        assert listed.metadata == {"Other": "1"}, listed.metadata
        assert not (await one(service.list_queues(f"{family.name}-meta"))).metadata
        await done(queue.set_queue_metadata({}))
        assert (await done(queue.get_queue_properties())).metadata == {}
        await refused(HttpResponseError, "InvalidMetadata", lambda: queue.set_queue_metadata({"a-b": "1"}))


async def queues_are_listed_page_by_page(family):
    prefix = f"{family.name}-page-"
    async with family.service() as service:
        names = [f"{prefix}{n}" for n in range(7)]
        for name in names:
            await done(service.create_queue(name))
        pages = service.list_queues(prefix, results_per_page=3).by_page()
        if hasattr(pages, "__aiter__"):
            found = [[queue.name async for queue in page] async for page in pages]
        else:
            found = [[queue.name for queue in page] for page in pages]
        assert found == [names[:3], names[3:6], names[6:]], found
        for name in names:
            await done(service.delete_queue(name))
        assert await all_of(service.list_queues(prefix)) == []


async def service_properties_are_kept_and_checked(family):
    async with family.service() as service:
        keep = RetentionPolicy(enabled=True, days=5)
        logging = QueueAnalyticsLogging(delete=True, read=True, write=False, retention_policy=keep)
        metrics = Metrics(enabled=True, include_apis=True, retention_policy=keep)
        rule = CorsRule(
            ["https://a.example", "https://b.example"],
            ["GET", "PUT"],
            allowed_headers=["x-ms-*"],
            exposed_headers=["*"],
            max_age_in_seconds=60,
        )
        await done(service.set_service_properties(analytics_logging=logging, hour_metrics=metrics, cors=[rule]))
        shown = await done(service.get_service_properties())
        assert shown["analytics_logging"].delete and not shown["analytics_logging"].write
        assert shown["hour_metrics"].include_apis and shown["hour_metrics"].retention_policy.days == 5
        assert not shown["minute_metrics"].enabled
        cors = shown["cors"]
        assert len(cors) == 1 and cors[0].allowed_origins == "https://a.example,https://b.example", cors
        assert (cors[0].allowed_methods, cors[0].max_age_in_seconds) == ("GET,PUT", 60)
        await refused(
            HttpResponseError, "InvalidXmlDocument", lambda: service.set_service_properties(cors=[rule] * 6)
        )
        await done(service.set_service_properties(cors=[]))
        shown = await done(service.get_service_properties())
        assert shown["cors"] == [] and shown["analytics_logging"].delete


async def stored_policies_let_those_in_who_carry_their_name(family):
    name = f"{family.name}-policy"
    async with family.queue("policy") as queue:
        assert await done(queue.get_queue_access_policy()) == {}
        policy = AccessPolicy(permission="ra", expiry=soon(), start=datetime.now(timezone.utc) - timedelta(hours=1))
        await done(queue.set_queue_access_policy({"staff": policy, "empty": AccessPolicy()}))
        shown = await done(queue.get_queue_access_policy())
        assert set(shown) == {"staff", "empty"} and shown["staff"].permission == "ra", shown
        sas = generate_queue_sas(ACCOUNT, name, KEY, policy_id="staff")
        async with family.bearer_of(sas, "policy") as guest:
            await done(guest.send_message("let in"))
            assert (await one(await done(guest.peek_messages()))).content == "let in"
            await refused(HttpResponseError, "AuthorizationPermissionMismatch", guest.receive_message)
            await done(queue.set_queue_access_policy({}))
            await refused(ClientAuthenticationError, "AuthenticationFailed", guest.peek_messages)
        six = {f"policy{n}": AccessPolicy() for n in range(6)}
        await refused(HttpResponseError, "InvalidXmlDocument", lambda: queue.set_queue_access_policy(six))


async def signatures_open_what_they_name(family):
    name = f"{family.name}-signed"
    async with family.queue("signed") as queue:
        await done(queue.send_message("x"))
        sas = generate_queue_sas(ACCOUNT, name, KEY, permission="p", expiry=soon())
        async with family.bearer_of(sas, "signed") as guest:
            assert (await done(guest.receive_message())).content == "x"
            await refused(HttpResponseError, "AuthorizationPermissionMismatch", lambda: guest.send_message("y"))
        async with family.bearer_of(sas, "other") as guest:
            await refused(ClientAuthenticationError, "AuthenticationFailed", guest.receive_message)
        late = generate_queue_sas(ACCOUNT, name, KEY, permission="p", expiry=soon() - timedelta(hours=2))
        async with family.bearer_of(late, "signed") as guest:
            await refused(ClientAuthenticationError, "AuthenticationFailed", guest.receive_message)
        account = generate_account_sas(ACCOUNT, KEY, "sco", "rwdlacup", soon())
        async with family.bearer_of(account, "signed") as guest:
            await done(guest.send_message("by account"))
            await done(guest.delete_queue())
        wrong = {"account_name": ACCOUNT, "account_key": "d3Jvbmc="}
        async with family.bearer_of(wrong, "signed") as stranger:
            await refused(ClientAuthenticationError, "AuthenticationFailed", stranger.create_queue)


async def one_queue_is_served_by_azure_and_sqs(family):
    sqs = boto3.client(
        "sqs",
        endpoint_url=os.environ["KEW_ENDPOINT"],
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    name = f"{family.name}-both"
    url = sqs.create_queue(QueueName=name, Attributes={"VisibilityTimeout": "10"})["QueueUrl"]
    async with family.queue("both", make=False) as queue, family.service() as service:
        assert (await one(service.list_queues(name))).name == name
        sqs.send_message(QueueUrl=url, MessageBody="Grüße von SQS")
        got = await done(queue.receive_message(visibility_timeout=5))
        assert (got.content, got.dequeue_count) == ("Grüße von SQS", 1)
        assert "Messages" not in sqs.receive_message(QueueUrl=url)
        clock(6)
        (message,) = sqs.receive_message(QueueUrl=url, AttributeNames=["All"])["Messages"]
        assert message["Attributes"]["ApproximateReceiveCount"] == "2", message
        await refused(HttpResponseError, "PopReceiptMismatch", lambda: queue.delete_message(got))
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        assert (await done(queue.get_queue_properties())).approximate_message_count == 0

        await done(queue.send_message("and back"))
        (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
        assert message["Body"] == "and back"
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
        got = await done(queue.receive_message())
        assert (got.content, got.dequeue_count) == ("and back", 2)
        await done(queue.delete_message(got))
        clock(31)
        assert "Messages" not in sqs.receive_message(QueueUrl=url)


async def the_page_s_program_runs_as_it_is(family):
    if family is not FAMILIES[0]:
        return
    page = Path("docs/dialects/azure.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    exec(program.replace("127.0.0.1:10001", os.environ["KEW_AZURE"].removeprefix("http://")), {})
    with QueueClient.from_connection_string(CONNECTION, "orders") as client:
        assert client.get_queue_properties().approximate_message_count == 0


SCENARIOS = (
    a_message_lives_its_life,
    texts_come_back_as_they_were_sent,
    base64_is_between_the_clients,
    a_text_has_64_kib_and_no_more,
    receipts_go_stale,
    messages_appear_and_expire_in_time,
    a_queue_is_emptied_whatever_is_hidden,
    queues_are_made_found_and_deleted,
    metadata_keeps_its_case,
    queues_are_listed_page_by_page,
    service_properties_are_kept_and_checked,
    stored_policies_let_those_in_who_carry_their_name,
    signatures_open_what_they_name,
    one_queue_is_served_by_azure_and_sqs,
    the_page_s_program_runs_as_it_is,
)

for scenario in SCENARIOS:
    family = None
    try:
        for family in FAMILIES:
            asyncio.run(scenario(family))
        print(f"PASS {scenario.__name__}", flush=True)
    except Exception as error:
        traceback.print_exc()
        reason = " ".join(f"{family.name}: {type(error).__name__}: {error}".split())[:500]
        print(f"FAIL {scenario.__name__}: {reason}", flush=True)
