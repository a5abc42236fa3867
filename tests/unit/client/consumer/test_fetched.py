"""Batches of a fetch, opened as records are wanted: which are handed out, and where the reader is then."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consumer.fetched import Decoding, Fetched
from ottla.client.errors import DeserializationError
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.records import legacy
from ottla.records.batch import LAST_OFFSET_DELTA_AT
from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.control import ControlType, build_marker
from ottla.records.record import Record

PARTITION = TopicPartition("t", 0)
COMMITTED = Decoding(is_read_committed=True)


def batch(first, values, **how):
    return build([Record(first + each, 100, None, value) for each, value in enumerate(values)], **how)


def fetched(data, offset=0, decoding=None, aborted=()):
    return Fetched(PARTITION, 1, offset, data, decoding or Decoding(), aborted)


def drain(source, count=500):
    found = []
    while records := source.take(count):
        found += records
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 500])
@pytest.mark.parametrize("codec", list(Codec))
def test_records_come_in_the_portions_that_are_asked_for(codec, count):
    data = batch(0, [b"a", b"b", b"c"], codec=codec) + batch(3, [b"d", b"e"], codec=codec, leader_epoch=7)
    source = fetched(data)
    assert (source.end_offset, source.end_epoch) == (5, 7)
    first = source.take(count)
    assert len(first) == min(count, 5) and source.next_offset == first[-1].offset + 1
    assert [each.value for each in first + drain(source, count)] == [b"a", b"b", b"c", b"d", b"e"]
    assert source.is_done and (source.next_offset, source.offset_epoch) == (5, 7)


def test_what_lies_before_the_offset_is_skipped():
    data = batch(0, [b"a", b"b"]) + batch(2, [b"c", b"d", b"e"])
    source = fetched(data, offset=3)
    assert [each.offset for each in drain(source)] == [3, 4]
    assert source.is_done


def test_offsets_advance_over_what_was_compacted_away():
    records = [Record(4, 0, b"k", b"v"), Record(8, 0, b"k", b"w")]
    data = bytearray(build(records))
    data[LAST_OFFSET_DELTA_AT : LAST_OFFSET_DELTA_AT + 4] = (20).to_bytes(4)
    source = fetched(bytes(data), offset=2, decoding=Decoding(check_crcs=False))
    assert source.end_offset == 25
    assert [each.offset for each in source.take(2)] == [4, 8]
    assert source.next_offset == 25 and source.is_done


def test_a_batch_that_is_cut_off_at_the_end_is_left_for_the_next_fetch():
    whole = batch(0, [b"a", b"b"])
    source = fetched(whole + batch(2, [b"c"])[:-1])
    assert [each.value for each in drain(source)] == [b"a", b"b"]
    assert source.is_done and source.end_offset == 2
    assert fetched(whole[:-1]).is_piece


def test_a_piece_of_a_batch_alone_is_too_large_for_old_brokers():
    with pytest.raises(KafkaError, match=r"max\.partition\.fetch\.bytes") as caught:
        fetched(batch(0, [b"a"])[:-1]).take(1)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_messages_of_old_formats_are_records_too(magic, codec):
    records = [Record(each, 5, b"k", b"%d" % each) for each in range(4)]
    source = fetched(legacy.build(records, magic, codec=codec), offset=1)
    assert [(each.offset, each.key, each.value) for each in drain(source, 2)] == [
        (each, b"k", b"%d" % each) for each in range(1, 4)
    ]
    assert source.is_done and source.end_offset == 4 and source.next_offset == 4


def test_markers_are_handed_to_nobody():
    marker = build_marker(
        ControlType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0, base_offset=1
    )
    source = fetched(batch(0, [b"a"]) + marker + batch(2, [b"b"]))
    assert [each.offset for each in drain(source)] == [0, 2]


def test_a_batch_that_fails_its_checksum_raises_until_somebody_seeks():
    bad = bytearray(batch(2, [b"c", b"d"]))
    bad[-2] ^= 1
    source = fetched(batch(0, [b"a", b"b"]) + bytes(bad) + batch(4, [b"e"]))
    assert [each.value for each in source.take(500)] == [b"a", b"b"]
    for _ in range(2):
        with pytest.raises(KafkaError, match=r"t-0 from offset 2 on.*seek to 4 to go past") as caught:
            source.take(500)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
        assert source.next_offset == 2 and not source.is_done


def test_what_is_no_batch_is_said_to_be_none():
    source = fetched(batch(0, [b"a"]) + b"\x00" * 40)
    assert source.end_offset is None
    assert len(source.take(5)) == 1
    with pytest.raises(KafkaError, match="no batch"):
        source.take(5)


def test_records_that_were_not_asked_for_are_not_asked_for_again_and_again():
    source = fetched(batch(0, [b"a"]), offset=10)
    with pytest.raises(KafkaError, match="other records than were asked for"):
        source.take(5)
    assert source.end_offset is None and not source.is_done


def test_a_record_that_cannot_be_read_ends_a_portion_and_raises_in_the_next():
    decoding = Decoding(value=lambda topic, headers, value: int(value))
    source = fetched(batch(5, [b"1", b"2", b"x", b"4"]), offset=5, decoding=decoding)
    assert [each.value for each in source.take(500)] == [1, 2]
    for _ in range(2):
        with pytest.raises(DeserializationError, match="seek to 8 to go past") as caught:
            source.take(500)
        assert (caught.value.offset, caught.value.record.value) == (7, b"x")
        assert source.next_offset == 7 and not source.is_done


def test_one_by_one_the_reader_is_behind_what_it_saw():
    source = fetched(batch(0, [b"a", b"b", b"c"]))
    source.ready = source.take(2)
    assert (source.reader_offset, source.next_offset) == (0, 2)
    source.ready_index = 1
    assert source.reader_offset == 1
    assert [each.offset for each in source.take(5)] == [1]
    assert [each.offset for each in source.take(5)] == [2]


# --- transactions -----------------------------------------------------------------------------------------------------

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 3), st.integers(1, 3)),
        st.tuples(st.sampled_from(["commit", "abort"]), st.integers(1, 3), st.just(0)),
    ),
    max_size=25,
)


@given(steps=_STEPS, start=st.floats(0, 1), portion=st.integers(1, 5))
def test_aborted_transactions_are_skipped_as_a_simple_model_says(steps, start, portion):
    """Producer 0 has no transactions. The broker names transactions by producer and first offset, if they were aborted
    and end behind the fetch offset; those that are open lie beyond what it sends."""
    parts, offset = [], 0
    open_since: dict[int, int] = {}
    owner: dict[int, tuple[int, int]] = {}
    aborted, committed, spans = [], set(), []
    for kind, producer, count in steps:
        if kind == "write":
            is_transactional = producer > 0
            ids = {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0} if producer else {}
            values = [b"%d" % (offset + each) for each in range(count)]
            parts.append((offset, count, batch(offset, values, is_transactional=is_transactional, **ids)))
            if is_transactional:
                open_since.setdefault(producer, offset)
            for each in range(offset, offset + count):
                owner[each] = producer, open_since.get(producer, -1)
            offset += count
        elif producer in open_since:
            type_ = ControlType.COMMIT if kind == "commit" else ControlType.ABORT
            marker = build_marker(
                type_,
                producer_id=producer,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp=0,
                base_offset=offset,
            )
            parts.append((offset, 1, marker))
            first = open_since.pop(producer)
            spans.append((producer, first, offset))
            if kind == "commit":
                committed.add((producer, first))
            else:
                aborted.append((producer, first))
            offset += 1
    stable = min(open_since.values(), default=offset)
    wanted = int(start * stable)
    data = b"".join(part for first, count, part in parts if first + count > wanted and first < stable)
    named = [
        (producer, first)
        for producer, first, last in spans
        if (producer, first) in aborted and last >= wanted and first < stable
    ]
    expected = [
        each
        for each, key in sorted(owner.items())
        if wanted <= each < stable and (key[0] == 0 or key in committed)
    ]
    source = fetched(data, wanted, COMMITTED, named)
    found = [each.offset for each in drain(source, portion)]
    assert found == expected
    if data:
        assert source.next_offset == source.end_offset


@pytest.mark.parametrize("offset", [-1, (1 << 63) - 1])
def test_a_batch_at_an_offset_that_cannot_be_is_none(offset):
    data = batch(0, [b"a"]) + offset.to_bytes(8, "big", signed=True) + batch(1, [b"b"])[8:]
    source = fetched(data)
    assert source.end_offset is None
    assert [each.value for each in source.take(9)] == [b"a"]
    with pytest.raises(KafkaError, match="what follows is no batch"):
        source.take(9)
