"""The rows of COMPATIBILITY.md. A test says with `feature(...)` which row it decides."""

from typing import NamedTuple

import pytest

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MIXED = "50 MB of mixed records"
"""Decides two rows: that of who wrote, and that of who read."""
CROSSING = "Read by another client"
"""Decides the second table, who reads what whom wrote."""
_JOIN_GROUP, _ADD_PARTITIONS_TO_TXN, _CONSUMER_GROUP_HEARTBEAT = 11, 24, 68


class Feature(NamedTuple):
    """A row. `api` is what the broker must serve before the row can be tried at all."""

    name: str
    section: str
    api: int | None = None


_SECTIONS = {
    "Produce and consume": (
        *(f"Codec {codec}" for codec in CODECS),
        "Keys",
        "Headers",
        "Null headers",
        "Timestamps",
        "LogAppendTime",
        "Tombstones",
        "Empty keys and values",
        "acks 0, 1 and all",
        "Idempotent producer",
        "Topics created on first use",
        "Consume from within a batch",
        "read_committed consumer",
        "Too large a record is refused",
        "A record above the fetch size",
        "100 partitions",
        "Decompressed by the broker",
        "Message sets of Kafka 0.8 to 0.10",
        "Waits for new records",
        "Goes on after the broker was killed",
        MIXED + ", as producer",
        MIXED + ", as consumer",
    ),
    "Offsets": ("First and last offset", "Offset by time", "Offset of the newest record"),
    "Administration": (
        "Describe cluster",
        "List and describe topics",
        "Create topics with configs",
        "Errors by their number",
        "Read configs",
        "Alter configs",
        "Add partitions",
        "Delete records",
        "Delete topics",
        "Sizes of log directories",
        "Producers of a partition",
    ),
}
_CLASSIC = ("Consumer groups", "Members come, go and die", "Cooperative rebalancing", "Static members")
_CONSUMER = ("Consumer protocol", "Topics by a pattern that the broker matches")
_TRANSACTIONS = (
    "Transactions",
    "Several partitions in a transaction",
    "Offsets in a transaction",
    "Zombies are fenced",
    "Transactions time out",
    "read_committed waits for open transactions",
)
FEATURES: dict[str, Feature] = {
    feature.name: feature
    for feature in (
        *(Feature(name, section) for section, names in _SECTIONS.items() for name in names),
        *(Feature(name, "Coordinators", _JOIN_GROUP) for name in _CLASSIC),
        *(Feature(name, "Coordinators", _CONSUMER_GROUP_HEARTBEAT) for name in _CONSUMER),
        *(Feature(name, "Coordinators", _ADD_PARTITIONS_TO_TXN) for name in _TRANSACTIONS),
    )
}


def feature(name: str) -> pytest.MarkDecorator:
    assert name in {*FEATURES, MIXED, CROSSING}, f"no row is called {name}"
    return pytest.mark.feature(name)
