"""Disks that fill up or vanish under a running broker: others serve on, nothing is torn, and space heals."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.network.peer import Peer, connect
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.topics import CreateTopicsRequest
from ottla.records.batch import iter_batches, records_of
from ottla.records.builder import build
from ottla.records.record import Record
from tests.chaos.processes import BrokerProcess, enlarge, small_disk, values_in

BATCH_BYTES = 100_000
WRITES_MAX = 200
FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)


def settings(*directories: Path) -> dict[str, object]:
    paths = ",".join(map(str, directories))
    return {"log.dirs": paths, "replica.high.watermark.checkpoint.interval.ms": 100}


async def create_topic(peer: Peer, partitions: int) -> None:
    topic = CreateTopicsRequest.Topic(
        name="orders", num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
    )
    answer = await peer.send(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
    assert answer.topics[0].error_code == 0, answer


class Writer:
    """Writes large batches to partitions, and remembers what was acknowledged."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.acknowledged: dict[TopicPartition, dict[int, bytes]] = {FIRST: {}, SECOND: {}}

    async def write(self, partition: TopicPartition) -> ErrorCode:
        value = b"%d" % len(self.acknowledged[partition]) + b"x" * BATCH_BYTES
        data = ProduceRequest.Topic.Partition(
            index=partition.partition, records=build([Record(0, 1_700_000_000_000, None, value)])
        )
        topic = ProduceRequest.Topic(name=partition.topic, partition_data=[data])
        answer = await self._peer.send(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic]), 9)
        result = answer.responses[0].partition_responses[0]
        if result.error_code == 0:
            self.acknowledged[partition][result.base_offset] = value
        return ErrorCode(result.error_code)

    async def write_until_refused(self, *partitions: TopicPartition) -> TopicPartition:
        """In turn; the first that takes no more."""
        for _ in range(WRITES_MAX):
            for partition in partitions:
                if (code := await self.write(partition)) != ErrorCode.NONE:
                    assert code == ErrorCode.KAFKA_STORAGE_ERROR
                    return partition
        raise AssertionError("the disk did not fill up")


async def read(peer: Peer, partition: TopicPartition) -> dict[int, bytes]:
    """Everything that a consumer gets."""
    found: dict[int, bytes] = {}
    while True:
        wanted = FetchRequest.Topic.Partition(
            partition=partition.partition, fetch_offset=len(found), partition_max_bytes=1 << 20
        )
        topic = FetchRequest.Topic(topic=partition.topic, partitions=[wanted])
        answer = await peer.send(FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic]), 11)
        records = bytes(answer.responses[0].partitions[0].records or b"")
        if not records:
            return found
        for position, _ in iter_batches(records, partial=True):
            found |= {r.offset: r.value or b"" for r in records_of(records, position)}


def in_any(*directories: Path) -> dict[TopicPartition, dict[int, bytes]]:
    return {partition: values for path in directories for partition, values in values_in(path).items()}


def missing(acknowledged: dict[int, bytes], found: dict[int, bytes]) -> Iterator[int]:
    return (offset for offset, value in acknowledged.items() if found.get(offset) != value)


def test_a_full_disk_refuses_with_56_others_serve_on_and_space_heals(tmp_path):
    good = tmp_path / "good"
    with small_disk(tmp_path / "full", "4m") as full:
        broker = BrokerProcess(good, settings(good, full / "data"))

        async def fill() -> Writer:
            async with await connect("127.0.0.1", broker.port) as peer:
                await create_topic(peer, partitions=2)
                writer = Writer(peer)
                refused = await writer.write_until_refused(FIRST, SECOND)
                other = SECOND if refused == FIRST else FIRST
                for _ in range(10):
                    assert await writer.write(other) == ErrorCode.NONE
                    assert await writer.write(refused) == ErrorCode.KAFKA_STORAGE_ERROR
                return writer

        async def go_on(acknowledged: dict[TopicPartition, dict[int, bytes]]) -> Writer:
            async with await connect("127.0.0.1", broker.port) as peer:
                writer = Writer(peer)
                writer.acknowledged = acknowledged
                for partition in (FIRST, SECOND):
                    for _ in range(10):
                        assert await writer.write(partition) == ErrorCode.NONE
                return writer

        with broker:
            writer = asyncio.run(fill())
            broker.kill()
            enlarge(full, "32m")
            broker.start()
            writer = asyncio.run(go_on(writer.acknowledged))
            assert broker.terminate() == 0, broker.errors
        found = in_any(good, full / "data")
        for partition, acknowledged in writer.acknowledged.items():
            assert found[partition] == acknowledged


def test_a_broker_on_a_full_disk_is_read_from_and_writes_again_when_there_is_room(tmp_path):
    with small_disk(tmp_path / "full", "4m") as full, BrokerProcess(full / "data") as broker:

        async def fill() -> Writer:
            async with await connect("127.0.0.1", broker.port) as peer:
                await create_topic(peer, partitions=1)
                writer = Writer(peer)
                await writer.write_until_refused(FIRST)
                assert await read(peer, FIRST) == writer.acknowledged[FIRST]
                enlarge(full, "6m")
                await writer.write_until_refused(FIRST)
                return writer

        async def values() -> dict[int, bytes]:
            async with await connect("127.0.0.1", broker.port) as peer:
                return await read(peer, FIRST)

        writer = asyncio.run(fill())
        broker.kill()
        (full / "ballast").write_bytes(b"")
        with contextlib.suppress(OSError), (full / "ballast").open("ab") as file:
            while file.write(b"x" * 4096):
                file.flush()
        assert "is full" in broker.refuse_to_start()
        (full / "ballast").unlink()
        broker.start()
        assert asyncio.run(values()) == writer.acknowledged[FIRST]
        broker.kill()


def test_a_directory_that_vanishes_goes_offline_alone(tmp_path):
    good, bad = tmp_path / "good", tmp_path / "bad"

    async def scenario(port: int) -> Writer:
        async with await connect("127.0.0.1", port) as peer:
            await create_topic(peer, partitions=2)
            writer = Writer(peer)
            for partition in (FIRST, SECOND):
                assert await writer.write(partition) == ErrorCode.NONE
            lost = next(p for p in (FIRST, SECOND) if (bad / str(p)).exists())
            kept = SECOND if lost == FIRST else FIRST
            bad.rename(tmp_path / "gone")
            # The broker notices when it next writes down how far it is.
            async with asyncio.timeout(30):
                while await writer.write(lost) == ErrorCode.NONE:
                    await asyncio.sleep(0.01)
            for _ in range(5):
                assert await writer.write(lost) == ErrorCode.KAFKA_STORAGE_ERROR
                assert await writer.write(kept) == ErrorCode.NONE
            return writer

    with BrokerProcess(good, settings(good, bad)) as broker:
        writer = asyncio.run(scenario(broker.port))
        assert broker.terminate() == 0, broker.errors
        (tmp_path / "gone").rename(bad)
        broker.start()
        assert broker.terminate() == 0, broker.errors
    found = in_any(good, bad)
    for partition, acknowledged in writer.acknowledged.items():
        assert not list(missing(acknowledged, found[partition]))
