"""What the operating system gives: a blocking socket, one buffer, `pwrite` after receive, send after `preadv`.

`python -m bench.raw_server DIRECTORY` prints its port and serves one connection after the other. A Produce request is
received whole, written whole, and answered; a Fetch request is answered with as many bytes as its client asks for, from
a file. Nothing of either is understood: it is the bound for any broker that works in one thread and copies once.
"""

import os
import socket
import struct
import sys

FILE_BYTES = 64 << 20
WRAP_BYTES = 1 << 30  # a fresh file after that much, as a log would roll


class RawServer:
    """The two loops, over one file to read and one to write."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._read = os.open(f"{directory}/stored", os.O_RDWR | os.O_CREAT)
        block = os.urandom(1 << 20)
        for position in range(0, FILE_BYTES, len(block)):
            os.pwrite(self._read, block, position)
        self._buffer = bytearray(16 << 20)
        self._view = memoryview(self._buffer)
        self._roll()

    def _roll(self) -> None:
        path = f"{self._directory}/written"
        if os.path.exists(path):
            os.close(self._write)
            os.unlink(path)
        self._write = os.open(path, os.O_RDWR | os.O_CREAT)
        self._end = 0

    def serve(self, connection: socket.socket) -> None:
        """Until the client closes."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while self._receive(connection, 4):
            size = struct.unpack_from(">i", self._buffer)[0]
            if not self._receive(connection, size):
                return
            key, _, correlation = struct.unpack_from(">hhi", self._buffer)
            if key == 0:
                os.pwrite(self._write, self._view[:size], self._end)
                self._end += size
                if self._end > WRAP_BYTES:
                    self._roll()
                connection.sendall(struct.pack(">ii", 4, correlation))
            else:
                self._send_file(connection, correlation)

    def _send_file(self, connection: socket.socket, correlation: int) -> None:
        """What a fetch asks for lies in the middle of its frame: the raw client puts it into the correlation id."""
        size = correlation
        connection.sendall(struct.pack(">ii", 4 + size, correlation))
        sent = 0
        while sent < size:
            count = os.preadv(self._read, [self._view[: min(1 << 20, size - sent)]], sent)
            connection.sendall(self._view[:count])
            sent += count

    def _receive(self, connection: socket.socket, size: int) -> bool:
        got = 0
        while got < size:
            count = connection.recv_into(self._view[got:size])
            if not count:
                return False
            got += count
        return True


def main(directory: str) -> None:
    raw = RawServer(directory)
    with socket.create_server(("127.0.0.1", 0)) as server:
        print(f"127.0.0.1:{server.getsockname()[1]}", flush=True)
        while True:
            connection, _ = server.accept()
            with connection:
                try:
                    raw.serve(connection)
                except ConnectionError:
                    continue


if __name__ == "__main__":
    main(sys.argv[1])
