"""Do clients of a broker notice that it is cleaning a large log?

A client sends one-record produce requests to another topic (acks=all), at a steady pace or as fast as it gets replies,
first while nothing else happens, then while half a GiB is compacted. The time of a request that could not be sent in
time, because the one before it was still unanswered, counts from when it was due. Aim: p99 at most twice as long.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bench.keyed import RECORD_BYTES, Values, batches, drawn
from bench.processes import IS_QUICK, ROOT, Side, all_sides
from bench.raw_client import connect
from bench.stored import batch_of
from bench.table import Seen, number, spread
from bench.wire import CREATE_TOPICS, call, create_topic, delete_topic, exchange, produce_frame, receive
from ottla.protocol.messages.compaction import CompactTopicsRequest, CompactTopicsResponse
from ottla.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse

COMPACT_TOPICS = (20000, 0)
CLEANED_BYTES = (64 if IS_QUICK else 512) << 20
TURNS = 2 if IS_QUICK else 4
QUIET_S = 1.0 if IS_QUICK else 4.0
PACES = {"500 a second": 500, "one after the other": 0}
WINDOW = 8
POLL_S = 0.25
TOPIC = "steady"


# --- the log that is cleaned -----------------------------------------------------------------------------------------


def fill(side: Side, topic: str, data: Sequence[bytes]) -> None:
    """A compacted topic that nobody cleans until it is asked for."""
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"}
    wanted = CreateTopicsRequest.Topic(
        name=topic,
        num_partitions=1,
        replication_factor=1,
        assignments=[],
        configs=[CreateTopicsRequest.Topic.Setting(name=k, value=v) for k, v in settings.items()],
    )
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=60_000, validate_only=False)
    done = call(side.port, CREATE_TOPICS, request, CreateTopicsResponse).topics[0]
    assert done.error_code == 0, done
    create_topic(side.port, topic, 1, by_asking=True)
    with connect(side.port, 1)[0] as connection:
        for first in range(0, len(data), WINDOW):
            frames = [produce_frame(topic, 0, batch) for batch in data[first : first + WINDOW]]
            connection.sendall(b"".join(frames))
            for _ in frames:
                receive(connection, int.from_bytes(receive(connection, 4), "big"))
    os.sync()  # what waits to be written is not what is measured


def compact(side: Side, topic: str) -> None:
    """Have it cleaned, and return when it is. It is looked at seldom: to ask is a load as well."""
    call(side.port, COMPACT_TOPICS, compact_request(topic, start=True), CompactTopicsResponse)
    while True:
        time.sleep(POLL_S)
        request = compact_request(topic, start=False)
        found = call(side.port, COMPACT_TOPICS, request, CompactTopicsResponse).topics[0].partitions[0]
        assert found.error_code == 0 and found.last_error is None, found
        if found.runs:
            assert found.bytes_after < found.bytes_before, found
            return


def compact_request(topic: str, *, start: bool) -> CompactTopicsRequest:
    return CompactTopicsRequest(topics=[CompactTopicsRequest.Topic(name=topic, partitions=[0])], start=start)


# --- the client ------------------------------------------------------------------------------------------------------


def drive(port: int, pace: int, seconds: float, until: str) -> list[float]:
    """Milliseconds of each request, for so long, or until there is a file of that name."""
    [connection] = connect(port, 1)
    frame = produce_frame(TOPIC, 0, batch_of(1, 100))
    for _ in range(50):
        exchange(connection, frame)
    times: list[float] = []
    now = time.perf_counter
    started = due = now()
    while now() < started + seconds and not (len(times) % 16 == 0 and os.path.exists(until)):
        if (ahead := due - now()) > 0:
            time.sleep(ahead)
            due = now()  # to wake up late is the client's own fault
        began = due if pace else now()
        exchange(connection, frame)
        times.append((now() - began) * 1000)
        due = started + (len(times) + 1) / pace if pace else 0.0
    return times


def client(side: Side, pace: int, seconds: float, until: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bench.cleaning_beside", json.dumps([side.port, pace, seconds, until])]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def seen_by(process: "subprocess.Popen[str]") -> Seen:
    times = sorted(json.loads(process.communicate(timeout=300)[0]))
    return {
        "p50": statistics.median(times),
        "p99": times[int(len(times) * 0.99)],
        "longest": times[-1],
        "requests": len(times),
    }


# --- what is measured ------------------------------------------------------------------------------------------------


def turn(side: Side, pace: int, topic: str, data: Sequence[bytes], directory: str) -> tuple[Seen, Seen]:
    """Without and with a cleaning."""
    fill(side, topic, data)
    quiet = seen_by(client(side, pace, QUIET_S, ""))
    mark = Path(directory) / topic
    process = client(side, pace, 300.0, str(mark))
    time.sleep(0.5)  # it has to start
    compact(side, topic)
    mark.touch()
    busy = seen_by(process)
    delete_topic(side.port, topic)
    return quiet, busy


def show(what: str, seen: list[tuple[Seen, Seen]]) -> None:
    quiet, busy = ({key: [each[side][key] for each in seen] for key in seen[0][0]} for side in (0, 1))
    ratios = [after / before for after, before in zip(busy["p99"], quiet["p99"], strict=True)]
    print(f"{what}: p99 {spread(ratios)} times as long as without it (aim: at most 2)")
    for name, found in (("without", quiet), ("cleaning", busy)):
        requests = number(statistics.median(found["requests"]))
        times = ", ".join(f"{key} {spread(found[key])}" for key in ("p50", "p99", "longest"))
        print(f"    {name}: {times} ms, {requests} requests", flush=True)


def main() -> None:
    records = CLEANED_BYTES // RECORD_BYTES
    data = list(batches(drawn(records, records, 7), Values()))
    with all_sides("pure", "compiled") as sides, tempfile.TemporaryDirectory() as directory:
        found: dict[tuple[str, str], list[tuple[Seen, Seen]]] = {}
        for side in sides:
            create_topic(side.port, TOPIC, 1)
        for number_ in range(TURNS):
            for side in sides:
                for pace, rate in PACES.items():
                    topic = f"large-{side.name}-{rate}-{number_}"
                    found.setdefault((pace, side.name), []).append(turn(side, rate, topic, data, directory))
        for (pace, name), seen in sorted(found.items()):
            show(f"produce, {pace}, {name}", seen)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        main()
    else:
        print(json.dumps(drive(*json.loads(sys.argv[1]))))
