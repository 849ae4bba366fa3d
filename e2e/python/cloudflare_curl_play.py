"""curl as the vendor's guides write it: no JSON content type, `visibility_timeout`, tokens in a header."""

import json
import os
import subprocess
import sys

ACCOUNT = "0123456789abcdef0123456789abcdef"
QUEUES = f"{os.environ['KEW_CLOUDFLARE']}/client/v4/accounts/{ACCOUNT}/queues"


def curl(path, *words, token="all"):
    """Status and body of a reply."""
    words = [*words, "--header", f"Authorization: Bearer {token}"] if token else words
    run = subprocess.run(
        ["curl", "--silent", "--show-error", "--write-out", "\n%{http_code}", QUEUES + path, *words],
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    body, status = run.stdout.rsplit("\n", 1)
    return int(status), json.loads(body)


def result(path, *words):
    status, body = curl(path, *words)
    assert status == 200 and body["success"] and body["errors"] == [], body
    return body["result"]


def refused(status, code, path, *words, token="all"):
    got, body = curl(path, *words, token=token)
    told = body["errors"][0]
    assert (got, told["code"], body["success"], body["result"]) == (status, code, False, None), (got, body)


def queue(name):
    path = "/" + result("", "--data", json.dumps({"queue_name": name}))["queue_id"]
    result(path + "/consumers", "--data", '{"type":"http_pull"}')
    return path


def clock(seconds):
    print(f"CLOCK {seconds * 1000}", flush=True)
    sys.stdin.readline()


def the_guides_commands_publish_pull_and_acknowledge():
    path = queue("guide")
    result(path + "/messages", "--request", "POST", "--data", '{ "body": { "greeting": "hello" } }')
    pull = '{ "visibility_timeout": 10000, "batch_size": 2 }'
    header = ("--header", "Content-Type: application/json")
    (message,) = result(path + "/messages/pull", *header, "--data", pull)["messages"]
    assert message["body"] == "eyAiZ3JlZXRpbmciOiAiaGVsbG8iIH0=", message
    clock(10)
    (message,) = result(path + "/messages/pull", *header, "--data", pull)["messages"]
    assert message["attempts"] == 2
    ack = json.dumps({"acks": [{"lease_id": message["lease_id"]}], "retries": []})
    assert result(path + "/messages/ack", "--data", ack) == {"ackCount": 1, "retryCount": 0, "warnings": {}}


def a_file_is_published_as_it_is():
    path = queue("file")
    text = "line one\nline two \u2603\n"
    body = json.dumps({"body": text, "content_type": "text"})
    run = subprocess.run(
        ["curl", "-sS", QUEUES + path + "/messages", "-H", "Authorization: Bearer all", "--data-binary", "@-"],
        input=body,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(run.stdout)["success"], run.stdout
    (message,) = result(path + "/messages/pull", "--request", "POST")["messages"]
    assert message["body"] == text


def what_is_wrong_is_told_in_the_envelope():
    path = queue("wrong")
    refused(403, 10000, "", token=None)
    refused(403, 10000, "", token="guess")
    refused(400, 6003, "", "--header", "Authorization: Basic YTpi", token=None)
    refused(404, 7003, path + "/nowhere")
    refused(404, 10104, "/" + "f" * 32 + "/messages", "--data", '{"body":1}')
    refused(404, 11000, "/" + "f" * 32)
    refused(404, 11000, "/wrong_id")
    refused(400, 10107, "/wrong_id/messages", "--data", '{"body":1}')
    refused(400, 10208, path + "/messages", "--data", "body=hello")
    refused(400, 10207, path + "/messages/batch", "--data", '{"messages":[]}')
    refused(400, 10203, path + "/messages", "--data", '{"body":1,"delay_seconds":86401}')
    refused(400, 100128, path, "--request", "PATCH", "--data", '{"settings":{"delivery_delay":-1}}')
    assert result(path + "/metrics")["backlog_count"] == 0


def a_paused_queue_says_so():
    path = queue("paused")
    result(path, "--request", "PATCH", "--data", '{"settings":{"delivery_paused":true}}')
    refused(409, 0, path + "/messages/pull", "--data", "{}")
    result(path + "/messages", "--data", '{"body":1}')
    result(path, "--request", "PATCH", "--data", '{"settings":{"delivery_paused":false}}')
    assert len(result(path + "/messages/pull", "--data", "{}")["messages"]) == 1


for scenario in (
    the_guides_commands_publish_pull_and_acknowledge,
    a_file_is_published_as_it_is,
    what_is_wrong_is_told_in_the_envelope,
    a_paused_queue_says_so,
):
    try:
        scenario()
        print(f"PASS {scenario.__name__}", flush=True)
    except Exception as error:
        print(f"FAIL {scenario.__name__}: {error!r}", flush=True)
