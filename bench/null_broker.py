"""The floor for a broker in Python: frame, `pwrite`, canned reply. It checks nothing and remembers nothing.

`python -m bench.null_broker DIRECTORY` listens on loopback and prints its port. It speaks what librdkafka and the raw
client need: Produce up to 10, Fetch up to 12 (both read in their flexible form only), Metadata 8, ApiVersions.

- A topic has four partitions as soon as a client asks for it. A new one removes the files of the one before.
- Topics whose name says `stored-RECORD_BYTES-RECORDS-BATCHES` hold that many equal batches, so that an offset becomes a
  position by division. Only these can be fetched.
"""

import asyncio
import os
import socket
import struct
import sys
from collections.abc import Callable

import uvloop

from bench.stored import Layout, layout_of, stored_batch, write_batches

PARTITIONS = 4
BUFFER_BYTES = 256 << 10
SIZE = struct.Struct(">i")
HEADER = struct.Struct(">hhih")  # api key, version, correlation id, length of the client id
INDEX = struct.Struct(">i")
FETCH_FIXED = struct.Struct(">iiiibii")
FETCH_PARTITION = struct.Struct(">iiqiqi")
FETCHED_PARTITION = struct.Struct(">ihqqqBi")
PRODUCED = struct.Struct(">ihqqqBBBBiB")
API_VERSIONS = [(0, 0, 10), (1, 0, 12), (3, 0, 8), (10, 0, 2), (18, 0, 3)]


def uvarint(data: memoryview, at: int) -> tuple[int, int]:
    """A length, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def as_uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def framed(body: bytes) -> bytes:
    return SIZE.pack(len(body)) + body


class Files:
    """One file per partition that was written to, and one per stored layout."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.topic = ""
        self.ends: dict[int, int] = {}
        self._open: dict[int, int] = {}
        self._stored: dict[bytes, tuple[Layout, int]] = {}

    def begin(self, topic: str) -> None:
        """A client asked for this topic: it is the one that is written from now on."""
        if topic == self.topic or layout_of(topic) is not None:
            return
        for partition, fd in self._open.items():
            os.close(fd)
            os.unlink(f"{self._directory}/{self.topic}-{partition}")
        self.topic, self._open, self.ends = topic, {}, {}

    def append(self, partition: int, records: memoryview) -> None:
        fd = self._open.get(partition)
        if fd is None:
            path = f"{self._directory}/{self.topic}-{partition}"
            fd = self._open[partition] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            self.ends[partition] = 0
        end = self.ends[partition]
        os.pwrite(fd, records, end)
        self.ends[partition] = end + len(records)

    def stored(self, topic: bytes) -> tuple[Layout, int]:
        found = self._stored.get(topic)
        if found is None:
            layout = layout_of(topic.decode())
            assert layout is not None, topic
            batch = stored_batch(layout)
            fd = os.open(f"{self._directory}/{topic.decode()}", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            write_batches(fd, batch, layout)
            found = self._stored[topic] = (layout._replace(batch_bytes=len(batch)), fd)
        return found


class NullBroker(asyncio.BufferedProtocol):
    """One connection."""

    def __init__(self, files: Files, port: Callable[[], int]) -> None:
        self._files = files
        self._port = port
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0
        self._reading = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(64 << 20)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Room for what is left of the frame that has begun. Bytes move only when the frame would not fit."""
        held = self._end - self._start
        if not held:
            self._start = self._end = 0
            return self._view
        wanted = SIZE.unpack_from(self._buffer, self._start)[0] + 4 if held >= 4 else 4
        if self._start + max(wanted, held + 1) > len(self._buffer):
            grown = self._buffer if wanted <= len(self._buffer) else bytearray(wanted + BUFFER_BYTES)
            grown[:held] = bytes(self._view[self._start : self._end])
            self._buffer, self._view = grown, memoryview(grown)
            self._start, self._end = 0, held
        return self._view[self._end :]

    def buffer_updated(self, size: int) -> None:
        end = self._end = self._end + size
        start = self._start
        while end - start >= 4:
            after = start + 4 + SIZE.unpack_from(self._buffer, start)[0]
            if after > end:
                break
            self._answer(self._view[start + 4 : after])
            start = after
        self._start = start

    def _answer(self, frame: memoryview) -> None:
        key, version, correlation, client = HEADER.unpack_from(frame)
        at = 10 + max(client, 0)
        if key == 0:
            self._produce(frame, at + 1, correlation)
        elif key == 1:
            self._fetch(frame, at + 1, correlation)
        elif key == 3:
            self._metadata(frame, at, correlation)
        elif key == 18:
            self._api_versions(version, correlation)
        elif key == 10:
            body = (
                struct.pack(">iihhi", correlation, 0, 0, -1, 1) + b"\0\x09127.0.0.1" + SIZE.pack(self._port())
            )
            self._transport.write(framed(body))
        else:
            self._transport.close()

    def _produce(self, frame: memoryview, at: int, correlation: int) -> None:
        """One topic and one partition, as every client that the measurements use sends it."""
        at += frame[at] if frame[at] else 1  # transactional id
        acks = frame[at + 1]
        name = at + 7  # behind acks, timeout and the number of topics
        at = name + frame[name] + 1  # behind the number of partitions
        partition = INDEX.unpack_from(frame, at)[0]
        size, at = uvarint(frame, at + 4)
        self._files.append(partition, frame[at : at + size - 1])
        if acks:
            topic = bytes(frame[name : name + frame[name]])
            done = PRODUCED.pack(partition, 0, 0, -1, 0, 1, 0, 0, 0, 0, 0)
            body = b"%b\0\2%b\2%b" % (SIZE.pack(correlation), topic, done)
            self._transport.write(SIZE.pack(len(body)) + body)

    def _fetch(self, frame: memoryview, at: int, correlation: int) -> None:
        wait_ms = FETCH_FIXED.unpack_from(frame, at)[1]
        at += FETCH_FIXED.size
        if frame[at] < 2:
            self._reply_later(wait_ms, SIZE.pack(correlation) + bytes(11) + b"\1\0")
            return
        name = bytes(frame[at + 1 : at + 1 + frame[at + 1]])
        layout, fd = self._files.stored(name[1:])
        at += 1 + len(name)
        out, total = [b"%b%b\2%b%c" % (SIZE.pack(correlation), bytes(11), name, frame[at])], 0
        for where in range(at + 1, at + 1 + (frame[at] - 1) * 33, 33):
            index, _, offset, _, _, bytes_max = FETCH_PARTITION.unpack_from(frame, where)
            position, size = layout.slice(offset, bytes_max)
            fixed = FETCHED_PARTITION.pack(index, 0, layout.end_offset, layout.end_offset, 0, 0, -1)
            out.append(fixed + as_uvarint(size + 1))
            if size:
                out.append(self._read(fd, position, size, total))
                total += size
            out.append(b"\0")
        out.append(b"\0\0")
        if total:
            self._transport.writelines([SIZE.pack(sum(map(len, out))), *out])
        else:
            self._reply_later(wait_ms, b"".join(out))

    def _read(self, fd: int, position: int, size: int, total: int) -> memoryview:
        """Bytes of the file in a buffer that is used again, unless the socket still holds it."""
        if self._transport.get_write_buffer_size() or total:
            buffer = bytearray(size)
        else:
            if len(self._reading) < size:
                self._reading = bytearray(size)
            buffer = self._reading
        view = memoryview(buffer)[:size]
        os.preadv(fd, [view], position)
        return view

    def _reply_later(self, wait_ms: int, body: bytes) -> None:
        def reply() -> None:
            if not self._transport.is_closing():
                self._transport.write(framed(body))

        asyncio.get_running_loop().call_later(wait_ms / 1000, reply)

    def _metadata(self, frame: memoryview, at: int, correlation: int) -> None:
        count = SIZE.unpack_from(frame, at)[0]
        at += 4
        names = []
        for _ in range(max(count, 0)):
            size = struct.unpack_from(">h", frame, at)[0]
            names.append(bytes(frame[at + 2 : at + 2 + size]))
            at += 2 + size
        out = [struct.pack(">iiii", correlation, 0, 1, 1), b"\0\x09127.0.0.1", SIZE.pack(self._port())]
        out.append(struct.pack(">hhii", -1, -1, 1, len(names)))
        for name in names:
            self._files.begin(name.decode())
            out.append(struct.pack(">hh", 0, len(name)) + name + b"\0" + SIZE.pack(PARTITIONS))
            for index in range(PARTITIONS):
                out.append(struct.pack(">hiiiiiiii", 0, index, 1, 0, 1, 1, 1, 1, 0))
            out.append(struct.pack(">i", -(1 << 31)))
        out.append(struct.pack(">i", -(1 << 31)))
        self._transport.write(framed(b"".join(out)))

    def _api_versions(self, version: int, correlation: int) -> None:
        if version >= 3:
            ranges = b"".join(struct.pack(">hhhB", *each, 0) for each in API_VERSIONS)
            body = struct.pack(">ihB", correlation, 0, len(API_VERSIONS) + 1) + ranges + bytes(5)
        else:
            ranges = b"".join(struct.pack(">hhh", *each) for each in API_VERSIONS)
            body = (
                struct.pack(">ihi", correlation, 0, len(API_VERSIONS)) + ranges + bytes(4 if version else 0)
            )
        self._transport.write(framed(body))


async def serve(directory: str, port: int) -> None:
    files = Files(directory)
    server = await asyncio.get_running_loop().create_server(
        lambda: NullBroker(files, lambda: server.sockets[0].getsockname()[1]), "127.0.0.1", port, backlog=1024
    )
    print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0))
