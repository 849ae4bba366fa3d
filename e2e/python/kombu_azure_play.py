"""kombu over Azure queues, as Celery uses them there: what a producer puts, a consumer gets, and a purge clears."""

import os
import traceback

from kombu import Connection, Consumer, Queue

KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
URL = f"azurestoragequeues://{KEY}@{os.environ['KEW_AZURE']}/devstoreaccount1"
BODIES = [{"order": 7}, "Grüße, 世界 🚀", ["<a b='c'>&amp;", None, 1.5], "x" * 40_000]


def connected(**options):
    return Connection(URL, transport_options=options)


def what_is_put_is_got_in_order_and_gone():
    with connected() as connection, connection.SimpleQueue("kombu_simple.queue") as queue:
        for body in BODIES:
            queue.put(body)
        assert queue.qsize() == len(BODIES), queue.qsize()
        for body in BODIES:
            message = queue.get(timeout=20)
            assert message.payload == body, message.payload
            message.ack()
        assert queue.qsize() == 0, queue.qsize()


def two_connections_share_a_queue_with_a_prefix():
    got = []
    with connected(queue_name_prefix="tenant-") as one, connected(queue_name_prefix="tenant-") as other:
        queue = Queue("kombu-shared", routing_key="kombu-shared")
        producer = one.Producer()
        for number in range(5):
            producer.publish({"number": number}, routing_key="kombu-shared", declare=[queue], exchange="")

        def take(body, message):
            got.append(body["number"])
            message.ack()

        with Consumer(other.channel(), queues=[queue], callbacks=[take], accept=["json"]):
            while len(got) < 5:
                other.drain_events(timeout=20)
    assert sorted(got) == list(range(5)), got


def a_purge_takes_everything_and_says_how_many():
    with connected() as connection, connection.SimpleQueue("kombu-purged") as queue:
        for number in range(3):
            queue.put(number)
        assert queue.clear() == 3
        assert queue.qsize() == 0


def main():
    for scenario in (
        what_is_put_is_got_in_order_and_gone,
        two_connections_share_a_queue_with_a_prefix,
        a_purge_takes_everything_and_says_how_many,
    ):
        try:
            scenario()
            print(f"PASS {scenario.__name__}", flush=True)
        except Exception as error:
            traceback.print_exc()
            print(f"FAIL {scenario.__name__}: {str(error) or type(error).__name__}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
