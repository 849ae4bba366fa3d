"""The admin API fuzzed by schemathesis from the document that it serves: no request may be answered with a 5xx.

The server is one of its own, in memory, so that nothing is written to the machine. KEW_OPENAPI_CASES is how many cases
are made up for each operation, 5 where it is not set. Failures are printed with a request that repeats them, into the
file of errors.
"""

import json
import os
import subprocess
import sys
import time
import traceback
import urllib.request
from pathlib import Path

CASES = os.environ.get("KEW_OPENAPI_CASES", "5")
ROOM = Path(os.environ["KEW_DIRECTORY"]).resolve() / "fuzzed"
# Without these the queue of a path hardly ever exists.
NAMED = '[parameters]\nq = "orders"\nid = "{id}"\n'


class Server:
    """A server without data, which ends with this."""

    def __enter__(self):
        ROOM.mkdir(parents=True, exist_ok=True)
        ports = ROOM / "ports"
        ports.unlink(missing_ok=True)
        words = [os.environ["KEW_PROGRAM"], "serve", "--store", "memory", "--ports-file", str(ports)]
        words += ["--sqs", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--azure", "off", "--cloudflare", "off"]
        variables = {name: value for name, value in os.environ.items() if not name.startswith("KEW_")}
        self.errors = open(ROOM / "errors", "wb")
        self.child = subprocess.Popen(words, env=variables, stdout=subprocess.DEVNULL, stderr=self.errors)
        until = time.monotonic() + 30
        while True:
            try:
                self.admin = "http://" + json.loads(ports.read_text())["admin"]
                return self
            except (FileNotFoundError, ValueError):
                assert self.child.poll() is None and time.monotonic() < until, "the server did not start"
                time.sleep(0.05)

    def __exit__(self, *_):
        self.child.terminate()
        self.child.wait(30)
        self.errors.close()

    def ask(self, method, path, body=None):
        request = urllib.request.Request(self.admin + "/api/v1" + path, method=method)
        if body is not None:
            request.add_header("Content-Type", "application/json")
            request.data = json.dumps(body).encode()
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)


def fuzz(server, config=None):
    """Runs schemathesis on the document; the end of what it printed, if anything failed."""
    words = [sys.executable, "-m", "schemathesis.cli"]
    if config:
        path = ROOM / "schemathesis.toml"
        path.write_text(config)
        words += ["--config-file", str(path)]
    words += ["run", server.admin + "/api/v1/openapi.json", "--checks", "not_a_server_error"]
    words += ["--max-examples", CASES, "--phases", "examples,coverage,fuzzing", "--seed", "20", "--no-shrink"]
    # One worker: the generator of cases is not safe beside itself.
    words += ["--suppress-health-check", "all", "--request-timeout", "60", "--warnings", "off"]
    ran = subprocess.run(words, cwd=ROOM, capture_output=True, text=True, timeout=3_600)
    print(ran.stdout, ran.stderr, file=sys.stderr)
    assert ran.returncode == 0, f"schemathesis ended with {ran.returncode}: {ran.stdout[-300:]!r}"
    assert server.child.poll() is None, "the server has ended"
    assert server.ask("GET", "/queues")["queues"] is not None


def made_up_requests_are_never_answered_with_an_error_of_the_server():
    with Server() as server:
        document = server.ask("GET", "/openapi.json")
        assert len(document["paths"]) > 30, sorted(document["paths"])
        fuzz(server)


def nor_are_those_about_a_queue_and_a_message_that_exist():
    with Server() as server:
        server.ask("POST", "/queues", {"name": "orders"})
        message = server.ask("POST", "/queues/orders/messages", {"body": "{}"})
        fuzz(server, NAMED.format(id=message["id"]))


def main():
    for scenario in (
        made_up_requests_are_never_answered_with_an_error_of_the_server,
        nor_are_those_about_a_queue_and_a_message_that_exist,
    ):
        try:
            scenario()
            print(f"PASS {scenario.__name__}", flush=True)
        except Exception as error:
            traceback.print_exc()
            print(f"FAIL {scenario.__name__}: {type(error).__name__}: {' '.join(str(error).split())}", flush=True)


if __name__ == "__main__":
    main()
