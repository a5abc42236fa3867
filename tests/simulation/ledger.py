"""What must hold, whatever happens: a second, much simpler account of what coordinators do.

It sees every record of `__consumer_offsets` that is committed, every end of a transaction in every partition, and what
clients were told. It knows nothing of how the coordinators came to it.
"""

from bisect import bisect_right
from typing import Any, NamedTuple

from ottla.protocol.messages.coordinator_records import GroupMetadataKey, OffsetCommitKey
from ottla.protocol.messages.record_types import CONSUMER_OFFSETS, decode_key, decode_value
from ottla.testing.simulation.producer_states import Marker
from ottla.testing.simulation.world import World

NOTHING = -1


class Place(NamedTuple):
    group: str
    topic: str
    partition: int


class Ledger:
    """Violates the world as soon as something does not hold."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.generations: dict[str, int] = {}
        self.committed_notes: set[str] = set()
        """The notes of all committed offsets: clients write a different one each time."""
        self.outcomes: dict[str, bool] = {}
        """How each transaction ended, as the first partition had it."""
        self.asked: set[str] = set()
        """Those whose producers want them committed."""
        self.acknowledged: dict[str, bool] = {}
        """And as its producer was told."""
        self._history: dict[Place, list[tuple[int, int]]] = {}  # (offset in the log, committed offset)
        self._pending: dict[int, dict[Place, tuple[int, str, int]]] = {}
        self._sources: dict[Place, int] = {}  # where in the log the committed offset was written
        self._owners: dict[tuple[str, int], dict[Any, str]] = {}
        self._leases: dict[str, dict[Any, dict[str, int]]] = {}

    # --- offsets

    def group_record(self, offset: int, item: Any) -> None:
        """A record of the groups' partition is committed."""
        if isinstance(item, Marker):
            self._end_pending(offset, item)
            return
        key = decode_key(CONSUMER_OFFSETS, item.key)
        value = None if item.value is None else decode_value(CONSUMER_OFFSETS, item.key, item.value)
        if isinstance(key, GroupMetadataKey) and value is None:
            self.generations.pop(key.group, None)  # the group is gone, or speaks the other protocol now
        elif isinstance(key, GroupMetadataKey):
            if value.generation < self.generations.get(key.group, 0):
                self.world.violate("generations grow", f"{key.group} went back to {value.generation}")
            self.generations[key.group] = value.generation
        if not isinstance(key, OffsetCommitKey):
            return
        place = Place(key.group, key.topic, key.partition)
        if value is not None:
            self._check_generation(place, value.metadata)
        if item.producer is not None:
            self._pending.setdefault(item.producer.id, {})[place] = (value.offset, value.metadata, offset)
            return
        if value is not None:
            self.committed_notes.add(value.metadata)
        self._sources[place] = offset
        self._history.setdefault(place, []).append((offset, NOTHING if value is None else value.offset))

    def _check_generation(self, place: Place, note: str) -> None:
        """Notes are `client|generation|number`."""
        generation = note.split("|")[1]
        if generation and int(generation) < self.generations.get(place.group, 0):
            self.world.violate(
                "no commit of an earlier generation", f"{note} in {self.generations[place.group]}"
            )

    def _end_pending(self, offset: int, marker: Marker) -> None:
        pending = self._pending.pop(marker.producer.id, {})
        self.ended("the group's offsets", [note for _, note, _ in pending.values()], marker.is_commit)
        if marker.is_commit:
            for place, (committed, note, written) in pending.items():
                self.committed_notes.add(note)
                if written > self._sources.get(
                    place, -1
                ):  # else somebody has committed since, and that stays
                    self._sources[place] = written
                    self._history.setdefault(place, []).append((offset, committed))

    def check_acknowledged(self, note: str) -> None:
        """A client was told that this is committed."""
        if note not in self.committed_notes:
            self.world.violate("what is acknowledged is committed", note)

    def check_fetched(
        self, place: Place, committed: int, since: int, until: int, *, is_current: bool
    ) -> None:
        """A client was told this. Between asking and being told, the log grew from `since` to `until` records. Only a
        coordinator that was deposed without knowing may speak of the past, but never of what did not happen."""
        history = self._history.get(place, [])
        first = bisect_right(history, (since, -2)) - 1 if is_current else -1
        last = bisect_right(history, (until, -2))
        allowed = {value for _, value in history[max(first, 0) : last]}
        if first < 0:
            allowed.add(NOTHING)
        if committed not in allowed:
            self.world.violate(
                "committed offsets neither vanish nor appear",
                f"{place}: {committed}, not in {sorted(allowed)}",
            )

    def committed(self, place: Place) -> int:
        """The last one."""
        return self._history[place][-1][1] if place in self._history else NOTHING

    # --- members

    def owns(self, group: str, generation: int, member: str, partitions: list[Any]) -> None:
        """A member of a classic group was told what is its own in this generation."""
        owners = self._owners.setdefault((group, generation), {})
        for partition in partitions:
            owner = owners.setdefault(partition, member)
            if owner != member:
                sentence = (
                    f"{partition} of {group} belongs to {owner} and {member} in generation {generation}"
                )
                self.world.violate("one owner per generation", sentence)

    def leases(self, group: str, member: str, partitions: list[Any], until_ms: int) -> None:
        """A member of the consumer protocol owns these, and nothing else, until it says more or this moment is over."""
        leases = self._leases.setdefault(group, {})
        for holders in leases.values():
            holders.pop(member, None)
        for partition in partitions if until_ms > self.world.now_ms else ():
            holders = leases.setdefault(partition, {})
            others = [each for each, end_ms in holders.items() if end_ms > self.world.now_ms]
            if others:
                sentence = f"{partition} of {group} belongs to {others[0]} and {member}"
                self.world.violate("one owner at a time", sentence)
            holders[member] = until_ms

    # --- transactions

    def ended(self, where: str, attempts: list[str], is_commit: bool) -> None:
        """A marker ended what these transactions had written here. It must be one, and end everywhere the same way."""
        distinct = list(dict.fromkeys(_attempt_of(attempt) for attempt in attempts))
        if len(distinct) > 1:
            self.world.violate("a zombie writes into no other transaction", f"{where}: {', '.join(distinct)}")
        for attempt in distinct:
            if is_commit and attempt not in self.asked:
                self.world.violate("nothing is committed unasked", f"{attempt} at {where}")
            if self.outcomes.setdefault(attempt, is_commit) != is_commit:
                self.world.violate("all or nothing", f"{attempt} ended both ways, {where} is the other")
            if self.acknowledged.get(attempt, is_commit) != is_commit:
                self.world.violate("what is acknowledged holds", f"{attempt} at {where}")

    def acknowledge(self, attempt: str, is_commit: bool) -> None:
        """Its producer was told how it ended."""
        self.acknowledged[attempt] = is_commit
        if self.outcomes.get(attempt, is_commit) != is_commit:
            self.world.violate("what is acknowledged holds", attempt)


def _attempt_of(note: str) -> str:
    """Notes of offsets carry the transaction as their last part."""
    return note.rsplit("|", 1)[-1]
