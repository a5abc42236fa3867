"""The consumer without an event loop: the same, from any thread, with listeners in the caller's."""

import signal
import threading

import pytest

from ottla.client.consumer.blocking import Consumer
from ottla.client.errors import ClosedError, NoBrokersAvailable, WakeupError
from ottla.client.listener import RebalanceListener
from ottla.client.records import OffsetAndMetadata
from ottla.core.ids import TopicPartition
from tests.client.conftest import unused_name
from tests.client.test_consumer_reading import produce


def consumer_of(server, *topics, **settings):
    return Consumer(*topics, **{"bootstrap_servers": server, "auto_offset_reset": "earliest", **settings})


def test_a_plain_for_reads_everything_and_commits_what_was_seen(server, new_topic):
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    written = [b"%d" % number for number in range(1200)]
    produce(server, topic, written)
    with consumer_of(server, topic, consumer_timeout_ms=1000, fetch_max_wait_ms=50) as consumer:
        assert [record.value for record in consumer] == written
        consumer.seek(partition, 3)
        assert next(consumer).value == b"3"
        assert consumer.position(partition) == 4
        assert consumer.positions() == {partition: 4}
        assert consumer.lag(partition) == 1196
        assert consumer.highwater(partition) == 1200


def test_every_call_has_its_blocking_form(server, new_topic):
    topic = new_topic(2)
    one, two = TopicPartition(topic, 0), TopicPartition(topic, 1)
    produce(server, topic, [b"a", b"b", b"c"])
    with consumer_of(server, group_id=unused_name("g"), enable_auto_commit=False) as consumer:
        consumer.assign([one, two])
        assert consumer.assignment() == {one, two} and consumer.subscription() == set()
        assert consumer.getone(one).value == b"a"
        assert [each.value for each in consumer.getmany(one, timeout_ms=10_000, max_records=1)[one]] == [b"b"]
        assert [each.value for each in consumer.poll(10_000)[one]] == [b"c"]
        consumer.seek_to_beginning(one)
        consumer.seek_to_end(two)
        assert (consumer.position(one), consumer.position(two)) == (0, 0)
        consumer.seek_to_time(0)
        assert consumer.offsets_for_times({one: 0})[one].offset == 0
        assert consumer.beginning_offsets([one]) == {one: 0}
        assert consumer.end_offsets([one]) == {one: 3}
        consumer.pause(two)
        assert consumer.paused() == {two}
        consumer.resume(two)
        consumer.commit({one: OffsetAndMetadata(2, "here")})
        assert consumer.committed(one).metadata == "here"
        assert consumer.committed_many([two]) == {two: None}
        assert topic in consumer.topics() and consumer.partitions_for_topic(topic) == {0, 1}
        assert consumer.group_metadata().generation_id == -1
        assert consumer.metrics()["commit_total"] == 1
        consumer.unsubscribe()
        assert consumer.assignment() == set()


def test_callbacks_of_commits_run_in_the_callers_thread(server, new_topic):
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    called = []
    with consumer_of(server, group_id=unused_name("g"), enable_auto_commit=False) as consumer:
        consumer.assign([partition])
        consumer.commit_async({partition: 1}, lambda *_: called.append(threading.current_thread()))
        while not called:
            consumer.poll(100)
    assert called == [threading.current_thread()]


class Listener(RebalanceListener):
    """Does in its callbacks what people do."""

    consumer: Consumer

    def __init__(self):
        self.log = []
        self.threads = set()

    def on_partitions_assigned(self, assigned):
        self.threads.add(threading.current_thread())
        for partition in assigned:
            self.consumer.seek(partition, 2)
            self.log.append(("assigned", self.consumer.position(partition)))

    def on_partitions_revoked(self, revoked):
        self.threads.add(threading.current_thread())
        self.consumer.commit()
        self.log += [("revoked", self.consumer.committed(each).offset) for each in revoked]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_listeners_run_in_the_callers_thread_and_may_call_the_consumer(server, new_topic, protocol):
    topic = new_topic()
    produce(server, topic, [b"%d" % number for number in range(5)])
    listener = Listener()
    settings = {"group_id": unused_name("g"), "group_protocol": protocol, "enable_auto_commit": False}
    with consumer_of(server, **settings) as consumer:
        listener.consumer = consumer
        consumer.subscribe([topic], listener=listener)
        assert next(consumer).value == b"2"
        assert next(consumer).value == b"3"
    assert listener.log == [("assigned", 2), ("revoked", 4)]
    assert listener.threads == {threading.current_thread()}


def test_wakeup_from_another_thread(server, new_topic):
    topic = new_topic()
    with consumer_of(server, topic) as consumer:
        timer = threading.Timer(0.1, consumer.wakeup)
        timer.start()
        with pytest.raises(WakeupError):
            consumer.poll(-1)
        timer.join()


def test_an_interrupt_ends_a_waiting_call_and_the_consumer_goes_on(server, new_topic):
    topic = new_topic()
    produce(server, topic, [b"v"])
    with consumer_of(server, topic) as consumer:
        assert next(consumer).value == b"v"
        main = threading.main_thread().ident
        timer = threading.Timer(0.1, lambda: signal.pthread_kill(main, signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            consumer.poll(-1)
        timer.join()
        produce(server, topic, [b"w"])
        assert next(consumer).value == b"w"


def test_after_the_end_there_is_nothing_to_call(server):
    consumer = consumer_of(server)
    consumer.close()
    consumer.close()
    with pytest.raises(ClosedError, match="was closed"):
        consumer.poll()
    with pytest.raises(ClosedError, match="was closed"):
        consumer.assignment()
    with pytest.raises(ClosedError, match="was closed"):
        next(consumer)


def test_nobody_there_is_said_in_time():
    with pytest.raises(NoBrokersAvailable, match=r"127\.0\.0\.1:1"):
        Consumer("t", bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=200)
