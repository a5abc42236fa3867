"""Requests captured from real clients: we read what they meant, and would have sent the same bytes."""

import json
from pathlib import Path

import pytest

from ottla.protocol.apis import api_of
from ottla.protocol.framing import decode_request, encode_request, request_header_version
from tests.oracles.kafka_json import as_json

FRAMES = sorted((Path(__file__).parents[2] / "golden").glob("*.hex"))


@pytest.mark.parametrize("path", FRAMES, ids=lambda path: path.stem)
def test_a_captured_request_reads_as_kafka_reads_it_and_writes_back_the_same(path):
    frame = bytes.fromhex(path.read_text())
    expected = json.loads(path.with_suffix(".json").read_text())
    header, request = decode_request(frame)
    version = header.request_api_version
    assert as_json(header, request_header_version(type(request), version)) == expected["header"]
    assert as_json(request, version) == expected["body"]
    assert b"".join(encode_request(header, request, version))[4:] == frame


def test_the_captured_requests_come_from_many_clients_and_apis():
    names = [path.stem.split("_v") for path in FRAMES]
    clients = {rest.partition("_")[2] for *_, rest in names}
    assert clients >= {"aiokafka", "java-3.9", "java-4.3", "kafka-python", "kafkajs", "librdkafka"}
    keys = {decode_request(bytes.fromhex(path.read_text()))[0].request_api_key for path in FRAMES}
    assert len(keys) >= 30
    assert {api_of(key).name for key in keys} >= {"Produce", "Fetch", "JoinGroup", "ShareFetch", "EndTxn"}
