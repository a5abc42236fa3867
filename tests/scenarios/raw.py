"""A client that knows no manners: raw sockets, whole frames or parts of them, and the patience to be closed."""

import contextlib
import socket
import struct
from typing import Any

from ottla.protocol.apis import api_of
from ottla.protocol.framing import RequestHeader, decode_response, encode_request
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.schema import declaration

PATIENCE_SECONDS = 60.0


class Raw:
    """One connection. `closed()` says whether the broker hung up without a word."""

    def __init__(self, port: int, receive_buffer: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(PATIENCE_SECONDS)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._next_id = 0

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> "Raw":
        with contextlib.suppress(
            BrokenPipeError, ConnectionResetError
        ):  # then it is closed, as `closed` will find
            self.socket.sendall(data)
        return self

    def send_frame(self, body: bytes) -> "Raw":
        return self.send(struct.pack(">i", len(body)) + body)

    def closed(self) -> bool:
        """Wait until the broker hangs up. False if it says something instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def receive_frame(self) -> bytes:
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self.socket.recv(min(count - len(data), 1 << 20))
            if not piece:
                raise ConnectionError(f"closed after {len(data)} of {count} bytes")
            data += piece
        return bytes(data)

    def reset(self) -> None:
        """End the connection with RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def ask(self, request: object, version: int) -> Any:
        self._next_id += 1
        self.send(frame_of(request, version, self._next_id))
        key = declaration(type(request)).api_key
        header, response = decode_response(api_of(key).response, self.receive_frame(), version)
        assert header.correlation_id == self._next_id
        return response

    def is_served(self) -> bool:
        """Does the broker answer an ordinary request on this connection?"""
        return len(self.ask(MetadataRequest(topics=[]), 8).brokers) == 1

    def produce(self, topic: str, records: bytes | None, *, version: int = 9, acks: int = 1) -> Any:
        """The answer of the only partition there is."""
        response = self.ask(produce_request(topic, records, acks), version)
        return response.responses[0].partition_responses[0]


def frame_of(request: object, version: int, correlation_id: int = 1) -> bytes:
    """A whole frame, size in front."""
    header = RequestHeader(
        request_api_key=declaration(type(request)).api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id="raw",
    )
    return b"".join(bytes(part) for part in encode_request(header, request, version))


def body_of(request: object, version: int) -> bytearray:
    """The frame without its size, to be spoilt."""
    return bytearray(frame_of(request, version)[4:])


def produce_request(topic: str, records: bytes | None, acks: int = 1) -> ProduceRequest:
    partition = ProduceRequest.Topic.Partition(index=0, records=records)
    topics = [ProduceRequest.Topic(name=topic, partition_data=[partition])]
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=topics)
