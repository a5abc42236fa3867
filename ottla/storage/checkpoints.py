"""The small text files of a log directory, as Kafka writes them.

    recovery-point-offset-checkpoint      everything below is known to be on the disk
    log-start-offset-checkpoint           nothing below is to be read any more
    replication-offset-checkpoint         high watermarks
    cleaner-offset-checkpoint             up to where the log is compacted
    meta.properties                       whose directory this is
    partition.metadata                    which topic id a partition's directory belongs to
    .kafka_cleanshutdown                  there only after a clean shutdown

All are replaced whole: a crash leaves the old or the new one.
"""

import functools
import json
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping

from ottla.core.errors import ProtocolError
from ottla.core.ids import TopicPartition, format_id, parse_id
from ottla.storage.files import Files, write_whole

RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"
OFFSETS = (RECOVERY_POINT, LOG_START, HIGH_WATERMARK, CLEANER)
META_PROPERTIES = "meta.properties"
PARTITION_METADATA = "partition.metadata"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"

_VERSION = "0"
_NUMBER_MAX = 2**63 - 1


def render_lines(rows: Iterable[str]) -> bytes:
    """Version, number of rows, rows."""
    rows = list(rows)
    return "".join(f"{line}\n" for line in [_VERSION, str(len(rows)), *rows]).encode()


def parse_lines(data: bytes, path: str) -> list[str]:
    """The rows of a checkpoint file, or ProtocolError: a half-written one must not pass for a short one."""
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{path} is not text") from error
    if len(lines) < 2 or lines[0].strip() != _VERSION or not is_number(lines[1]):
        raise ProtocolError(f"{path} does not start with version {_VERSION} and a count")
    rows = [line for line in lines[2:] if line.strip()]
    if len(rows) != int(lines[1]):
        raise ProtocolError(f"{path} says {lines[1]} entries and has {len(rows)}")
    return rows


def is_number(text: str) -> bool:
    """Are these the digits of an offset, an epoch or a count?"""
    return text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= _NUMBER_MAX


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    rows = (f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items()))
    write_whole(files, path, render_lines(rows))


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    """Offsets by partition; none if the file is not there, or as empty as Kafka makes it before it has any."""
    if not files.exists(path) or files.size(path) == 0:
        return {}
    offsets: dict[TopicPartition, int] = {}
    for row in parse_lines(files.read(path), path):
        fields = row.split(" ")
        if len(fields) != 3 or not all(map(is_number, fields[1:])):
            raise ProtocolError(f"{path}: not a topic, a partition and an offset: {row[:80]!r}")
        offsets[TopicPartition(fields[0], int(fields[1]))] = int(fields[2])
    return offsets


class OffsetFile:
    """A checkpoint that its owner writes at once and others in a thread: what was read off the logs later wins."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path
        self._lock = threading.Lock()
        self._begun = self._done = 0  # numbers of readings: the newest, and that of what the file says
        self._newest: Mapping[TopicPartition, int] | None = None
        self._written: Mapping[TopicPartition, int] | None = None

    def read(self) -> dict[TopicPartition, int]:
        """What it says, before anything is written to it. Raises ProtocolError if that makes no sense."""
        offsets = read_offsets(self._files, self._path)
        self._written = offsets
        return dict(offsets)

    def may_name(self, partition: TopicPartition) -> bool:
        """Could the next start find an offset of this partition in the file?"""
        written = self._written
        return written is None or partition in written

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Return when the file says this."""
        self._begun += 1
        self._newest = offsets
        self._write(self._begun, offsets)

    def begin(
        self, offsets: Mapping[TopicPartition, int], *, always: bool = False
    ) -> Callable[[], None] | None:
        """What a thread has to run for the file to say this, or something newer. None if it will say so anyway, some
        time soon; with `always` there is something to run, which ends when it does."""
        if offsets == self._newest and not always:
            return None
        self._begun += 1
        self._newest = offsets
        return functools.partial(self._write, self._begun, offsets)

    def _write(self, number: int, offsets: Mapping[TopicPartition, int]) -> None:
        with self._lock:
            if number < self._done:
                return
            try:
                if offsets != self._written:
                    write_offsets(self._files, self._path, offsets)
            except BaseException:
                self._newest = self._written = None  # nobody knows what it says now: the next one writes
                raise
            self._done, self._written = number, offsets


def write_partition_metadata(files: Files, directory: str, topic_id: uuid.UUID) -> None:
    text = f"version: 0\ntopic_id: {format_id(topic_id)}"
    write_whole(files, f"{directory}/{PARTITION_METADATA}", text.encode())


def read_partition_metadata(files: Files, directory: str) -> uuid.UUID | None:
    """The topic id a partition's directory belongs to; None if it was never written."""
    path = f"{directory}/{PARTITION_METADATA}"
    if not files.exists(path):
        return None
    fields = _colon_fields(files.read(path), path)
    if fields.get("version") != "0" or "topic_id" not in fields:
        raise ProtocolError(f"{path} has no version 0 with a topic_id")
    try:
        return parse_id(fields["topic_id"])
    except ValueError as error:
        raise ProtocolError(f"{path}: {error}") from error


def _colon_fields(data: bytes, path: str) -> dict[str, str]:
    try:
        lines = data.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{path} is not text") from error
    return {k.strip(): v.strip() for k, _, v in (line.partition(":") for line in lines)}


def write_clean_shutdown(files: Files, directory: str, broker_epoch: int) -> None:
    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    write_whole(files, f"{directory}/{CLEAN_SHUTDOWN}", text.encode())


def take_clean_shutdown(files: Files, directory: str) -> int | None:
    """The broker epoch of the clean shutdown before this start, None if there was none. Removes the marker."""
    path = f"{directory}/{CLEAN_SHUTDOWN}"
    if not files.exists(path):
        return None
    data = files.read(path)
    files.remove(path)
    files.sync_directory(directory)
    try:
        epoch = json.loads(data).get("brokerEpoch", -1)
    except (ValueError, AttributeError, RecursionError):
        return -1  # Kafka before 3.7 left the file empty; that it is there is what counts
    return epoch if isinstance(epoch, int) else -1
