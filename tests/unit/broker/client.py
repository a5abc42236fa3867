"""Requests as frames, and a caller that hands them to a broker's dispatch without a socket in between."""

import asyncio
import struct

from ottla.protocol.apis import APIS
from ottla.protocol.framing import RequestHeader, decode_response, encode_request
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.primitives import part_size
from ottla.protocol.wiretypes import NULL_UUID
from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.record import Record

PRODUCE, FETCH = 0, 1
TIME_MS = 1_700_000_000_000
TOPIC_IDS_SINCE = 13


class Caller:
    """A connection, as far as dispatch knows; remembers how it was treated."""

    def __init__(self, node, *, keeps_shortcut=True):
        self.node = node
        self.listener, self.peer_host, self.principal = "PLAINTEXT", "127.0.0.1", "User:ANONYMOUS"
        self.appending = None
        self._keeps_shortcut = keeps_shortcut
        self._shortcut = self.last_prefix = None
        self.closed = []
        self.muted = []

    @property
    def shortcut(self):
        return self._shortcut

    @shortcut.setter
    def shortcut(self, value):
        self._shortcut = value if self._keeps_shortcut else None

    def close(self, reason=None):
        self.closed.append(reason)

    def mute(self, seconds):
        self.muted.append(seconds)

    def serve(self, frame):
        return self.node.dispatch.serve(self, frame)

    async def ask(self, frame):
        """The reply as bytes, b"" if there is none."""
        reply = self.serve(frame)
        return joined(reply if isinstance(reply, list) else await asyncio.wait_for(reply, 60))


def joined(parts):
    data = b""
    for part in parts:
        if isinstance(part, bytes | bytearray | memoryview):
            data += bytes(part)
        else:
            buffer = memoryview(bytearray(part_size(part)))
            part.read_into(0, buffer)
            data += bytes(buffer)
    return data


def frame_of(key, version, request, *, correlation_id=1, client_id="test"):
    header = RequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    return b"".join(bytes(part) for part in encode_request(header, request, version))[4:]


def response_of(key, version, reply):
    """Correlation id and response; the size in front must be right."""
    assert struct.unpack_from(">i", reply)[0] == len(reply) - 4
    header, response = decode_response(APIS[key].response, reply[4:], version)
    return header.correlation_id, response


def batch(count=1, *, value=b"value", producer=(-1, -1, -1), codec=Codec.NONE, timestamp=None, key=b"key"):
    stamp = TIME_MS if timestamp is None else timestamp
    producer_id, producer_epoch, base_sequence = producer
    return build(
        [Record(offset, stamp, key, value) for offset in range(count)],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def produce_frame(
    version, topic, data, *, partition=0, acks=1, topic_id=NULL_UUID, timeout_ms=1000, **header
):
    part = ProduceRequest.Topic.Partition(index=partition, records=data)
    named = {"topic_id": topic_id} if version >= TOPIC_IDS_SINCE else {"name": topic}
    asked = ProduceRequest.Topic(**named, partition_data=[part])
    request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[asked])
    return frame_of(PRODUCE, version, request, **header)


def fetch_frame(topic, offset, *, version=4, max_wait_ms=0, min_bytes=1, **header):
    part = FetchRequest.Topic.Partition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        topics=[FetchRequest.Topic(topic=topic, partitions=[part])],
    )
    return frame_of(FETCH, version, request, **header)


def produced(version, reply):
    """The answer for the one partition of a produce."""
    response = response_of(PRODUCE, version, reply)[1]
    return response.responses[0].partition_responses[0]
