"""The groups of a shard: which there are, of which type, and how one takes another's place.

A group comes to be by a record, or in memory when its first member joins. Groups of the consumer protocol are in the
log from their first moment. A classic group is there once it was Stable, or if it has offsets: until then nothing is
lost with it that its members would not bring back.

Where there are offsets there is a group: if it is erased and they are not, one that only keeps offsets takes its place.

A group that a request makes in another's place is expected: it arrives with the first of its records, and what is left
of the old one's tombstones is then for somebody who is no longer there, and passed over. A shard that is read from the
log comes to the same end. If the records are refused, everything stays as it was.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from ottla.core.clock import Moment
from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.classic import ClassicGroup
from ottla.groups.consumer import ConsumerGroup
from ottla.groups.group import Surroundings
from ottla.protocol.messages import coordinator_records as records
from ottla.protocol.messages.coordinator_records import GroupMetadataValue
from ottla.replication.machine import Entry, Ticket

AnyGroup = ClassicGroup | ConsumerGroup

CONSUMER_KEYS: Final[frozenset[type[Any]]] = frozenset(
    {
        records.ConsumerGroupMetadataKey,
        records.ConsumerGroupPartitionMetadataKey,
        records.ConsumerGroupMemberMetadataKey,
        records.ConsumerGroupTargetAssignmentMetadataKey,
        records.ConsumerGroupTargetAssignmentMemberKey,
        records.ConsumerGroupCurrentMemberAssignmentKey,
        records.ConsumerGroupRegularExpressionKey,
    }
)
"""Keys of the records of groups of the consumer protocol."""


class Groups:
    """Groups by id. `count_max` bounds what requests may make; what the log holds is always taken."""

    def __init__(
        self, around: Surroundings, count_max: int | None, has_offsets: Callable[[str], bool]
    ) -> None:
        self._around = around
        self._has_offsets = has_offsets
        self._count_max = count_max
        self._groups: dict[str, AnyGroup] = {}
        self._expected: dict[str, AnyGroup] = {}

    def __iter__(self) -> Iterator[AnyGroup]:
        return iter(self._groups.values())

    def get(self, group_id: str) -> AnyGroup | None:
        return self._groups.get(group_id)

    def find(self, group_id: str) -> AnyGroup:
        """Raises GROUP_ID_NOT_FOUND."""
        group = self._groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        return group

    def find_classic(self, group_id: str) -> ClassicGroup:
        """Raises GROUP_ID_NOT_FOUND, also for a group of another type."""
        group = self.find(group_id)
        if not isinstance(group, ClassicGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
        return group

    def find_consumer(self, group_id: str) -> ConsumerGroup:
        """Raises GROUP_ID_NOT_FOUND, also for a group of another type."""
        group = self.find(group_id)
        if not isinstance(group, ConsumerGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
        return group

    def check_room(self, group_id: str) -> None:
        """Is there room for this one, if it is new? GROUP_MAX_SIZE_REACHED is, of the codes that every client takes as
        final, the one that comes closest; with a code to be tried again they would knock for ever."""
        is_new = group_id not in self._groups
        if is_new and self._count_max is not None and len(self._groups) >= self._count_max:
            raise KafkaError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"{group_id!r} would be one group too many: {self._count_max} are allowed",
            )

    def put(self, group: AnyGroup) -> None:
        """Make it known, in place of any other of this name; that one's clocks stop."""
        before = self._groups.get(group.group_id)
        if before is not None:
            _stop(before)
        self._groups[group.group_id] = group

    def expect(self, group: AnyGroup) -> None:
        """It will be known with the first of its records."""
        self._expected[group.group_id] = group

    def give_up(self, group: AnyGroup) -> None:
        """Its records were refused."""
        del self._expected[group.group_id]
        _stop(group)

    def waiting(self) -> Iterator[Ticket]:
        """Whoever waits for a reply, in any group."""
        for group in self:
            yield from group.waiting()

    def activate(self, now: Moment) -> None:
        for group in self:
            if isinstance(group, ClassicGroup):
                group.started(now)
            else:
                group.activate(now)

    # --- what the log says --------------------------------------------------------------------------------------

    def apply_commit(self, group_id: str) -> None:
        """Somebody committed offsets. If nobody has heard of the group, it is one that only keeps offsets."""
        if group_id not in self._groups:
            self._groups[group_id] = ClassicGroup(group_id, self._around)

    def apply_classic(self, group_id: str, value: GroupMetadataValue | None) -> None:
        """A record of a classic group. Whatever it says, it does not end a group of another type."""
        self._arrive(group_id)
        group = self._groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return
        if value is None:
            if group is not None:
                group.apply_tombstone()
                self._erase(group_id)
            return
        if group is None:
            group = self._groups[group_id] = ClassicGroup(group_id, self._around)
        group.apply_metadata(value)

    def apply_consumer(self, entry: Entry) -> None:
        """A record of a group of the consumer protocol. A classic group makes room for it only if it has no records of
        its own: then it was put there for offsets that came first."""
        group_id: str = entry.key.group_id
        self._arrive(group_id)
        group = self._groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            if entry.value is None or not (group is None or _only_keeps_offsets(group)):
                return
            group = ConsumerGroup(group_id, self._around)
            self.put(group)
        group.apply(entry)
        if isinstance(entry.key, records.ConsumerGroupMetadataKey) and entry.value is None:
            if group.successor is not None:
                self._groups[group_id] = group.successor
            else:
                self._erase(group_id)

    def _arrive(self, group_id: str) -> None:
        group = self._expected.pop(group_id, None)
        if group is not None:
            self.put(group)

    def _erase(self, group_id: str) -> None:
        del self._groups[group_id]
        if self._has_offsets(group_id):
            self.apply_commit(group_id)


def _only_keeps_offsets(group: ClassicGroup) -> bool:
    return group.is_empty and not group.protocol_type


def _stop(group: AnyGroup) -> None:
    if isinstance(group, ClassicGroup):
        group.apply_tombstone()
    else:
        group.clocks.stop_everything()
