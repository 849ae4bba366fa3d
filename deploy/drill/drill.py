#!/usr/bin/env python3
"""A fail-over drill: three nodes of Kew on a PostgreSQL with a synchronous standby, under load, while things break.

    deploy/drill/drill.py [--kew PATH] [--seconds-between 8] [--keep]

It starts everything on this machine, on free ports and in a directory of its own: PostgreSQL twice, Kew three times,
and clients that send, receive and delete through any node at random. Meanwhile it kills a node, stops one and lets it
go on, restarts one as an upgrade does, and kills the database and promotes its standby. Then it empties the queue and
compares what the clients saw. Exit code 0: nothing that was acknowledged was lost, nothing came back after its
deletion was acknowledged.

It needs python3 and PostgreSQL 15 or later (Debian: apt-get install postgresql). As root it runs PostgreSQL as the
user "postgres".
"""

import argparse
import glob
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

NODES = 3
SENDERS, RECEIVERS = 4, 4
QUEUE = "drill"
# A client tries again for this long before it gives a message up.
PATIENCE_SECONDS = 60
# A message comes back this long after it was received and not deleted.
VISIBILITY_SECONDS = 5


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Postgres:
    """A server of PostgreSQL and the commands to run it."""

    programs = None

    def __init__(self, room):
        self.room, self.port = room, free_port()

    @classmethod
    def find(cls):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"), key=lambda path: int(path.split("/")[4]))
        path = found[-1] if found else shutil.which("postgres")
        if path is None:
            sys.exit("PostgreSQL is missing: apt-get install postgresql")
        cls.programs = os.path.dirname(os.path.realpath(path))

    def run(self, program, *words):
        command = [os.path.join(self.programs, program), *words]
        if os.geteuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/")
        if done.returncode != 0:
            sys.exit(f"{program} failed: {done.stdout.strip()}")

    def make(self):
        self.run("initdb", "--pgdata", self.room, "--username", "kew", "--auth", "trust")

    def copy(self, primary):
        source = f"host=127.0.0.1 port={primary.port} user=kew application_name=standby"
        self.run("pg_basebackup", "--pgdata", self.room, "--dbname", source, "-R", "--checkpoint", "fast")

    def start(self):
        options = f"-p {self.port} -k {os.path.dirname(self.room)} -c listen_addresses=127.0.0.1"
        self.run("pg_ctl", "--pgdata", self.room, "-o", options, "-l", self.room + ".log", "-w", "start")

    def stop(self):
        self.run("pg_ctl", "--pgdata", self.room, "-m", "immediate", "-w", "stop")

    def promote(self):
        self.run("pg_ctl", "--pgdata", self.room, "-w", "promote")

    def say(self, statement):
        url = f"host=127.0.0.1 port={self.port} user=kew dbname=postgres"
        self.run("psql", "--quiet", "--dbname", url, "--command", statement)


class Node:
    """A running kew serve."""

    def __init__(self, program, number, url, room):
        self.number, self.sqs, self.room = number, free_port(), room
        self.command = [program, "serve", "--store", url, "--node", f"node-{number}"]
        self.command += ["--peer", f"127.0.0.1:{free_port()}", "--sqs", f"127.0.0.1:{self.sqs}"]
        self.command += ["--admin", f"127.0.0.1:{free_port()}", "--azure", "off", "--cloudflare", "off"]
        self.process = None

    def start(self):
        log = open(os.path.join(self.room, f"node-{self.number}.log"), "ab")
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def signal(self, which):
        self.process.send_signal(which)

    def end(self, which, within=30):
        self.process.send_signal(which)
        self.process.wait(within)


class Clients:
    """What the clients did, as they saw it. Each keeps one connection and goes to another node when that breaks."""

    def __init__(self, nodes):
        self.nodes = nodes
        self.lock = threading.Lock()
        self.acknowledged, self.received, self.deleted = set(), {}, {}
        self.resurrected, self.errors = [], 0
        self.answered_at = time.monotonic()
        self.longest_pause = 0.0
        self.sends, self.ends = True, False
        self.threads = []

    def ask(self, state, action, body):
        """Asks any node until one answers; None when none did in time."""
        until = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < until:
            if state.get("connection") is None:
                node = random.choice(self.nodes)
                state["connection"] = http.client.HTTPConnection("127.0.0.1", node.sqs, timeout=10)
            try:
                headers = {"X-Amz-Target": f"AmazonSQS.{action}", "Content-Type": "application/x-amz-json-1.0"}
                state["connection"].request("POST", "/", json.dumps(body), headers)
                reply = state["connection"].getresponse()
                text = reply.read()
                if reply.status == 200:
                    self.note_answer()
                    return json.loads(text or b"{}")
            except (OSError, http.client.HTTPException):
                pass
            self.errors += 1
            state["connection"].close()
            state["connection"] = None
            time.sleep(0.05)
        return None

    def note_answer(self):
        with self.lock:
            now = time.monotonic()
            self.longest_pause = max(self.longest_pause, now - self.answered_at)
            self.answered_at = now

    def take_longest_pause(self):
        with self.lock:
            longest = max(self.longest_pause, time.monotonic() - self.answered_at)
            self.longest_pause = 0.0
            return longest

    def url(self):
        return f"http://127.0.0.1/000000000000/{QUEUE}"

    def send(self, name):
        state, number = {}, 0
        while self.sends:
            body = f"{name}-{number}"
            number += 1
            if self.ask(state, "SendMessage", {"QueueUrl": self.url(), "MessageBody": body}) is not None:
                with self.lock:
                    self.acknowledged.add(body)

    def receive(self):
        state = {}
        while not self.ends:
            ask = {"QueueUrl": self.url(), "MaxNumberOfMessages": 10, "WaitTimeSeconds": 1}
            asked = time.monotonic()
            reply = self.ask(state, "ReceiveMessage", ask) or {}
            for message in reply.get("Messages", []):
                self.note_received(message, asked)
                delete = {"QueueUrl": self.url(), "ReceiptHandle": message["ReceiptHandle"]}
                if self.ask(state, "DeleteMessage", delete) is not None:
                    with self.lock:
                        self.deleted.setdefault(message["MessageId"], time.monotonic())

    def note_received(self, message, asked):
        body, identity = message["Body"], message["MessageId"]
        with self.lock:
            self.received[body] = self.received.get(body, 0) + 1
            # A receive that began after the deletion was answered must not find it. A send that is tried again makes
            # another message of the same body.
            if self.deleted.get(identity, asked) < asked:
                self.resurrected.append(f"{body} {identity}")

    def start(self):
        threads = [threading.Thread(target=self.send, args=(f"sender-{n}",), daemon=True) for n in range(SENDERS)]
        threads += [threading.Thread(target=self.receive, daemon=True) for _ in range(RECEIVERS)]
        for thread in threads:
            thread.start()
        self.threads = threads

    def finish(self):
        self.sends = False
        for thread in self.threads[:SENDERS]:
            thread.join()
        # What was received and not deleted comes back; an empty queue has nothing for two such times.
        quiet_since, seen = time.monotonic(), -1
        while time.monotonic() - quiet_since < 2 * VISIBILITY_SECONDS + 2:
            if seen != len(self.deleted):
                quiet_since, seen = time.monotonic(), len(self.deleted)
            time.sleep(0.2)
        self.ends = True
        for thread in self.threads[SENDERS:]:
            thread.join()


def happenings(nodes, databases):
    """What breaks, one after the other: a name and what is done."""
    primary, standby = databases
    first, second, third = nodes

    def killed():
        first.end(signal.SIGKILL)

    def back():
        first.start()

    def stopped():
        second.signal(signal.SIGSTOP)
        time.sleep(6)
        second.signal(signal.SIGCONT)

    def upgraded():
        third.end(signal.SIGTERM)
        third.start()

    def failed_over():
        primary.stop()
        standby.promote()

    yield "nothing", lambda: None
    yield "a node is killed", killed
    yield "it is started again", back
    yield "a node stands still for 6 s", stopped
    yield "a node is stopped and started as in an upgrade", upgraded
    yield "the database is killed and its standby promoted", failed_over


def wait_for(nodes, clients):
    state = {}
    attributes = {"VisibilityTimeout": str(VISIBILITY_SECONDS)}
    if clients.ask(state, "CreateQueue", {"QueueName": QUEUE, "Attributes": attributes}) is None:
        sys.exit("the nodes do not answer: see their logs with --keep")
    # By then the shards are spread over the nodes.
    time.sleep(5)


def report(clients):
    lost = clients.acknowledged - set(clients.received)
    twice = sum(1 for count in clients.received.values() if count > 1)
    print(f"\nacknowledged {len(clients.acknowledged)}, received {len(clients.received)}, more than once {twice}, "
          f"requests tried again {clients.errors}")
    print(f"lost {len(lost)}, back after their deletion {len(clients.resurrected)}")
    for body in sorted(lost)[:10]:
        print(f"  lost: {body}")
    for body in clients.resurrected[:10]:
        print(f"  back: {body}")
    return 0 if clients.acknowledged and not lost and not clients.resurrected else 1


def drill(program, room, between):
    databases = [Postgres(os.path.join(room, name)) for name in ("primary", "standby")]
    primary, standby = databases
    nodes = []
    try:
        primary.make()
        primary.start()
        standby.copy(primary)
        standby.start()
        primary.say("CREATE DATABASE kew")
        primary.say("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.say("SELECT pg_reload_conf()")
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        url = f"postgres://kew@{hosts}/kew?target_session_attrs=read-write"
        nodes = [Node(program, number, url, room) for number in range(1, NODES + 1)]
        for node in nodes:
            node.start()
        clients = Clients(nodes)
        wait_for(nodes, clients)
        clients.start()
        print(f"{'what happens':<50} longest time without an answer to any client")
        for name, happens in happenings(nodes, databases):
            clients.take_longest_pause()
            happens()
            time.sleep(between)
            print(f"{name:<50} {clients.take_longest_pause():.2f} s", flush=True)
        clients.finish()
        return report(clients)
    finally:
        for node in nodes:
            if node.process and node.process.poll() is None:
                node.signal(signal.SIGCONT)
                node.end(signal.SIGKILL)
        for database in databases:
            if os.path.exists(os.path.join(database.room, "postmaster.pid")):
                database.stop()


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--kew", default="target/release/kew", help="the program (target/release/kew)")
    words.add_argument("--seconds-between", type=float, default=8, help="seconds after each thing that breaks (8)")
    words.add_argument("--keep", action="store_true", help="keep the directory with the logs")
    given = words.parse_args()
    program = shutil.which(given.kew)
    if program is None:
        sys.exit(f"{given.kew} is not a program: cargo build --release makes it, --kew names another")
    Postgres.find()
    room = tempfile.mkdtemp(prefix="kew-drill-")
    os.chmod(room, 0o755)
    if os.geteuid() == 0:
        shutil.chown(room, "postgres")
    try:
        return drill(os.path.realpath(program), room, given.seconds_between)
    finally:
        if given.keep:
            print(f"logs: {room}")
        else:
            shutil.rmtree(room, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
