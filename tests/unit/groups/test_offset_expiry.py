"""When offsets are past, and when they never are."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from ottla.groups.offset_expiry import expired
from ottla.groups.offsets import Offsets
from ottla.protocol.messages.coordinator_records import OffsetCommitValue

RETENTION = 1_000
COMMITTED = 50_000


@dataclass
class SomeGroup:
    """As much of a group as expiry looks at."""

    is_empty: bool = True
    type_name: str = "Classic"
    state_name: str = "Empty"
    protocol_type: str = "consumer"
    group_id: str = "group"
    since_ms: int | None = None
    reads: set[str] = field(default_factory=set)

    def empty_since_ms(self) -> int | None:
        return self.since_ms

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.reads


SIMPLE: dict[str, Any] = {"protocol_type": ""}
LIVE: dict[str, Any] = {"is_empty": False, "state_name": "Stable"}


def offsets_with(expire_timestamp: int = -1, producer_id: int | None = None) -> Offsets:
    offsets = Offsets()
    value = OffsetCommitValue(
        offset=1, metadata="", commit_timestamp=COMMITTED, expire_timestamp=expire_timestamp
    )
    offsets.put("group", "orders", 0, value, None)
    if producer_id is not None:
        offsets.put("group", "orders", 0, value, producer_id)
    return offsets


def is_expired(group: SomeGroup, now_ms: int, offsets: Offsets | None = None) -> bool:
    known: Any = group
    return bool(list(expired(offsets or offsets_with(), known, RETENTION, now_ms)))


@pytest.mark.parametrize(
    ("group", "from_ms"),
    [
        (SomeGroup(since_ms=60_000), 61_000),
        (SomeGroup(since_ms=60_000, protocol_type="connect"), 61_000),
        (SomeGroup(since_ms=None), 51_000),
        (SomeGroup(**SIMPLE), 51_000),
        (SomeGroup(**LIVE), 51_000),
        (SomeGroup(is_empty=False, type_name="Consumer", state_name="Reconciling"), 51_000),
    ],
)
def test_retention_counts_from_the_day_the_group_was_left_or_else_from_the_commit(group, from_ms):
    assert not is_expired(group, from_ms - 1)
    assert is_expired(group, from_ms)


@pytest.mark.parametrize(
    "group",
    [
        SomeGroup(reads={"orders"}, **LIVE),
        SomeGroup(protocol_type="connect", **LIVE),
        SomeGroup(is_empty=False, state_name="PreparingRebalance"),
        SomeGroup(is_empty=False, state_name="CompletingRebalance"),
        SomeGroup(is_empty=False, type_name="Consumer", reads={"orders"}),
    ],
)
def test_what_a_live_group_may_read_is_never_past(group):
    assert not is_expired(group, 10**15)


def test_what_the_client_asked_for_comes_first():
    offsets = offsets_with(expire_timestamp=50_010)
    assert not is_expired(SomeGroup(since_ms=1), 50_009, offsets)
    assert is_expired(SomeGroup(since_ms=60_000), 50_010, offsets)


def test_what_a_transaction_will_decide_about_is_not_past():
    offsets = offsets_with(producer_id=7)
    assert not is_expired(SomeGroup(), 10**15, offsets)
    offsets.end(7, is_commit=False)
    assert is_expired(SomeGroup(), 10**15, offsets)


def test_a_clock_that_went_back_expires_nothing():
    assert not is_expired(SomeGroup(), COMMITTED - 10**12)
