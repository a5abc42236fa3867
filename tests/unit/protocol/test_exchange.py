"""One API in one version, from the side that answers: the same bytes as the general codec, whatever the version."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.errors import ProtocolError
from ottla.protocol.apis import APIS, api_of
from ottla.protocol.exchange import Exchange
from ottla.protocol.framing import (
    RequestHeader,
    ResponseHeader,
    UnsupportedVersion,
    decode_request,
    encode_request,
    encode_response,
)
from ottla.protocol.messages.fetch import FetchResponse
from ottla.protocol.messages.inter_broker import ControlledShutdownRequest
from ottla.protocol.messages.metadata import ApiVersionsRequest, MetadataRequest, MetadataResponse
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.primitives import part_size

METADATA, PRODUCE, FETCH, CONTROLLED_SHUTDOWN, API_VERSIONS = 3, 0, 1, 7, 18
EVERY_VERSION = [(key, version) for key in APIS for version in api_of(key).versions]


class Stretch:
    """Bytes in a file, as far as a codec can tell."""

    def __init__(self, content):
        self.content = content
        self.size = len(content)

    def read_into(self, start, buffer):
        return 0


def request_frame(request, version, client_id="client", correlation_id=7, unknown_tags=None):
    header = RequestHeader(
        request_api_key=api_key_of(request),
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    if unknown_tags:
        header.unknown_tags = unknown_tags
    return b"".join(bytes(part) for part in encode_request(header, request, version))[4:]


def api_key_of(request):
    return next(key for key in APIS if api_of(key).request is type(request))


def joined(parts):
    return b"".join(part.content if isinstance(part, Stretch) else bytes(part) for part in parts)


as_it_comes = pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])


@as_it_comes
@pytest.mark.parametrize("version", list(api_of(METADATA).versions))
@pytest.mark.parametrize("client_id", ["", "client", "kühn", None])
def test_a_request_is_read_as_the_general_decoder_reads_it(kind, version, client_id):
    request = MetadataRequest(topics=[MetadataRequest.Topic(name="tea")])
    frame = request_frame(request, version, client_id)
    exchange = Exchange.of(kind(frame))
    assert (exchange.api.key, exchange.version) == (METADATA, version)
    assert exchange.read(kind(frame)) == (client_id, decode_request(frame)[1])
    assert exchange.request_end == len(frame)


@as_it_comes
def test_tagged_fields_in_the_header_are_skipped(kind):
    frame = request_frame(ApiVersionsRequest(), 4, unknown_tags={3: b"what is this", 9: b""})
    client_id, request = Exchange.of(kind(frame)).read(kind(frame))
    assert (client_id, request) == ("client", ApiVersionsRequest())


def test_the_oldest_header_has_no_client_id():
    frame = request_frame(ControlledShutdownRequest(broker_id=5), 0, None)
    client_id, request = Exchange.of(frame).read(frame)
    assert (client_id, request.broker_id) == (None, 5)


@as_it_comes
def test_what_follows_a_request_is_left_alone_and_known_to_be_there(kind):
    frame = request_frame(ApiVersionsRequest(), 3)
    exchange = Exchange.of(frame)
    assert exchange.read(kind(frame + b"\0\0\0"))[1] == ApiVersionsRequest()
    assert exchange.request_end == len(frame)


@as_it_comes
def test_a_request_that_ends_early_is_refused_at_every_byte(kind):
    batch = bytes(100)
    part = ProduceRequest.Topic.Partition(index=1, records=batch)
    topic = ProduceRequest.Topic(name="tea", partition_data=[part])
    for version in (0, 3, 8, 9, 12):
        frame = request_frame(ProduceRequest(acks=1, timeout_ms=5, topic_data=[topic]), version)
        exchange = Exchange.of(frame)
        for end in range(8, len(frame)):
            with pytest.raises(ProtocolError):
                exchange.read(kind(frame[:end]))


@given(st.binary(max_size=80), st.sampled_from(EVERY_VERSION))
def test_nonsense_is_read_or_refused_and_nothing_else(body, which):
    key, version = which
    frame = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4) + body
    exchange = Exchange.of(frame)
    try:
        client_id, request = exchange.read(frame)
    except ProtocolError:
        return
    assert client_id is None or isinstance(client_id, str)
    assert isinstance(request, exchange.api.request)
    assert exchange.request_end <= len(frame)


@as_it_comes
def test_a_client_id_that_is_no_text_is_refused(kind):
    frame = bytearray(request_frame(MetadataRequest(topics=[]), 4))
    frame[10] = 0xFF
    with pytest.raises(ProtocolError, match="UTF-8"):
        Exchange.of(frame).read(kind(frame))


@pytest.mark.parametrize("size", range(8))
def test_less_than_a_header_is_no_request(size):
    with pytest.raises(ProtocolError, match=f"a request of {size} bytes has no header"):
        Exchange.of(bytes(size))


def test_an_unknown_api_and_an_unknown_version_are_refused():
    with pytest.raises(ProtocolError):
        Exchange.of(b"\x7f\xff\0\0\0\0\0\0")
    with pytest.raises(UnsupportedVersion) as raised:
        Exchange.of(b"\0\x12\0\x7b\0\0\0\x09")
    assert (raised.value.api.key, raised.value.version, raised.value.correlation_id) == (API_VERSIONS, 123, 9)


@pytest.mark.parametrize("version", list(api_of(METADATA).versions))
@pytest.mark.parametrize("correlation_id", [0, 1, -1, 2**31 - 1])
def test_a_response_is_written_as_the_general_encoder_writes_it(version, correlation_id):
    response = MetadataResponse(brokers=[], controller_id=1, topics=[])
    expected = encode_response(ResponseHeader(correlation_id=correlation_id), response, version)
    written = Exchange(api_of(METADATA), version).write(correlation_id, response)
    assert joined(written) == joined(expected)


def test_the_answer_about_versions_has_the_oldest_header_in_every_version():
    response = api_of(API_VERSIONS).response(error_code=0, api_keys=[])
    for version in api_of(API_VERSIONS).versions:
        expected = encode_response(ResponseHeader(correlation_id=5), response, version)
        assert joined(Exchange(api_of(API_VERSIONS), version).write(5, response)) == joined(expected)


@pytest.mark.parametrize("version", list(api_of(FETCH).versions))
@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 100_000])
def test_stretches_of_files_are_hung_between_the_rest_and_count_in_the_size(version, size):
    content = bytes(range(256)) * (size // 256 + 1)

    def response(records):
        part = FetchResponse.Topic.Partition
        parts = [
            part(partition_index=index, error_code=0, high_watermark=1, records=each)
            for index, each in enumerate([records, b"plain", records])
        ]
        return FetchResponse(responses=[FetchResponse.Topic(topic="tea", partitions=parts)])

    exchange = Exchange(api_of(FETCH), version)
    plain = exchange.write(3, response(content[:size]))
    stretched = exchange.write(3, response(Stretch(content[:size])))
    assert joined(stretched) == joined(plain)
    assert sum(isinstance(part, Stretch) for part in stretched) == 2, "nothing of a file is read here"
    assert sum(map(part_size, stretched)) == int.from_bytes(joined(stretched)[:4], "big") + 4


def test_a_reply_does_not_share_memory_with_the_next_one():
    exchange = Exchange(api_of(METADATA), 1)
    response = MetadataResponse(brokers=[], controller_id=1, topics=[])
    first = joined(exchange.write(1, response))
    second = joined(exchange.write(2, response))
    assert first[4:8] == b"\0\0\0\1" and second[4:8] == b"\0\0\0\2"
