import pytest

from ottla.core.errors import ErrorCode
from ottla.records import batch
from ottla.records.builder import build
from ottla.records.compression import Codec
from ottla.records.errors import RecordError
from ottla.records.recompress import close_section, open_section, recompress
from ottla.records.record import Record

RECORDS = [Record(i, 1000 + i, b"k%d" % i, b"v" * 50, (("h", b"x"),)) for i in range(20)]
ALL = list(Codec)


@pytest.mark.parametrize("before", ALL)
@pytest.mark.parametrize("after", ALL)
def test_records_and_header_survive_any_change_of_codec(before, after):
    old = build(
        RECORDS, codec=before, producer_id=7, producer_epoch=2, base_sequence=40, is_transactional=True
    )
    new = recompress(old, after)
    header = batch.check(new)
    assert header.codec is after
    assert list(batch.records_of(new)) == RECORDS
    kept = batch.read_header(old)._replace(crc=header.crc, length=header.length, attributes=header.attributes)
    assert header == kept
    assert header.is_transactional


def test_the_result_can_be_written_to_in_place():
    assert not memoryview(recompress(build(RECORDS), Codec.GZIP)).readonly


def test_a_level_reaches_the_codec():
    dense, fast = (recompress(build(RECORDS), Codec.GZIP, level) for level in (9, 0))
    assert len(dense) < len(fast)


def test_an_empty_section_is_not_compressed():
    header, records = open_section(build([], last_offset=3))
    closed = close_section(header, records, Codec.ZSTD)
    assert batch.check(closed).codec is Codec.NONE


def test_what_decompresses_to_more_than_the_limit_is_refused():
    bomb = build([Record(0, 0, None, bytes(1 << 20))], codec=Codec.ZSTD)
    with pytest.raises(RecordError) as caught:
        recompress(bomb, Codec.NONE, limit=1 << 16)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_more_records_than_bytes_are_refused():
    lying = bytearray(build(RECORDS))
    lying[batch.COUNT_AT : batch.COUNT_AT + 4] = (1_000_000).to_bytes(4, "big")
    with pytest.raises(RecordError) as caught:
        open_section(lying)
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("size", [0, 30, 61, 100])
def test_a_batch_that_is_cut_off_is_damage(size):
    with pytest.raises(RecordError) as caught:
        open_section(build(RECORDS)[:size])
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
