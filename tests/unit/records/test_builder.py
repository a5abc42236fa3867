"""Building batches: record by record, and all at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.records import batch
from ottla.records.builder import BatchBuilder, build, build_rows
from ottla.records.compression import Codec
from ottla.records.record import Record


def test_a_builder_gives_out_offsets_and_knows_its_size():
    builder = BatchBuilder(base_offset=7)
    assert builder.size == batch.HEADER_SIZE
    assert builder.append(100, b"k", b"v") == 7
    assert builder.append(90, None, b"w", (("h", b"x"),)) == 8
    raw = builder.build()
    assert builder.size == len(raw)
    assert (builder.count, builder.last_offset, builder.max_timestamp) == (2, 8, 100)
    assert list(batch.records_of(raw)) == [
        Record(7, 100, b"k", b"v"),
        Record(8, 90, None, b"w", (("h", b"x"),)),
    ]


def test_what_compaction_leaves_keeps_first_and_last_offset():
    raw = build([Record(12, 0, b"k", b"v")], base_offset=10, last_offset=19, base_sequence=3, producer_id=1)
    header = batch.check(raw)
    assert (header.base_offset, header.last_offset, header.count, header.last_sequence) == (10, 19, 1, 12)
    assert [record.offset for record in batch.records_of(raw)] == [12]


def test_a_batch_in_the_brokers_time():
    raw = build([Record(0, 5, None, b"v")], timestamp_type=batch.LOG_APPEND_TIME, log_append_time=999)
    header = batch.check(raw)
    assert (header.timestamp_type, header.base_timestamp, header.max_timestamp) == (1, 5, 999)
    assert next(batch.records_of(raw)).timestamp == 999


def test_flags_land_in_their_bits():
    assert batch.read_header(build([Record(0, 0, b"k", b"v")], is_transactional=True)).attributes == 1 << 4
    control = batch.read_header(build([Record(0, 0, b"k", b"v")], is_control=True, codec=Codec.ZSTD))
    assert control.attributes == 1 << 5 | 4
    assert control.is_control


def test_a_level_changes_the_size_and_nothing_else():
    records = [Record(i, i, None, b"%d" % (i * i)) for i in range(2000)]
    for codec, low, high in ((Codec.GZIP, 1, 9), (Codec.LZ4, 1, 9), (Codec.ZSTD, 1, 19)):
        fast, dense = build(records, codec=codec, level=low), build(records, codec=codec, level=high)
        assert len(dense) < len(fast)
        assert list(batch.records_of(dense)) == list(batch.records_of(fast)) == records


@pytest.mark.parametrize("offset", [4, 5, 5 + 2**31])
def test_offsets_that_do_not_rise_are_our_own_bug(offset):
    builder = BatchBuilder(base_offset=5)
    builder.append(0, None, None)
    with pytest.raises(AssertionError):
        builder.append(0, None, None, offset=offset)


def test_a_batch_cannot_end_before_its_last_record():
    with pytest.raises(AssertionError):
        build([Record(3, 0, None, None)], last_offset=2)


INT64 = st.integers(-(2**63), 2**63 - 1)
HEADERS = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3)
ROWS = st.lists(
    st.tuples(
        INT64 | st.just(5), st.none() | st.binary(max_size=90), st.none() | st.binary(max_size=90), HEADERS
    ),
    min_size=1,
    max_size=12,
)


@given(ROWS, st.sampled_from(Codec))
def test_rows_at_once_are_what_records_one_by_one_are(rows, codec):
    records = [Record(number, *row[:3], tuple(row[3])) for number, row in enumerate(rows)]
    expected = build(records, codec=codec)
    assert bytes(build_rows(rows, codec)) == expected


@given(ROWS, st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1), st.booleans())
def test_a_producer_set_afterwards_is_as_one_from_the_beginning(rows, producer_id, epoch, sequence, is_txn):
    records = [Record(number, *row[:3], tuple(row[3])) for number, row in enumerate(rows)]
    theirs = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    data = build_rows(rows)
    batch.set_producer(data, 1, 2, 3, not is_txn)
    batch.set_producer(data, producer_id, epoch, sequence, is_txn)
    assert bytes(data) == build(records, **theirs, is_transactional=is_txn)
    batch.check(data)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 127, 128, 8191, 8192, 20_000])
def test_rows_of_every_size_and_many_of_them(size):
    rows = [(number % 3, b"k" * (size % 700), b"-" * size, ()) for number in range(300)]
    records = [Record(number, *row) for number, row in enumerate(rows)]
    assert bytes(build_rows(rows)) == build(records)


def test_a_level_counts_for_rows_too():
    rows = [(number, None, b"%d" % (number * number), ()) for number in range(2000)]
    assert len(build_rows(rows, Codec.ZSTD, 19)) < len(build_rows(rows, Codec.ZSTD, 1))
