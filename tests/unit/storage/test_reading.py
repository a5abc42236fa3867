"""Finding records by their time, held against a search through all of them."""

import random

import pytest

from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.storage.log import Log
from ottla.storage.reading import TimedOffset
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import config, open_log

EPOCH_OF = {True: 3, False: 4}


def log_of(timestamps: list[list[int]], codec: Codec = Codec.NONE) -> Log:
    """One batch per list; the second half of them by another leader."""
    log = open_log(SimDisk(), config(message_timestamp_after_max_ms=10**9, segment_bytes=2000))
    for number, batch in enumerate(timestamps):
        records = [Record(i, at, b"key", b"value") for i, at in enumerate(batch)]
        log.append(build(records, codec=codec), EPOCH_OF[number < len(timestamps) // 2], 0)
    log.advance_high_watermark(log.end_offset)
    return log


def newest(log: Log) -> TimedOffset | None:
    timestamp = log.newest_timestamp()
    return log.offset_by_time(timestamp) if timestamp >= 0 else None


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_the_first_record_that_is_new_enough_is_found_wherever_it_lies(codec):
    source = random.Random(5)
    for _ in range(20):
        batches = [[source.randrange(40) for _ in range(source.randint(1, 5))] for _ in range(30)]
        log = log_of(batches, codec)
        start = source.randrange(log.end_offset)
        log.advance_log_start(start)
        flat = [at for batch in batches for at in batch]
        for timestamp in range(42):
            expected = next((o for o, at in enumerate(flat) if o >= start and at >= timestamp), None)
            found = log.offset_by_time(timestamp)
            assert (found.offset if found else None) == expected
            if found:
                assert found.timestamp == flat[found.offset]
                assert found.leader_epoch == log.epochs.epoch_at(found.offset)


def test_the_newest_record_is_the_first_with_the_largest_timestamp():
    log = log_of([[5, 9], [3], [9, 9], [8]])
    assert newest(log) == (9, 1, EPOCH_OF[True])


def test_an_empty_log_has_no_newest_record():
    assert newest(open_log(SimDisk())) is None


def test_a_newest_record_from_before_the_start_of_the_log_does_not_count():
    log = log_of([[9, 5, 2]])
    log.advance_log_start(1)
    found = log.offset_by_time(3)
    assert found is not None and (found.timestamp, found.offset) == (5, 1)
    assert newest(log) == found


def test_a_search_by_time_can_go_on_behind_what_it_found():
    log = log_of([[5, 9], [3], [9, 9], [8]])
    first = log.find_by_time(9)
    assert first is not None and first.base_offset == 0
    second = log.find_by_time(9, first.next_offset)
    assert second is not None and second.base_offset == 3
    assert log.find_by_time(9, second.next_offset) is None


def test_the_newest_timestamp_is_that_of_the_newest_record():
    log = log_of([[5, 9], [3], [8]])
    assert log.newest_timestamp() == 9
    log.advance_log_start(2)
    assert log.newest_timestamp() == 8
    assert open_log(SimDisk()).newest_timestamp() == -1
