"""What a batch must be before it may enter the log."""

import struct

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.records.batch import (
    ATTRIBUTES_AT,
    COUNT_AT,
    CRC_AT,
    LAST_OFFSET_DELTA_AT,
    LOG_APPEND_TIME,
    TIMESTAMP_TYPE_BIT,
    read_header,
    records_of,
)
from ottla.records.builder import build
from ottla.records.checksum import crc32c
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.storage.segment import RELATIVE_OFFSET_MAX
from ottla.storage.validation import accept, place
from tests.unit.storage.helpers import NOW, batch, config, marker


def placed(data: bytes, *, client: bool = True, **settings):
    return place(bytearray(data), 10, 3, config(segment_bytes=1 << 20, **settings), NOW, client=client)


def refusal(data: bytes, **how) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        placed(data, **how)
    return caught.value.code


def with_header(data: bytes, layout: str, at: int, value: int) -> bytes:
    """The batch with a field changed and a checksum that agrees."""
    changed = bytearray(data)
    struct.pack_into(layout, changed, at, value)
    struct.pack_into(">I", changed, 17, crc32c(changed, 21))
    return bytes(changed)


def test_batches_get_consecutive_offsets_and_the_epoch_in_place():
    data = bytearray(batch(b"a", b"b") + batch(b"c"))
    headers = place(data, 10, 3, config(), NOW, client=True)
    assert [(h.base_offset, h.last_offset, h.leader_epoch) for h in headers] == [(10, 11, 3), (12, 12, 3)]
    assert read_header(data).base_offset == 10
    assert read_header(data, headers[0].size).base_offset == 12
    assert [r.offset for r in records_of(data)] == [10, 11]


def test_nothing_to_place_is_an_empty_list():
    assert placed(b"") == []


@pytest.mark.parametrize("at", [*range(8, 12), *range(16, 70)])
def test_a_flip_anywhere_but_in_offset_and_epoch_is_refused(at):
    data = bytearray(batch(b"abc"))
    data[at] ^= 0x21
    assert refusal(bytes(data)) in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize("cut", [1, 16, 60, 61, 68])
def test_a_batch_that_is_cut_off_is_refused(cut):
    assert refusal(batch(b"a")[:cut]) is ErrorCode.CORRUPT_MESSAGE
    assert refusal(batch(b"a") + batch(b"b")[:cut]) is ErrorCode.CORRUPT_MESSAGE


def test_old_formats_are_not_stored():
    old = bytearray(batch(b"a"))
    old[16] = 1
    assert refusal(bytes(old)) is ErrorCode.INVALID_RECORD
    old[16] = 3
    assert refusal(bytes(old)) is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_may_be_as_large_as_max_message_bytes_and_no_larger():
    data = batch(b"x" * 500)
    placed(data, max_message_bytes=len(data))
    assert refusal(data, max_message_bytes=len(data) - 1) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_larger_than_a_segment_is_refused():
    data = batch(b"x" * 500)
    with pytest.raises(KafkaError) as caught:
        place(bytearray(data), 0, 0, config(segment_bytes=len(data) - 1), NOW, client=True)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_producer_must_send_as_many_records_as_offsets():
    compacted = build([Record(0, NOW, None, b"a"), Record(2, NOW, None, b"c")])
    assert refusal(compacted) is ErrorCode.INVALID_RECORD
    assert refusal(with_header(batch(b"a"), ">i", 57, 0)) is ErrorCode.INVALID_RECORD


def test_control_batches_come_from_brokers_only():
    assert refusal(marker(7, commit=True)) is ErrorCode.INVALID_RECORD
    assert placed(marker(7, commit=True), client=False)[0].is_control


@pytest.mark.parametrize("producer", [(7, 0, -1), (7, -1, 0), (7, -5, 0)])
def test_a_producer_id_needs_an_epoch_and_a_sequence(producer):
    assert refusal(batch(b"a", producer=producer)) is ErrorCode.INVALID_RECORD


def test_only_the_broker_says_that_a_time_is_its_own():
    """Readers would take the newest timestamp of such a batch for that of all its records."""
    claimed = with_header(batch(b"a"), ">h", 21, TIMESTAMP_TYPE_BIT)
    assert refusal(claimed) is ErrorCode.INVALID_TIMESTAMP
    placed(claimed, client=False)
    placed(claimed, message_timestamp_type="LogAppendTime")


def test_log_append_time_replaces_the_producers_time_and_keeps_the_checksum_good():
    data = bytearray(batch(b"a", at_ms=5))
    [header] = place(data, 0, 0, config(message_timestamp_type="LogAppendTime"), NOW, client=True)
    assert (header.max_timestamp, header.timestamp_type) == (NOW, LOG_APPEND_TIME)
    assert header.crc == crc32c(data, 21)
    assert [r.timestamp for r in records_of(data)] == [NOW]


def test_timestamps_too_far_from_now_are_refused():
    limits = {"message_timestamp_after_max_ms": 100, "message_timestamp_before_max_ms": 200}
    placed(batch(b"a", at_ms=NOW + 100), **limits)
    placed(batch(b"a", at_ms=NOW - 200), **limits)
    placed(batch(b"a", at_ms=-1), **limits)
    assert refusal(batch(b"a", at_ms=NOW + 101), **limits) is ErrorCode.INVALID_TIMESTAMP
    assert refusal(batch(b"a", at_ms=NOW - 201), **limits) is ErrorCode.INVALID_TIMESTAMP
    placed(batch(b"a", at_ms=NOW + 101), message_timestamp_type="LogAppendTime", **limits)


def test_a_follower_takes_whole_batches_and_leaves_a_cut_one():
    first, second = batch(b"a", b"b", base_offset=5), batch(b"c", base_offset=9)
    data = first + second
    for cut in range(len(data) + 1):
        accepted = accept(memoryview(data)[:cut], 5)
        assert len(accepted) == (cut >= len(first)) + (cut == len(data))


def test_a_follower_refuses_offsets_that_do_not_grow():
    for data in (batch(b"a", base_offset=4), batch(b"a", b"b", base_offset=5) + batch(b"c", base_offset=6)):
        with pytest.raises(KafkaError) as caught:
            accept(memoryview(data), 5)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_follower_refuses_damage():
    data = bytearray(batch(b"a", base_offset=5))
    data[-1] ^= 1
    with pytest.raises(KafkaError) as caught:
        accept(memoryview(data), 5)
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_follower_takes_only_as_much_as_one_segment_can_number():
    far = 5 + RELATIVE_OFFSET_MAX
    near, beyond = batch(b"b", base_offset=far), batch(b"c", base_offset=far + 1)
    accepted = accept(memoryview(batch(b"a", base_offset=5) + near + beyond), 5)
    assert [h.base_offset for h in accepted] == [5, far]


def test_a_follower_takes_batches_that_compaction_emptied():
    hollow = build([], base_offset=5, last_offset=8)
    assert [h.next_offset for h in accept(memoryview(hollow), 5)] == [9]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_header_cannot_claim_more_records_than_its_bytes_can_hold(codec):
    """It would eat two thousand million offsets, and no reader would find a record at them."""
    data = bytearray(build([Record(0, NOW, None, b"v")], codec=codec))
    struct.pack_into(">i", data, LAST_OFFSET_DELTA_AT, 2**31 - 2)
    struct.pack_into(">i", data, COUNT_AT, 2**31 - 1)
    struct.pack_into(">I", data, CRC_AT, crc32c(data, ATTRIBUTES_AT))
    with pytest.raises(KafkaError) as refused:
        place(data, 0, 0, config(segment_bytes=1 << 20), NOW, client=True)
    assert refused.value.code is ErrorCode.INVALID_RECORD
