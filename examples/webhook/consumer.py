"""A webhook that consumes a queue of Kew: run it, and point a consumer of type http_push at it.

    WEBHOOK_SECRET=hush python3 consumer.py 8080

It needs nothing but Python 3. It checks who sends, handles each message once, and answers with a verdict.
"""

import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = os.environ.get("WEBHOOK_SECRET", "")
# A signature older than this may be one that somebody else has kept.
SECONDS_OLD_MAX = 300
# Every message comes at least once, and after a crash perhaps again. What was handled is remembered by its id; a real
# consumer writes the id down together with what the message did.
handled = set()


class TryLater(Exception):
    """This message cannot be handled yet."""

    def __init__(self, seconds):
        super().__init__(seconds)
        self.seconds = seconds


def handle(message):
    """What this consumer is for: here it prints. A failure brings the message back later and later."""
    if message["body"] == "fail":
        # 30, 900, 27000 seconds: Kew takes whatever is above a day for a day.
        raise TryLater(30 ** message["attempts"])
    print(f"handled {message['id']} attempt {message['attempts']} {json.dumps(message['body'])}", flush=True)


def is_genuine(headers, body):
    if not SECRET:
        return True
    signed_at = headers.get("Kew-Timestamp", "")
    if not signed_at.isdigit() or abs(time.time() - int(signed_at)) > SECONDS_OLD_MAX:
        return False
    expected = hmac.new(SECRET.encode(), signed_at.encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(headers.get("Kew-Signature", ""), "v1=" + expected)


def verdict(batch):
    acks, retries = [], []
    for message in batch["messages"]:
        try:
            if message["id"] not in handled:
                handle(message)
                handled.add(message["id"])
            acks.append(message["id"])
        except TryLater as later:
            retries.append({"id": message["id"], "delay_seconds": later.seconds})
    return {"acks": acks, "retries": retries}


class Webhook(BaseHTTPRequestHandler):
    # Connections are kept and used again.
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if not is_genuine(self.headers, body):
            return self.answer(403, {})
        self.answer(200, verdict(json.loads(body)))

    def answer(self, status, reply):
        text = json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


if __name__ == "__main__":
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8080
    server = ThreadingHTTPServer(("127.0.0.1", port), Webhook)
    print("listening on", server.server_port, flush=True)
    server.serve_forever()
