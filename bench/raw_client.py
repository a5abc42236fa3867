"""A client that does nothing but send frames and count replies: what remains is the broker.

`python -m bench.raw_client ARGUMENTS` runs one measurement in a process of its own and prints what it saw; both are
JSON. Frames are built before the clock starts; replies are equal in size, so they are counted and not read. The CPU
time of the broker is taken at the same moments as the time.
"""

import json
import select
import socket
import statistics
import sys
import time
from collections.abc import Iterator
from itertools import cycle

from bench.processes import cpu_seconds
from bench.stored import batch_of, layout_of, stored_batch
from bench.wire import PARTITIONS, exchange, fetch_frame, produce_frame

Frames = list[Iterator[bytes]]
RECEIVE_BYTES = 4 << 20


def connect(port: int, count: int) -> list[socket.socket]:
    connections = [socket.create_connection(("127.0.0.1", port), timeout=30) for _ in range(count)]
    for each in connections:
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connections


def produce_frames(arguments: dict) -> Frames:
    """One frame per connection, sent again and again; neighbours write to different partitions."""
    batch = batch_of(arguments["records"], arguments["value_bytes"])
    return [
        cycle([produce_frame(arguments["topic"], number % PARTITIONS, batch)])
        for number in range(arguments["connections"])
    ]


def fetch_frames(arguments: dict) -> Frames:
    """Every offset from which a full reply can be had, in turn."""
    layout = layout_of(arguments["topic"])
    bytes_max = arguments["bytes_max"]
    whole = max(1, bytes_max // len(stored_batch(layout)))
    starts = range(0, layout.batches - whole, whole) or range(1)
    return [
        cycle(
            [
                fetch_frame(arguments["topic"], number % PARTITIONS, start * layout.records, bytes_max)
                for start in starts
            ]
        )
        for number in range(arguments["connections"])
    ]


def take(connection: socket.socket, buffer: bytearray) -> int:
    count = connection.recv_into(buffer)
    if not count:
        raise ConnectionError("the broker closed the connection")
    return count


def drive_one(connection: socket.socket, frames: Iterator[bytes], reply_bytes: int, arguments: dict) -> dict:
    """One connection: blocking, and with one request in flight every round trip is timed."""
    in_flight, buffer = arguments["in_flight"], bytearray(RECEIVE_BYTES)
    times, sent, received = [], 0, 0
    now = time.perf_counter
    end = now() + arguments["seconds"]
    while (started := now()) < end:
        connection.sendall(next(frames))
        sent += 1
        while (sent * reply_bytes - received) > (in_flight - 1) * reply_bytes:
            received += take(connection, buffer)
        times.append(now() - started)
    while received < sent * reply_bytes:
        received += take(connection, buffer)
    times.sort()
    return {
        "requests": sent,
        "p50_us": statistics.median(times) * 1e6,
        "p99_us": times[int(len(times) * 0.99)] * 1e6,
    }


def drive_many(connections: list[socket.socket], frames: Frames, reply_bytes: int, arguments: dict) -> dict:
    """Many connections, each with its requests in flight; a reply makes room for the next request."""
    poll, buffer = select.epoll(), bytearray(RECEIVE_BYTES)
    by_fd = {each.fileno(): (each, frames[number]) for number, each in enumerate(connections)}
    unread = dict.fromkeys(by_fd, 0)
    sent = 0
    for fd, (connection, source) in by_fd.items():
        poll.register(fd, select.EPOLLIN)
        for _ in range(arguments["in_flight"]):
            connection.sendall(next(source))
            sent += 1
    now = time.perf_counter
    end = now() + arguments["seconds"]
    done = 0
    while done < sent:
        is_over = now() >= end
        for fd, _ in poll.poll():
            connection, source = by_fd[fd]
            held = unread[fd] + take(connection, buffer)
            replies, unread[fd] = divmod(held, reply_bytes)
            done += replies
            if replies and not is_over:
                connection.sendall(
                    next(source) if replies == 1 else b"".join(next(source) for _ in range(replies))
                )
                sent += replies
    return {"requests": done}


def run(arguments: dict) -> dict:
    """Warm up, measure, and say what came of it."""
    frames = produce_frames(arguments) if arguments["what"] == "produce" else fetch_frames(arguments)
    connections = connect(arguments["port"], arguments["connections"])
    sizes = set()
    for connection, source in zip(connections, frames, strict=True):
        for _ in range(20 if arguments["seconds"] > 0.5 else 2):
            sizes.add(4 + len(exchange(connection, next(source))))
    assert len(sizes) == 1, f"replies differ in size, they cannot be counted: {sizes}"
    reply_bytes = sizes.pop()
    pid = arguments["pid"]
    cpu, own, started = cpu_seconds(pid), time.process_time(), time.perf_counter()
    if len(connections) == 1:
        seen = drive_one(connections[0], frames[0], reply_bytes, arguments)
    else:
        seen = drive_many(connections, frames, reply_bytes, arguments)
    seen["seconds"] = time.perf_counter() - started
    seen["broker_cpu"] = cpu_seconds(pid) - cpu
    seen["client_cpu"] = time.process_time() - own
    seen["request_bytes"] = len(next(frames[0]))
    seen["reply_bytes"] = reply_bytes
    return seen


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.argv[1]))))
