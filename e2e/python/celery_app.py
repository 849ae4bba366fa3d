"""The Celery application of celery_play.py, as a worker and as its producer load it."""

import os
import time
from urllib.parse import urlparse

from celery import Celery

BROKER = urlparse(os.environ["KEW_ENDPOINT"])
QUEUE = os.environ["KEW_CELERY_QUEUE"]
# Where tasks write what they did, one line each.
RECORD = os.environ["KEW_CELERY_RECORD"]

app = Celery("e2e", broker=f"sqs://any:any@{BROKER.netloc}")
options = {
    "region": "us-east-1",
    "is_secure": False,
    "visibility_timeout": 600,
    "wait_time_seconds": 1,
    "polling_interval": 0.05,
}
if os.environ.get("KEW_CELERY_PREDEFINED"):
    options["predefined_queues"] = {QUEUE: {"url": os.environ["KEW_CELERY_PREDEFINED"]}}
app.conf.update(
    broker_transport_options=options,
    broker_connection_retry_on_startup=True,
    task_default_queue=QUEUE,
    task_acks_late=True,
    worker_prefetch_multiplier=1,
)


def record(line):
    with open(RECORD, "a") as file:
        file.write(line + "\n")


@app.task
def note(text):
    record(text)


@app.task(bind=True, max_retries=5)
def stumble(self, times):
    record(f"attempt {self.request.retries}")
    if self.request.retries < times:
        raise self.retry(countdown=0)


@app.task
def hang(text, marker):
    """Takes for ever the first time, no time the second."""
    record(f"begun {text}")
    if not os.path.exists(marker):
        open(marker, "w").close()
        time.sleep(600)
    record(f"done {text}")
