"""Producers and readers over real sockets: order, waiting, topics that come and go, restarts, slow readers."""

import asyncio
import functools
import socket

import pytest

from ottla.controller.commands import NewTopic
from ottla.core.errors import ErrorCode, KafkaError
from ottla.network.peer import PeerClosed, connect
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records.batch import iter_batches, records_of
from ottla.records.builder import build
from ottla.records.record import Record
from ottla.storage.config import TINY
from ottla.testing import AsyncBroker
from tests.scenarios.raw import frame_of

NOW = 1_700_000_000_000
LONG_MS = 60_000


def scenario(test):
    """Run a test that waits."""

    @functools.wraps(test)
    def inner(*args, **how):
        asyncio.run(asyncio.wait_for(test(*args, **how), 120))

    return inner


def batch(*values, at_ms=NOW, **how):
    return build([Record(i, at_ms, b"k", value) for i, value in enumerate(values)], **how)


def produce(data, topic="orders", partition=0, *, acks=-1):
    part = ProduceRequest.Topic.Partition(index=partition, records=data)
    topics = [ProduceRequest.Topic(name=topic, partition_data=[part])]
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=topics)


def result(response):
    return response.responses[0].partition_responses[0]


def fetch(offset=0, topic="orders", partition=0, *, max_wait_ms=0, max_bytes=1 << 20, **how):
    part = FetchRequest.Topic.Partition(
        partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes
    )
    topics = [FetchRequest.Topic(topic=topic, partitions=[part])]
    return FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=topics, **how)


def found(response):
    return response.responses[0].partitions[0]


def values(answer):
    data = bytes(answer.records or b"")
    return [r.value for at, _ in iter_batches(data, partial=True) for r in records_of(data, at)]


async def read_all(peer, topic="orders", partition=0):
    got = []
    while True:
        answer = found(await peer.send(fetch(len(got), topic, partition), 12))
        assert answer.error_code == 0, ErrorCode(answer.error_code)
        if not answer.records:
            return got
        data = bytes(answer.records)
        for at, _ in iter_batches(data, partial=True):
            got += [r.value for r in records_of(data, at) if r.offset == len(got)]


def peer_of(broker):
    return connect("127.0.0.1", broker.port)


async def until(condition):
    while not condition():
        await asyncio.sleep(0.005)


# --- order --------------------------------------------------------------------------------------------------------


@scenario
async def test_a_large_batch_that_is_recompressed_and_a_small_one_at_its_heels_keep_their_order():
    async with AsyncBroker() as broker, await peer_of(broker) as peer:
        await broker.create_topic("zipped", compression_type="gzip")
        await broker.create_topic("plain")
        posted = []
        for n in range(10):
            posted.append(await peer.post(produce(batch(b"%d" % n, b"x" * 300_000), "zipped"), 9))
            posted.append(await peer.post(produce(batch(b"%d" % n), "zipped"), 9))
            posted.append(await peer.post(produce(batch(b"%d" % n), "plain"), 9))
        offsets = [result(response).base_offset for response in await asyncio.gather(*posted)]
        assert offsets == [offset for n in range(10) for offset in (3 * n, 3 * n + 2, n)]
        assert await read_all(peer, "plain") == [b"%d" % n for n in range(10)]


@scenario
async def test_answers_come_in_the_order_of_the_requests_though_the_first_waits():
    async with AsyncBroker() as broker, await peer_of(broker) as peer:
        await broker.create_topic("orders")
        await broker.create_topic("visits")
        waits = await peer.post(fetch(max_wait_ms=LONG_MS), 12)
        behind = await peer.post(produce(batch(b"v"), "visits"), 9)
        async with await peer_of(broker) as other:
            assert await read_until(other, "visits", 1) == [b"v"], "it is written, though not answered"
            assert not behind.done()
            await other.send(produce(batch(b"o")), 9)
        assert values(found(await waits)) == [b"o"]
        assert result(await behind).base_offset == 0


async def read_until(peer, topic, count):
    got = []
    while len(got) < count:
        answer = found(await peer.send(fetch(len(got), topic, max_wait_ms=1000), 12))
        got += values(answer)
    return got


@scenario
async def test_many_producers_and_a_reader_see_every_record_once():
    async with AsyncBroker() as broker:
        await broker.create_topic("orders")

        async def write(who):
            async with await peer_of(broker) as peer:
                posted = [await peer.post(produce(batch(b"%d-%d" % (who, n))), 9) for n in range(100)]
                return [result(response).base_offset for response in await asyncio.gather(*posted)]

        async def read():
            async with await peer_of(broker) as peer:
                return await read_until(peer, "orders", 500)

        reading = asyncio.ensure_future(read())
        offsets = await asyncio.gather(*(write(who) for who in range(5)))
        got = await reading
        assert all(each == sorted(each) for each in offsets)
        for who, each in enumerate(offsets):
            assert [got[offset] for offset in each] == [b"%d-%d" % (who, n) for n in range(100)]


# --- coming and going ---------------------------------------------------------------------------------------------


@scenario
async def test_a_topic_that_is_created_again_never_shows_old_records():
    async with AsyncBroker() as broker, await peer_of(broker) as peer:
        for life in range(3):
            await broker.create_topic("orders", partitions=2)
            old = broker.node.metadata.topics["orders"].topic_id
            answer = result(await peer.send(produce(batch(b"%d" % life)), 9))
            assert (answer.error_code, answer.base_offset) == (0, 0)
            assert await read_all(peer) == [b"%d" % life]
            waits = await peer.post(fetch(1, max_wait_ms=LONG_MS), 12)
            async with await peer_of(broker) as other:
                await other.send(MetadataRequest(topics=[]), 9)
                assert await broker.node.controller.delete_topics(["orders"]) == {"orders": None}
            assert found(await waits).error_code in (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
            )
            asked = fetch(max_wait_ms=0)
            asked.topics[0].topic_id = old
            assert found(await peer.send(asked, 13)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
            assert result(await peer.send(produce(batch(b"x")), 9)).error_code == 3


@scenario
async def test_readers_that_hang_up_leave_nothing_behind():
    async with AsyncBroker() as broker:
        await broker.create_topic("orders")
        partition = broker.node.replicas.get("orders", 0)
        peers = [await peer_of(broker) for _ in range(10)]
        for peer in peers:
            await peer.post(fetch(max_wait_ms=LONG_MS), 12)
        await until(lambda: len(partition.high_watermark.watchers) == 10)
        for peer in peers:
            peer.abort()
        await until(lambda: not partition.high_watermark.watchers)
        assert len(broker.node.server.connections) == 0


@scenario
async def test_a_failure_without_acknowledgements_costs_the_connection():
    async with AsyncBroker() as broker, await peer_of(broker) as peer:
        await broker.create_topic("orders")
        await peer.send_oneway(produce(batch(b"good"), acks=0), 9)
        await peer.send_oneway(produce(b"bad" * 50, acks=0), 9)
        await until(lambda: not peer.is_open)
        assert [record.value for record in await broker.records("orders")] == [b"good"]


# --- restarts -----------------------------------------------------------------------------------------------------


async def write_until_cut_off(broker, acknowledged, started):
    """Write one record after the other, several under way, until the connection breaks."""
    try:
        async with await peer_of(broker) as peer:
            posted = {}
            for n in range(1_000_000):
                posted[n] = await peer.post(produce(batch(b"%d" % n)), 9)
                if n >= 20:
                    answer = result(await posted.pop(n - 20))
                    assert answer.error_code == 0, ErrorCode(answer.error_code)
                    acknowledged[answer.base_offset] = b"%d" % (n - 20)
                    started.set()
    except PeerClosed:
        return


@pytest.mark.parametrize("ending", ["kill", "stop"])
@scenario
async def test_what_was_acknowledged_under_load_is_there_after_the_end(ending, tmp_path):
    async with AsyncBroker(data_dir=tmp_path) as broker:
        await broker.create_topic("orders")
        acknowledged = {}
        for _ in range(3):
            started = asyncio.Event()
            writing = asyncio.ensure_future(write_until_cut_off(broker, acknowledged, started))
            await started.wait()
            await getattr(broker, ending)()
            await writing
            await broker.start()
            async with await peer_of(broker) as peer:
                got = await read_all(peer)
            assert {offset: got[offset] for offset in acknowledged} == acknowledged


@scenario
async def test_a_stop_waits_for_the_answers_under_way(tmp_path):
    async with AsyncBroker(data_dir=tmp_path) as broker, await peer_of(broker) as peer:
        await broker.create_topic("zipped", compression_type="gzip", max_message_bytes=20_000_000)
        posted = [await peer.post(produce(batch(b"x" * 5_000_000), "zipped"), 9) for _ in range(3)]
        await until(lambda: any(each.is_answering for each in broker.node.server.connections))
        await broker.stop()
        written = 0
        for each in posted:
            try:
                written += result(await each).error_code == 0
            except PeerClosed:
                continue
        await broker.start()
        assert len(await broker.records("zipped")) >= written > 0


@scenario
async def test_who_waits_for_records_is_answered_when_the_broker_stops(tmp_path):
    async with AsyncBroker(data_dir=tmp_path) as broker, await peer_of(broker) as peer:
        await broker.create_topic("orders")
        posted = await peer.post(fetch(max_wait_ms=60_000), 12)
        await until(lambda: any(each.is_answering for each in broker.node.server.connections))
        await broker.stop()
        assert found(await posted).error_code == 0


# --- slow readers -------------------------------------------------------------------------------------------------


class SlowReader:
    """Asks for megabytes and reads nothing until told to."""

    def __init__(self, broker):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(("127.0.0.1", broker.port))
        self.socket.setblocking(False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    async def ask(self, request, version):
        await asyncio.get_running_loop().sock_sendall(self.socket, frame_of(request, version))

    async def read_to_the_end(self):
        """Everything until the broker hangs up."""
        data = bytearray()
        try:
            while piece := await asyncio.get_running_loop().sock_recv(self.socket, 1 << 20):
                data += piece
        except ConnectionResetError:
            pass
        return bytes(data)


async def stuck(broker):
    await until(lambda: any(each.is_stalled for each in broker.node.server.connections))


MEGABYTES = 12


async def fill(broker, fillings=b"x", **settings):
    await broker.create_topic("orders", max_message_bytes=2_000_000, **settings)
    async with await peer_of(broker) as peer:
        for _ in range(MEGABYTES):
            answer = result(await peer.send(produce(batch(fillings * 1_000_000)), 9))
            assert answer.error_code == 0


@scenario
async def test_a_segment_that_is_deleted_under_a_slow_reader_ends_its_connection_and_nothing_else():
    async with AsyncBroker() as broker:
        await fill(broker, retention_ms=1, file_delete_delay_ms=0, segment_bytes=64_000_000)
        with SlowReader(broker) as slow:
            await slow.ask(fetch(max_bytes=50_000_000), 12)
            await stuck(broker)
            log = broker.node.replicas.get("orders", 0).log
            log.delete_old(NOW + 10**9)
            assert log.log_start_offset == MEGABYTES
            log.remove_doomed(2**62)
            data = await slow.read_to_the_end()
            assert len(data) < MEGABYTES * 1_000_000
        async with await peer_of(broker) as peer:
            assert result(await peer.send(produce(batch(b"next")), 9)).base_offset == MEGABYTES


@scenario
async def test_a_slow_reader_of_a_deleted_topic_is_not_sent_the_bytes_of_a_new_one_of_its_name():
    async with AsyncBroker() as broker:
        await fill(broker, b"o")
        with SlowReader(broker) as slow:
            await slow.ask(fetch(max_bytes=50_000_000), 12)
            await stuck(broker)
            await broker.node.controller.delete_topics(["orders"])
            await fill(broker, b"n")
            data = await slow.read_to_the_end()
            assert b"o" * 1000 in data
            assert b"n" * 1000 not in data
        async with await peer_of(broker) as peer:
            assert len(await read_all(peer)) == MEGABYTES


# --- the whole way ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [False, True])
@scenario
async def test_small_segments_are_read_from_end_to_end(memory):
    settings = {name.replace(".", "_"): value for name, value in {**TINY, "segment.bytes": "2048"}.items()}
    async with AsyncBroker(memory=memory) as broker, await peer_of(broker) as peer:
        await broker.create_topic("orders", **settings)
        written = [b"%d" % n * 20 for n in range(300)]
        for value in written:
            assert result(await peer.send(produce(batch(value)), 9)).error_code == 0
        assert await read_all(peer) == written


@scenario
async def test_a_broker_whose_disk_cannot_be_synced_acknowledges_nothing():
    async with AsyncBroker(memory=True, config={"log.dirs": "a,b"}) as broker, await peer_of(broker) as peer:
        await broker.create_topic("orders", partitions=2, flush_messages=1)
        for partition in (0, 1):
            assert result(await peer.send(produce(batch(b"tea"), partition=partition), 9)).error_code == 0
        broker.disk.fail_next("sync")
        refused = result(await peer.send(produce(batch(b"milk")), 9))
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert found(await peer.send(fetch(), 12)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert result(await peer.send(produce(batch(b"milk"), partition=1), 9)).error_code == 0
        await until(lambda: broker.node.metadata.topics["orders"].partitions[0].leader == -1)
        shown = (await peer.send(MetadataRequest(topics=None), 9)).topics[0]
        assert sorted(part.leader_id for part in shown.partitions)[0] == -1


@scenario
async def test_a_topic_cannot_be_created_twice_and_the_first_one_keeps_its_records():
    async with AsyncBroker() as broker, await peer_of(broker) as peer:
        await broker.create_topic("orders")
        await peer.send(produce(batch(b"tea")), 9)
        again = (await broker.node.controller.create_topics([NewTopic("orders", 1, 1)]))["orders"]
        assert isinstance(again, KafkaError)
        assert await read_all(peer) == [b"tea"]
