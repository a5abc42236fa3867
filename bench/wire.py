"""Requests as frames, built before the clock starts, and the few calls that prepare a broker for a measurement."""

import socket
import struct
import time
from typing import Any

from bench.stored import Layout, layout_of, stored_batch
from ottla.protocol.codec import decode
from ottla.protocol.framing import (
    RequestHeader,
    ResponseHeader,
    encode_request,
    response_header_version,
)
from ottla.protocol.messages.fetch import FetchRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse
from ottla.protocol.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

PARTITIONS = 4
PRODUCE, FETCH, METADATA, CREATE_TOPICS, DELETE_TOPICS = (0, 10), (1, 12), (3, 8), (19, 5), (20, 5)
TOPIC_ALREADY_EXISTS, NOT_LEADER_OR_FOLLOWER = 36, 6


def frame_of(api: tuple[int, int], request: object, correlation: int = 1) -> bytes:
    key, version = api
    header = RequestHeader(
        request_api_key=key,
        request_api_version=version,
        correlation_id=correlation,
        client_id="bench",
    )
    return b"".join(encode_request(header, request, version))


def produce_frame(topic: str, partition: int, batch: bytes | bytearray, acks: int = -1) -> bytes:
    records = ProduceRequest.Topic.Partition(index=partition, records=bytes(batch))
    topics = [ProduceRequest.Topic(name=topic, partition_data=[records])]
    return frame_of(PRODUCE, ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=topics))


def fetch_frame(topic: str, partition: int, offset: int, bytes_max: int) -> bytes:
    """The correlation id says how much is wanted: the raw server understands nothing else."""
    wanted = FetchRequest.Topic.Partition(
        partition=partition, fetch_offset=offset, partition_max_bytes=bytes_max
    )
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=64 << 20,
        topics=[FetchRequest.Topic(topic=topic, partitions=[wanted])],
    )
    return frame_of(FETCH, request, correlation=bytes_max)


def receive(connection: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view, got = memoryview(data), 0
    while got < size:
        count = connection.recv_into(view[got:])
        if not count:
            raise ConnectionError("the broker closed the connection")
        got += count
    return data


def exchange(connection: socket.socket, frame: bytes) -> bytearray:
    """The reply to a frame, without its size."""
    connection.sendall(frame)
    return receive(connection, struct.unpack(">i", receive(connection, 4))[0])


def call(port: int, api: tuple[int, int], request: object, response: Any) -> Any:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        reply = exchange(connection, frame_of(api, request))
    _, position = decode(ResponseHeader, reply, response_header_version(response, api[1]))
    return decode(response, bytes(reply), api[1], position)[0]


def create_topic(port: int, topic: str, partitions: int = PARTITIONS, *, by_asking: bool = False) -> None:
    """The topic, with a leader for every partition when this returns. `by_asking` is enough for the null broker."""
    if not by_asking:
        wanted = CreateTopicsRequest.Topic(
            name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=[]
        )
        wanted.configs = [CreateTopicsRequest.Topic.Setting(name="max.message.bytes", value=str(2 << 20))]
        request = CreateTopicsRequest(topics=[wanted], timeout_ms=60_000, validate_only=False)
        done = call(port, CREATE_TOPICS, request, CreateTopicsResponse).topics[0]
        assert done.error_code in (0, TOPIC_ALREADY_EXISTS), done
    deadline = time.monotonic() + 60
    while not _has_leaders(port, topic, partitions):
        assert time.monotonic() < deadline, f"{topic} has no leaders"
        time.sleep(0.01)


def _has_leaders(port: int, topic: str, partitions: int) -> bool:
    request = MetadataRequest(topics=[MetadataRequest.Topic(name=topic)], allow_auto_topic_creation=False)
    found = call(port, METADATA, request, MetadataResponse).topics[0]
    return len(found.partitions) == partitions and all(
        each.error_code == 0 and each.leader_id >= 0 for each in found.partitions
    )


def delete_topic(port: int, topic: str) -> None:
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=60_000)
    done = call(port, DELETE_TOPICS, request, DeleteTopicsResponse).responses[0]
    assert done.error_code == 0, done


def fill(port: int, topic: str) -> Layout:
    """Write what the topic's name says into each of its partitions."""
    layout = layout_of(topic)
    assert layout is not None, topic
    batch = stored_batch(layout)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        for partition in range(PARTITIONS):
            frame = produce_frame(topic, partition, batch)
            for _ in range(layout.batches):
                produce_patiently(connection, frame)
    return layout._replace(batch_bytes=len(batch))


def produce_patiently(connection: socket.socket, frame: bytes) -> None:
    """Apache Kafka names a leader a moment before the leader knows."""
    deadline = time.monotonic() + 30
    while True:
        response = decode(ProduceResponse, bytes(exchange(connection, frame)), PRODUCE[1], 5)[0]
        partition = response.responses[0].partition_responses[0]
        if partition.error_code == 0:
            return
        assert partition.error_code == NOT_LEADER_OR_FOLLOWER and time.monotonic() < deadline, partition
        time.sleep(0.01)
