import struct

import pytest

from ottla.broker import intake
from ottla.broker.intake import InvalidRecords, Slow, decompressed_bytes_max, is_transactional, prepare
from ottla.core.errors import ErrorCode, KafkaError
from ottla.records import batch, legacy
from ottla.records.builder import build
from ottla.records.checksum import crc32c
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.storage.config import TopicConfig
from ottla.storage.log import Log
from ottla.testing.disk import SimDisk

RECORDS = [Record(i, 1_700_000_000_000, b"k%d" % i, b"value-%d" % i) for i in range(5)]
PLAIN = TopicConfig()
COMPACTED = TopicConfig({"cleanup.policy": "compact"})
CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


@pytest.fixture
def interpreted(monkeypatch):
    """As without the compiled modules: nothing is walked that need not be."""
    monkeypatch.setattr(intake, "WALKS_ALL", False)


@pytest.fixture
def compiled(monkeypatch):
    """As with the compiled modules, though it takes longer."""
    monkeypatch.setattr(intake, "WALKS_ALL", True)


def topic(**settings):
    return TopicConfig({name.replace("_", "."): str(value) for name, value in settings.items()})


def stored(records, config=PLAIN, api_version=9):
    """What goes to the log, done at once where that is possible."""
    prepared = prepare(records, api_version, config)
    if isinstance(prepared, Slow):
        done = prepared.attempt()
        return prepared.run() if done is None else done
    return prepared


def refusal(records, config=PLAIN, api_version=9):
    with pytest.raises(KafkaError) as caught:
        stored(records, config, api_version)
    return caught.value.code


def changed(records, at, content):
    """The batch with some bytes replaced, under a good CRC."""
    lying = bytearray(records)
    lying[at : at + len(content)] = content
    lying[batch.CRC_AT : batch.CRC_AT + 4] = struct.pack(">I", crc32c(lying, batch.ATTRIBUTES_AT))
    return lying


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_needs_nothing_is_passed_on_as_it_is(codec, interpreted):
    records = bytearray(build(RECORDS, codec=codec))
    assert prepare(records, 9, PLAIN) is records


@pytest.mark.parametrize("wanted", CODECS)
def test_a_batch_in_the_codec_of_its_topic_is_passed_on_as_it_is(wanted, interpreted):
    records = build(RECORDS, codec=CODECS[wanted])
    assert prepare(records, 9, topic(compression_type=wanted)) is records


@pytest.mark.parametrize("sent", list(Codec))
@pytest.mark.parametrize("wanted", CODECS)
def test_a_topic_has_its_own_codec(sent, wanted):
    records = build(RECORDS, codec=sent, producer_id=5, producer_epoch=0, base_sequence=3)
    kept = stored(records, topic(compression_type=wanted))
    header = batch.check(kept)
    assert (header.codec, header.producer_id, header.base_sequence) == (CODECS[wanted], 5, 3)
    assert list(batch.records_of(kept)) == RECORDS


def test_the_level_of_the_topic_is_used():
    records = build([Record(0, 0, b"k", bytes(range(256)) * 200)])
    fast, dense = (
        stored(records, topic(compression_type="gzip", compression_gzip_level=level)) for level in (1, 9)
    )
    assert len(dense) < len(fast)


def test_the_default_level_of_lz4_is_the_fast_method():
    records = build([Record(0, 0, b"k", bytes(range(256)) * 200)])
    assert stored(records, topic(compression_type="lz4")) == stored(
        records, topic(compression_type="lz4", compression_lz4_level=1)
    )


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("api_version", [0, 1, 2])
def test_an_old_message_set_becomes_one_batch(magic, codec, api_version):
    kept = stored(legacy.build(RECORDS, magic, codec=codec), api_version=api_version)
    header = batch.check(kept)
    assert (header.count, header.codec) == (5, codec)
    assert [(r.key, r.value) for r in batch.records_of(kept)] == [(r.key, r.value) for r in RECORDS]


def test_an_old_message_set_gets_the_codec_of_its_topic():
    kept = stored(legacy.build(RECORDS, 1, codec=Codec.GZIP), topic(compression_type="zstd"), api_version=2)
    assert batch.check(kept).codec is Codec.ZSTD


def test_what_comes_out_can_be_appended():
    log = Log.open(SimDisk(), "d/orders-0", topic(compression_type="lz4"))
    for version, records in [(2, legacy.build(RECORDS, 1)), (9, build(RECORDS, codec=Codec.GZIP))]:
        log.append(stored(records, log.config, version), 0, RECORDS[0].timestamp)
    assert log.end_offset == 10


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_message_set_in_a_new_request_is_refused(magic):
    assert refusal(legacy.build(RECORDS[:1], magic), api_version=3) is ErrorCode.INVALID_RECORD


def test_a_message_set_that_is_damaged_is_refused():
    damaged = bytearray(legacy.build(RECORDS, 1))
    damaged[-1] ^= 1
    assert refusal(damaged, api_version=2) is ErrorCode.CORRUPT_MESSAGE


def test_zstd_needs_a_version_that_knows_it():
    records = build(RECORDS, codec=Codec.ZSTD)
    assert refusal(records, api_version=6) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert batch.check(stored(records, api_version=7)).codec is Codec.ZSTD


def test_a_codec_that_nobody_knows_is_refused():
    unknown = changed(build(RECORDS), batch.ATTRIBUTES_AT, b"\x00\x05")
    assert refusal(unknown, topic(compression_type="lz4")) is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("api_version", [2, 9])
def test_two_batches_are_refused(api_version):
    assert refusal(build(RECORDS) * 2, api_version=api_version) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("records", [b"", b"\x00" * 5, b"\x02" * 40, b"\xff" * 200, build(RECORDS)[:-1]])
@pytest.mark.parametrize("api_version", [0, 9])
def test_what_is_no_batch_is_refused(records, api_version):
    assert refusal(records, api_version=api_version) in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


@pytest.mark.parametrize("magic", [3, 127])
def test_a_magic_of_the_future_is_damage(magic):
    records = bytearray(build(RECORDS))
    records[batch.MAGIC_AT] = magic
    assert refusal(records) is ErrorCode.CORRUPT_MESSAGE


def test_a_compacted_topic_names_the_records_without_a_key():
    keyless = [RECORDS[0], Record(1, 0, None, b"v"), RECORDS[2], Record(3, 0, None, b"v")]
    for codec in (Codec.NONE, Codec.GZIP):
        with pytest.raises(InvalidRecords) as caught:
            stored(build(keyless, codec=codec), COMPACTED)
        assert caught.value.code is ErrorCode.INVALID_RECORD
        assert [place for place, _ in caught.value.record_errors] == [1, 3]


def test_a_compacted_topic_takes_records_with_keys_and_keeps_their_bytes():
    records = build(RECORDS, codec=Codec.SNAPPY)
    assert stored(records, COMPACTED) is records
    assert stored(build([Record(0, 0, b"", None)]), COMPACTED)


def test_a_compacted_topic_refuses_old_messages_without_keys_as_well():
    with pytest.raises(InvalidRecords):
        stored(legacy.build([Record(0, 0, None, b"v")], 0), COMPACTED, api_version=1)


def test_a_refusal_does_not_name_more_records_than_it_should():
    many = build([Record(i, 0, None, None) for i in range(3000)])
    with pytest.raises(InvalidRecords) as caught:
        stored(many, COMPACTED)
    assert len(caught.value.record_errors) == intake.RECORD_ERRORS_MAX


LIES = {
    "too few records": (batch.COUNT_AT, b"\x00\x00\x00\x04"),
    "too many records": (batch.COUNT_AT, b"\x00\x00\x00\x06"),
    "a last offset too far": (batch.LAST_OFFSET_DELTA_AT, b"\x00\x00\x00\x09"),
    "a record longer than the rest": (batch.RECORDS_AT, b"\x7e"),
    "an offset that does not follow": (batch.RECORDS_AT + 3, b"\x02"),
}


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize(
    "config", [COMPACTED, topic(compression_type="gzip")], ids=["compacted", "recompressed"]
)
def test_a_lie_about_the_records_is_found_where_they_are_opened(lie, config):
    assert refusal(changed(build(RECORDS), *LIES[lie]), config) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_a_lie_about_the_records_is_found_wherever_walking_is_cheap(lie, form, compiled):
    assert refusal(form(changed(build(RECORDS), *LIES[lie]))) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("form", [bytes, bytearray, memoryview])
def test_what_is_sound_passes_the_walk_unchanged(form, codec, compiled):
    honest = form(build(RECORDS, codec=codec))
    assert stored(honest) is honest


def test_a_lie_under_compression_is_found_by_the_walk(compiled):
    lying = build(RECORDS, codec=Codec.GZIP)
    assert refusal(changed(lying, *LIES["too few records"])) is ErrorCode.INVALID_RECORD


def test_a_batch_too_large_for_a_walk_on_the_spot_waits_for_a_thread(monkeypatch, compiled):
    monkeypatch.setattr(intake, "WALKED_BYTES_MAX", 100)
    assert isinstance(prepare(build(RECORDS), 9, PLAIN), Slow)


@pytest.mark.parametrize("at", [batch.RECORDS_AT, batch.COUNT_AT])
def test_damage_is_called_damage_on_a_walk(at, compiled):
    damaged = bytearray(build(RECORDS))
    damaged[at] = 0x7E
    assert refusal(damaged) is ErrorCode.CORRUPT_MESSAGE


def test_damage_is_called_damage_where_records_are_opened():
    damaged = bytearray(build(RECORDS, codec=Codec.GZIP))
    damaged[-5] ^= 1
    assert refusal(damaged, COMPACTED) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_too_large_after_a_bounded_effort(codec):
    config = topic(cleanup_policy="compact", max_message_bytes=300_000)
    bomb = build([Record(0, 0, b"k", bytes(25 << 20))], codec=codec)
    if len(bomb) <= 300_000:
        assert prepare(bomb, 9, config).attempt() is None
    assert refusal(bomb, config) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_bomb_in_a_message_set_is_too_large():
    bomb = legacy.build([Record(0, 0, b"k", bytes(5 << 20))], 1, codec=Codec.GZIP)
    assert refusal(bomb, topic(max_message_bytes=10_000), 2) is ErrorCode.MESSAGE_TOO_LARGE


def test_a_batch_above_the_topics_limit_is_not_even_opened(monkeypatch):
    monkeypatch.setattr(intake, "open_section", None)
    config = topic(cleanup_policy="compact", max_message_bytes=100)
    assert refusal(build(RECORDS), config) is ErrorCode.MESSAGE_TOO_LARGE


def test_what_is_large_waits_for_a_thread():
    records = build([Record(0, 0, b"k", bytes(intake.INLINE_BYTES_MAX + 1))])
    slow = prepare(records, 9, COMPACTED)
    assert slow.attempt() is None
    assert slow.run() is records


@pytest.mark.parametrize(
    ("message_bytes", "limit"),
    [(0, 1 << 20), (100_000, 6_400_000), (1_048_588, 64 << 20), (80 << 20, 80 << 20)],
)
def test_how_much_is_decompressed_follows_the_size_of_messages(message_bytes, limit):
    assert decompressed_bytes_max(topic(max_message_bytes=message_bytes)) == limit


def test_a_batch_of_a_transaction_is_told_from_others_by_its_header():
    numbered = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    assert is_transactional(build(RECORDS, **numbered, is_transactional=True))
    assert not is_transactional(build(RECORDS, **numbered))
    assert not is_transactional(b"")
    assert not is_transactional(bytes(16) + b"\x01" + b"\xff" * 60)  # a message of an old format
