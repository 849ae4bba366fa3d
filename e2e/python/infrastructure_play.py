"""Queues as infrastructure tools keep them: desired settings are compared with what is there, and only what differs is
created, changed in place or deleted. The calls are boto3's, in the order of the AWS provider of Terraform."""

import json
import os
import sys
import traceback

import boto3

ENDPOINT = os.environ["KEW_ENDPOINT"]
DOCUMENTS = ("Policy", "RedrivePolicy", "RedriveAllowPolicy")
DEFAULTS = {
    "DelaySeconds": "0",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "VisibilityTimeout": "30",
    "Policy": "",
    "RedrivePolicy": "",
    "RedriveAllowPolicy": "",
}

sqs = boto3.client(
    "sqs", endpoint_url=ENDPOINT, region_name="us-east-1", aws_access_key_id="any", aws_secret_access_key="any"
)


def ask(word):
    print(word, flush=True)
    sys.stdin.readline()


def same(found, expected):
    if found != expected:
        raise AssertionError(f"found {found!r}, expected {expected!r}")


def refused(code, call, **input):
    try:
        call(**input)
    except sqs.exceptions.ClientError as error:
        same(error.response["Error"]["Code"].split(".")[-1], code)
        return
    raise AssertionError(f"not refused with {code}")


def arn(name):
    return f"arn:aws:sqs:us-east-1:000000000000:{name}"


def policy(name, action="sqs:SendMessage"):
    statement = {"Sid": "in", "Effect": "Allow", "Principal": "*", "Action": action, "Resource": arn(name)}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=2)


def redrive(name, times):
    return json.dumps({"deadLetterTargetArn": arn(name), "maxReceiveCount": times})


def read(url):
    """The settings and tags of a queue, or nothing when there is none."""
    try:
        attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    except sqs.exceptions.QueueDoesNotExist:
        return None
    return attributes, sqs.list_queue_tags(QueueUrl=url).get("Tags", {})


def sources(url):
    """Whose dead letters come to a queue; the member is absent when there are none."""
    return sqs.list_dead_letter_source_queues(QueueUrl=url).get("queueUrls", [])


def meaning(name, value):
    return json.loads(value) if name in DOCUMENTS and value else value


def plan(attributes, tags, url):
    """What has to change: attributes to set, tags to set and tags to take off."""
    there, tagged = read(url)
    wanted = DEFAULTS | attributes
    differ = {
        name: value for name, value in wanted.items() if meaning(name, there.get(name, "")) != meaning(name, value)
    }
    added = {name: value for name, value in tags.items() if tagged.get(name) != value}
    return differ, added, sorted(set(tagged) - set(tags))


def create(name, attributes, tags):
    named = {name: value for name, value in attributes.items() if value}
    return sqs.create_queue(QueueName=name, Attributes=named, tags=tags)["QueueUrl"]


def update(attributes, tags, url):
    differ, added, taken = plan(attributes, tags, url)
    if differ:
        sqs.set_queue_attributes(QueueUrl=url, Attributes=differ)
    if added:
        sqs.tag_queue(QueueUrl=url, Tags=added)
    if taken:
        sqs.untag_queue(QueueUrl=url, TagKeys=taken)
    same(plan(attributes, tags, url), ({}, {}, []))


def settings(name, dead):
    return {
        "DelaySeconds": "5",
        "MaximumMessageSize": "2048",
        "MessageRetentionPeriod": "86400",
        "ReceiveMessageWaitTimeSeconds": "10",
        "VisibilityTimeout": "60",
        "Policy": policy(name),
        "RedrivePolicy": redrive(dead, 4),
    }


def a_queue_that_was_created_reads_back_as_it_was_planned():
    allow = json.dumps({"redrivePermission": "byQueue", "sourceQueueArns": [arn("iac-work")]})
    dead = create("iac-dead", {"RedriveAllowPolicy": allow}, {})
    work = create("iac-work", settings("iac-work", "iac-dead"), {"owner": "ann", "cost centre": "a/b=c"})
    same(plan({"RedriveAllowPolicy": allow}, {}, dead), ({}, {}, []))
    same(plan(settings("iac-work", "iac-dead"), {"owner": "ann", "cost centre": "a/b=c"}, work), ({}, {}, []))
    same(read(work)[0]["QueueArn"], arn("iac-work"))
    same(sources(dead), [work])
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true", "DeduplicationScope": "messageGroup",
            "FifoThroughputLimit": "perMessageGroupId"}
    same(plan(fifo, {}, create("iac-work.fifo", fifo, {})), ({}, {}, []))


def settings_and_tags_are_changed_in_place():
    create("iac-place-dead", {}, {})
    wanted = settings("iac-place", "iac-place-dead")
    url = create("iac-place", wanted, {"owner": "ann", "stage": "test"})
    sent = sqs.send_message(QueueUrl=url, MessageBody="stays", DelaySeconds=0)
    before = read(url)[0]
    wanted |= {"VisibilityTimeout": "90", "RedrivePolicy": redrive("iac-place-dead", 9)}
    wanted["Policy"] = policy("iac-place", "sqs:*")
    tags = {"owner": "bob", "team": "queues"}
    differ, added, taken = plan(wanted, tags, url)
    same((sorted(differ), added, taken), (["Policy", "RedrivePolicy", "VisibilityTimeout"], tags, ["stage"]))
    update(wanted, tags, url)
    after = read(url)[0]
    same(sqs.get_queue_url(QueueName="iac-place")["QueueUrl"], url)
    same({name for name in before if before[name] != after[name]} - {"LastModifiedTimestamp"}, set(differ))
    got = sqs.receive_message(QueueUrl=url)["Messages"][0]
    same((got["MessageId"], got["Body"]), (sent["MessageId"], "stays"))


def what_is_taken_out_returns_to_its_default():
    create("iac-default-dead", {}, {})
    url = create("iac-default", settings("iac-default", "iac-default-dead"), {"owner": "ann"})
    update({}, {}, url)
    there, tagged = read(url)
    same([name for name in DOCUMENTS if name in there], [])
    same((there["VisibilityTimeout"], there["MessageRetentionPeriod"], tagged), ("30", "345600", {}))
    dead = sqs.get_queue_url(QueueName="iac-default-dead")["QueueUrl"]
    same(sources(dead), [])


def encryption_changes_hands_in_place():
    url = create("iac-keys", {}, {})
    same(read(url)[0]["SqsManagedSseEnabled"], "true")
    key = {"KmsMasterKeyId": "alias/iac", "KmsDataKeyReusePeriodSeconds": "600"}
    sqs.set_queue_attributes(QueueUrl=url, Attributes=key | {"SqsManagedSseEnabled": "false"})
    there = read(url)[0]
    same({name: there[name] for name in key} | {"managed": there["SqsManagedSseEnabled"]}, key | {"managed": "false"})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"KmsMasterKeyId": "", "SqsManagedSseEnabled": "true"})
    there = read(url)[0]
    same((there.get("KmsMasterKeyId"), there["SqsManagedSseEnabled"]), (None, "true"))


def a_change_that_is_refused_changes_nothing():
    url = create("iac-refused", {"VisibilityTimeout": "60"}, {})
    before = read(url)
    for bad in ({"DelaySeconds": "901"}, {"Policy": "{"}, {"RedrivePolicy": redrive("iac-not-there", 3)}):
        try:
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "90"} | bad)
        except sqs.exceptions.ClientError:
            same(read(url), before)
        else:
            raise AssertionError(f"not refused: {bad}")
    # What cannot be changed in place is a reason to replace the queue.
    refused("InvalidAttributeName", sqs.set_queue_attributes, QueueUrl=url, Attributes={"FifoQueue": "true"})
    same(read(url), before)


def creating_again_finds_the_queue_or_says_what_differs():
    url = create("iac-again", {"VisibilityTimeout": "60"}, {"owner": "ann"})
    same(create("iac-again", {"VisibilityTimeout": "60"}, {"owner": "ann"}), url)
    refused("QueueAlreadyExists", create, name="iac-again", attributes={"VisibilityTimeout": "61"}, tags={})
    same(read(url)[1], {"owner": "ann"})


def a_deleted_queue_reads_as_missing_and_its_successor_starts_empty():
    create("iac-gone-dead", {}, {})
    url = create("iac-gone", settings("iac-gone", "iac-gone-dead"), {"owner": "ann"})
    sqs.send_message(QueueUrl=url, MessageBody="goes")
    sqs.delete_queue(QueueUrl=url)
    same(read(url), None)
    refused("NonExistentQueue", sqs.list_queue_tags, QueueUrl=url)
    dead = sqs.get_queue_url(QueueName="iac-gone-dead")["QueueUrl"]
    same(sources(dead), [])
    ask("CLOCK 61000")
    same(create("iac-gone", {}, {}), url)
    same(plan({}, {}, url), ({}, {}, []))
    same(read(url)[0]["ApproximateNumberOfMessages"], "0")


def what_was_applied_is_still_there_after_a_kill():
    create("iac-kill-dead", {}, {})
    wanted, tags = settings("iac-kill", "iac-kill-dead"), {"owner": "ann"}
    url = create("iac-kill", {}, {})
    update(wanted, tags, url)
    before = read(url)
    ask("CRASH")
    same(read(url), before)
    same(plan(wanted, tags, url), ({}, {}, []))


SCENARIOS = [
    a_queue_that_was_created_reads_back_as_it_was_planned,
    settings_and_tags_are_changed_in_place,
    what_is_taken_out_returns_to_its_default,
    encryption_changes_hands_in_place,
    a_change_that_is_refused_changes_nothing,
    creating_again_finds_the_queue_or_says_what_differs,
    a_deleted_queue_reads_as_missing_and_its_successor_starts_empty,
    what_was_applied_is_still_there_after_a_kill,
]

for scenario in SCENARIOS:
    try:
        scenario()
        print(f"PASS {scenario.__name__}", flush=True)
    except Exception as failure:
        traceback.print_exc()
        line = str(failure).replace("\n", " ")[:500]
        print(f"FAIL {scenario.__name__}: {type(failure).__name__} {line}", flush=True)
