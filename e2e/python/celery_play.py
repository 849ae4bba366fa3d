"""Celery over SQS: real workers in processes of their own, one queue per scenario."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import boto3

HERE = Path(__file__).parent
ENDPOINT = os.environ["KEW_ENDPOINT"]
PATIENCE = 60

sqs = boto3.client(
    "sqs", endpoint_url=ENDPOINT, region_name="us-east-1", aws_access_key_id="any", aws_secret_access_key="any"
)


def clock(seconds):
    print(f"CLOCK {seconds * 1000}", flush=True)
    sys.stdin.readline()


def until(what, true):
    """Waits for what a worker does in its own time."""
    begun = time.monotonic()
    while not true():
        if time.monotonic() - begun > PATIENCE:
            raise AssertionError(f"not within {PATIENCE} s: {what}")
        time.sleep(0.05)


class Stage:
    """A queue, a worker on it, and the record of what its tasks did."""

    def __init__(self, name, directory, predefined=None):
        self.record = Path(directory) / "record"
        self.directory = directory
        self.name = name
        self.environment = {
            **os.environ,
            "KEW_CELERY_QUEUE": name,
            "KEW_CELERY_RECORD": str(self.record),
            "KEW_CELERY_PREDEFINED": predefined or "",
            "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")])),
        }
        self.workers = []

    def work(self):
        words = [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "--pool", "solo", "-l", "warning"]
        worker = subprocess.Popen(
            words, env=self.environment, cwd=self.directory, stdin=subprocess.DEVNULL, stdout=sys.stderr
        )
        self.workers.append(worker)
        return worker

    def send(self, code):
        """Runs a producer: the application's own module, with its tasks."""
        subprocess.run(
            [sys.executable, "-c", f"import celery_app as app\n{code}"],
            env=self.environment,
            cwd=self.directory,
            check=True,
            timeout=PATIENCE,
        )

    def lines(self):
        return self.record.read_text().splitlines() if self.record.exists() else []

    def left(self):
        """Messages still in the queue, visible and in flight."""
        url = sqs.get_queue_url(QueueName=self.name)["QueueUrl"]
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
        return [int(counts[name]) for name in names]

    def close(self):
        for worker in self.workers:
            worker.kill()
            worker.wait()


def tasks_run_in_a_worker(directory):
    stage = Stage("celery-plain", directory)
    try:
        stage.send("for n in range(20): app.note.delay(f'task {n}')")
        stage.work()
        until("20 tasks run", lambda: len(stage.lines()) >= 20)
        assert sorted(stage.lines()) == sorted(f"task {n}" for n in range(20)), stage.lines()
        until("an empty queue", lambda: stage.left() == [0, 0])
    finally:
        stage.close()


def a_task_that_stumbles_is_retried(directory):
    stage = Stage("celery-retries", directory)
    try:
        stage.work()
        stage.send("app.stumble.delay(3)")
        until("a fourth attempt", lambda: len(stage.lines()) >= 4)
        assert stage.lines() == [f"attempt {n}" for n in range(4)], stage.lines()
        until("an empty queue", lambda: stage.left() == [0, 0])
    finally:
        stage.close()


def the_task_of_a_killed_worker_runs_again_after_the_visibility_timeout(directory):
    stage = Stage("celery-killed", directory)
    try:
        first = stage.work()
        stage.send(f"app.hang.delay('x', {str(Path(directory) / 'marker')!r})")
        until("a task begun", lambda: stage.lines() == ["begun x"])
        first.send_signal(signal.SIGKILL)
        first.wait()
        stage.work()
        stage.send("app.note.delay('the worker is there')")
        until("the second worker", lambda: "the worker is there" in stage.lines())
        # Ten minutes by the application's settings, so nothing may happen yet.
        clock(300)
        stage.send("app.note.delay('still hidden')")
        until("a task in between", lambda: "still hidden" in stage.lines())
        assert stage.lines().count("begun x") == 1, stage.lines()
        clock(301)
        until("a second run", lambda: "done x" in stage.lines())
        until("an empty queue", lambda: stage.left() == [0, 0])
    finally:
        stage.close()


def predefined_queues_are_used_and_no_others_made(directory):
    url = sqs.create_queue(QueueName="celery-predefined")["QueueUrl"]
    before = sqs.list_queues()["QueueUrls"]
    stage = Stage("celery-predefined", directory, url)
    try:
        stage.work()
        stage.send("app.note.delay('there')")
        until("the task", lambda: stage.lines() == ["there"])
        until("an empty queue", lambda: stage.left() == [0, 0])
        assert sqs.list_queues()["QueueUrls"] == before
    finally:
        stage.close()


def tasks_of_a_fifo_queue_run_in_their_order(directory):
    attributes = {"FifoQueue": "true"}
    url = sqs.create_queue(QueueName="celery-order.fifo", Attributes=attributes)["QueueUrl"]
    stage = Stage("celery-order.fifo", directory, url)
    try:
        stage.send("for n in range(12): app.note.delay(f'task {n}')")
        stage.work()
        until("12 tasks run", lambda: len(stage.lines()) >= 12)
        assert stage.lines() == [f"task {n}" for n in range(12)], stage.lines()
        until("an empty queue", lambda: stage.left() == [0, 0])
    finally:
        stage.close()


def main():
    for scenario in (
        tasks_run_in_a_worker,
        a_task_that_stumbles_is_retried,
        the_task_of_a_killed_worker_runs_again_after_the_visibility_timeout,
        predefined_queues_are_used_and_no_others_made,
        tasks_of_a_fifo_queue_run_in_their_order,
    ):
        with tempfile.TemporaryDirectory() as directory:
            try:
                scenario(directory)
                print(f"PASS {scenario.__name__}", flush=True)
            except Exception as error:
                traceback.print_exc()
                print(f"FAIL {scenario.__name__}: {str(error) or type(error).__name__}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
