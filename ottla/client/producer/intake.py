"""What happens to a record before it waits for the sender: interceptors, then serializers, then the partitioner.

In the thread of whoever sends it. Where something is missing (the topic is not known yet, there is no room) the record
is formed already and is placed again later, so that interceptors and serializers see it once.

What an application hands in is annotated as `Any`: where this is compiled, other annotations are checked at the door,
and nobody could say any more in a sentence what is wrong.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ottla.client.errors import RecordTooLargeError, SerializationError
from ottla.client.metadata import Metadata, TopicInfo
from ottla.client.producer.accumulator import Accumulator, PartitionQueue
from ottla.client.producer.batch import RECORD_OVERHEAD, Delivery, Row, call_safely, headers_size
from ottla.client.producer.config import ProducerConfig
from ottla.client.producer.partitioners import KeyHashes, Outgoing, partitioner_of, stick
from ottla.client.records import ProducerRecord, RecordMetadata
from ottla.client.serde.registry import serializer_of
from ottla.core.errors import ErrorCode, KafkaError, StaleMetadataError
from ottla.core.ids import TopicPartition
from ottla.records.record import Header

TIMESTAMP_MAX = 2**63 - 1

Formed = tuple[str, Row, int, Any, Any, Any]
"""A record that only needs a place: topic, row, size, partition if one was named, key and value before they were bytes.

A plain tuple: one is made for every record.
"""


class _Known:
    """A topic as it was when a record was last placed in it, and where records without a key go now."""

    __slots__ = ("info", "queues", "sticky", "sticky_left")

    def __init__(self, info: TopicInfo, queues: list[PartitionQueue]) -> None:
        self.info, self.queues = info, queues
        self.sticky = self.sticky_left = 0


class Share:
    """Records for one partition, in order: what each takes, and which of those it was that were handed in together."""

    __slots__ = ("origins", "queue", "rows", "sizes")

    def __init__(
        self, queue: PartitionQueue, rows: list[Row], sizes: list[int], origins: Sequence[int]
    ) -> None:
        self.queue, self.rows, self.sizes, self.origins = queue, rows, sizes, origins


class Intake:
    """Of one producer."""

    def __init__(self, config: ProducerConfig, metadata: Metadata, accumulator: Accumulator) -> None:
        self._metadata, self._accumulator = metadata, accumulator
        self._key_serializer = serializer_of(config.key_serializer, is_key=True)
        self._value_serializer = serializer_of(config.value_serializer)
        self._interceptors = [each() if isinstance(each, type) else each for each in config.interceptors]
        self._partitioner: Any = partitioner_of(config.partitioner, config.client_rack)
        self._sticky_size = max(1, config.batch_size)
        self._hash = KeyHashes()
        self._known: dict[str, _Known] = {}
        self._size_max = config.max_request_size
        self._memory = config.buffer_memory
        doers = (self._key_serializer, self._value_serializer, self._partitioner)
        self._is_plain = not self._interceptors and all(each is None for each in doers)

    def put(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Any,
        partition: Any,
        timestamp_ms: Any,
    ) -> Delivery | None:
        """The short way into a batch, for records that are bytes and bring nothing special. None for all others,
        when it is time for another partition, and if there is no room: then `form` and `place` it."""
        if not self._is_plain or headers or timestamp_ms is not None or type(value) is not bytes:
            return None
        known = self._known.get(topic)
        if known is None or known.info is not self._metadata.topics.get(topic):
            return None
        size = RECORD_OVERHEAD + len(value)
        if key is not None:
            if type(key) is not bytes:
                return None
            size += len(key)
            if partition is None:
                partition = self._hash(key) % len(known.queues)
        elif partition is None:
            if known.sticky_left <= 0:
                return None
            known.sticky_left -= size
            partition = known.sticky
        if size > self._size_max or size > self._memory or not 0 <= partition < len(known.queues):
            return None
        row = (time.time_ns() // 1_000_000, key, value, ())
        return self._accumulator.append(known.queues[partition], row, size)

    # --- forming --------------------------------------------------------------------------------------------------

    def form(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Any,
        partition: Any,
        timestamp_ms: Any,
    ) -> Formed:
        """The record as bytes. Raises SerializationError or RecordTooLargeError."""
        if self._interceptors:
            record = self._intercepted(ProducerRecord(topic, value, key, headers, partition, timestamp_ms))
            topic, value, key, headers, partition, timestamp_ms = record
        tidy: Sequence[Header] = tidy_headers(headers) if headers else ()
        key_bytes, value_bytes = key, value
        if self._key_serializer is not None:
            key_bytes = self._serialized(self._key_serializer, topic, tidy, key, "key")
        if self._value_serializer is not None:
            value_bytes = self._serialized(self._value_serializer, topic, tidy, value, "value")
        size = RECORD_OVERHEAD
        if key_bytes is not None:
            if type(key_bytes) is not bytes:
                key_bytes = _as_bytes(key_bytes, "key", topic)
            size += len(key_bytes)
        if value_bytes is not None:
            if type(value_bytes) is not bytes:
                value_bytes = _as_bytes(value_bytes, "value", topic)
            size += len(value_bytes)
        if tidy:
            size += headers_size(tidy)
        self.check_size(topic, size)
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        elif type(timestamp_ms) is not int or not 0 <= timestamp_ms <= TIMESTAMP_MAX:
            raise SerializationError(
                f"the timestamp of a record for topic {topic} is {timestamp_ms!r}, not whole milliseconds since 1970"
            )
        return topic, (timestamp_ms, key_bytes, value_bytes, tidy), size, partition, key, value

    def _intercepted(self, record: Any) -> Any:
        for each in self._interceptors:
            if hasattr(each, "on_send"):
                record = call_safely(each.on_send, record) or record
        return record

    def _serialized(self, fn: Any, topic: str, headers: Sequence[Header], data: Any, what: str) -> Any:
        try:
            return fn(topic, headers, data)
        except Exception as error:
            raise SerializationError(f"the {what} of a record for topic {topic}: {error}") from error

    def check_size(self, topic: str, size: int) -> None:
        """Raises RecordTooLargeError."""
        if size <= self._size_max and size <= self._memory:
            return
        is_request = size > self._size_max
        name, limit = ("max.request.size", self._size_max) if is_request else ("buffer.memory", self._memory)
        raise RecordTooLargeError(
            f"a record for topic {topic} takes {size} bytes, more than {name} ({limit})"
        )

    # --- many at once -----------------------------------------------------------------------------------------------

    @property
    def takes_many(self) -> bool:
        """Whether nothing makes something else of single records: then many can be placed at once."""
        return not self._interceptors and self._key_serializer is None and self._value_serializer is None

    def shares(self, topic: str, rows: list[Row], sizes: list[int], partition: int | None) -> list[Share]:
        """The records by the partition that they go to, each share in order. Raises StaleMetadataError while that is
        not known."""
        known = self._know(topic)
        count, fast_hash = len(known.queues), self._hash
        if partition is not None and not 0 <= partition < count:
            raise _no_partition(topic, partition, count)
        if partition is not None or count == 1:
            return [Share(known.queues[partition or 0], rows, sizes, range(len(rows)))]
        found: dict[int, Share] = {}
        for index, (row, size) in enumerate(zip(rows, sizes, strict=True)):
            if self._partitioner is not None:
                number = self._chosen((topic, row, size, None, row[1], row[2]), known.info)
            elif row[1] is not None:
                number = fast_hash(row[1]) % count
            else:
                if known.sticky_left <= 0:
                    self._stick(known)
                known.sticky_left -= size
                number = known.sticky
            share = found.get(number)
            if share is None:
                share = found[number] = Share(known.queues[number], [], [], [])
            share.rows.append(row)
            share.sizes.append(size)
            share.origins.append(index)  # type: ignore[attr-defined]  # a list, in all that are made here
        return list(found.values())

    # --- placing --------------------------------------------------------------------------------------------------

    def place(self, formed: Formed) -> Delivery | None:
        """Put it in a batch; None if there is no room. Raises StaleMetadataError while its topic is not known."""
        topic, row, size, partition, _, _ = formed
        known = self._know(topic)
        if partition is None:
            if self._partitioner is not None:
                partition = self._chosen(formed, known.info)
            elif row[1] is None:
                if known.sticky_left <= 0:
                    self._stick(known)
                known.sticky_left -= size
                partition = known.sticky
            else:
                partition = self._hash(row[1]) % len(known.queues)
        elif not 0 <= partition < len(known.queues):
            raise _no_partition(topic, partition, len(known.queues))
        delivery = self._accumulator.append(known.queues[partition], row, size)
        if self._interceptors and delivery is not None:
            for each in self._interceptors:
                if hasattr(each, "on_acknowledgement"):
                    delivery.add_callback(partial(_acknowledged, each.on_acknowledgement))
                    delivery.add_errback(each.on_acknowledgement, None)
        return delivery

    def _know(self, topic: str) -> _Known:
        info = self._metadata.topics.get(topic)
        known = self._known.get(topic)
        return self._learn(topic, info) if known is None or known.info is not info else known

    def _stick(self, known: _Known) -> None:
        """Time for another partition."""
        known.sticky = stick(known.info, known.sticky, self._accumulator.waiting_bytes)
        known.sticky_left = self._sticky_size

    def _learn(self, topic: str, info: TopicInfo | None) -> _Known:
        if info is None or not info.partitions:
            raise StaleMetadataError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic} is not known yet")
        count = len(info.partitions)
        queues = [self._accumulator.queue(TopicPartition(topic, number)) for number in range(count)]
        known = self._known[topic] = _Known(info, queues)
        known.sticky = -1
        return known

    def _chosen(self, formed: Formed, info: TopicInfo) -> int:
        assert self._partitioner is not None, "only for other partitioners than the default"
        topic, (_, key_bytes, value_bytes, _), _, _, key, value = formed
        record = Outgoing(topic, key, key_bytes, value, value_bytes)
        try:
            partition: Any = self._partitioner.partition(record, info, self._metadata)
        except Exception as error:
            # Whatever it raises: what may pass, as a StaleMetadataError, would be tried again and again.
            raise KafkaError(ErrorCode.INVALID_RECORD, f"the partitioner failed: {error}") from error
        if not isinstance(partition, int) or not 0 <= partition < len(info.partitions):
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"the partitioner chose {partition!r} of {len(info.partitions)} partitions of {topic}",
            )
        return int(partition)


def _acknowledged(fn: Callable[[Any, Any], object], metadata: RecordMetadata) -> None:
    fn(metadata, None)  # by place: what the second parameter is called is the interceptor's choice


def _no_partition(topic: str, partition: int, count: int) -> KafkaError:
    return StaleMetadataError(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"topic {topic} has {count} partitions, and no number {partition}",
    )


def _as_bytes(data: Any, what: str, topic: str) -> bytes:
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise SerializationError(
        f"the {what} of a record for topic {topic} is of type {type(data).__name__}, not bytes: "
        f"set {what}_serializer, for instance to 'string' or 'json'"
    )


def tidy_headers(headers: Any) -> tuple[Header, ...]:
    """A mapping, or pairs, as a tuple of name and bytes, or None. Text is written as UTF-8."""
    try:
        rows: Any = headers.items() if isinstance(headers, Mapping) else headers
        pairs: list[tuple[Any, Any]] = [(name, content) for name, content in rows]
    except (TypeError, ValueError) as error:
        raise SerializationError(f"headers are pairs of a name and bytes: {error}") from error
    tidy: list[Header] = []
    for name, content in pairs:
        if not isinstance(name, str):
            raise SerializationError(f"the name of a header is of type {type(name).__name__}, not text")
        if not name.isascii():
            _check_text(name)
        if isinstance(content, str):
            content = content.encode()
        if content is not None and not isinstance(content, bytes | bytearray | memoryview):
            raise SerializationError(f"the header {name} is of type {type(content).__name__}, not bytes")
        tidy.append((name, None if content is None else bytes(content)))
    return tuple(tidy)


def _check_text(name: str) -> None:
    """Now, and not when the batch is made: then all records of it would fail."""
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise SerializationError(f"the name of a header is not text: {error}") from error
