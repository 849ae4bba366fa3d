"""A custom handler: one small HTTP server that answers for every function of the project.

A message "fail" raises an exception, "sleep 30" works for thirty seconds, anything else succeeds at once.
Only Python's own library is needed.
"""

import json
import os
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def queue_trigger_1(text, metadata):
    """The function: returns lines for the log, or raises."""
    if text == "fail":
        raise ValueError("this message always fails")
    if text.startswith("sleep "):
        time.sleep(float(text.removeprefix("sleep ")))
    return [f"worked on {text!r}, try {metadata['DequeueCount']}"]


FUNCTIONS = {"/QueueTrigger1": queue_trigger_1}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keep connections open between runs
    disable_nagle_algorithm = True

    def do_GET(self):
        self.reply(200, {})  # the host asks whether we are there

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = json.loads(body["Data"]["item"])  # a text arrives as JSON inside a string
        try:
            logs = FUNCTIONS[self.path](text, body["Metadata"])
        except Exception as error:  # any failure of the function: the host makes the message visible again
            self.reply(500, {"error": str(error)})
        else:
            self.reply(200, {"Logs": logs})

    def reply(self, status, document):
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass  # the host tells what runs


if __name__ == "__main__":
    port = int(os.environ["FUNCTIONS_CUSTOMHANDLER_PORT"])
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
