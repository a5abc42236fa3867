"""Directories as Apache Kafka leaves them: one that it wrote itself, and such as no test would wait for."""

import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ottla.core.ids import TopicPartition
from ottla.protocol.codec import encode_bytes
from ottla.protocol.messages import cluster_metadata as records
from ottla.protocol.messages.cluster_metadata import KINDS
from ottla.protocol.primitives import uvarint
from ottla.records.builder import build
from ottla.records.control import ControlType, control_key
from ottla.records.record import Record
from ottla.storage.checkpoints import write_partition_metadata
from ottla.storage.files import OsFiles
from ottla.storage.meta import METADATA_DIRECTORY, Meta, write_meta

RECORDED = Path(__file__).parent / "recorded" / "apache-4.3.1"
"""Written by Apache Kafka 4.3.1, node 4, alone: `orders` (3 partitions, retention.ms=-1), `grown` (from 1 to 3), `late`
(segment.bytes=2000000), `gone` (deleted); log.retention.ms=123456789 for all brokers; an ACL of alice, one of bob that
was removed; a quota of alice, one that was removed; a SCRAM credential of carol; producer ids below 1000. There is a
snapshot in the middle of it."""
CLUSTER_ID = "b3R0bGEtdGVzdHMtMDAwMQ"
NODE_ID = 4
DIRECTORY_ID = uuid.UUID("9900722d-e631-41e3-a762-089ea773ee11")
TOPIC_ID = uuid.UUID(int=1000)
_NUMBERS = {cls: number for number, cls in KINDS.items()}


def recorded(directory: Path) -> Path:
    """A copy, to be spoiled."""
    shutil.copytree(RECORDED, directory, dirs_exist_ok=True)
    return directory


def framed(record: Any, version: int | None = None) -> bytes:
    """A record as it is the value of one in the log; in its newest version unless told."""
    cls = type(record)
    version = max(cls.versions) if version is None else version
    return uvarint(1) + uvarint(_NUMBERS[cls]) + uvarint(version) + encode_bytes(record, version)


def batch(values: Sequence[Any], offset: int = 0) -> bytes:
    """One batch of records, or of values that are framed already."""
    framed_values = [each if isinstance(each, bytes) else framed(each) for each in values]
    rows = [Record(offset + delta, 0, None, value) for delta, value in enumerate(framed_values)]
    return bytes(build(rows, base_offset=offset, leader_epoch=1))


def control(kind: ControlType, value: bytes = b"\0\0", offset: int = 0) -> bytes:
    return bytes(build([Record(offset, 0, control_key(kind), value)], base_offset=offset, is_control=True))


def snapshot(*values: Any) -> bytes:
    head, tail = (
        control(ControlType.SNAPSHOT_HEADER),
        control(ControlType.SNAPSHOT_FOOTER, offset=1 + len(values)),
    )
    return head + (batch(values, 1) if values else b"") + tail


def write_log(directory: Path, *batches: Sequence[Any], base: int = 0) -> Path:
    """`__cluster_metadata-0` with one segment."""
    place = directory / METADATA_DIRECTORY
    place.mkdir(parents=True, exist_ok=True)
    data, offset = b"", base
    for values in batches:
        data += batch(values, offset)
        offset += len(values)
    (place / f"{base:020}.log").write_bytes(data)
    return place


def write_directory(
    directory: Path, *values: Any, partitions: Sequence[TopicPartition] = (), node_id: int = NODE_ID
) -> Path:
    """A whole log directory: metadata with these records in one batch, and empty partitions."""
    write_log(directory, values)
    (directory / METADATA_DIRECTORY / "quorum-state").write_text(
        f'{{"currentVoters":[{{"voterId":{node_id}}}],"data_version":0}}'
    )
    write_meta(OsFiles(), str(directory), Meta(node_id, CLUSTER_ID, DIRECTORY_ID))
    make_partitions(directory, *partitions)
    return directory


def make_partitions(directory: Path, *partitions: TopicPartition, topic_id: uuid.UUID = TOPIC_ID) -> None:
    for partition in partitions:
        path = directory / str(partition)
        path.mkdir()
        write_partition_metadata(OsFiles(), str(path), topic_id)


def topic(name: str = "orders", topic_id: uuid.UUID = TOPIC_ID) -> Any:
    return records.TopicRecord(name=name, topic_id=topic_id)


def partition(
    index: int = 0, topic_id: uuid.UUID = TOPIC_ID, replicas: Sequence[int] = (NODE_ID,), **others: Any
) -> Any:
    values: dict[str, Any] = {
        "isr": list(replicas),
        "removing_replicas": [],
        "adding_replicas": [],
        "leader": replicas[0],
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": [DIRECTORY_ID] * len(replicas),
    }
    return records.PartitionRecord(
        partition_id=index, topic_id=topic_id, replicas=list(replicas), **(values | others)
    )


def broker(broker_id: int = NODE_ID, log_dirs: Sequence[uuid.UUID] = (DIRECTORY_ID,)) -> Any:
    return records.RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=uuid.UUID(int=500),
        broker_epoch=1,
        end_points=[],
        features=[],
        rack=None,
        log_dirs=list(log_dirs),
    )


def setting(name: str, key: str, value: str | None, kind: int = 2) -> Any:
    return records.ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
