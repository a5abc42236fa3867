"""A broker inside the program: it starts, serves, fails on demand, comes back, and leaves nothing behind."""

import asyncio
import contextlib
import errno
import multiprocessing
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from ottla.core.errors import ConfigError, ErrorCode, KafkaError
from ottla.network.peer import PeerClosed, PeerLimits, connect
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.testing import AsyncBroker, Broker
from ottla.testing.broker import StoredRecord

NOW = 1_700_000_000_000


async def produced(
    server: str, *values: bytes, topic: str = "orders", partition: int = 0, **limits
) -> ErrorCode:
    """Write one batch, and return what the broker says to it."""
    host, _, port = server.rpartition(":")
    batch = build([Record(i, NOW + i, b"k", value, (("h", b"1"),)) for i, value in enumerate(values)])
    request = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            ProduceRequest.Topic(
                name=topic, partition_data=[ProduceRequest.Topic.Partition(index=partition, records=batch)]
            )
        ],
    )
    async with await connect(host, int(port), limits=PeerLimits(**limits)) as peer:
        answer = await peer.send(request, 9)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def produce(broker: Broker, *values: bytes, **where) -> ErrorCode:
    return asyncio.run(produced(broker.bootstrap_server, *values, **where))


@pytest.fixture(params=[False, True], ids=["on disk", "in memory"])
def broker(request):
    with Broker(memory=request.param) as broker:
        yield broker


# --- serving ------------------------------------------------------------------------------------------------------


def test_what_a_client_writes_is_found_in_the_log(broker):
    broker.create_topic("orders", partitions=2)
    assert produce(broker, b"tea", b"cake") == ErrorCode.NONE
    assert produce(broker, b"coffee", partition=1) == ErrorCode.NONE
    assert broker.topics() == {"orders": 2}
    assert broker.records("orders") == [
        StoredRecord(0, 0, NOW, b"k", b"tea", (("h", b"1"),)),
        StoredRecord(0, 1, NOW + 1, b"k", b"cake", (("h", b"1"),)),
        StoredRecord(1, 0, NOW, b"k", b"coffee", (("h", b"1"),)),
    ]
    assert [record.value for record in broker.records("orders", 1)] == [b"coffee"]


def test_logs_of_any_size_are_read_whole(broker):
    broker.create_topic("orders", segment_bytes=1_500_000)
    values = [b"%d" % number * 300_000 for number in range(10)]
    for value in values:
        assert produce(broker, value) == ErrorCode.NONE
    assert [record.value for record in broker.records("orders")] == values


def test_a_test_can_wait_for_records_that_are_still_to_come(broker):
    writer = threading.Timer(0.01, lambda: (broker.create_topic("orders"), produce(broker, b"tea")))
    writer.start()
    assert [record.value for record in broker.records("orders", at_least=1)] == [b"tea"]
    writer.join()
    with pytest.raises(TimeoutError, match="orders has 1 records after"):
        broker.records("orders", at_least=2, timeout=0.01)


def test_a_topic_that_is_not_there_is_named_with_those_that_are(broker):
    broker.create_topic("orders")
    with pytest.raises(KeyError, match=r"there is no order; there are .*orders"):
        broker.records("order")
    with pytest.raises(KeyError, match="there is no partition 1 of orders"):
        broker.records("orders", 1)
    with pytest.raises(KafkaError, match="TOPIC_ALREADY_EXISTS"):
        broker.create_topic("orders")
    with pytest.raises(KafkaError, match="INVALID_CONFIG"):
        broker.create_topic("visits", retention_sm=5)


def test_settings_of_topics_and_of_the_broker_hold(broker):
    broker.create_topic("orders", max_message_bytes=100)
    assert produce(broker, b"x" * 200) == ErrorCode.MESSAGE_TOO_LARGE
    with Broker(memory=True, config={"message.max.bytes": 100}) as other:
        other.create_topic("orders")
        assert produce(other, b"x" * 200) == ErrorCode.MESSAGE_TOO_LARGE


def test_old_records_go_while_the_broker_runs():
    with Broker(config={"log.retention.check.interval.ms": 5}) as broker:
        broker.create_topic("orders", retention_ms=1000)
        broker.create_topic("visits", retention_ms=-1)
        for topic in ("orders", "visits"):
            assert produce(broker, b"of long ago", topic=topic) == ErrorCode.NONE
        while broker.records("orders"):
            time.sleep(0.001)
        assert len(broker.records("visits")) == 1
        assert produce(broker, b"tea", topic="visits") == ErrorCode.NONE


def test_a_misspelt_setting_is_named_and_nothing_stays_behind():
    before = threads_and_files()
    with pytest.raises(ConfigError, match=r"did you mean num\.partitions"):
        Broker(config={"num.partition": 3}).start()
    assert threads_and_files() == before


def test_several_brokers_live_side_by_side():
    with Broker() as one, Broker() as two, Broker(memory=True) as three:
        for number, broker in enumerate((one, two, three)):
            broker.create_topic("orders")
            produce(broker, b"%d" % number)
        for number, broker in enumerate((one, two, three)):
            assert [record.value for record in broker.records("orders")] == [b"%d" % number]
        assert len({one.port, two.port, three.port}) == 3


# --- coming back --------------------------------------------------------------------------------------------------


def come_back_after_kill(broker: Broker) -> None:
    broker.kill()
    with pytest.raises(RuntimeError, match="does not run"):
        broker.topics()
    broker.start()


@pytest.mark.parametrize("come_back", [Broker.restart, come_back_after_kill], ids=["restart", "kill"])
def test_it_comes_back_on_its_port_with_its_data(broker, come_back):
    broker.create_topic("orders")
    produce(broker, b"tea")
    server = broker.bootstrap_server
    for _ in range(3):
        come_back(broker)
        assert broker.bootstrap_server == server
        assert produce(broker, b"more") == ErrorCode.NONE
    records = broker.records("orders")
    assert [(record.offset, record.value) for record in records] == list(enumerate([b"tea"] + [b"more"] * 3))


def test_a_clean_stop_says_so_on_the_disk_and_a_kill_does_not(tmp_path):
    broker = Broker(data_dir=tmp_path)
    broker.start()
    marker = tmp_path / ".kafka_cleanshutdown"
    broker.stop()
    assert marker.exists()
    broker.start()
    assert not marker.exists()
    broker.kill()
    assert not marker.exists()
    broker.close()


def test_whoever_is_connected_notices_a_kill(broker):
    host, _, port = broker.bootstrap_server.rpartition(":")
    with socket.create_connection((host, int(port))) as client:
        client.settimeout(10)
        broker.kill()
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))


# --- failing on demand ----------------------------------------------------------------------------------------------


def test_requests_fail_as_often_as_was_asked_for(broker):
    broker.create_topic("orders")
    broker.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    answers = [produce(broker, b"tea") for _ in range(3)]
    assert answers == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]
    assert len(broker.records("orders")) == 1


def test_a_delayed_api_is_late_and_others_are_not(broker):
    broker.create_topic("orders")
    broker.delay("Produce", 60)
    with pytest.raises(TimeoutError):
        produce(broker, b"tea", timeout_ms=50)

    async def metadata() -> int:
        host, _, port = broker.bootstrap_server.rpartition(":")
        async with await connect(host, int(port)) as peer:
            return len((await peer.send(MetadataRequest(topics=None))).topics)

    assert asyncio.run(metadata()) == 1
    broker.delay("Produce", 0)
    assert produce(broker, b"tea") == ErrorCode.NONE


def test_a_paused_broker_keeps_connections_and_answers_when_it_goes_on(broker):
    broker.create_topic("orders")

    async def scenario() -> None:
        host, _, port = broker.bootstrap_server.rpartition(":")
        async with await connect(host, int(port)) as peer:
            broker.pause()
            asked = await peer.post(MetadataRequest(topics=None))
            await asyncio.wait((asked,), timeout=0.05)
            assert not asked.done()
            with pytest.raises(TimeoutError):
                await connect(host, int(port), limits=PeerLimits(timeout_ms=50))
            broker.resume()
            assert [topic.name for topic in (await asked).topics] == ["orders"]

    asyncio.run(scenario())


def test_a_paused_broker_can_be_stopped_killed_and_closed(broker):
    for end in (broker.stop, broker.kill, broker.close):
        broker.pause()
        end()
        broker.start()
        assert broker.topics() == {}


def test_slips_of_the_pen_are_found_where_they_are_made(broker):
    with pytest.raises(ValueError, match="did you mean Produce"):
        broker.fail_next("Prodce", "NOT_LEADER_OR_FOLLOWER")
    with pytest.raises(ValueError, match="did you mean NOT_LEADER_OR_FOLLOWER"):
        broker.fail_next("Produce", "NOT_LEADER_OR_FOLOWER")


def test_the_disk_of_a_broker_in_memory_can_fill_up():
    with Broker(memory=True) as broker:
        broker.create_topic("orders")
        assert produce(broker, b"tea") == ErrorCode.NONE
        broker.disk.capacity = broker.disk.used + 10
        assert produce(broker, b"tea") == ErrorCode.KAFKA_STORAGE_ERROR
        broker.disk.capacity = None
        broker.restart()
        assert produce(broker, b"cake") == ErrorCode.NONE
        assert [record.value for record in broker.records("orders")] == [b"tea", b"cake"]


def test_a_broker_whose_disk_fails_says_so():
    with Broker(memory=True) as broker:
        broker.create_topic("orders")
        broker.disk.fail_next("write", errno.EIO)
        assert produce(broker, b"tea") == ErrorCode.KAFKA_STORAGE_ERROR


# --- leaving nothing behind -----------------------------------------------------------------------------------------


def threads_and_files() -> tuple[list[str], list[str]]:
    threads = sorted(thread.name for thread in threading.enumerate())
    return threads, sorted(str(path) for path in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("end", ["close", "kill and close", "stop and close"])
def test_threads_sockets_and_files_are_gone_in_the_end(end):
    with Broker() as broker:  # the first one imports, and opens what stays open
        broker.create_topic("orders")
    before = threads_and_files()
    broker = Broker()
    broker.start()
    broker.create_topic("orders")
    produce(broker, b"tea")
    path = broker.data_dir
    for step in end.split(" and "):
        getattr(broker, step)()
    broker.close()
    assert threads_and_files() == before
    assert not os.path.exists(path)


def test_data_in_a_directory_of_ones_own_stay(tmp_path):
    with Broker(data_dir=tmp_path / "data") as broker:
        broker.create_topic("orders")
        produce(broker, b"tea")
    with Broker(data_dir=tmp_path / "data") as broker:
        assert [record.value for record in broker.records("orders")] == [b"tea"]
    with pytest.raises(ValueError, match="not in both"):
        Broker(data_dir=tmp_path, memory=True)


def test_it_can_be_used_many_times_in_one_process():
    for _ in range(10):
        with Broker(memory=True) as broker:
            broker.create_topic("orders")
            assert produce(broker, b"tea") == ErrorCode.NONE


def test_it_must_be_started_and_only_once():
    broker = Broker()
    with pytest.raises(RuntimeError, match="does not run"):
        broker.topics()
    with broker, pytest.raises(RuntimeError, match="runs already"):
        broker.start()


def child_of_a_fork(broker: Broker, told: "multiprocessing.SimpleQueue[object]") -> None:
    try:
        broker.topics()
    except RuntimeError as error:
        told.put(str(error))
    broker.close()
    with Broker() as own:
        own.create_topic("visits")
        told.put(own.topics())


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_leaves_the_broker_of_its_parent_alone_and_starts_its_own():
    fork = multiprocessing.get_context("fork")
    told = fork.SimpleQueue()
    with Broker() as broker:
        broker.create_topic("orders")
        child = fork.Process(target=child_of_a_fork, args=(broker, told))
        child.start()
        assert "did not come along in the fork" in str(told.get())
        assert told.get() == {"visits": 1}
        child.join()
        assert produce(broker, b"tea") == ErrorCode.NONE
        assert len(broker.records("orders")) == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_that_was_forked_off_does_not_keep_a_killed_broker_half_alive(broker):
    host, _, port = broker.bootstrap_server.rpartition(":")
    fork = multiprocessing.get_context("fork")
    end = fork.Event()
    with socket.create_connection((host, int(port))) as client:
        client.settimeout(10)
        while not broker._inner.node.server.connections:
            time.sleep(0.001)
        child = fork.Process(target=end.wait)
        child.start()
        broker.kill()
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(1) == b""
        broker.start()
        end.set()
        child.join()


# --- the async twin -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [False, True])
def test_the_async_twin_runs_on_the_callers_loop(memory):
    async def scenario() -> None:
        async with AsyncBroker(memory=memory) as broker:
            await broker.create_topic("orders")
            broker.fail_next("Produce", "NOT_ENOUGH_REPLICAS")
            assert await produced(broker.bootstrap_server, b"tea") == ErrorCode.NOT_ENOUGH_REPLICAS
            assert await produced(broker.bootstrap_server, b"tea") == ErrorCode.NONE
            await broker.restart()
            await broker.kill()
            await broker.start()
            assert [record.value for record in await broker.records("orders")] == [b"tea"]
            assert broker.topics() == {"orders": 1}
        with pytest.raises(PeerClosed):
            await produced(broker.bootstrap_server, b"tea")

    asyncio.run(scenario())


def fetch(max_wait_ms: int) -> FetchRequest:
    partition = FetchRequest.Topic.Partition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchRequest.Topic(topic="orders", partitions=[partition])
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[topic])


def test_a_consumer_that_waits_is_answered_when_records_come(broker):
    broker.create_topic("orders")

    async def scenario() -> bytes:
        host, _, port = broker.bootstrap_server.rpartition(":")
        async with await connect(host, int(port)) as peer:
            asked = await peer.post(fetch(30_000), 11)
            await produced(broker.bootstrap_server, b"tea")
            return bytes((await asked).responses[0].partitions[0].records)

    assert b"tea" in asyncio.run(scenario())


def test_a_clean_stop_answers_what_was_asked_before_and_takes_no_more(broker):
    broker.create_topic("orders")

    async def scenario() -> None:
        host, _, port = broker.bootstrap_server.rpartition(":")
        async with await connect(host, int(port)) as peer:
            before = await peer.post(fetch(200), 11)
            while not any(connection.is_answering for connection in broker._inner.node.server.connections):
                await asyncio.sleep(0.001)
            stopping = asyncio.create_task(asyncio.to_thread(broker.stop))
            assert (await before).responses[0].partitions[0].error_code == 0
            await stopping
            with pytest.raises(PeerClosed):
                await peer.send(MetadataRequest(topics=[]), 1)

    asyncio.run(scenario())
