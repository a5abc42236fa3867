"""Records compare by value, in either build."""

from ottla.records.record import Record


def test_records_are_equal_when_all_their_fields_are():
    record = Record(1, 2, b"k", b"v", (("h", None),))
    assert record == Record(1, 2, b"k", b"v", (("h", None),))
    assert hash(record) == hash(Record(1, 2, b"k", b"v", (("h", None),)))
    assert record != Record(1, 2, b"k", b"v")
    assert record != (1, 2, b"k", b"v", (("h", None),))


def test_a_record_unpacks_into_its_fields():
    offset, timestamp, key, value, headers = Record(1, 2, None, b"v")
    assert (offset, timestamp, key, value, headers) == (1, 2, None, b"v", ())


def test_a_changed_copy_leaves_the_original_alone():
    record = Record(1, 2, b"k", b"v")
    assert record.with_(offset=0) == Record(0, 2, b"k", b"v")
    assert record.with_(timestamp=0) == Record(1, 0, b"k", b"v")
    assert record == Record(1, 2, b"k", b"v")


def test_a_record_prints_its_fields():
    assert repr(Record(1, 2, None, b"v")) == "Record(offset=1, timestamp=2, key=None, value=b'v', headers=())"
