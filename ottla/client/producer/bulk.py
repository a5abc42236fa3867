"""Many records at once, for those who have so many that a call for each is too much: lines of a file, say.

They go into the same batches as all others, a slice at a time, under the same limits. What becomes of them is told for
each stretch that travels together, and not for every single one. The partition of a record is chosen once: while some
wait for room, nothing that comes later overtakes them.
"""

import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ottla.client.deadline import Deadline
from ottla.client.errors import SerializationError
from ottla.client.producer.batch import RECORD_OVERHEAD, Row, Stretch, headers_size, size_of
from ottla.client.producer.core import Core
from ottla.client.producer.intake import TIMESTAMP_MAX, Formed, Share, tidy_headers
from ottla.core.errors import StaleMetadataError

Values = Sequence[bytes | None]
Placed = Callable[[list[Stretch]], object]
_PLAIN = {bytes, type(None)}


class Crowd(NamedTuple):
    """Records as batches keep them, and what each of them takes."""

    rows: list[Row]
    sizes: list[int]


def gathered(topic: str, values: Values, keys: Values | None, headers: Any) -> Crowd:
    """All at the same time of day, with the same headers. Raises SerializationError."""
    _check_plain(topic, "value", values)
    tidy = tidy_headers(headers) if headers else ()
    overhead = RECORD_OVERHEAD + (headers_size(tidy) if tidy else 0)
    now_ms = time.time_ns() // 1_000_000
    if keys is None:
        rows: list[Row] = [(now_ms, None, value, tidy) for value in values]
        return Crowd(rows, [overhead + len(value or b"") for value in values])
    _check_plain(topic, "key", keys)
    if len(keys) != len(values):
        raise SerializationError(f"{len(keys)} keys for {len(values)} values of topic {topic}")
    rows = [(now_ms, key, value, tidy) for key, value in zip(keys, values, strict=True)]
    return Crowd(rows, [overhead + len(value or b"") + len(key or b"") for _, key, value, _ in rows])


def crowd_of(topic: str, rows: Sequence[Row]) -> Crowd:
    """Records that have everything of their own: timestamp, key, value, headers. Raises SerializationError."""
    _check_plain(topic, "key", [row[1] for row in rows])
    _check_plain(topic, "value", [row[2] for row in rows])
    tidy: list[Row] = []
    for timestamp_ms, key, value, headers in rows:
        if type(timestamp_ms) is not int or not 0 <= timestamp_ms <= TIMESTAMP_MAX:
            raise SerializationError(
                f"the timestamp of a record for topic {topic} is {timestamp_ms!r}, not whole milliseconds since 1970"
            )
        tidy.append((timestamp_ms, key, value, tidy_headers(headers) if headers else ()))
    return Crowd(tidy, [size_of(row) for row in tidy])


def _check_plain(topic: str, what: str, data: Values) -> None:
    """Now, and not when a batch is made of them: then all records of it would fail."""
    if not _PLAIN.issuperset(map(type, data)):
        kinds = sorted({type(each).__name__ for each in data if type(each) not in _PLAIN})
        raise SerializationError(
            f"send_many takes bytes and None: a {what} for topic {topic} is of type {kinds[0]}"
        )


def _place(core: Core, shares: list[Share]) -> tuple[list[Stretch], list[Share]]:
    """Put them in batches. What finds no room is left over, and whatever comes behind it."""
    placed: list[Stretch] = []
    for number, share in enumerate(shares):
        ends = list(accumulate(share.sizes))
        taken = core.accumulator.append_many(share.queue, share.rows, ends, share.origins)
        placed += taken
        count = sum(each.count for each in taken)
        if count < len(share.rows):
            rest = Share(share.queue, share.rows[count:], share.sizes[count:], share.origins[count:])
            return placed, [rest, *shares[number + 1 :]]
    return placed, []


async def send_crowd(
    core: Core, topic: str, crowd: Crowd, partition: int | None, deadline: Deadline, placed: Placed
) -> None:
    """All of them, waiting for the topic and for room; `placed` hears of stretches as they find it, so that who is
    interrupted knows how many did. Raises what makes a record impossible before any is placed."""
    core.intake.check_size(topic, max(crowd.sizes, default=0))
    if not crowd.rows:
        return
    first: Formed = topic, crowd.rows[0], crowd.sizes[0], partition, None, None
    while True:
        try:
            shares = core.intake.shares(topic, *crowd, partition)
            break
        except StaleMetadataError:
            await core.know_topic(first, deadline)
            core.check_sendable()  # the transaction may have ended meanwhile
    while True:
        taken, shares = _place(core, shares)
        if taken:
            placed(taken)
        if not shares:
            return
        core.check_sendable()
        size = shares[0].sizes[0]
        is_patient = core.config.buffer_full == "block"
        if not is_patient or not await core.accumulator.room(size, deadline.left_seconds()):
            raise core.no_room((topic, shares[0].rows[0], size, partition, None, None))
        core.check_sendable()
