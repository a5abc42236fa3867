"""What the drivers of all clients have in common: the verbs, the record they pass, and the errors they raise.

Nothing of a client is changed or replaced; a driver only translates the verbs below into the client's own calls.
"""

import io
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import BinaryIO, NamedTuple, Protocol

WAIT_SECONDS_MAX = 60.0
"""Longer than any of these calls takes on a busy machine; a client that is still silent then has failed."""

NOW = int(time.time() * 1000) - 3_600_000
"""The time of most records: an hour ago. Retention deletes what is much older, half a minute after a broker starts."""

ANY = -1
"""The partition of a record that is left to the client's own partitioner."""

Header = tuple[str, bytes | None]


class Record(NamedTuple):
    """A record to produce, or one that was consumed; only the latter has an offset."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp: int | None = None
    offset: int | None = None

    @property
    def asked_partition(self) -> int | None:
        """The partition for clients to which None is any."""
        return None if self.partition == ANY else self.partition


class Refused(Exception):
    """The broker said no, and the client passed it on, with the number of the error."""

    def __init__(self, code: int, detail: str = "") -> None:
        super().__init__(f"error {code} {detail}".rstrip())
        self.code = code


class Unavailable(Exception):
    """This client cannot run here; the sentence says why."""


class Sender(Protocol):
    """An idempotent producer that lives on, with acks=all. What it lets its user see of trouble is raised."""

    def send(self, topic: str, records: Sequence[Record]) -> None:
        """Returns when the broker has them."""

    def close(self) -> None: ...


class Transactional(Sender, Protocol):
    """A producer with a transactional id, step by step. Every step may raise `Refused`."""

    def begin(self) -> None: ...

    def send_offsets(self, group: str, topic: str, offsets: Mapping[int, int]) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...


class Client(Protocol):
    """The verbs. A client that lacks one of them says so in the table of clients."""

    version: str

    def produce(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        transactional_id: str | None = None,
        commit: bool = True,
    ) -> None: ...

    def consume(
        self, topic: str, starts: Mapping[int, int], count: int, *, isolation: str = "read_uncommitted"
    ) -> list[Record]:
        """`count` records from these offsets on, by assigned partitions and without a group."""

    def group_consume(self, topic: str, group: str, count: int) -> list[Record]: ...

    def sender(self) -> Sender: ...

    def transactional(self, transactional_id: str, timeout_ms: int = 60_000) -> Transactional:
        """Takes the id over from whoever had it."""

    def create_topic(
        self, topic: str, partitions: int, configs: Mapping[str, str], replicas: int = 1
    ) -> None: ...

    def delete_topic(self, topic: str) -> None: ...

    def list_topics(self) -> set[str]: ...

    def partition_count(self, topic: str) -> int: ...

    def topic_configs(self, topic: str) -> dict[str, str]: ...

    def alter_config(self, topic: str, key: str, value: str) -> None: ...

    def create_partitions(self, topic: str, count: int) -> None: ...

    def delete_records(self, topic: str, partition: int, before: int) -> None: ...

    def describe_cluster(self) -> list[str]:
        """host:port of every broker."""

    def watermarks(self, topic: str, partition: int) -> tuple[int, int]:
        """Where the log starts and ends."""

    def offset_for_time(self, topic: str, partition: int, timestamp: int) -> int | None: ...

    def offset_of_newest(self, topic: str, partition: int) -> int: ...

    def log_dir_sizes(self, topic: str) -> dict[int, int]: ...

    def active_producers(self, topic: str, partition: int) -> int: ...

    def close(self) -> None: ...


# Records travel to clients that run in another process as files of this form.
_FIXED = struct.Struct(">iqq")  # partition, timestamp, offset; -1 where there is none
_SIZE = struct.Struct(">i")  # -1 for null


def write_records(target: BinaryIO, records: Iterable[Record]) -> None:
    for each in records:
        timestamp, offset = _number(each.timestamp), _number(each.offset)
        target.write(_FIXED.pack(each.partition, timestamp, offset))
        _write_bytes(target, each.key)
        _write_bytes(target, each.value)
        target.write(_SIZE.pack(len(each.headers)))
        for name, value in each.headers:
            _write_bytes(target, name.encode())
            _write_bytes(target, value)


def read_records(data: bytes) -> list[Record]:
    source, found = io.BytesIO(data), []
    while fixed := source.read(_FIXED.size):
        partition, timestamp, offset = _FIXED.unpack(fixed)
        key, value = _read_bytes(source), _read_bytes(source)
        (count,) = _SIZE.unpack(source.read(_SIZE.size))
        headers = tuple(((_read_bytes(source) or b"").decode(), _read_bytes(source)) for _ in range(count))
        found.append(Record(partition, key, value, headers, timestamp, offset))
    return found


def _number(value: int | None) -> int:
    return -1 if value is None else value


def _write_bytes(target: BinaryIO, value: bytes | None) -> None:
    target.write(_SIZE.pack(-1 if value is None else len(value)))
    target.write(value or b"")


def _read_bytes(source: BinaryIO) -> bytes | None:
    (size,) = _SIZE.unpack(source.read(_SIZE.size))
    return None if size < 0 else source.read(size)
