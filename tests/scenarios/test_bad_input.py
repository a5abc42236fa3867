"""What a broker does with input that no client should send. The numbers name rows of our table of bad inputs.

Everything goes through a real socket. A connection that breaks the protocol is closed without a word, a request that
makes no sense is answered with its error, and in both cases the next client is served as if nothing had happened.
"""

import asyncio
import gzip
import logging
import os
import socket
import ssl
import struct
import time

import pytest

from ottla.core.errors import ErrorCode
from ottla.network.complaints import Complaints
from ottla.protocol.framing import decode_response
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.inter_broker import UpdateMetadataRequest
from ottla.protocol.messages.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataRequest
from ottla.protocol.messages.topics import CreateTopicsRequest
from ottla.records import batch, is_compiled
from ottla.records.compression import Codec, compress
from ottla.testing import Broker
from tests.scenarios.batches import good, lying, message_in_message, of_section, sealed
from tests.scenarios.raw import Raw, body_of, frame_of, produce_request

TOPIC = "orders"
MIB = 1 << 20
OWN_TASKS = 8
"""How many tasks and files the broker may have more or less of, whoever is connected."""
BROKEN = {ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture(scope="module")
def broker(data_dir):
    config = {
        "frame.timeout.ms": "500",
        "max.incremental.fetch.session.cache.slots": "10",
        "fetch.max.bytes": "1048576",
    }
    with Broker(data_dir=data_dir, config=config) as broker:
        broker.create_topic(TOPIC)
        yield broker


@pytest.fixture
def raw(broker):
    with Raw(broker.port) as raw:
        yield raw


@pytest.fixture(autouse=True)
def everybody_else_is_served(broker):
    broker._inner.node.server.hub.complaints = Complaints()  # every test is about a stranger
    yield
    with Raw(broker.port) as other:
        assert other.is_served()


def bad_requests(broker):
    return broker._inner.node.metrics.bad_requests.labels().value


def until(condition, seconds=60.0):
    """Wait for something that happens on another thread."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.002)


# --- frames -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [-1, -(2**31), 100 * MIB + 1, 2**31 - 1])
def test_b01_a_frame_of_impossible_size_is_the_end(raw, size):
    assert raw.send(struct.pack(">i", size)).closed()


@pytest.mark.parametrize("body", [b"", b"\0", b"\0\3\0\1\0\0\0"])
def test_b01_a_frame_without_a_whole_header_is_the_end(raw, body):
    assert raw.send_frame(body).closed()


@pytest.mark.parametrize(
    "key, version",
    [(999, 0), (-1, 0), (32767, 32767), (3, 99), (3, -1), (0, 32767), (58, 0)],
)
def test_b03_an_unknown_api_or_version_closes_the_connection_and_is_counted(broker, raw, key, version):
    before = bad_requests(broker)
    assert raw.send_frame(struct.pack(">hhih", key, version, 7, -1)).closed()
    assert bad_requests(broker) == before + 1


def test_b03_an_api_that_is_declared_but_not_served_is_as_good_as_unknown(raw):
    request = UpdateMetadataRequest(controller_id=1, controller_epoch=1, live_brokers=[])
    assert raw.send(frame_of(request, 5)).closed()


def test_b03_a_peer_that_comes_again_and_again_is_not_logged_each_time(broker, caplog):
    with caplog.at_level(logging.INFO):
        for _ in range(20):
            with Raw(broker.port) as raw:
                assert raw.send_frame(struct.pack(">hhih", 999, 0, 7, -1)).closed()
    assert sum("no API has the key 999" in record.getMessage() for record in caplog.records) <= 1


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_b04_api_versions_in_a_version_to_come_is_answered_in_version_0(raw, version):
    raw.send_frame(struct.pack(">hhih", 18, version, 7, -1) + b"whatever it holds by then")
    header, response = decode_response(ApiVersionsResponse, raw.receive_frame(), 0)
    assert header.correlation_id == 7
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    (row,) = [row for row in response.api_keys if row.api_key == 18]
    assert (row.min_version, row.max_version) == (0, 4)
    again = raw.ask(
        ApiVersionsRequest(client_software_name="raw", client_software_version="1"), row.max_version
    )
    assert again.error_code == 0
    assert len(again.api_keys) >= 10


# --- bodies -----------------------------------------------------------------------------------------------------------


def request_v1(tail: bytes) -> bytes:
    """Metadata v1: a header, and a body that the test makes up."""
    return struct.pack(">hhih", 3, 1, 7, 3) + b"raw" + tail


def request_v12(tail: bytes, header_tags: bytes = b"\0") -> bytes:
    """Metadata v12: flexible, so that lengths are varints and structs end in tagged fields."""
    return struct.pack(">hhih", 3, 12, 7, 3) + b"raw" + header_tags + tail


BAD_LENGTHS = {
    "an array of less than null": struct.pack(">i", -2),
    "an array longer than the frame": struct.pack(">i", 1000) + b"\0\1a",
    "the longest array there is": struct.pack(">i", 2**31 - 1),
    "the most negative array": struct.pack(">i", -(2**31)),
    "a string that may not be null": struct.pack(">ih", 1, -1),
    "a string of less than null": struct.pack(">ih", 1, -2),
    "a string longer than the frame": struct.pack(">ih", 1, 32767) + b"abc",
    "an end in the middle": struct.pack(">ih", 2, 1) + b"a",
}


@pytest.mark.parametrize("tail", BAD_LENGTHS.values(), ids=BAD_LENGTHS)
def test_b05_a_length_that_cannot_be_is_the_end(broker, raw, tail):
    before = bad_requests(broker)
    assert raw.send_frame(request_v1(tail)).closed()
    assert bad_requests(broker) == before + 1


@pytest.mark.parametrize("length", [-2, -32768, 32767, 5])
def test_b05_a_client_id_of_impossible_length_is_the_end(raw, length):
    assert raw.send_frame(struct.pack(">hhihi", 3, 1, 7, length, 0)).closed()


NO_TOPICS = b"\1\1\0\0"  # an empty array, two booleans... and the tagged section that follows
BAD_VARINTS = {
    "an array length of six bytes": request_v12(b"\xff\xff\xff\xff\xff\x01"),
    "an array length without an end": request_v12(b"\xff\xff\xff"),
    "an array of 2^32 - 2": request_v12(b"\xff\xff\xff\xff\x0f"),
    "2^31 tags": request_v12(b"\1\1\0" + b"\x80\x80\x80\x80\x08"),
    "a tag twice": request_v12(b"\1\1\0" + b"\2\5\1a\5\1a"),
    "tags out of order": request_v12(b"\1\1\0" + b"\2\6\1a\5\1a"),
    "a tag that is larger than the rest": request_v12(b"\1\1\0" + b"\1\5\x7fabc"),
    "a tag number of six bytes": request_v12(b"\1\1\0" + b"\1\xff\xff\xff\xff\xff\x01\1a"),
    "2^31 tags in the header": request_v12(b"\1\1\0\0", b"\x80\x80\x80\x80\x08"),
    "a tag twice in the header": request_v12(b"\1\1\0\0", b"\2\5\1a\5\1a"),
}


@pytest.mark.parametrize("body", BAD_VARINTS.values(), ids=BAD_VARINTS)
def test_b06_varints_and_tagged_fields_that_cannot_be_are_the_end(raw, body):
    assert raw.send_frame(body).closed()


def test_b06_a_tag_that_we_do_not_know_is_no_harm(raw):
    raw.send_frame(request_v12(b"\1\1\0" + b"\1\x64\3abc", b"\1\x64\2ab"))
    assert struct.unpack(">i", raw.receive_frame()[:4]) == (7,)


def test_b07_a_million_empty_elements_are_not_built(broker, raw):
    before = bad_requests(broker)
    assert raw.send_frame(request_v1(struct.pack(">i", 1_000_000) + bytes(2_000_000))).closed()
    assert bad_requests(broker) == before + 1


def test_b08_bytes_behind_the_body_are_ignored(raw):
    """As Kafka does, and has to: librdkafka leaves some behind when it lists all topics."""
    raw.send_frame(bytes(body_of(MetadataRequest(topics=[]), 1)) + b"more")
    assert struct.unpack(">i", raw.receive_frame()[:4]) == (1,)
    assert raw.is_served()


BAD_NAMES = [
    "",
    ".",
    "..",
    "a/b",
    "../../etc",
    "/etc",
    "nul\0",
    "a b",
    "a\nb",
    "ümlaut",
    "x" * 250,
    "y" * 32_000,
]


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda name: repr(name[:10]))
def test_b09_a_name_that_no_topic_may_have_never_gets_as_far_as_the_disk(broker, raw, data_dir, name):
    before = everything_in(data_dir)
    topic = CreateTopicsRequest.Topic(
        name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
    )
    created = raw.ask(CreateTopicsRequest(topics=[topic]), 5).topics[0]
    assert created.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    asked = raw.ask(MetadataRequest(topics=[MetadataRequest.Topic(name=name)]), 8)
    assert asked.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    produced = raw.produce(name, good())
    assert produced.error_code in (ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    assert everything_in(data_dir) == before


def test_b09_a_name_that_is_not_utf_8_is_the_end(raw):
    assert raw.send_frame(request_v1(struct.pack(">ih", 1, 2) + b"\xff\xfe")).closed()


def everything_in(directory):
    return {
        os.path.join(where, name) for where, folders, names in os.walk(directory) for name in folders + names
    }


# --- records ----------------------------------------------------------------------------------------------------------


def test_a_good_batch_is_taken(raw):
    assert raw.produce(TOPIC, good()).error_code == 0


def test_b10_a_wrong_checksum_is_a_corrupt_message(raw):
    damaged = bytearray(good())
    damaged[-1] ^= 1
    assert raw.produce(TOPIC, bytes(damaged)).error_code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [3, 64, 127, -1])
def test_b11_a_magic_from_the_future_is_a_corrupt_message(raw, magic):
    assert raw.produce(TOPIC, lying(batch.MAGIC_AT, "b", magic)).error_code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("version", [3, 9])
def test_b11_old_messages_in_a_new_produce_are_invalid(raw, magic, version):
    data = lying(batch.MAGIC_AT, "b", magic)
    assert raw.produce(TOPIC, data, version=version).error_code == ErrorCode.INVALID_RECORD


LIES = {
    "a length that is too large": lying(batch.LENGTH_AT, "i", 10_000),
    "a length that is too small": lying(batch.LENGTH_AT, "i", 20),
    "a negative length": lying(batch.LENGTH_AT, "i", -1),
    "more records than deltas": lying(batch.COUNT_AT, "i", 4),
    "fewer records than deltas": lying(batch.COUNT_AT, "i", 2),
    "no records": lying(batch.COUNT_AT, "i", 0),
    "less than no records": lying(batch.COUNT_AT, "i", -1),
    "more records than bytes": lying(batch.COUNT_AT, "i", 2**31 - 1),
    "a last delta that is too large": lying(batch.LAST_OFFSET_DELTA_AT, "i", 3),
    "a negative last delta": lying(batch.LAST_OFFSET_DELTA_AT, "i", -1),
    "two batches": good() + good(),
    "half a batch behind a whole one": good() + good()[:30],
    "less than a header": good()[:40],
    "nothing": b"",
}


@pytest.mark.parametrize("data", LIES.values(), ids=LIES)
def test_b12_a_batch_that_contradicts_itself_is_refused(broker, raw, data):
    end = broker.records(TOPIC)
    assert raw.produce(TOPIC, data).error_code in BROKEN
    assert broker.records(TOPIC) == end


def test_b12_no_records_at_all_are_refused(raw):
    assert raw.produce(TOPIC, None).error_code in BROKEN


@pytest.mark.parametrize("topic, settings", [("plain", {}), ("keyed", {"cleanup_policy": "compact"})])
def test_b12_a_record_section_that_lies_is_refused_where_it_is_walked_and_survived_elsewhere(
    broker, raw, topic, settings
):
    broker.create_topic(topic, **settings)
    twisted = bytearray(good())
    twisted[batch.RECORDS_AT + 3] = 99  # the first record's offset delta
    refused = raw.produce(topic, sealed(twisted)).error_code
    if is_compiled() or settings:
        assert refused == ErrorCode.INVALID_RECORD
    else:
        assert refused == 0
        assert fetch(raw, topic).records.nbytes == len(twisted)


def test_b13_a_control_batch_from_a_client_is_invalid(raw):
    control = lying(batch.ATTRIBUTES_AT, "h", batch.CONTROL_BIT)
    assert raw.produce(TOPIC, control).error_code == ErrorCode.INVALID_RECORD


def test_b13_a_producer_without_a_sequence_is_invalid(raw):
    data = lying(batch.PRODUCER_ID_AT, "q", 5)
    data = lying(batch.PRODUCER_EPOCH_AT, "h", 0, data)
    assert (
        raw.produce(TOPIC, lying(batch.BASE_SEQUENCE_AT, "i", -1, data)).error_code
        == ErrorCode.INVALID_RECORD
    )


def test_b14_a_batch_may_be_too_large_for_its_topic_or_for_a_segment(broker, raw):
    broker.create_topic("small", max_message_bytes=1000)
    broker.create_topic("short", segment_bytes=1000)
    large = good(1, b"x" * 2000)
    assert raw.produce("small", large).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert raw.produce("short", large).error_code == ErrorCode.RECORD_LIST_TOO_LARGE


# --- compression ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def recompressing(broker):
    """A topic whose batches are opened before they are stored."""
    broker.create_topic("recompressing", compression_type="uncompressed", max_message_bytes=100_000)
    return "recompressing"


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD, Codec.SNAPPY])
def test_b15_a_bomb_is_too_large_whatever_it_is_made_of(raw, recompressing, codec):
    bomb = compress(codec, bytes(20 * MIB)) if codec is not Codec.SNAPPY else snappy_claiming(2**32 - 1)
    assert len(bomb) < 90_000
    refused = raw.produce(recompressing, of_section(bomb, codec)).error_code
    if codec is Codec.SNAPPY:  # so few bytes cannot hold what they state: a lie rather than a bomb
        assert refused == ErrorCode.CORRUPT_MESSAGE
    else:
        assert refused == ErrorCode.MESSAGE_TOO_LARGE


def snappy_claiming(size: int) -> bytes:
    """Raw snappy states the size of its output up front."""
    varint = bytearray()
    while size > 127:
        varint.append(size & 127 | 128)
        size >>= 7
    return bytes([*varint, size]) + b"\0a"


def test_b15_a_gzip_that_never_ends_is_stopped_at_the_cap(raw, recompressing):
    layers = gzip.compress(gzip.compress(bytes(200 * MIB), 9), 9)  # 200 MiB in 200 KB in less than 2 KB
    once = gzip.decompress(layers)
    for data in (layers, once[:90_000]):
        assert raw.produce(recompressing, of_section(data, Codec.GZIP)).error_code in {
            ErrorCode.MESSAGE_TOO_LARGE,
            *BROKEN,
        }


@pytest.mark.parametrize("codec", [5, 6, 7])
@pytest.mark.parametrize("topic", [TOPIC, "recompressing"])
def test_b15_a_codec_that_does_not_exist_is_not_supported(raw, recompressing, topic, codec):
    refused = raw.produce(topic, of_section(b"whatever", codec))
    assert refused.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("depth", [2, 3, 50])
def test_b15_compressed_messages_in_compressed_messages_are_not_followed(raw, depth):
    refused = raw.produce(TOPIC, message_in_message(depth), version=2)
    assert refused.error_code in BROKEN


# --- produce and fetch ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [2, -2, 32767, -32768])
def test_b16_acks_are_none_one_or_all(raw, acks):
    assert raw.produce(TOPIC, good(), acks=acks).error_code == ErrorCode.INVALID_REQUIRED_ACKS


@pytest.mark.parametrize("topic, records", [("nowhere at all", good()), (TOPIC, good()[:-1] + b"?")])
def test_b16_who_wants_no_answer_learns_of_an_error_by_losing_the_connection(raw, topic, records):
    raw.send(frame_of(produce_request(topic, good(), acks=0), 9) if topic == TOPIC else b"")
    assert raw.is_served()
    assert raw.send(frame_of(produce_request(topic, records, acks=0), 9)).closed()


def fetch_request(topic: str, offset: int = 0, **settings: int) -> FetchRequest:
    partition = FetchRequest.Topic.Partition(
        partition=0, fetch_offset=offset, partition_max_bytes=settings.pop("partition_max_bytes", 2**31 - 1)
    )
    wanted = {"max_wait_ms": 0, "min_bytes": 0, **settings}
    return FetchRequest(topics=[FetchRequest.Topic(topic=topic, partitions=[partition])], **wanted)


def fetch(raw: Raw, topic: str, **settings: int):
    return raw.ask(fetch_request(topic, **settings), 11).responses[0].partitions[0]


def test_b17_an_answer_is_never_larger_than_the_broker_allows(broker, raw):
    broker.create_topic("bulk")
    for _ in range(4):
        assert raw.produce("bulk", good(1, bytes(500_000))).error_code == 0
    answer = fetch(raw, "bulk", max_bytes=2**31 - 1)
    assert 500_000 <= len(answer.records) <= MIB  # fetch.max.bytes


@pytest.mark.parametrize("limit", [0, -1, -(2**31)])
def test_b17_limits_below_zero_do_no_harm(raw, limit):
    answer = fetch(raw, TOPIC, max_bytes=limit, min_bytes=limit, max_wait_ms=limit, partition_max_bytes=limit)
    assert answer.error_code == 0


def test_b17_who_waits_for_ever_and_leaves_is_not_waited_for(broker):
    tasks = tasks_in(broker)
    waiting = [Raw(broker.port) for _ in range(20)]
    patient = fetch_request(TOPIC, 0, max_wait_ms=2**31 - 1, min_bytes=2**31 - 1)
    for raw in waiting:
        raw.send(frame_of(patient, 11))
    until(lambda: tasks_in(broker) >= tasks + 20)
    for raw in waiting:
        raw.socket.close()
    until(lambda: tasks_in(broker) <= tasks + OWN_TASKS)


def tasks_in(broker: Broker) -> int:
    async def count() -> int:
        return len(asyncio.all_tasks())

    return broker._run(count()) - 1


def test_b17_sessions_are_few_and_the_oldest_go(broker, raw):
    ids = [raw.ask(fetch_request(TOPIC, session_epoch=0), 11).session_id for _ in range(30)]
    assert len(broker._inner.node.fetch_sessions) <= 10
    known = [session for session in ids if session]
    answer = raw.ask(
        FetchRequest(max_wait_ms=0, min_bytes=0, topics=[], session_id=12345, session_epoch=1), 11
    )
    assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(known) >= 10


# --- slow and rude ----------------------------------------------------------------------------------------------------


def test_b18_a_request_that_comes_byte_by_byte_is_not_waited_for(broker, raw, caplog):
    """Every byte is progress; the deadline is for the whole request."""
    announced = struct.pack(">i", 10_000)  # more than will ever come
    with caplog.at_level(logging.INFO):
        raw.socket.settimeout(0.05)
        for byte in announced + bytes(1000):
            try:
                raw.socket.send(bytes([byte]))
                if raw.socket.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                break
        else:
            pytest.fail("it was never closed")
    assert any("not complete" in record.getMessage() for record in caplog.records)


def test_b18_a_connection_that_says_nothing_may_stay(broker, raw):
    with Raw(broker.port) as slow:
        slow.send(b"\0\0")
        assert slow.closed()  # the deadline for frames has passed meanwhile
    assert raw.is_served()


def test_b19_who_never_reads_is_not_read_from_and_in_the_end_closed(broker, raw, caplog):
    raw.produce(TOPIC, good(1, bytes(300_000)))
    with Raw(broker.port, receive_buffer=4096) as deaf, caplog.at_level(logging.INFO):
        deaf.socket.setblocking(False)
        flood = frame_of(fetch_request(TOPIC), 11) * 200
        taken, is_closed = 0, False
        until_closed = time.monotonic() + 60
        while not is_closed and time.monotonic() < until_closed:
            try:
                taken += deaf.socket.send(flood)
            except BlockingIOError:
                time.sleep(0.01)
            except (ConnectionResetError, BrokenPipeError):
                is_closed = True
            assert queued_bytes(broker) <= 8 * MIB
        assert is_closed
        assert taken < 20 * MIB, "the broker went on reading"
    assert any("read no replies" in record.getMessage() for record in caplog.records)


def queued_bytes(broker: Broker) -> int:
    """What waits to be sent, on all connections together; stretches of files are not in memory."""
    return sum(
        connection._transport.get_write_buffer_size()
        for connection in list(broker._inner.node.server.connections)
        if connection.is_open
    )


def test_b20_connections_that_break_leave_nothing_behind(broker):
    tasks, files = tasks_in(broker), len(os.listdir("/proc/self/fd"))
    request = frame_of(produce_request(TOPIC, good(1, bytes(100_000))), 9)
    for number in range(300):
        raw = Raw(broker.port).send(request[: 1 + number * 300])
        raw.reset() if number % 2 else raw.socket.close()
    for _ in range(300):
        Raw(broker.port).socket.close()
    until(lambda: not broker._inner.node.server.connections)
    until(
        lambda: (
            tasks_in(broker) <= tasks + OWN_TASKS and len(os.listdir("/proc/self/fd")) <= files + OWN_TASKS
        )
    )


def test_b20_a_peer_that_resets_while_it_is_answered_leaves_nothing_behind(broker):
    tasks = tasks_in(broker)
    for _ in range(50):
        Raw(broker.port, receive_buffer=4096).send(frame_of(fetch_request(TOPIC), 11) * 10).reset()
    until(lambda: not broker._inner.node.server.connections and tasks_in(broker) <= tasks + OWN_TASKS)


def client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    hello = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="broker")
    with pytest.raises(ssl.SSLWantReadError):
        hello.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(
    "said, hint",
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "HTTP"),
        (b"POST /topics HTTP/1.1\r\n\r\n", "HTTP"),
        (client_hello(), "TLS"),
    ],
    ids=["GET", "POST", "TLS"],
)
def test_b21_who_speaks_something_else_is_closed_at_once_with_one_line_that_says_so(
    broker, raw, caplog, said, hint
):
    with caplog.at_level(logging.INFO):
        assert raw.send(said).closed()
        until(lambda: any(hint in record.getMessage() for record in caplog.records))
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("ottla")]
    assert len(lines) == 1
    assert f"looks like {'HTTP' if hint == 'HTTP' else 'a TLS handshake'}" in lines[0]
    assert f"127.0.0.1:{raw.socket.getsockname()[1]}" in lines[0] if raw.socket.fileno() != -1 else True


def test_a_real_tls_client_is_told_no_at_once(broker):
    context = ssl.create_default_context()
    with (
        socket.create_connection(("127.0.0.1", broker.port), 60) as plain,
        pytest.raises((ssl.SSLError, OSError)),
    ):
        context.wrap_socket(plain, server_hostname="localhost")
