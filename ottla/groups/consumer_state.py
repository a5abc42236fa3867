"""What the log holds of a KIP-848 group. It changes by `apply` alone, and reading the log again gives the same.

No record is refused: after compaction they come in any order in which each key's last one stands, so a member may have
partitions before it has a name, and a tombstone may be for somebody who is not there.
"""

import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ottla.groups.consumer_member import (
    LEAVES,
    NOTHING,
    Member,
    MemberState,
    Partitions,
    partitions_of,
    with_current,
    with_metadata,
)
from ottla.protocol.messages import coordinator_records as records
from ottla.protocol.messages.coordinator_records import ConsumerGroupTargetAssignmentMemberValue
from ottla.replication.machine import Entry


class ResolvedRegex(NamedTuple):
    """The topics that a pattern stood for when it was last looked up."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class ConsumerState:
    """Members with what they have, their targets, and who owns which partition."""

    def __init__(self) -> None:
        self.epoch = 0
        self.metadata_hash = 0
        self.assignment_epoch = 0
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.targets: dict[str, Partitions] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.has_partition_metadata = False
        """Whether an older coordinator left a record that nobody reads any more."""
        self.is_erased = False
        self._owners: dict[tuple[uuid.UUID, int], str] = {}
        self._name_counts: Counter[str] = Counter()
        self._regex_counts: Counter[str] = Counter()

    def is_free(self, topic_id: uuid.UUID, partition: int) -> bool:
        """Whether nobody has this partition, nor has yet to give it back."""
        return (topic_id, partition) not in self._owners

    def regex_subscriber_count(self, regex: str) -> int:
        return self._regex_counts[regex]

    def subscribes_to(self, topic: str) -> bool:
        return topic in self._name_counts or any(topic in regex.topics for regex in self.regexes.values())

    def static_member(self, instance_id: str) -> Member | None:
        return self.members.get(self.static_members.get(instance_id, ""))

    def apply(self, entry: Entry) -> None:
        """Take in one of the group's records. Others are passed over."""
        apply = _APPLY.get(type(entry.key))
        if apply is not None:
            apply(self, entry.key, entry.value)

    def apply_metadata(self, value: records.ConsumerGroupMetadataValue | None) -> None:
        self.is_erased = value is None
        self.epoch = value.epoch if value is not None else 0
        self.metadata_hash = value.metadata_hash if value is not None else 0

    def apply_partition_metadata(self, value: records.ConsumerGroupPartitionMetadataValue | None) -> None:
        self.has_partition_metadata = value is not None

    def apply_member(self, member_id: str, value: records.ConsumerGroupMemberMetadataValue | None) -> None:
        if value is not None:
            self.is_erased = False
            member = with_metadata(self.members.get(member_id) or Member(member_id), value)
            self._put(member)
            if member.instance_id is not None:
                self.static_members[member.instance_id] = member_id
        elif member_id in self.members:
            self._remove(member_id)

    def apply_target_metadata(self, value: records.ConsumerGroupTargetAssignmentMetadataValue | None) -> None:
        self.assignment_epoch = value.assignment_epoch if value is not None else 0

    def apply_target(self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None) -> None:
        if value is not None:
            self.targets[member_id] = partitions_of(value.topic_partitions)
        else:
            self.targets.pop(member_id, None)

    def apply_current(
        self, member_id: str, value: records.ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        member = self.members.get(member_id)
        if value is not None:
            member = with_current(member or Member(member_id), value)
            self._put(member)
            self._owners.update(dict.fromkeys(_keys(member), member_id))
        elif member is not None:
            self._put(
                member._replace(
                    epoch=LEAVES,
                    previous_epoch=LEAVES,
                    state=MemberState.STABLE,
                    assigned=NOTHING,
                    to_revoke=NOTHING,
                )
            )

    def apply_regex(self, regex: str, value: records.ConsumerGroupRegularExpressionValue | None) -> None:
        if value is not None:
            self.regexes[regex] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
        else:
            self.regexes.pop(regex, None)

    def _put(self, member: Member) -> None:
        """What another has by now is left to it: a record takes only what it speaks of."""
        before = self.members.get(member.id)
        if before is not None:
            self._forget(before)
        self.members[member.id] = member
        if member.instance_id is not None:
            self.static_members.setdefault(member.instance_id, member.id)
        self._name_counts.update(member.topic_names)
        if member.topic_regex is not None:
            self._regex_counts[member.topic_regex] += 1
        for key in _keys(member):
            self._owners.setdefault(key, member.id)

    def _remove(self, member_id: str) -> None:
        self._forget(self.members.pop(member_id))

    def _forget(self, member: Member) -> None:
        """Take back what `_put` noted elsewhere, but nothing that is another's by now."""
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.id:
            del self.static_members[member.instance_id]
        _count_down(self._name_counts, member.topic_names)
        _count_down(self._regex_counts, () if member.topic_regex is None else (member.topic_regex,))
        for key in _keys(member):
            if self._owners.get(key) == member.id:
                del self._owners[key]


def _keys(member: Member) -> Iterable[tuple[uuid.UUID, int]]:
    for partitions in (member.assigned, member.to_revoke):
        for topic_id, indexes in partitions.items():
            for index in indexes:
                yield topic_id, index


def _count_down(counts: Counter[str], names: Iterable[str]) -> None:
    for name in names:
        counts[name] -= 1
        if counts[name] <= 0:
            del counts[name]


_APPLY: dict[type[Any], Callable[[ConsumerState, Any, Any], None]] = {
    records.ConsumerGroupMetadataKey: lambda state, _, value: state.apply_metadata(value),
    records.ConsumerGroupPartitionMetadataKey: lambda state, _, value: state.apply_partition_metadata(value),
    records.ConsumerGroupMemberMetadataKey: lambda state, key, value: state.apply_member(
        key.member_id, value
    ),
    records.ConsumerGroupTargetAssignmentMetadataKey: lambda state, _, value: state.apply_target_metadata(
        value
    ),
    records.ConsumerGroupTargetAssignmentMemberKey: lambda state, key, value: state.apply_target(
        key.member_id, value
    ),
    records.ConsumerGroupCurrentMemberAssignmentKey: lambda state, key, value: state.apply_current(
        key.member_id, value
    ),
    records.ConsumerGroupRegularExpressionKey: lambda state, key, value: state.apply_regex(
        key.regular_expression, value
    ),
}
