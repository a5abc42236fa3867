"""Retention of random logs by random settings and clocks, held against what it promises.

- The active segment is replaced before it goes, nothing at or above the high watermark goes, and offsets stay.
- What went had a reason: before the log start, too many, or too old by a time that is not later than the true one.
- What stayed has none: the oldest segment that is left fits time and size.
- A clock that is set, at any time or while the broker is down, deletes nothing that the true time would have kept, as
  long as it is not wrong for a day.
"""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.sober_clock import BELIEVED_AFTER_MS, JUMP_MS_MAX, SoberClock
from ottla.core.clock import ManualClock
from ottla.storage.config import TopicConfig
from ottla.storage.retention import expired
from ottla.storage.segments import Segments
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import NOW, batch, config, open_log, put, values_of

MINUTE, HOUR, DAY, YEAR = 60_000, 3_600_000, 86_400_000, 365 * 86_400_000

ages = st.one_of(
    st.integers(0, 3 * HOUR),
    st.integers(-YEAR, 0),  # in the future
    st.sampled_from([NOW, NOW + 1]),  # timestamps 0 and -1
    st.integers(0, NOW),
)
policies = st.sampled_from(["delete", "compact", "compact,delete"])
times = st.sampled_from([-1, 0, 1, MINUTE, HOUR, DAY])
sizes = st.sampled_from([-1, 0, 1, 500, 1500, 10**9])


class Fake:
    """As much of a segment as retention looks at."""

    def __init__(self, base_offset: int, size: int, newest_ms: int) -> None:
        self.base_offset, self.size, self.newest_ms = base_offset, size, newest_ms


@st.composite
def fakes(draw) -> Segments:
    base, made = draw(st.integers(0, 10)), []
    for _ in range(draw(st.integers(1, 12))):
        made.append(Fake(base, draw(st.integers(0, 900)), NOW - draw(ages)))
        base += draw(st.integers(1, 10))
    return Segments(made)


def kafka(segments: list[Fake], config: TopicConfig, mark: int, start: int, end: int) -> int:
    """UnifiedLog.deleteOldSegments, word for word: three sweeps, each from the oldest that is left."""
    left = list(segments)

    def sweep(is_due) -> None:
        for at, segment in enumerate(list(left)):
            following = left[at + 1] if at + 1 < len(left) else None
            upper = following.base_offset if following else end
            is_empty_end = following is None and segment.size == 0
            if not is_due(segment, following) or is_empty_end or mark < upper:
                del left[:at]
                return
        left.clear()

    sweep(lambda segment, following: following is not None and following.base_offset <= start)
    if "delete" in config.cleanup_policy:
        surplus = [sum(segment.size for segment in left) - config.retention_bytes]

        def is_too_much(segment, following) -> bool:
            if surplus[0] - segment.size < 0:
                return False
            surplus[0] -= segment.size
            return True

        if config.retention_bytes >= 0 <= surplus[0]:
            sweep(is_too_much)
        if config.retention_ms >= 0:
            sweep(lambda segment, following: NOW - segment.newest_ms > config.retention_ms)
    return len(segments) - len(left)


@given(fakes(), policies, times, sizes, st.data())
@settings(deadline=None)
def test_the_same_segments_go_as_in_kafka(segments, policy, retention_ms, retention_bytes, data):
    end = segments.active.base_offset + (data.draw(st.integers(1, 10)) if segments.active.size else 0)
    mark = data.draw(st.integers(segments[0].base_offset, end))
    start = data.draw(st.integers(0, mark))
    chosen = config(cleanup_policy=policy, retention_ms=retention_ms, retention_bytes=retention_bytes)
    wanted = kafka(list(segments), chosen, mark, start, end)
    assert expired(segments, chosen, NOW, mark, start, end) == wanted
    limit = data.draw(st.integers(0, 14))
    assert expired(segments, chosen, NOW, mark, start, end, limit) == min(wanted, limit)


@given(
    st.lists(ages, max_size=40),
    policies,
    times,
    sizes,
    st.integers(0, 2**32),
    st.integers(1, 5),
    st.booleans(),
)
@settings(deadline=None)
def test_what_a_log_keeps_is_what_its_settings_ask_for(
    written, policy, retention_ms, retention_bytes, seed, helping, restarts
):
    rng, disk = random.Random(seed), SimDisk()
    disk.now_ms = NOW
    chosen = config(
        cleanup_policy=policy,
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
        segment_bytes=320,
        message_timestamp_after_max_ms=2 * YEAR,
    )
    log = open_log(disk, chosen)
    keys = "compact" in policy
    for n, age in enumerate(written):
        log.append_fetched(_batch(n, NOW - age), NOW) if keys else put(log, b"%d" % n, at_ms=NOW - age)
    log.advance_high_watermark(rng.randint(0, log.end_offset))
    log.advance_log_start(rng.randint(0, log.high_watermark))
    if restarts:
        mark, start, end = log.high_watermark, log.log_start_offset, log.end_offset
        log.close()
        log = open_log(
            disk, chosen, high_watermark=mark, log_start_offset=start, recovery_point=end, clean=True
        )
    start, mark, end, before = log.log_start_offset, log.high_watermark, log.end_offset, values_of(log)
    while log.delete_old(NOW, count_max=helping):
        assert log.log_start_offset <= mark
    assert (log.end_offset, log.high_watermark) == (end, mark)
    assert values_of(log) == {o: v for o, v in before.items() if o >= log.log_start_offset}
    if policy == "compact":
        assert log.log_start_offset == start
    assert expired(log.segments, chosen, NOW, mark, log.log_start_offset, end) == 0
    assert all(each.last_offset < mark for each in _doomed_batches(log))


def _batch(offset: int, at_ms: int) -> bytes:
    return batch(b"%d" % offset, base_offset=offset, at_ms=at_ms, leader_epoch=0)


def _doomed_batches(log):
    return [each for segment in log.doomed for each in segment.batches()]


# --- clocks --------------------------------------------------------------------------------------------------------

steps = st.one_of(
    st.tuples(st.just("run"), st.integers(0, 12 * HOUR)),
    st.tuples(st.just("set"), st.integers(-40 * YEAR, 40 * YEAR)),
    st.tuples(st.just("set"), st.integers(-JUMP_MS_MAX, JUMP_MS_MAX)),
    st.tuples(st.just("right"), st.just(0)),
    st.tuples(st.just("off"), st.integers(0, 3 * HOUR)),
)


@given(st.lists(steps, max_size=30))
@settings(deadline=None)
def test_no_clock_that_is_wrong_for_less_than_a_day_makes_it_later_than_it_is(taken):
    """Every few minutes it is off by a little may add up: each such step is believed."""
    true, clock = NOW, ManualClock(NOW)
    sober, wrong_for, credit = SoberClock(clock), 0, 0
    for step, by_ms in taken:
        if step == "run":
            clock.advance(by_ms)
            true += by_ms
        elif step == "set":
            clock.step_wall(max(by_ms, 1 - clock.now_ms()))
            credit += JUMP_MS_MAX
        elif step == "right":
            clock.step_wall(true - clock.now_ms())
        else:
            noted = sober.noted
            true += by_ms
            clock = ManualClock(max(1, clock.now_ms() + by_ms), by_ms)
            sober = SoberClock(clock)
            sober.resume(noted)
        # A clock that jumps further while it is doubted counts for no more than half a day each time.
        is_wrong = abs(clock.now_ms() - true) > 0
        wrong_for = wrong_for + BELIEVED_AFTER_MS // 2 if is_wrong and step == "set" else wrong_for
        wrong_for = wrong_for + by_ms if is_wrong and step in ("run", "off") else wrong_for
        wrong_for = wrong_for if is_wrong else 0
        if wrong_for >= BELIEVED_AFTER_MS:
            return
        assert sober.now_ms() <= true + credit
        assert sober.now_ms() <= max(clock.now_ms(), 0)
