"""Three vendors' clients on one queue: boto3, azure-storage-queue and cloudflare, none of which knows of the others."""

import os
import sys
import traceback

import boto3
from azure.core.exceptions import HttpResponseError
from azure.storage.queue import QueueClient
from cloudflare import Cloudflare

SQS = boto3.client(
    "sqs",
    endpoint_url=os.environ["KEW_ENDPOINT"],
    region_name="us-east-1",
    aws_access_key_id="test",
    aws_secret_access_key="test",
)
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
AZURE = (
    f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={KEY};"
    f"QueueEndpoint={os.environ['KEW_AZURE']}/devstoreaccount1;"
)
ACCOUNT = "0123456789abcdef0123456789abcdef"
QUEUES = Cloudflare(api_token="all", base_url=os.environ["KEW_CLOUDFLARE"] + "/client/v4", max_retries=0).queues


def clock(seconds):
    print(f"CLOCK {seconds * 1000}", flush=True)
    sys.stdin.readline()


def azure(name):
    return QueueClient.from_connection_string(AZURE, name, retry_total=0)


def found_by_cloudflare(name):
    """The queue's id; whichever dialect made it, it is listed once."""
    (queue,) = QUEUES.list(account_id=ACCOUNT, extra_query={"name": name})
    return queue.queue_id


def pull(queue):
    return QUEUES.messages.pull(queue, account_id=ACCOUNT, batch_size=10).messages


def receive(url):
    answer = SQS.receive_message(QueueUrl=url, AttributeNames=["All"], MaxNumberOfMessages=10)
    return answer.get("Messages", [])


def same_id(uuid, digits):
    """One number, which SQS and Azure write as a UUID and Cloudflare as 32 digits."""
    assert uuid.replace("-", "") == digits, (uuid, digits)


def sent_by_sqs_received_by_azure_pulled_by_cloudflare_deleted_by_sqs():
    url = SQS.create_queue(QueueName="round-one", Attributes={"VisibilityTimeout": "30"})["QueueUrl"]
    queue = found_by_cloudflare("round-one")
    QUEUES.consumers.create(queue, account_id=ACCOUNT, type="http_pull")
    sent = SQS.send_message(QueueUrl=url, MessageBody="Grüße von SQS")
    with azure("round-one") as by_azure:
        first = by_azure.receive_message(visibility_timeout=30)
        assert (first.id, first.content, first.dequeue_count) == (sent["MessageId"], "Grüße von SQS", 1), first
        assert receive(url) == [] and pull(queue) == [], "it is leased to one, whoever asks"
        clock(30)
        (second,) = pull(queue)
        assert (second.attempts, second.body) == (2, "Grüße von SQS"), second
        same_id(sent["MessageId"], second.id)
        try:
            by_azure.delete_message(first)
        except HttpResponseError as error:
            assert error.error_code == "PopReceiptMismatch", error
        else:
            raise AssertionError("Azure deleted what another consumer has by now")
        clock(30)
        (third,) = receive(url)
        assert third["Attributes"]["ApproximateReceiveCount"] == "3", third
        assert third["MessageId"] == sent["MessageId"]
        SQS.delete_message(QueueUrl=url, ReceiptHandle=third["ReceiptHandle"])
        clock(60)
        assert receive(url) == [] and pull(queue) == [] and by_azure.receive_message() is None
        late = QUEUES.messages.ack(queue, account_id=ACCOUNT, acks=[{"lease_id": second.lease_id}])
        assert (late.ack_count, list(late.warnings)) == (0, [second.lease_id]), late


def published_by_cloudflare_received_by_sqs_deleted_by_azure():
    queue = QUEUES.create(account_id=ACCOUNT, queue_name="round-two").queue_id
    QUEUES.consumers.create(queue, account_id=ACCOUNT, type="http_pull", settings={"max_retries": 10})
    url = SQS.get_queue_url(QueueName="round-two")["QueueUrl"]
    for content_type, body in (("text", "Grüße von Cloudflare"), ("json", {"a": [1, None]})):
        QUEUES.messages.push(queue, account_id=ACCOUNT, content_type=content_type, body=body)
    taken = receive(url)
    assert [message["Body"] for message in taken] == ["Grüße von Cloudflare", '{"a":[1,null]}'], taken
    for message in taken:
        SQS.change_message_visibility(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
    with azure("round-two") as by_azure:
        got = list(by_azure.receive_messages(max_messages=2, visibility_timeout=60))
        assert [message.id for message in got] == [message["MessageId"] for message in taken], got
        assert [message.dequeue_count for message in got] == [2, 2], got
        for message in got:
            by_azure.delete_message(message)
        assert by_azure.get_queue_properties().approximate_message_count == 0
    clock(60)
    assert receive(url) == [] and pull(queue) == []
    assert QUEUES.get_metrics(queue, account_id=ACCOUNT).backlog_count == 0


def put_by_azure_retried_by_cloudflare_settled_with_a_receipt_of_sqs():
    with azure("round-three") as by_azure:
        by_azure.create_queue()
        by_azure.send_message("Grüße von Azure")
        queue = found_by_cloudflare("round-three")
        QUEUES.consumers.create(queue, account_id=ACCOUNT, type="http_pull", settings={"retry_delay": 5})
        (first,) = pull(queue)
        assert first.attempts == 1, first
        QUEUES.messages.ack(queue, account_id=ACCOUNT, retries=[{"lease_id": first.lease_id}])
        url = SQS.get_queue_url(QueueName="round-three")["QueueUrl"]
        assert receive(url) == [], "the retry delay of the consumer holds for everybody"
        clock(5)
        (second,) = receive(url)
        assert (second["Body"], second["Attributes"]["ApproximateReceiveCount"]) == ("Grüße von Azure", "2"), second
        # A lease has one name in all dialects.
        settled = QUEUES.messages.ack(queue, account_id=ACCOUNT, acks=[{"lease_id": second["ReceiptHandle"]}])
        assert settled.ack_count == 1, settled
        assert by_azure.get_queue_properties().approximate_message_count == 0


SCENARIOS = (
    sent_by_sqs_received_by_azure_pulled_by_cloudflare_deleted_by_sqs,
    published_by_cloudflare_received_by_sqs_deleted_by_azure,
    put_by_azure_retried_by_cloudflare_settled_with_a_receipt_of_sqs,
)

for scenario in SCENARIOS:
    try:
        scenario()
        print(f"PASS {scenario.__name__}", flush=True)
    except Exception as error:
        traceback.print_exc()
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        print(f"FAIL {scenario.__name__}: {reason}", flush=True)
