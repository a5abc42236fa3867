"""Frames out of a stream, and the header that goes with each message."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.errors import ProtocolError
from ottla.protocol.apis import APIS
from ottla.protocol.framing import (
    FrameReader,
    RequestHeader,
    ResponseHeader,
    UnsupportedVersion,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    request_header_version,
    response_header_version,
)
from ottla.protocol.messages.produce import ProduceRequest


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(1, 30), max_size=40))
def test_frames_come_out_whole_however_the_stream_is_cut(bodies, cuts):
    stream, reader, found = framed(*bodies), FrameReader(), []
    for cut in [*cuts, len(stream)]:
        found += reader.feed(stream[:cut])
        stream = stream[cut:]
    assert found == bodies
    assert reader.held_bytes == 0


def test_a_large_frame_in_many_pieces_is_one_bytes_object():
    body = bytes(range(256)) * 40
    stream, reader = framed(body, b"next"), FrameReader()
    found = [frame for at in range(0, len(stream), 1500) for frame in reader.feed(stream[at : at + 1500])]
    assert found == [body, b"next"]
    assert all(type(frame) is bytes for frame in found)


def test_held_bytes_are_those_that_arrived():
    reader = FrameReader()
    assert list(reader.feed(memoryview(b"\0\0\x10\0abc"))) == []
    assert reader.held_bytes == 3


def test_memory_grows_with_what_arrived_not_with_what_was_announced():
    tracemalloc.start()
    try:
        reader = FrameReader()
        list(reader.feed((90_000_000).to_bytes(4, "big")))
        for _ in range(5000):
            list(reader.feed(b"ab"))
        assert tracemalloc.get_traced_memory()[1] < 4 * 10_000 + 8192
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_an_impossible_size_is_refused_at_once(size):
    with pytest.raises(ProtocolError, match=f"frame of {size} bytes, 1000 allowed$"):
        list(FrameReader(1000).feed(size.to_bytes(4, "big", signed=True)))


def test_frames_before_a_bad_one_are_still_handed_out():
    frames = FrameReader(1000).feed(framed(b"good") + b"\xff\xff\xff\xff")
    assert next(frames) == b"good"
    with pytest.raises(ProtocolError):
        next(frames)


@pytest.mark.parametrize(
    ("start", "hint"),
    [
        (b"GET / HTTP/1.1", "frame of 1195725856 bytes.*looks like HTTP"),
        (b"POST /", "HTTP"),
        (b"\x16\x03\x01\x02\x00", "TLS handshake"),
        (b"\x15\x03\x03\x00\x02", "TLS alert"),
    ],
)
def test_other_protocols_are_recognised(start, hint):
    with pytest.raises(ProtocolError, match=hint):
        list(FrameReader().feed(start))


@pytest.mark.parametrize(
    ("key", "version", "request_version", "response_version"),
    [
        (0, 8, 1, 0),
        (0, 9, 2, 1),
        (7, 0, 0, 0),
        (7, 1, 1, 0),
        (7, 3, 2, 1),
        (17, 1, 1, 0),
        (18, 2, 1, 0),
        (18, 3, 2, 0),
        (18, 4, 2, 0),
    ],
)
def test_which_header_goes_with_which_message(key, version, request_version, response_version):
    assert request_header_version(APIS[key].request, version) == request_version
    assert response_header_version(APIS[key].response, version) == response_version


def test_the_client_id_is_never_compact():
    request = APIS[18].request(client_software_name="ottla", client_software_version="1")
    header = RequestHeader(request_api_key=18, request_api_version=3, correlation_id=7, client_id="me")
    frame = b"".join(encode_request(header, request, 3))
    assert frame.hex() == "00000016" "0012" "0003" "00000007" "00026d65" "00" "066f74746c61" "0231" "00"  # fmt: skip


@pytest.mark.parametrize("version", [0, 2, 3])
def test_requests_and_responses_come_back_as_sent(version):
    request = APIS[18].request() if version < 3 else APIS[18].request(client_software_name="x")
    header = RequestHeader(request_api_key=18, request_api_version=version, correlation_id=7)
    (frame,) = FrameReader().feed(b"".join(encode_request(header, request, version)))
    assert decode_request(frame) == (header, request)
    response = APIS[18].response(error_code=3, api_keys=[])
    (frame,) = FrameReader().feed(
        b"".join(encode_response(ResponseHeader(correlation_id=7), response, version))
    )
    assert decode_response(APIS[18].response, frame, version) == (ResponseHeader(correlation_id=7), response)


def test_large_records_stay_parts_of_a_frame():
    records = bytes(10_000)
    partition = ProduceRequest.Topic.Partition(index=0, records=records)
    topic = ProduceRequest.Topic(name="t", partition_data=[partition])
    request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[topic])
    header = RequestHeader(request_api_key=0, request_api_version=9, correlation_id=1)
    parts = encode_request(header, request, 9)
    assert any(part is records for part in parts)
    (frame,) = FrameReader().feed(b"".join(parts))
    assert decode_request(frame)[1] == request


def test_an_unknown_version_still_tells_the_correlation_id():
    frame = bytes.fromhex("0012" "0063" "0000002a" "ffff")  # fmt: skip
    with pytest.raises(
        UnsupportedVersion, match="ApiVersions version 99 is not spoken here, only 0-4"
    ) as caught:
        decode_request(frame)
    assert (caught.value.api.key, caught.value.version, caught.value.correlation_id) == (18, 99, 42)


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        ("", "has no header"),
        ("00120003000000", "has no header"),
        ("03e7000000000001", "no API has the key 999"),
        ("ffff000000000001", "no API has the key -1"),
        ("00120000000000010004", "RequestHeader v1: RequestHeader.client_id claims 4 bytes"),
        ("0012000000000001ffff00", "ApiVersionsRequest v0: 1 bytes after its end"),
    ],
)
def test_bad_requests_are_refused(frame, complaint):
    with pytest.raises(ProtocolError, match=complaint):
        decode_request(bytes.fromhex(frame))
