"""A disk that fills up in the midst of a compaction: the log stays as it was, one message says so, and room heals."""

import asyncio
import os
import time
from pathlib import Path

from ottla.core.errors import ErrorCode
from ottla.network.peer import Peer, connect
from ottla.protocol.messages.offsets import DeleteRecordsRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records.builder import build
from ottla.records.record import Record
from tests.chaos.compacting import SECONDS_MAX, Status, ask, compact, create_topic, files_in, verify
from tests.chaos.processes import BrokerProcess, small_disk, values_in
from tests.chaos.test_failing_disk import FIRST, read

RECORD_BYTES, RECORDS, KEYS = 10_000, 250, 200
FREE_BYTES = 200_000
WRITES_MAX = 2_000
SETTINGS = {"log.segment.delete.delay.ms": 0, "replica.high.watermark.checkpoint.interval.ms": 100}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": 1_000_000,
    "min.cleanable.dirty.ratio": 1,  # only who asks for it has it compacted
}


class Writer:
    """Writes records, and remembers what was acknowledged of the compacted topic."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self.acknowledged: dict[int, bytes] = {}
        self.newest: dict[bytes, int] = {}

    async def write(self, key: bytes | None, value: bytes, topic: str = FIRST.topic) -> ErrorCode:
        records = build([Record(0, int(time.time() * 1000), key, value)])
        data = ProduceRequest.Topic(
            name=topic, partition_data=[ProduceRequest.Topic.Partition(index=0, records=records)]
        )
        answer = await self._peer.send(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 9)
        result = answer.responses[0].partition_responses[0]
        if result.error_code == 0 and key is not None:
            self.acknowledged[result.base_offset] = value
            self.newest[key] = result.base_offset
        return ErrorCode(result.error_code)

    async def fill(self) -> None:
        """Three segments: if the first two were compacted, half of their records would stay."""
        for number in range(RECORDS):
            value = (b"%d " % number).ljust(RECORD_BYTES, b"x")
            assert await self.write(b"key %d" % (number % KEYS), value) == ErrorCode.NONE

    async def fill_disk(self, disk: Path) -> None:
        """Up to a little room, less than a compacted segment takes."""
        for _ in range(WRITES_MAX):
            if free_bytes(disk) < FREE_BYTES:
                return
            assert await self.write(None, b"b" * 40_000, "ballast") == ErrorCode.NONE
        raise AssertionError("the disk did not fill up")

    async def write_until_refused(self) -> int:
        """How many were taken before."""
        for count in range(WRITES_MAX):
            code = await self.write(b"late %d" % count, b"y" * 5_000)
            if code != ErrorCode.NONE:
                assert code == ErrorCode.KAFKA_STORAGE_ERROR
                return count
        raise AssertionError("the disk did not fill up")


def free_bytes(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


async def compact_in_vain(peer: Peer) -> Status:
    """Ask for it, and return when it has failed."""
    [state] = await ask(peer, FIRST.topic, 1, start=True)
    deadline = time.monotonic() + SECONDS_MAX
    while state.state != "uncleanable":
        assert time.monotonic() < deadline, state
        await asyncio.sleep(0.01)
        [state] = await ask(peer, FIRST.topic, 1, start=False)
    return state


async def delete_ballast(peer: Peer, disk: Path) -> None:
    """All of its records; retention takes the segments. To delete the topic would take room for the metadata."""
    Topic = DeleteRecordsRequest.Topic
    topic = Topic(name="ballast", partitions=[Topic.Partition(partition_index=0, offset=-1)])
    answer = await peer.send(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000))
    assert answer.topics[0].partitions[0].error_code == 0, answer
    deadline = time.monotonic() + SECONDS_MAX
    while free_bytes(disk) < 2_000_000:
        assert time.monotonic() < deadline, "deleting made no room"
        await asyncio.sleep(0.01)


def test_a_disk_that_fills_up_while_a_log_is_compacted_leaves_it_as_it_was_and_room_heals(tmp_path):
    with small_disk(tmp_path / "full", "8m") as full:
        data = full / "data"

        def segments() -> dict[str, bytes]:
            return {path.name: path.read_bytes() for path in files_in(data, FIRST.topic, ".log")}

        def messages() -> int:
            return broker.errors.count("cannot be compacted")

        async def scenario() -> Writer:
            await create_topic(broker.port, FIRST.topic, 1, COMPACTED)
            await create_topic(broker.port, "ballast", 1, {"segment.bytes": 1_000_000})
            async with await connect("127.0.0.1", broker.port) as peer:
                writer = Writer(peer)
                await writer.fill()
                await writer.fill_disk(full)
                before = segments()
                for _ in range(2):
                    failed = await compact_in_vain(peer)
                    assert "No space left" in (failed.last_error or ""), failed
                    assert not files_in(data, FIRST.topic, ".cleaned", ".swap", ".deleted")
                    after = segments()
                    assert {name: after[name] for name in before} == before
                assert messages() == 1
                assert await writer.write_until_refused() > 0, "there was room for it"
                assert await read(peer, FIRST) == writer.acknowledged, "nothing is torn"

                await delete_ballast(peer, full)
                assert await writer.write(b"again", b"there is room") == ErrorCode.NONE
            [state] = await compact(broker.port, FIRST.topic, 1)
            # It is counted a moment before the run is over.
            assert state.state in ("idle", "copying") and state.records_after == len(writer.newest)
            return writer

        with BrokerProcess(data, SETTINGS) as broker:
            writer = asyncio.run(scenario())
            assert messages() == 1
            assert broker.terminate() == 0, broker.errors
        newest = {offset: writer.acknowledged[offset] for offset in writer.newest.values()}
        assert verify(data) == ""
        assert values_in(data)[FIRST] == newest
