"""Many records at once, for those who have so many that a call for each is too much: lines of a file, say.

They go into the same batches as all others, a slice at a time. What becomes of them is told for each stretch that
travels together, and not for every single one.
"""

import time
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from ottla.client.deadline import Deadline
from ottla.client.producer.batch import RECORD_OVERHEAD, Row, Stretch, headers_size
from ottla.client.producer.core import Core
from ottla.client.producer.intake import Formed, tidy_headers
from ottla.core.errors import StaleMetadataError

Values = Sequence[bytes | None]


class _Crowd(NamedTuple):
    """Records as batches keep them, and what each of them takes."""

    rows: list[Row]
    sizes: list[int]


def _gathered(values: Values, keys: Values | None, headers: Any) -> _Crowd:
    tidy = tidy_headers(headers) if headers else ()
    overhead = RECORD_OVERHEAD + (headers_size(tidy) if tidy else 0)
    now_ms = time.time_ns() // 1_000_000
    if keys is None:
        rows: list[Row] = [(now_ms, None, value, tidy) for value in values]
        return _Crowd(rows, [overhead + len(value or b"") for value in values])
    rows = [(now_ms, key, value, tidy) for key, value in zip(keys, values, strict=True)]
    return _Crowd(rows, [overhead + len(value or b"") + len(key or b"") for _, key, value, _ in rows])


def _place(core: Core, topic: str, crowd: _Crowd, partition: int | None) -> tuple[list[Stretch], _Crowd]:
    """Put them in batches; those that found no room are left over. Raises StaleMetadataError while the topic, or the
    partition, is not known."""
    intake = core.intake
    placed: list[Stretch] = []
    left = _Crowd([], [])
    for number, (rows, sizes) in intake.shares(topic, *crowd, partition).items():
        taken = core.accumulator.append_many(intake.queue(topic, number), rows, list(accumulate(sizes)))
        placed += taken
        count = sum(each.count for each in taken)
        left.rows.extend(rows[count:])
        left.sizes.extend(sizes[count:])
    return placed, left


async def send_many(
    core: Core,
    topic: str,
    values: Values,
    keys: Values | None,
    headers: Any,
    partition: int | None,
    deadline: Deadline,
) -> list[Stretch]:
    """All of them, waiting for the topic and for room."""
    crowd = _gathered(values, keys, headers)
    core.intake.check_size(topic, max(crowd.sizes, default=0))
    placed: list[Stretch] = []
    while crowd.rows:
        first: Formed = topic, crowd.rows[0], crowd.sizes[0], partition, None, None
        try:
            some, crowd = _place(core, topic, crowd, partition)
        except StaleMetadataError:
            await core.know_topic(first, deadline)
            continue
        placed += some
        if crowd.rows:
            core.check_sendable()
            is_patient = core.config.buffer_full == "block"
            if not is_patient or not await core.accumulator.room(crowd.sizes[0], deadline.left_seconds()):
                raise core.no_room(first)
    return placed
