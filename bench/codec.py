"""How long do Produce and Fetch messages take to write and read, beside kio and kafka-python?

The three hold the same values and are first checked to write the same bytes. A round times each library once, in
turn; a line gives the median of the rounds, and ratios are within one round. Reading is timed with every field of
every partition looked at, so that a lazy reader gains nothing. Messages are built outside the clock. Each
library writes in the form it offers: ours gives parts and does not copy large records, the others give one piece.
kio's reader is compiled (Rust), ours and kafka-python's are Python.
"""

import gc
import io
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from kio.serial import entity_reader, entity_writer

from ottla.protocol.codec import decode, encode
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.messages.produce import ProduceRequest
from tests.oracles import kafka_python_codec, kio_codec
from tests.oracles.messages import plain

ROUNDS = 15
ROUND_SECONDS = 0.01


class Row(NamedTuple):
    """One line of the table: microseconds per message, and how many times longer the others take."""

    what: str
    bytes: int
    ours_us: float
    kio_us: float
    kafka_python_us: float
    kio_ratio: float
    kafka_python_ratio: float


def produce(partitions: int, size: int) -> ProduceRequest:
    """A producer's request: one topic, one batch per partition."""
    topic = ProduceRequest.Topic(
        name="orders",
        partition_data=[
            ProduceRequest.Topic.Partition(index=index, records=bytes(size)) for index in range(partitions)
        ],
    )
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])


def fetched(partitions: int, size: int) -> FetchResponse:
    """A broker's answer to a consumer: one topic, one batch per partition."""
    topic = FetchResponse.Topic(
        topic="orders",
        partitions=[
            FetchResponse.Topic.Partition(
                partition_index=index,
                error_code=0,
                high_watermark=1000 + index,
                last_stable_offset=1000 + index,
                log_start_offset=300,
                aborted_transactions=None,
                preferred_read_replica=-1,
                records=bytes(size),
            )
            for index in range(partitions)
        ],
    )
    return FetchResponse(throttle_time_ms=0, error_code=0, session_id=7, responses=[topic])


def cases() -> Iterator[tuple[str, Any, int]]:
    yield "Produce v9, 3 partitions of 1 kB", produce(3, 1000), 9
    yield "Produce v8, 3 partitions of 1 kB", produce(3, 1000), 8
    yield "Produce v9, 1 partition of 1 MB", produce(1, 1_000_000), 9
    yield "Fetch response v12, 10 partitions of 1 kB", fetched(10, 1000), 12
    yield "Fetch response v11, 10 partitions of 1 kB", fetched(10, 1000), 11
    yield "Fetch response v12, 10 partitions of 100 kB", fetched(10, 100_000), 12


def look(value: Any) -> int:
    """Read what a handler reads: every partition, its number and its records."""
    if hasattr(value, "topic_data"):
        return sum(
            each.index + len(each.records) for topic in value.topic_data for each in topic.partition_data
        )
    return sum(
        each.partition_index + int(each.error_code) + each.high_watermark + len(each.records)
        for topic in value.responses
        for each in topic.partitions
    )


def time_in_turn(*works: Callable[[], Any]) -> list[list[float]]:
    """Seconds per call of each, one list per round."""
    counts = []
    for work in works:
        started = time.perf_counter()
        for _ in range(5):
            work()
        counts.append(max(1, int(ROUND_SECONDS * 5 / (time.perf_counter() - started))))
    rounds = []
    gc.collect()
    for _ in range(ROUNDS):
        seconds = []
        for work, count in zip(works, counts, strict=True):
            started = time.perf_counter()
            for _ in range(count):
                work()
            seconds.append((time.perf_counter() - started) / count)
        rounds.append(seconds)
    return rounds


def row(what: str, size: int, rounds: list[list[float]]) -> Row:
    def median(pick: Callable[[list[float]], float]) -> float:
        return statistics.median(map(pick, rounds))

    return Row(
        what,
        size,
        median(lambda each: each[0] * 1e6),
        median(lambda each: each[1] * 1e6),
        median(lambda each: each[2] * 1e6),
        median(lambda each: each[1] / each[0]),
        median(lambda each: each[2] / each[0]),
    )


def rows() -> Iterator[Row]:
    """Encode and decode of each case."""
    for what, ours, version in cases():
        cls, values = type(ours), plain(ours, version)
        entity = kio_codec.to_entity(kio_codec.entity_class(cls, version), values)
        theirs = kafka_python_codec.container_class(cls, version)
        container = kafka_python_codec.to_container(theirs, values, version)
        data = b"".join(encode(ours, version))
        write, read = entity_writer(type(entity)), entity_reader(type(entity))

        def write_with_kio(write: Any = write, entity: Any = entity) -> bytes:
            buffer = io.BytesIO()
            write(buffer, entity)
            return buffer.getvalue()

        def write_with_kafka_python(container: Any = container, version: int = version) -> bytes:
            return container.encode(version=version, header=False)

        def read_with_ours(cls: Any = cls, data: bytes = data, version: int = version) -> int:
            return look(decode(cls, data, version)[0])

        def read_with_kio(read: Any = read, data: bytes = data) -> int:
            return look(read(data, 0)[0])

        def read_with_kafka_python(theirs: Any = theirs, data: bytes = data, version: int = version) -> int:
            return look(theirs.decode(data, version=version))

        def write_with_ours(ours: Any = ours, version: int = version) -> list[Any]:
            return encode(ours, version)

        assert data == write_with_kio() == bytes(write_with_kafka_python())
        assert read_with_ours() == read_with_kio() == read_with_kafka_python()
        writers = time_in_turn(write_with_ours, write_with_kio, write_with_kafka_python)
        yield row(f"encode {what}", len(data), writers)
        readers = time_in_turn(read_with_ours, read_with_kio, read_with_kafka_python)
        yield row(f"decode {what}", len(data), readers)


def main() -> None:
    print(f"{'':<52} {'bytes':>9} {'ours':>9} {'kio':>9} {'kafka-python':>13}   times ours")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for each in rows():
            print(
                f"{each.what:<52} {each.bytes:>9} {each.ours_us:>6.1f} us {each.kio_us:>6.1f} us"
                f" {each.kafka_python_us:>10.1f} us   {each.kio_ratio:.1f}, {each.kafka_python_ratio:.1f}"
            )


if __name__ == "__main__":
    main()
