"""Makes the calls it is told with boto3, or with the AWS command line when the first argument is `cli`.

One JSON object a line in, one a line out; `xtask/src/e2e/agent.rs` says what they hold.
"""

import base64
import io
import json
import os
import re
import sys
import threading
import traceback
from contextlib import redirect_stderr, redirect_stdout

OUTPUT = threading.Lock()


def tell(answer):
    line = json.dumps(answer, default=lambda blob: base64.b64encode(blob).decode())
    with OUTPUT:
        sys.__stdout__.write(line + "\n")
        sys.__stdout__.flush()


def snake(action):
    return re.sub(r"(?<!^)(?=[A-Z])", "_", action).lower()


def decoded(value):
    """The input with blobs as bytes."""
    if isinstance(value, list):
        return [decoded(entry) for entry in value]
    if isinstance(value, dict):
        return {
            name: base64.b64decode(entry) if name == "BinaryValue" else decoded(entry)
            for name, entry in value.items()
        }
    return value


class Boto3:
    """One client per endpoint, region and key, as a program would keep them."""

    def __init__(self):
        import boto3

        self.session = boto3.Session()
        self.clients = {}
        self.lock = threading.Lock()

    def client(self, call):
        name = (call["endpoint"], call["region"], call["key"])
        with self.lock:
            if name not in self.clients:
                self.clients[name] = self.session.client(
                    "sqs",
                    endpoint_url=call["endpoint"],
                    region_name=call["region"],
                    aws_access_key_id=call["key"],
                    aws_secret_access_key=call["secret"],
                )
            return self.clients[name]

    def __call__(self, call):
        from botocore.exceptions import ClientError

        client = self.client(call)
        try:
            output = getattr(client, snake(call["action"]))(**decoded(call["input"]))
        except ClientError as error:
            said = error.response["Error"]
            return {
                "error": {"class": type(error).__name__, "code": said["Code"], "message": said["Message"]}
            }
        assert output["ResponseMetadata"].pop("RequestId"), "an answer without a request id"
        output.pop("ResponseMetadata")
        return {"output": output}


class CommandLine:
    """Every call is a process of its own, forked after the imports: a new interpreter each time takes too long."""

    ERROR = re.compile(r"An error occurred \((?P<code>[^)]*)\) when calling the \w+ operation[^:]*: (?P<text>.*)", re.S)

    def __init__(self):
        from awscli.clidriver import create_clidriver

        os.environ.update(AWS_PAGER="", AWS_EC2_METADATA_DISABLED="true", AWS_MAX_ATTEMPTS="1")
        os.environ.update(AWS_ACCESS_KEY_ID="any", AWS_SECRET_ACCESS_KEY="any")
        self.driver = create_clidriver()
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            # Reads the description of the service once for all; nobody listens on the discard port.
            self.driver.main(["sqs", "list-queues", "--endpoint-url", "http://127.0.0.1:9", "--region", "us-east-1"])
        os.environ["AWS_MAX_ATTEMPTS"] = "4"
        # A command line keeps no credentials from the one before.
        self.driver.session._credentials = None
        self.fork = threading.Lock()

    def __call__(self, call):
        action = snake(call["action"]).replace("_", "-")
        words = ["sqs", action, "--endpoint-url", call["endpoint"], "--region", call["region"], "--output", "json"]
        words += ["--cli-input-json", json.dumps(self.blobs(call["input"]))]
        if call["action"] == "ListQueues" or call["action"] == "ListDeadLetterSourceQueues":
            # It would follow the pages by itself.
            words.append("--no-paginate")
        environment = {"AWS_ACCESS_KEY_ID": call["key"], "AWS_SECRET_ACCESS_KEY": call["secret"]}
        status, output, errors = self.run(words, environment)
        failure = self.ERROR.search(errors)
        if failure:
            text = failure["text"].rstrip("\n")
            return {"error": {"class": "", "code": failure["code"], "message": text}}
        if status != 0:
            return {"broken": f"exit code {status}: {errors}"}
        return {"output": json.loads(output) if output.strip() else {}}

    def blobs(self, value):
        """Version 1 of the command line takes blobs as the text they are."""
        if isinstance(value, list):
            return [self.blobs(entry) for entry in value]
        if isinstance(value, dict):
            return {
                name: base64.b64decode(entry).decode() if name == "BinaryValue" else self.blobs(entry)
                for name, entry in value.items()
            }
        return value

    def run(self, words, environment):
        read, write = os.pipe()
        with self.fork:
            child = os.fork()
        if child == 0:
            os.close(read)
            os.environ.update(environment)
            out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
            try:
                with redirect_stdout(out), redirect_stderr(err):
                    status = self.driver.main(words)
            except SystemExit as exit:
                status = exit.code
            except BaseException:
                status = 70
                err.write(traceback.format_exc())
            said = []
            for stream in (out, err):
                stream.flush()
                said.append(stream.buffer.getvalue().decode())
            with os.fdopen(write, "w") as pipe:
                json.dump([status, *said], pipe)
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            text = pipe.read()
        os.waitpid(child, 0)
        return json.loads(text)


def answer(client, call):
    try:
        told = client(call)
    except Exception:
        told = {"broken": traceback.format_exc()}
    tell({"id": call["id"], **told})


def main():
    kind = sys.argv[1]
    if kind == "cli":
        client = CommandLine()
    elif kind == "get":
        from query import Get

        client = Get()
    else:
        client = Boto3()
    for line in sys.stdin:
        threading.Thread(target=answer, args=(client, json.loads(line)), daemon=True).start()


if __name__ == "__main__":
    main()
