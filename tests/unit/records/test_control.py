"""Control records: known bytes, and what is no marker."""

import pytest

from ottla.records import batch
from ottla.records.control import (
    ControlType,
    EndMarker,
    build_marker,
    control_key,
    control_type,
    decode_marker,
)
from ottla.records.errors import RecordError
from ottla.records.record import Record


@pytest.mark.parametrize("type", [ControlType.ABORT, ControlType.COMMIT])
def test_a_marker_is_a_batch_of_one_control_record(type):
    raw = build_marker(
        type,
        producer_id=4,
        producer_epoch=2,
        coordinator_epoch=9,
        timestamp=77,
        base_offset=30,
        leader_epoch=5,
    )
    header = batch.check(raw)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 2, -1)
    assert (header.base_offset, header.leader_epoch, header.count) == (30, 5, 1)
    (record,) = batch.records_of(raw)
    assert record.key == b"\x00\x00\x00" + bytes([type])
    assert record.value == b"\x00\x00\x00\x00\x00\x09"
    assert record.timestamp == 77
    assert decode_marker(record) == EndMarker(type, 9)


def test_every_type_has_its_key():
    assert [control_type(control_key(type)) for type in ControlType if type >= 0] == list(ControlType)[1:]


def test_types_and_versions_of_the_future_are_read_with_tolerance():
    assert control_type(b"\x00\x00\x00\x63") is ControlType.UNKNOWN
    assert control_type(b"\x00\x01\x00\x01more") is ControlType.COMMIT
    later = Record(0, 0, b"\x00\x01\x00\x00", b"\x00\x01\x00\x00\x00\x07extra")
    assert decode_marker(later) == EndMarker(ControlType.ABORT, 7)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\x00" * 6),
        (b"\x00\x00\x00", b"\x00" * 6),
        (b"\xff\xff\x00\x00", b"\x00" * 6),
        (b"\x00\x00\x00\x02", b"\x00" * 6),
        (b"\x00\x00\x00\x01", None),
        (b"\x00\x00\x00\x01", b"\x00" * 5),
        (b"\x00\x00\x00\x01", b"\xff\xff\x00\x00\x00\x00"),
    ],
)
def test_what_is_no_marker_is_refused(key, value):
    with pytest.raises(RecordError):
        decode_marker(Record(0, 0, key, value))


def test_only_transactions_end_with_a_marker():
    with pytest.raises(AssertionError):
        build_marker(
            ControlType.LEADER_CHANGE, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0
        )
