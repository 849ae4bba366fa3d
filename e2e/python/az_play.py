"""The Azure command line, `az storage queue` and `az storage message`, on a signed connection string."""

import json
import os
import subprocess
import tempfile

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
CONNECTION = (
    f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={KEY};"
    f"QueueEndpoint={os.environ['KEW_AZURE']}/{ACCOUNT};"
)
# It notes what it does in a folder; not in that of whoever runs this.
FOLDER = tempfile.TemporaryDirectory()
ENVIRONMENT = {
    **os.environ,
    "AZURE_CONFIG_DIR": FOLDER.name,
    "AZURE_CORE_COLLECT_TELEMETRY": "no",
    "AZURE_STORAGE_CONNECTION_STRING": CONNECTION,
}


def az(*arguments, fails=None):
    """What a command prints, as JSON; with `fails`, what it says when it is refused."""
    command = ["az", "storage", *arguments, "--only-show-errors", "--output", "json"]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    if fails:
        assert done.returncode != 0 and fails in done.stderr, (arguments, done.stdout, done.stderr)
        return None
    assert done.returncode == 0, (arguments, done.stderr)
    return json.loads(done.stdout) if done.stdout.strip() else None


def a_queue_is_made_listed_described_and_deleted_by_the_command_line():
    assert az("queue", "create", "-n", "az-orders", "--metadata", "colour=red") == {"created": True}
    assert az("queue", "exists", "-n", "az-orders") == {"exists": True}
    [queue] = az("queue", "list", "--prefix", "az-orders", "--include-metadata")
    assert (queue["name"], queue["metadata"]) == ("az-orders", {"colour": "red"}), queue
    az("queue", "metadata", "update", "-n", "az-orders", "--metadata", "size=7")
    assert az("queue", "metadata", "show", "-n", "az-orders") == {"size": "7"}
    az("queue", "policy", "create", "-q", "az-orders", "-n", "staff", "--permissions", "ra", "--expiry", "2100-01-01T00:00Z")
    assert az("queue", "policy", "list", "-q", "az-orders")["staff"]["permission"] == "ra"
    assert az("queue", "delete", "-n", "az-orders") == {"deleted": True}
    assert az("queue", "exists", "-n", "az-orders") == {"exists": False}


def a_message_is_put_got_changed_and_deleted_by_the_command_line():
    az("queue", "create", "-n", "az-life")
    sent = az("message", "put", "-q", "az-life", "--content", "hello <you> & Grüße 🚀", "--time-to-live", "600")
    [shown] = az("message", "peek", "-q", "az-life")
    assert (shown["id"], shown["content"], shown["dequeueCount"]) == (sent["id"], "hello <you> & Grüße 🚀", 0), shown
    [got] = az("message", "get", "-q", "az-life", "--visibility-timeout", "60")
    changed = az(
        "message", "update", "-q", "az-life", "--id", got["id"], "--pop-receipt", got["popReceipt"],
        "--visibility-timeout", "0", "--content", "two",
    )
    stale = ("message", "delete", "-q", "az-life", "--id", got["id"], "--pop-receipt", got["popReceipt"])
    az(*stale, fails="PopReceiptMismatch")
    [again] = az("message", "peek", "-q", "az-life")
    assert (again["content"], again["dequeueCount"]) == ("two", 1), again
    az("message", "delete", "-q", "az-life", "--id", got["id"], "--pop-receipt", changed["popReceipt"])
    assert az("message", "peek", "-q", "az-life") == []
    az("message", "put", "-q", "az-life", "--content", "gone")
    az("message", "clear", "-q", "az-life")
    assert az("message", "get", "-q", "az-life") == []
    az("message", "get", "-q", "az-nowhere", fails="QueueNotFound")


for scenario in (
    a_queue_is_made_listed_described_and_deleted_by_the_command_line,
    a_message_is_put_got_changed_and_deleted_by_the_command_line,
):
    try:
        scenario()
        print(f"PASS {scenario.__name__}", flush=True)
    except Exception as error:  # noqa: BLE001, whatever it was is the answer
        line = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"FAIL {scenario.__name__}: {line[:500]}", flush=True)
