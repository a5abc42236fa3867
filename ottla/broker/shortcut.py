"""A producer repeats itself: the same topic, the same settings, request after request.

So the last produce of a connection is remembered by its bytes. A request that starts with the same ones differs in its
correlation id, its partition and its records only: it need not be decoded, and its reply is the last one with a few
numbers changed. Everything that counts is done as ever, by the same partition and the same log. Whatever is unusual (an
error, something to wait for, records that must be opened) goes the long way, which also learns the next shortcut, once
two requests in a row were alike.

For requests of one record this is half of the broker's work.
"""

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.broker.authorizer import AllowAll
from ottla.broker.intake import is_transactional, prepare
from ottla.broker.metrics import ApiMeter
from ottla.broker.throttle import NoThrottle
from ottla.core.errors import KafkaError, ProtocolError
from ottla.core.types import Buffer
from ottla.network.connection import Parts
from ottla.protocol.exchange import START, Exchange
from ottla.protocol.primitives import read_uvarint, uvarint
from ottla.replication.partition import ALL_REPLICAS, Partition
from ottla.storage.log import Appended

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

_ID_AT = (
    4  # in a request without its size, and in a reply with it; key and version of a request stand before it
)
_PREFIX_AT = 8
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_TAGS = bytes(3)  # behind the records of a flexible request: of the partition, the topic, the request
_TWO_INTS = struct.Struct(">ii")
_INDEX_MARK = 0x7A5A_5A7A
_MARKS = tuple(0x7A5A_0000_0000_0000 + place for place in range(3))
"""Numbers that stand in for those of a reply, to find out where they are written."""


class ProduceShortcut:
    """What the last produce of a connection asked for, and how it was answered."""

    __slots__ = (
        "_broker",
        "_index_at",
        "_is_flexible",
        "_kept",
        "_numbers",
        "_pack",
        "_prefix",
        "_start",
        "_topic",
        "_topic_id",
        "_topic_meter",
        "_version",
        "meter",
    )

    def __init__(
        self, broker: "Broker", partition: Partition, exchange: Exchange, prefix: bytes, meter: ApiMeter
    ) -> None:
        self._broker = broker
        self._topic = partition.topic_partition.topic
        self._topic_id = partition.topic_id
        self._version = exchange.version
        self._is_flexible = exchange.version in exchange.api.flexible
        self._start = START.pack(exchange.api.key, exchange.version, 0)[:_ID_AT]
        self._prefix = prefix
        self._index_at = _PREFIX_AT + len(prefix)
        self.meter = meter
        self._topic_meter = broker.topic_meters[self._topic]
        self._kept = b"", b"", b""
        self._numbers = 0
        self._pack: Callable[..., bytes] = bytes

    @classmethod
    def learn(
        cls, broker: "Broker", exchange: Exchange, frame: Buffer, request: Any, response: Any, meter: ApiMeter
    ) -> "ProduceShortcut | None":
        """How to answer the next request, if it is like this one was; None if this one was not simple enough."""
        prefix = prefix_of(exchange, frame, request)
        if prefix is None or not _lets_everybody(broker):
            return None
        answer = response.responses[0].partition_responses[0]
        if answer.error_code or response.throttle_time_ms:
            return None
        asked = request.topic_data[0]
        name = asked.name or broker.metadata.topic_of_id[asked.topic_id].name
        shortcut = cls(broker, broker.replicas.get(name, answer.index), exchange, prefix, meter)
        found = shortcut._records(frame)  # not there if a length took more bytes than it needs
        if found is None or len(found) != len(asked.partition_data[0].records):
            return None
        return shortcut if shortcut._remember(exchange, response) else None

    def _remember(self, exchange: Exchange, response: Any) -> bool:
        """Keep the reply, and where in it the numbers stand that will differ."""
        answer = response.responses[0].partition_responses[0]
        numbers = answer.index, answer.base_offset, answer.log_append_time_ms, answer.log_start_offset
        answer.index = _INDEX_MARK
        answer.base_offset, answer.log_append_time_ms, answer.log_start_offset = _MARKS
        (reply,) = exchange.write(0, response)
        answer.index, answer.base_offset, answer.log_append_time_ms, answer.log_start_offset = numbers
        return self._take_apart(bytes(reply))  # type: ignore[arg-type]  # a reply without records is one buffer

    def _take_apart(self, reply: bytes) -> bool:
        """Into what stays and what will differ. Partition, error code and numbers follow each other."""
        index_at = reply.find(_INT.pack(_INDEX_MARK) + bytes(2) + _LONG.pack(_MARKS[0]))
        if index_at < 0:
            return False
        self._numbers = sum(_LONG.pack(mark) in reply for mark in _MARKS)  # older versions tell fewer
        end = index_at + _INT.size + 2 + self._numbers * _LONG.size
        self._kept = reply[:_ID_AT], reply[_PREFIX_AT:index_at], reply[end:]
        self._pack = struct.Struct(
            f">4s4s{index_at - _PREFIX_AT}si2x{'q' * self._numbers}{len(reply) - end}s"
        ).pack
        return True

    def answer(self, frame: Buffer) -> Parts | None:
        """The reply, if the request is as the last one was; None if it is to go the long way."""
        records, broker = self._records(frame), self._broker
        if records is None or is_transactional(records) or not _lets_everybody(broker):
            return None
        try:
            partition = broker.replicas.get(self._topic, _INT.unpack_from(frame, self._index_at)[0])
            if (
                not self._is_plain(partition)
                or prepare(records, self._version, partition.config) is not records
            ):
                return None
            appended = partition.append(records, ALL_REPLICAS, broker.clock.now_ms())
        except KafkaError:
            return None  # nothing was written: the long way meets the same error, and tells of it
        self.meter.requests.value += 1
        if not appended.is_duplicate:
            meter = self._topic_meter
            meter.bytes_in.value += len(records)
            meter.records_in.value += appended.last_offset + 1 - appended.first_offset
            for observer in broker.observers:
                observer.appended(partition.topic_partition, appended, len(records))
        return [self._written(frame, partition, appended)]

    def _is_plain(self, partition: Partition) -> bool:
        """Is it of the topic that is meant, and nothing to be waited for once its log has the records? With followers
        there is always something: one that is not in sync may be about to be."""
        leading = partition.leading
        if leading is None or leading.followers or partition.topic_id is not self._topic_id:
            return False
        return not partition.config.has_flush_policy

    def _records(self, frame: Buffer) -> Buffer | None:
        """The records of a request that has the same bytes in front of partition and records."""
        at, size = self._index_at, len(frame)
        if size < at + _TWO_INTS.size:
            return None
        if type(frame) is bytes:
            if not frame.startswith(self._prefix, _PREFIX_AT) or not frame.startswith(self._start):
                return None
        elif frame[_PREFIX_AT:at] != self._prefix or frame[:_ID_AT] != self._start:
            return None
        at += _INT.size
        if not self._is_flexible:
            at += _INT.size
            return frame[at:] if _INT.unpack_from(frame, at - _INT.size)[0] == size - at else None
        try:
            length, at = read_uvarint(frame, at)
        except (IndexError, ProtocolError):
            return None  # the long way says what is wrong
        end = at + length - 1
        return frame[at:end] if end + len(_TAGS) == size and frame[end:] == _TAGS else None

    def _written(self, frame: Buffer, partition: Partition, appended: Appended) -> bytes:
        numbers = appended.first_offset, appended.log_append_time_ms, partition.log.log_start_offset
        head, middle, tail = self._kept
        index = partition.topic_partition.partition
        return self._pack(
            head, bytes(frame[_ID_AT : _ID_AT + 4]), middle, index, *numbers[: self._numbers], tail
        )


def prefix_of(exchange: Exchange, frame: Buffer, request: Any) -> bytes | None:
    """What stands between the correlation id and the number of the partition; None if the request is not simple."""
    if not _is_simple(request) or exchange.request_end != len(frame):
        return None
    size = len(request.topic_data[0].partition_data[0].records)
    if exchange.version in exchange.api.flexible:
        behind = len(uvarint(size + 1)) + size + len(_TAGS)
    else:
        behind = _INT.size + size
    return bytes(frame[_PREFIX_AT : len(frame) - behind - _INT.size])


def _lets_everybody(broker: "Broker") -> bool:
    """Is there nobody who has to be asked about every request?"""
    return type(broker.authorizer) is AllowAll and type(broker.throttle) is NoThrottle


def _is_simple(request: Any) -> bool:
    """One partition of one topic, and nothing that only newer versions know."""
    if request.acks == 0 or len(request.topic_data) != 1 or request.unknown_tags:
        return False
    topic = request.topic_data[0]
    if len(topic.partition_data) != 1 or topic.unknown_tags:
        return False
    partition = topic.partition_data[0]
    return partition.records is not None and not partition.unknown_tags
