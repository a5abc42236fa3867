"""Who is in a classic group: members by id and by instance id, those that are only expected, and the leader.

Counts are kept along, so that a join costs the same in a group of three and in one of five hundred.
The leader is a member, or there is none because there are no members.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.timers import Timer
from ottla.groups.classic_member import ClassicMember, Supported
from ottla.replication.machine import Alarm, Ticket


class Roster:
    """The members of one group."""

    def __init__(self) -> None:
        self.members: dict[str, ClassicMember] = {}
        self.pending: dict[str, Timer[Alarm]] = {}
        """Ids that were given out to new members, which must come back with them."""
        self.leader_id: str | None = None
        self.joined_count = 0
        """How many wait for the end of the join phase."""
        self._id_of_instance: dict[str, str] = {}
        self._supporters: Counter[str] = Counter()
        self._topics: frozenset[str] | None = None
        self._are_topics_read = False

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[ClassicMember]:
        return iter(self.members.values())

    @property
    def has_all_joined(self) -> bool:
        return self.joined_count == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """Everybody gets the time that the slowest has asked for."""
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def id_of(self, instance_id: str) -> str | None:
        """Which member holds this instance id now."""
        return self._id_of_instance.get(instance_id)

    def check(self, member_id: str, instance_id: str | None) -> ClassicMember:
        """The member that these ids name. Raises FENCED_INSTANCE_ID when another has taken its place."""
        if instance_id is not None:
            holder = self._id_of_instance.get(instance_id)
            if holder is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"nobody has the instance id {instance_id!r}")
            if holder != member_id:
                raise KafkaError(
                    ErrorCode.FENCED_INSTANCE_ID, f"{instance_id!r} is {holder!r} now, not {member_id!r}"
                )
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id!r} is not a member")
        return member

    def supports_any(self, names: Iterable[str]) -> bool:
        """Is there one among these protocols that every member supports?"""
        return any(self._supporters[name] == len(self.members) for name in names)

    def subscribes_to(self, topic: str) -> bool:
        """Whether anybody reads it, as far as can be told: it may be anything if not. Subscriptions are read once and
        not for each topic that there are offsets of."""
        if not self._are_topics_read:
            read = [member.topics() for member in self]
            known = [topics for topics in read if topics is not None]
            self._topics = frozenset[str]().union(*known) if len(known) == len(read) else None
            self._are_topics_read = True
        return self._topics is None or topic in self._topics

    # --- coming and going ----------------------------------------------------------------------------------------

    def add(self, member: ClassicMember) -> None:
        """The first one to join leads."""
        assert member.member_id not in self.members
        if member.instance_id is not None:
            assert member.instance_id not in self._id_of_instance, "it would have been replaced"
            self._id_of_instance[member.instance_id] = member.member_id
        self.members[member.member_id] = member
        self._are_topics_read = False
        self._supporters.update(one.name for one in member.protocols)
        self.joined_count += member.join_ticket is not None
        if self.leader_id is None:
            self.leader_id = member.member_id

    def remove(self, member_id: str) -> ClassicMember | None:
        """Its timer and its tickets are for the caller to settle."""
        member = self.members.pop(member_id, None)
        if member is None:
            return None
        self._are_topics_read = False
        self._supporters.subtract(one.name for one in member.protocols)
        self._supporters += Counter()  # drops the zeros: names that nobody has any more must not pile up
        self.joined_count -= member.join_ticket is not None
        if member.instance_id is not None:
            del self._id_of_instance[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        return member

    def replace(self, old_id: str, new: ClassicMember) -> ClassicMember:
        """A static member came back under a new id: it takes the old one's place, also as a leader."""
        was_leader = self.leader_id == old_id
        old = self.remove(old_id)
        assert old is not None and old.instance_id == new.instance_id
        self.add(new)
        if was_leader:
            self.leader_id = new.member_id
        return old

    def settle(self, members: Collection[ClassicMember], leader_id: str | None) -> list[ClassicMember]:
        """Exactly these, as the log says. Returns those who are no longer among them."""
        kept = {member.member_id for member in members}
        gone = [member for member in self if member.member_id not in kept]
        self.members, self._id_of_instance, self._supporters = {}, {}, Counter()
        self.joined_count, self.leader_id = 0, None
        self._are_topics_read = False
        for member in members:
            # No group of ours has anybody twice, but a record can say anything.
            if member.member_id not in self.members and member.instance_id not in self._id_of_instance:
                self.add(member)
        if leader_id in self.members:
            self.leader_id = leader_id
        return gone

    # --- joining again -------------------------------------------------------------------------------------------

    def change(
        self,
        member: ClassicMember,
        protocols: Sequence[Supported],
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> None:
        """A member says anew what it supports."""
        self._supporters.subtract(one.name for one in member.protocols)
        self._are_topics_read = False
        member.protocols = protocols
        self._supporters.update(one.name for one in protocols)
        self._supporters += Counter()
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms

    def hold_join(self, member: ClassicMember, ticket: Ticket, version: int) -> Ticket | None:
        """It waits for the others. Returns the ticket of an earlier request, which waits in vain."""
        before, member.join_ticket = member.join_ticket, ticket
        member.join_version = version
        self.joined_count += before is None
        return before

    def release_join(self, member: ClassicMember) -> Ticket | None:
        """Its wait is over."""
        ticket, member.join_ticket = member.join_ticket, None
        self.joined_count -= ticket is not None
        return ticket

    def elect(self) -> bool:
        """Whoever leads must have joined. False if nobody has."""
        leader = self.members.get(self.leader_id or "")
        if leader is not None and leader.join_ticket is not None:
            return True
        joined = next((member.member_id for member in self if member.join_ticket is not None), None)
        self.leader_id = joined if joined is not None else self.leader_id
        return joined is not None


def elected_protocol(members: Collection[ClassicMember]) -> str:
    """Each member votes for its first choice among the protocols that all support; the most votes win."""
    candidates = set.intersection(*({one.name for one in member.protocols} for member in members))
    votes = Counter(
        next(one.name for one in member.protocols if one.name in candidates) for member in members
    )
    return max(votes, key=votes.__getitem__)  # of several, the one that was voted for first
