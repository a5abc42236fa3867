"""What a reader of a compacted topic must find, whoever was killed meanwhile, and how it is held against the load."""

from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.chaos.history_readers import CONSUMER
from tests.chaos.keyed_load import PARTITIONS, TOPIC, KeyedLoad, Written

POLL_MAX = 1_000
POLLS_MAX = 5_000
_AT_THE_END = KafkaError._PARTITION_EOF


class Found(NamedTuple):
    """A record as it was read."""

    key: bytes
    value: bytes | None


class Read(NamedTuple):
    """A partition from its beginning to its end."""

    records: dict[int, Found]
    end_offset: int


def read_all(server: str, isolation_level: str) -> list[Read]:
    """All partitions, by a consumer that comes for the first time. Offsets must rise."""
    settings = {"bootstrap.servers": server, "isolation.level": isolation_level, "enable.partition.eof": True}
    consumer = Consumer(CONSUMER | settings)
    found: list[dict[int, Found]] = [{} for _ in range(PARTITIONS)]
    ends: dict[int, int] = {}
    try:
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
        for _ in range(POLLS_MAX):
            for message in consumer.consume(POLL_MAX, 0.1):
                partition, offset, error = message.partition(), message.offset(), message.error()
                assert partition is not None and offset is not None
                if error is not None:
                    assert error.code() == _AT_THE_END, str(error)
                    ends[partition] = offset
                    continue
                records, key = found[partition], message.key()
                assert offset > max(records, default=-1), f"offset {offset} of {partition} does not rise"
                assert isinstance(key, bytes)
                records[offset] = Found(key, message.value())
            if len(ends) == PARTITIONS:
                return [Read(records, ends[number]) for number, records in enumerate(found)]
        raise AssertionError(f"the end was not reached: {ends}")
    finally:
        consumer.close()


class Checks:
    """Holds what is read against the load, and against what was read before."""

    def __init__(self, load: KeyedLoad, data_dir: Path) -> None:
        self._load = load
        self._data_dir = data_dir
        self._before: dict[tuple[str, int], Read] = {}
        self.records_left = 0
        """In the last read of everything."""

    def run(self, server: str) -> None:
        """While the load pauses: all of it is settled."""
        committed, everything = read_all(server, "read_committed"), read_all(server, "read_uncommitted")
        for partition, written in enumerate(self._load.records):
            self._check_newest(written, committed[partition].records)
            self._check_newest(written, everything[partition].records)
            self._check_aborted(written, committed[partition].records)
            self._check_end(partition, written, everything[partition].records)
            self._check_nothing_came_back(("read_committed", partition), committed[partition])
            self._check_nothing_came_back(("read_uncommitted", partition), everything[partition])
        self.records_left = sum(len(read.records) for read in everything)

    def _check_newest(self, written: dict[int, Written], found: dict[int, Found]) -> None:
        """The newest of each key is there, unless it is a tombstone: such a one has its time."""
        newest = {w.key: offset for offset, w in sorted(written.items()) if w.fate == "written"}
        latest = {f.key: offset for offset, f in sorted(found.items())}
        for key, offset in newest.items():
            expected = Found(key, written[offset].value)
            if offset in found:
                assert found[offset] == expected
            elif key in latest and self._may_be_newer(written, key, offset, latest[key]):
                pass
            else:
                may_be_gone = expected.value is None or self._may_be_deleted(written, key, offset)
                assert may_be_gone, f"{expected} at {offset} is lost"
                older = [o for o in found if o < offset and found[o].key == key]
                assert not older, f"{key!r} was deleted at {offset}, and is back from {older}"

    def _may_be_newer(self, written: dict[int, Written], key: bytes, offset: int, latest: int) -> bool:
        """Is this one that the load knows no fate, or no place, of?"""
        known = written.get(latest)
        is_possible = known.fate == "unknown" if known is not None else key in self._load.unplaced
        return latest > offset and is_possible

    def _may_be_deleted(self, written: dict[int, Written], key: bytes, offset: int) -> bool:
        unknown = {w.value for o, w in written.items() if w == (key, None, "unknown") and o > offset}
        return None in unknown | self._load.unplaced.get(key, set())

    def _check_aborted(self, written: dict[int, Written], committed: dict[int, Found]) -> None:
        seen = [offset for offset in committed if offset in written and written[offset].fate == "aborted"]
        assert not seen, f"of aborted transactions: {seen}"

    def _check_end(self, partition: int, written: dict[int, Written], found: dict[int, Found]) -> None:
        """Above the last segment that was closed nothing is ever cleaned."""
        active = max(int(path.stem) for path in (self._data_dir / f"{TOPIC}-{partition}").glob("*.log"))
        for offset, record in written.items():
            if offset >= active:
                assert found.get(offset) == record[:2], f"{record} at {offset} is gone from the end"

    def _check_nothing_came_back(self, which: tuple[str, int], now: Read) -> None:
        """Of what was there only ever less is left, as long as nobody writes there."""
        before = self._before.get(which, Read({}, 0))
        assert now.end_offset >= before.end_offset, f"{which} has lost its end"
        back = [o for o in now.records if o < before.end_offset and o not in before.records]
        assert not back, f"{which}: offsets {back} are back"
        changed = [o for o in now.records if o in before.records and before.records[o] != now.records[o]]
        assert not changed, f"{which}: offsets {changed} hold other records now"
        self._before[which] = now
