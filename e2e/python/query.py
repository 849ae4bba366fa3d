"""The Query protocol without any SDK: every call a plain GET, parameters in the URL, XML back.

What is signed is signed in the URL: the same requests a browser or curl makes of a presigned address.
"""

import datetime
import hashlib
import hmac
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree as xml

NAMESPACE = "{http://queue.amazonaws.com/doc/2012-11-05/}"
# Longer addresses are refused by every server; such calls go as a form, like SDKs send them.
ADDRESS_BYTES = 6000

# List members and what their flattened parameters are called.
LISTS = {
    "AttributeNames": "AttributeName",
    "MessageSystemAttributeNames": "MessageSystemAttributeName",
    "MessageAttributeNames": "MessageAttributeName",
    "AWSAccountIds": "AWSAccountId",
    "Actions": "ActionName",
    "TagKeys": "TagKey",
}
# Map members: the parameter, and what key and value are called.
MAPS = {
    "Attributes": ("Attribute", "Name", "Value"),
    "MessageAttributes": ("MessageAttribute", "Name", "Value"),
    "MessageSystemAttributes": ("MessageSystemAttribute", "Name", "Value"),
    "tags": ("Tag", "Key", "Value"),
    "Tags": ("Tag", "Key", "Value"),
}
# Elements that come once per entry, and the member each entry belongs to.
RESULT_LISTS = {
    "Message": "Messages",
    "SendMessageBatchResultEntry": "Successful",
    "DeleteMessageBatchResultEntry": "Successful",
    "ChangeMessageVisibilityBatchResultEntry": "Successful",
    "BatchResultErrorEntry": "Failed",
    "ListMessageMoveTasksResultEntry": "Results",
}
RESULT_MAPS = {"Attribute": "Attributes", "Tag": "Tags", "MessageAttribute": "MessageAttributes"}
NUMBERS = {
    "ApproximateNumberOfMessagesMoved",
    "ApproximateNumberOfMessagesToMove",
    "MaxNumberOfMessagesPerSecond",
    "StartedTimestamp",
}


def flattened(action, given, prefix=""):
    """The input as pairs of parameter and value."""
    pairs = []
    for member, value in given.items():
        if member in LISTS:
            pairs += [(f"{prefix}{LISTS[member]}.{n}", entry) for n, entry in enumerate(value, 1)]
        elif member in MAPS:
            parameter, key, content = MAPS[member]
            for n, (name, entry) in enumerate(value.items(), 1):
                pairs.append((f"{prefix}{parameter}.{n}.{key}", name))
                if isinstance(entry, dict):
                    pairs += [(f"{prefix}{parameter}.{n}.{content}.{part}", text) for part, text in entry.items()]
                else:
                    pairs.append((f"{prefix}{parameter}.{n}.{content}", entry))
        elif member == "Entries":
            for n, entry in enumerate(value, 1):
                pairs += flattened(action, entry, f"{action}RequestEntry.{n}.")
        else:
            pairs.append((prefix + member, str(value)))
    return pairs


def read(element, action):
    """A result element as the member names of the JSON protocol have it."""
    result = {}
    for child in element:
        name = child.tag.removeprefix(NAMESPACE)
        # A failed entry has a text called Message.
        if name in RESULT_LISTS and (len(child) or name != "Message"):
            result.setdefault(RESULT_LISTS[name], []).append(read(child, action))
        elif name in RESULT_MAPS:
            key, value = child[0].text, child[1]
            content = {part.tag.removeprefix(NAMESPACE): part.text or "" for part in value} or value.text or ""
            result.setdefault(RESULT_MAPS[name], {})[key] = content
        elif name == "QueueUrl" and action in ("ListQueues", "ListDeadLetterSourceQueues"):
            result.setdefault("QueueUrls", []).append(child.text)
        elif name == "SenderFault":
            result[name] = child.text == "true"
        elif name in NUMBERS:
            result[name] = int(child.text)
        else:
            result[name] = child.text or ""
    return result


def signed(call, host, pairs, method="GET"):
    """The parameters with a version 4 signature among them."""
    now = datetime.datetime.now(datetime.timezone.utc)
    day, moment = now.strftime("%Y%m%d"), now.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{day}/{call['region']}/sqs/aws4_request"
    pairs = pairs + [
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
        ("X-Amz-Credential", f"{call['key']}/{scope}"),
        ("X-Amz-Date", moment),
        ("X-Amz-Expires", "300"),
        ("X-Amz-SignedHeaders", "host"),
    ]
    quoted = sorted((urllib.parse.quote(name, "~"), urllib.parse.quote(value, "~")) for name, value in pairs)
    query = "&".join(f"{name}={value}" for name, value in quoted)
    nothing = hashlib.sha256(b"").hexdigest()
    request = "\n".join([method, "/", query, f"host:{host}", "", "host", nothing])
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(request.encode()).hexdigest()])
    key = ("AWS4" + call["secret"]).encode()
    for part in (day, call["region"], "sqs", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return query + "&X-Amz-Signature=" + hmac.digest(key, text.encode(), "sha256").hex()


class Get:
    def __call__(self, call):
        host = call["endpoint"].removeprefix("http://")
        pairs = [("Action", call["action"]), ("Version", "2012-11-05")]
        pairs += flattened(call["action"], call["input"])
        query = signed(call, host, pairs)
        if len(query) > ADDRESS_BYTES:
            return self.post(call, pairs)
        return self.ask(urllib.request.Request(f"{call['endpoint']}/?{query}"), call)

    def post(self, call, pairs):
        """A form; its signature would cover the body, so it is made only where nobody checks it."""
        body = urllib.parse.urlencode(pairs).encode()
        scope = f"20260101/{call['region']}/sqs/aws4_request"
        authorization = (
            f"AWS4-HMAC-SHA256 Credential={call['key']}/{scope}, SignedHeaders=host, Signature={'0' * 64}"
        )
        request = urllib.request.Request(call["endpoint"] + "/", body, {"Authorization": authorization})
        return self.ask(request, call)

    def ask(self, request, call):
        try:
            with urllib.request.urlopen(request, timeout=50) as reply:
                text, identity = reply.read(), reply.headers["x-amzn-RequestId"]
        except urllib.error.HTTPError as refusal:
            error = xml.fromstring(refusal.read()).find(NAMESPACE + "Error")
            code, said = (error.findtext(NAMESPACE + name) for name in ("Code", "Message"))
            return {"error": {"class": "", "code": code, "message": said or ""}}
        root = xml.fromstring(text)
        assert root.tag == f"{NAMESPACE}{call['action']}Response", root.tag
        metadata = root.find(NAMESPACE + "ResponseMetadata")
        assert metadata.findtext(NAMESPACE + "RequestId") == identity, "two request ids"
        result = root.find(f"{NAMESPACE}{call['action']}Result")
        output = {} if result is None else read(result, call["action"])
        for message in output.get("Messages", []):
            given = hashlib.md5(message["Body"].encode()).hexdigest()
            assert given == message["MD5OfBody"], "the body is not what its MD5 says"
        return {"output": output}
