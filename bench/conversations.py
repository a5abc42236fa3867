"""Many clients in one process: scripts that ask, wait for the reply or for a moment, and go on.

A script is a generator. It yields a frame, and gets the reply's bytes without the size in front; or it yields a moment
of `time.perf_counter`, and goes on then. Each has a connection of its own, as clients have, and one request in flight.
What a turn of this loop costs is some ten microseconds: a client must not be what is measured.
"""

import gc
import heapq
import select
import socket
import struct
import time
from collections.abc import Callable, Generator
from itertools import count
from typing import Any

from bench.processes import API_VERSIONS
from bench.raw_client import RECEIVE_BYTES, connect
from bench.wire import exchange, frame_of
from ottla.protocol.framing import decode_response

Script = Generator[bytes | float, Any, None]
_SIZE = struct.Struct(">i")
_now = time.perf_counter


class _Speaker:
    """A script, its connection, and what has arrived of a reply."""

    __slots__ = ("connection", "held", "script")

    def __init__(self, script: Script, connection: socket.socket) -> None:
        self.script, self.connection, self.held = script, connection, b""

    def receive(self, buffer: memoryview) -> bytes | None:
        """The reply, if it is whole."""
        size = self.connection.recv_into(buffer)
        if not size:
            raise ConnectionError("the broker closed the connection")
        data = self.held + buffer[:size] if self.held else bytes(buffer[:size])
        if len(data) < 4 or len(data) - 4 < _SIZE.unpack_from(data)[0]:
            self.held = data
            return None
        self.held = b""
        return data[4:]


class Conversations:
    """The loop. `run` goes on until its condition holds."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._poll = select.epoll()
        self._speakers: dict[int, _Speaker] = {}
        self._due: list[tuple[float, int, _Speaker]] = []
        self._number = count()
        self._buffer = memoryview(bytearray(RECEIVE_BYTES))

    def add(self, script: Script, *, is_crowd: bool = False) -> None:
        """Connect, and let it say its first word when the loop runs.

        Each is accepted, and answered once, before the next one connects; those of a crowd do not wait for that.
        """
        connection = connect(self._port, 1)[0]
        if not is_crowd:
            exchange(connection, API_VERSIONS)
        speaker = _Speaker(script, connection)
        self._speakers[connection.fileno()] = speaker
        self._poll.register(connection.fileno(), select.EPOLLIN)
        self._wake(speaker, 0.0)

    def run(self, is_over: Callable[[], bool], *, seconds_max: float) -> None:
        """Raises TimeoutError if the condition does not hold in time, and whatever a script raises."""
        gc.collect()
        gc.disable()  # a client that pauses would make the broker look slow
        deadline = _now() + seconds_max
        while not is_over():
            timeout = max(0.0, self._due[0][0] - _now()) if self._due else 0.1
            for fd, _ in self._poll.poll(min(timeout, 0.1)):
                speaker = self._speakers[fd]
                reply = speaker.receive(self._buffer)
                if reply is not None:
                    self._go_on(speaker, reply)
            now = _now()
            while self._due and self._due[0][0] <= now:
                self._go_on(heapq.heappop(self._due)[2], None)
            if now > deadline:
                raise TimeoutError(f"not over after {seconds_max:g} seconds")
        gc.enable()

    def run_for(self, seconds: float) -> None:
        end = _now() + seconds
        self.run(lambda: _now() >= end, seconds_max=seconds + 60)

    def _go_on(self, speaker: _Speaker, reply: bytes | None) -> None:
        try:
            wanted = speaker.script.send(reply)
        except StopIteration:
            return
        if isinstance(wanted, float):
            self._wake(speaker, wanted)
        else:
            speaker.connection.sendall(wanted)

    def _wake(self, speaker: _Speaker, moment: float) -> None:
        heapq.heappush(self._due, (moment, next(self._number), speaker))

    def close(self) -> None:
        for speaker in self._speakers.values():
            speaker.connection.close()
        self._poll.close()


class Blank:
    """A frame with a blank to be filled in: what stands before it, and after it."""

    def __init__(self, api: tuple[int, int], request: object, blank: bytes) -> None:
        """`blank` is what the request holds where something else shall stand, of the same size."""
        self.before, self.after = frame_of(api, request).split(blank)

    def filled(self, data: bytes) -> bytes:
        return self.before + data + self.after


def asking(api: tuple[int, int], request: object, response: Any) -> Generator[bytes, bytes, Any]:
    """Ask something within a script: `reply = yield from asking(...)`."""
    reply = yield frame_of(api, request)
    return decode_response(response, reply, api[1])[1]


def percentile(times: list[float], part: float) -> float:
    """In milliseconds; 0.0 where nothing was timed."""
    ordered = sorted(times)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] * 1000 if ordered else 0.0
