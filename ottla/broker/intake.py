"""What a producer sent becomes what its topic stores. Step 4 in the life of a produce, before Partition.append.

One batch of magic 2 that needs nothing passes after a look at a few bytes, and its records stay closed. They are
opened where it must be: old message sets become batches, a topic with a codec of its own has batches compressed
with that, a compacted topic takes no record without a key. The walk over the records that comes with it is also
taken where it is cheap, because the walker is compiled.

Opening costs CPU time in proportion to the bytes, and a few bytes can decompress to many. So it is not done here but
handed out as `Slow`: `attempt` does it if it is little, `run` whatever it takes, in a thread.
"""

import struct
from collections.abc import Callable
from typing import TypeAlias

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.types import Buffer
from ottla.records import batch, is_compiled, legacy, section
from ottla.records.batch import (
    CODEC_BITS,
    HEADER_SIZE,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    RECORDS_AT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from ottla.records.compression import OUTPUT_BYTES_MAX, Codec
from ottla.records.convert import up_convert
from ottla.records.errors import RecordError
from ottla.records.recompress import close_section, open_section
from ottla.storage.config import TopicConfig

BATCHES_SINCE, ZSTD_SINCE = 3, 7  # versions of Produce
WALKS_ALL = is_compiled()
INLINE_BYTES_MAX = (64 if WALKS_ALL else 8) * 1024
"""As much as `attempt` looks at: below a millisecond, unless somebody means harm."""
INLINE_OUTPUT_FACTOR = 4
WALKED_BYTES_MAX = 2 * 1024 * 1024
"""As much as is walked on the spot, where the walker is compiled: a megabyte takes about 0.2 ms."""
EXPANSION_MAX = 64
"""How many times max.message.bytes a batch may decompress to; ordinary text stays far below."""
LIMIT_MIN = 1024 * 1024
RECORD_ERRORS_MAX = 1000  # records that are named in one refusal
_CHUNK = 256
_PEEK = struct.Struct(">8xi4xb4xh")  # length, magic, attributes
_COUNTS = struct.Struct(">23xi30xi")  # last offset delta, number of records

_ATTRIBUTES_LOW_AT = 22  # the byte that tells of a transaction

TARGETS: dict[str, Codec | None] = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
"""What compression.type asks for; None leaves it to the producer."""

_Work: TypeAlias = Callable[[Buffer, TopicConfig, int], Buffer]


class InvalidRecords(KafkaError):
    """Some records of a batch are not acceptable, and so the whole batch is not (KIP-467)."""

    def __init__(self, detail: str, record_errors: list[tuple[int, str]]) -> None:
        super().__init__(ErrorCode.INVALID_RECORD, detail)
        self.record_errors = record_errors
        """Place in the batch, and what is wrong with the record; none if it is not about single ones."""


class Slow:
    """Records that must be opened before they can be stored. Raises KafkaError if they cannot be."""

    __slots__ = ("_config", "_records", "_work")

    def __init__(self, records: Buffer, config: TopicConfig, work: _Work) -> None:
        self._records = records
        self._config = config
        self._work = work

    def attempt(self) -> Buffer | None:
        """Do it now if it is little; None if it is not, and then `run` must."""
        if len(self._records) > INLINE_BYTES_MAX:
            return None
        try:
            return self._work(self._records, self._config, INLINE_BYTES_MAX * INLINE_OUTPUT_FACTOR)
        except RecordError as error:
            if error.code is ErrorCode.MESSAGE_TOO_LARGE:
                return None
            raise KafkaError(error.code, error.detail) from error

    def run(self) -> Buffer:
        """Do it, in a thread. The records must not change meanwhile."""
        try:
            return self._work(self._records, self._config, decompressed_bytes_max(self._config))
        except RecordError as error:
            raise KafkaError(error.code, error.detail) from error


def prepare(records: Buffer, api_version: int, config: TopicConfig) -> Buffer | Slow:
    """One batch of magic 2 for the topic: `records` as they are, or `Slow` if they must be opened.

    Not everything is judged here: checksum, size, sequence and timestamps are left to the log.
    """
    size = len(records)
    if size < HEADER_SIZE:
        return _unusual(records, api_version, config)
    length, magic, attributes = _PEEK.unpack_from(records)
    if magic != MAGIC or length + LENGTH_OVERHEAD != size:
        return _unusual(records, api_version, config)
    codec = attributes & CODEC_BITS
    if codec == Codec.ZSTD and api_version < ZSTD_SINCE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd in Produce v{api_version}, it came with v{ZSTD_SINCE}",
        )
    target = TARGETS[config.compression_type]
    if (target is not None and target != codec) or "compact" in config.cleanup_policy:
        return Slow(records, config, _checked)
    if WALKS_ALL:
        if codec or size > WALKED_BYTES_MAX:
            return Slow(records, config, _checked)
        _walk(records)
    return records


def is_transactional(records: Buffer) -> bool:
    """Is this a batch of magic 2 that belongs to a transaction?"""
    if len(records) < HEADER_SIZE or records[MAGIC_AT] != MAGIC:
        return False
    return bool(records[_ATTRIBUTES_LOW_AT] & TRANSACTIONAL_BIT)


def _walk(records: Buffer) -> None:
    """See to it that the records of an uncompressed batch are what its header says."""
    last_delta, count = _COUNTS.unpack_from(records)
    plain = records if isinstance(records, bytes) else bytes(memoryview(records)[RECORDS_AT:])
    start = len(plain) - len(records) + RECORDS_AT
    try:
        _check_count(count, last_delta)
        section.walk(plain, start, len(plain), count, last_delta, True)
    except (KafkaError, RecordError) as error:
        _raise_damage(records)
        if error.code is ErrorCode.INVALID_RECORD:
            raise InvalidRecords(error.detail, []) from error
        raise KafkaError(error.code, error.detail) from error


def _raise_damage(records: Buffer) -> None:
    """A damaged batch also contradicts itself; but damage is worth another try."""
    try:
        batch.check(records)
    except RecordError as error:
        raise KafkaError(error.code, error.detail) from error


def decompressed_bytes_max(config: TopicConfig) -> int:
    """How much a batch of this topic may decompress to, while it is looked at."""
    size_max = config.max_message_bytes
    return max(size_max, min(OUTPUT_BYTES_MAX, max(LIMIT_MIN, size_max * EXPANSION_MAX)))


def _unusual(records: Buffer, api_version: int, config: TopicConfig) -> Slow:
    """Not exactly one batch of magic 2: a message set from an old client, or a mistake."""
    size = len(records)
    if size == 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, "no records to append")
    magic = records[MAGIC_AT] if size > MAGIC_AT else None
    if magic in (0, 1):
        if api_version >= BATCHES_SINCE:
            raise KafkaError(
                ErrorCode.INVALID_RECORD, f"magic {magic} in Produce v{api_version}, which needs magic 2"
            )
        return Slow(records, config, _converted)
    if magic != MAGIC or size < HEADER_SIZE:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{size} bytes with magic {magic} are not a batch")
    length = _PEEK.unpack_from(records)[0]
    if not HEADER_SIZE <= length + LENGTH_OVERHEAD < size:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a batch of {length} bytes does not fit into {size}")
    detail = f"{size - length - LENGTH_OVERHEAD} bytes follow the batch; a partition takes one in a request"
    raise KafkaError(ErrorCode.INVALID_RECORD, detail)


def _checked(records: Buffer, config: TopicConfig, limit: int) -> Buffer:
    """The batch, whose records were found sound; compressed anew if the topic wants that."""
    if len(records) > config.max_message_bytes:  # before it is decompressed in vain
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"batch of {len(records)} bytes, max.message.bytes is {config.max_message_bytes}",
        )
    batch.check(records)
    header, plain = open_section(records, limit=limit)
    target = TARGETS[config.compression_type]
    return _stored(records, header, plain, header.codec if target is None else target, config)


def _converted(records: Buffer, config: TopicConfig, limit: int) -> Buffer:
    """One batch of all messages in a set."""
    codec = TARGETS[config.compression_type]
    if codec is None:
        codec = next(
            (header.codec for _, header in legacy.iter_messages(records) if header.codec), Codec.NONE
        )
    converted = up_convert(records, codec=Codec.NONE, limit=limit)
    header, plain = open_section(converted, limit=limit)
    return _stored(converted, header, plain, codec, config)


def _stored(records: Buffer, header: BatchHeader, plain: bytes, codec: Codec, config: TopicConfig) -> Buffer:
    _check_count(header.count, header.last_offset_delta)
    section.walk(plain, 0, len(plain), header.count, header.last_offset_delta, True)
    if "compact" in config.cleanup_policy:
        _check_keys(plain, header.count)
    return records if codec is header.codec else close_section(header, plain, codec, _level(codec, config))


def _check_count(count: int, last_delta: int) -> None:
    if count != last_delta + 1:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{count} records, the last one at delta {last_delta}")


def _check_keys(plain: bytes, count: int) -> None:
    """Compaction keeps the last record of each key; what has none could never go."""
    keyless: list[tuple[int, str]] = []
    place = position = 0
    while place < count and len(keyless) < RECORD_ERRORS_MAX:
        rows, position = section.decode(
            plain, position, len(plain), min(_CHUNK, count - place), 0, 0, False, True
        )
        keyless += [
            (offset, "a compacted topic takes no record without a key")
            for offset, _, key, _, _ in rows
            if key is None
        ]
        place += len(rows)
    if keyless:
        del keyless[RECORD_ERRORS_MAX:]
        first = ", ".join(str(offset) for offset, _ in keyless[:3])
        raise InvalidRecords(f"the topic is compacted, and records have no key: {first}", keyless)


def _level(codec: Codec, config: TopicConfig) -> int | None:
    """The topic's level; None for the codec's own."""
    if codec is Codec.GZIP and config.compression_gzip_level >= 0:
        return config.compression_gzip_level
    if codec is Codec.LZ4 and config.compression_lz4_level != _LZ4_DEFAULT:
        return config.compression_lz4_level
    if codec is Codec.ZSTD:
        return config.compression_zstd_level
    return None


_LZ4_DEFAULT = TopicConfig.compression_lz4_level.default
"""Kafka takes its default level for "no level": the fast method, not the ninth of the dense ones."""
