"""The groups of one partition of `__consumer_offsets`, whatever protocol they speak, with their offsets.

A shard finds the group that a request is for, or says as Kafka does that there is none; what the group makes of it is
the group's business. Records reach groups and offsets by `apply` alone. A group that only keeps offsets has no record
of its own: it is there as soon as they are, until it is erased.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NoReturn, TypeVar

from ottla.core.clock import Moment
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.core.timers import Timers
from ottla.groups import offset_requests
from ottla.groups.classic import ClassicGroup
from ottla.groups.classic_join import check_join
from ottla.groups.classic_turn import join_refusal
from ottla.groups.consumer import ConsumerGroup
from ottla.groups.consumer_migration import decide_upgrade
from ottla.groups.consumer_requests import check_heartbeat
from ottla.groups.group import Asker, Group, GroupSettings, Settings, Surroundings, Topics
from ottla.groups.offset_expiry import expired
from ottla.groups.offsets import Offsets
from ottla.groups.shard_groups import CONSUMER_KEYS, Groups
from ottla.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.messages.coordinator_records import (
    GroupMetadataKey,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
)
from ottla.protocol.messages.groups import (
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ottla.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from ottla.protocol.messages.transactions import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from ottla.replication.machine import Alarm, Decision, Entry, Later, Producer, Ticket

R = TypeVar("R")

_MINUTE_MS = 60_000
_OFFSET_KEYS = (OffsetCommitKey, LegacyOffsetCommitKey)

# Versions of requests
_EPOCHS_IN_COMMITS_SINCE = 9
_MANY_LEAVE_SINCE = 3
_DEAD_IS_AN_ERROR_SINCE = 6


class GroupShard:
    """A `Machine`. `groups_max` bounds how many groups requests may make; what the log holds is always taken."""

    def __init__(
        self,
        settings: Settings,
        settings_of: Callable[[str], GroupSettings],
        topics: Topics,
        new_id: Callable[[], uuid.UUID],
        now: Moment,
        *,
        groups_max: int | None = None,
    ) -> None:
        self.timers: Timers[Alarm] = Timers(now.monotonic_ms)
        self._around = Surroundings(settings, settings_of, topics, self.timers, new_id)
        self._offsets = Offsets()
        self._groups = Groups(self._around, groups_max, self._offsets.holds)

    @property
    def count(self) -> int:
        """Of what it knows."""
        return sum(1 for _ in self._groups)

    # --- members ------------------------------------------------------------------------------------------------

    def decide_join(
        self, request: JoinGroupRequest, asker: Asker, ticket: Ticket, now: Moment
    ) -> Decision[JoinGroupResponse]:
        """Classic members, in a group of either type. A group that nobody is in becomes a classic one."""
        group = self._groups.get(request.group_id)
        if group is not None and (isinstance(group, ClassicGroup) or not group.is_empty):
            return group.decide_join(request, asker, ticket, now)
        return self._join_new(request, asker, ticket, now)

    def _join_new(
        self, request: JoinGroupRequest, asker: Asker, ticket: Ticket, now: Moment
    ) -> Decision[JoinGroupResponse]:
        """The first to join makes the group, if it is let in. Who has a member id already had it from another group."""
        try:
            check_join(request, self._around.settings)
            if request.member_id:
                raise _no_member(request.group_id)
            self._groups.check_room(request.group_id)
        except KafkaError as error:
            return Decision(join_refusal(error.code, request.member_id, asker.api_version))
        before = self._groups.get(request.group_id)
        group = ClassicGroup(request.group_id, self._around)
        decision = group.decide_join(request, asker, ticket, now)
        if (
            not isinstance(decision.reply, Later)
            and decision.reply.error_code != ErrorCode.MEMBER_ID_REQUIRED
        ):
            return decision
        if before is None:
            self._groups.put(group)
            return decision
        decision.entries = [*before.tombstones(), *decision.entries]
        return self._expecting(group, decision)

    def decide_sync(
        self, request: SyncGroupRequest, asker: Asker, ticket: Ticket, now: Moment
    ) -> Decision[SyncGroupResponse]:
        group = self._groups.get(request.group_id)
        if group is None or group.is_empty:
            raise _no_member(request.group_id)
        return group.decide_sync(request, asker, ticket, now)

    def decide_heartbeat(
        self, request: HeartbeatRequest, asker: Asker, now: Moment
    ) -> Decision[HeartbeatResponse]:
        group = self._groups.get(request.group_id)
        if group is None:
            raise _no_member(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group.decide_classic_heartbeat(request, asker, now)
        return group.decide_heartbeat(request, asker, now)

    def decide_leave(
        self, request: LeaveGroupRequest, asker: Asker, now: Moment
    ) -> Decision[LeaveGroupResponse]:
        """Where there is no group, each of those who leave is unknown."""
        group = self._groups.get(request.group_id)
        if group is not None:
            return group.decide_leave(request, asker, now)
        if asker.api_version < _MANY_LEAVE_SINCE:
            raise _no_member(request.group_id)
        unknown = [
            LeaveGroupResponse.Member(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=ErrorCode.UNKNOWN_MEMBER_ID,
            )
            for member in request.members
        ]
        return Decision(LeaveGroupResponse(error_code=ErrorCode.NONE, members=unknown))

    def decide_consumer_heartbeat(
        self, request: ConsumerGroupHeartbeatRequest, asker: Asker, now: Moment
    ) -> Decision[ConsumerGroupHeartbeatResponse]:
        """Members of the consumer protocol. Who joins may make the group, or turn a classic one into it."""
        check_heartbeat(request, asker.api_version, self._around.settings.group_consumer_assignors)
        group = self._groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return group.decide_heartbeat(request, asker, now)
        if request.member_epoch != 0:
            raise _no_consumer_group(request.group_id, group)
        if group is not None:
            made, decision = decide_upgrade(group, self._around, request, asker, now)
        else:
            self._groups.check_room(request.group_id)
            made = ConsumerGroup(request.group_id, self._around)
            decision = made.decide_heartbeat(request, asker, now)
        return self._expecting(made, decision)

    def _expecting(self, group: ClassicGroup | ConsumerGroup, decision: Decision[R]) -> Decision[R]:
        """The decision makes this group; if it is refused, the group was never there."""

        def give_up(error: KafkaError) -> NoReturn:
            self._groups.give_up(group)
            decision.answers = ()  # whoever waits in the group that stays goes on waiting
            raise error

        self._groups.expect(group)
        decision.if_refused = give_up
        return decision

    # --- offsets ------------------------------------------------------------------------------------------------

    def decide_commit(
        self, request: OffsetCommitRequest, asker: Asker, now: Moment
    ) -> Decision[OffsetCommitResponse]:
        """Commit offsets. Whoever names no generation may do so in a group without members, also in one that is new."""
        group = self._groups.get(request.group_id)
        epoch = request.generation_id_or_member_epoch
        if group is not None:
            group.check_commit(request.member_id, epoch, request.group_instance_id, asker, now, is_txn=False)
        elif epoch < 0:
            self._groups.check_room(request.group_id)
        elif asker.api_version >= _EPOCHS_IN_COMMITS_SINCE:
            raise _no_group(request.group_id)
        else:
            raise _no_generation(request.group_id, epoch)
        response, entries = offset_requests.commit(
            request, self._around.settings.offset_metadata_max_bytes, now.wall_ms
        )
        return Decision(response, entries, if_refused=_unchanged)

    def decide_txn_commit(
        self, request: TxnOffsetCommitRequest, asker: Asker, now: Moment
    ) -> Decision[TxnOffsetCommitResponse]:
        """Commit offsets with the transaction of the producer, which has shown elsewhere that it has one."""
        group = self._groups.get(request.group_id)
        if group is not None:
            self._check_txn_commit(group, request, asker, now)
        elif request.generation_id < 0:
            self._groups.check_room(request.group_id)
        else:
            raise _no_generation(request.group_id, request.generation_id)
        response, entries = offset_requests.commit_in_transaction(
            request, self._around.settings.offset_metadata_max_bytes, now.wall_ms
        )
        producer = Producer(request.producer_id, request.producer_epoch)
        return Decision(response, entries, producer=producer, if_refused=_unchanged)

    def fetch_offsets(
        self, group: OffsetFetchRequest.Group, require_stable: bool
    ) -> OffsetFetchResponse.Group:
        """What is committed. A group that is not there has committed nothing."""
        found = self._groups.get(group.group_id)
        if found is None:
            topics = offset_requests.fetch_nothing(group)
        else:
            found.check_fetch(group.member_id, group.member_epoch)
            topics = offset_requests.fetch(self._offsets, group, require_stable)
        return OffsetFetchResponse.Group(group_id=group.group_id, topics=topics)

    def decide_delete_offsets(
        self, request: OffsetDeleteRequest, now: Moment
    ) -> Decision[OffsetDeleteResponse]:
        """Forget offsets of topics that the group does not read (KIP-496)."""
        group = self._groups.find(request.group_id)
        if not group.is_empty and group.type_name == "Classic" and group.protocol_type != "consumer":
            raise KafkaError(
                ErrorCode.NON_EMPTY_GROUP, f"{request.group_id!r} has members that may read any topic"
            )
        response, entries = offset_requests.delete(self._offsets, request, group.is_subscribed_to)
        return Decision(response, entries, if_refused=_unchanged)

    def decide_forget_topic(self, topic: str, now: Moment) -> Decision[None]:
        """The topic was deleted, and with it goes what was committed for it."""
        entries = list(offset_requests.erase_topic(self._offsets, topic))
        return Decision(None, entries, is_atomic=False, if_refused=_unchanged)

    def decide_expire(self, now: Moment) -> Decision[None]:
        """Forget offsets that are past their retention, and groups that have neither members nor offsets."""
        retention_ms = self._around.settings.offsets_retention_minutes * _MINUTE_MS
        entries: list[Entry] = []
        for group in self._groups:
            group_id = group.group_id
            past = list(expired(self._offsets, group, retention_ms, now.wall_ms))
            entries += (offset_requests.tombstone(group_id, *where) for where in past)
            count = sum(map(len, self._offsets.of_group(group_id).values()))
            if group.is_empty and len(past) == count and not self._offsets.has_pending(group_id):
                entries += group.tombstones()
        return Decision(None, entries, is_atomic=False, if_refused=_unchanged)

    def committed(self) -> Iterator[tuple[str, TopicPartition, int]]:
        """Every committed offset."""
        return iter(self._offsets)

    def topics(self) -> set[str]:
        """All of which there are offsets, committed or pending."""
        return self._offsets.topics()

    # --- groups -------------------------------------------------------------------------------------------------

    def pending_of(self, producer: Producer) -> Iterator[tuple[str, TopicPartition, int]]:
        """What the producer's transaction will commit: group, partition, offset."""
        return self._offsets.pending_of_producer(producer.id)

    def decide_delete_group(self, group_id: str, now: Moment) -> Decision[None]:
        """Erase a group without members, with its offsets."""
        group = self._groups.find(group_id)
        group.check_delete()
        entries = [*offset_requests.erase_group(self._offsets, group_id), *group.tombstones()]
        return Decision(None, entries, if_refused=_unchanged)

    def describe(self, group_id: str, asker: Asker) -> DescribeGroupsResponse.Group:
        """A classic group. Any other is as good as dead; since version 6 that is an error."""
        try:
            return self._groups.find_classic(group_id).describe()
        except KafkaError as error:
            has_code = asker.api_version >= _DEAD_IS_AN_ERROR_SINCE
            return DescribeGroupsResponse.Group(
                error_code=error.code if has_code else ErrorCode.NONE,
                error_message=error.detail if has_code else None,
                group_id=group_id,
                group_state="Dead",
                protocol_type="",
                protocol_data="",
                members=[],
            )

    def describe_consumer(self, group_id: str) -> ConsumerGroupDescribeResponse.Group:
        """A group of the consumer protocol. Raises GROUP_ID_NOT_FOUND for any other."""
        return self._groups.find_consumer(group_id).describe()

    def list(self, states: Collection[str], types: Collection[str]) -> "list[ListGroupsResponse.Group]":
        """The groups in one of these states and of one of these types; none named means any."""
        wanted_states = {state.strip().lower() for state in states}
        wanted_types = {name.strip().lower() for name in types}
        return [
            ListGroupsResponse.Group(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.type_name,
            )
            for group in self._groups
            if (not wanted_states or group.state_name.lower() in wanted_states)
            and (not wanted_types or group.type_name.lower() in wanted_types)
        ]

    def topics_changed(self, names: Collection[str], now: Moment) -> None:
        """Groups that subscribe to these topics look at them again with their next heartbeat."""
        for group in self._groups:
            if isinstance(group, ConsumerGroup):
                group.topics_changed(names, now)

    # --- the machine --------------------------------------------------------------------------------------------

    def apply(self, entry: Entry, producer: Producer | None) -> None:
        """A record was written, now or before the shard was loaded. What nobody here knows is passed over."""
        key, value = entry
        if isinstance(key, _OFFSET_KEYS):
            if value is None:
                self._offsets.remove(key.group, key.topic, key.partition)
            else:
                producer_id = None if producer is None else producer.id
                self._offsets.put(key.group, key.topic, key.partition, value, producer_id)
                self._groups.apply_commit(key.group)
        elif isinstance(key, GroupMetadataKey):
            self._groups.apply_classic(key.group, value)
        elif type(key) in CONSUMER_KEYS:
            self._groups.apply_consumer(entry)

    def apply_end(self, producer: Producer, is_commit: bool) -> None:
        """A transaction of the producer is over."""
        self._offsets.end(producer.id, is_commit)

    def activate(self, now: Moment) -> None:
        """Everything was applied: the clocks of the groups start."""
        self._groups.activate(now)

    def retire(self) -> Iterable[Ticket]:
        """Whoever waits for a reply."""
        return list(self._groups.waiting())

    def _check_txn_commit(
        self, group: Group, request: TxnOffsetCommitRequest, asker: Asker, now: Moment
    ) -> None:
        """The member must be of this generation (KIP-447). Producers know no epochs of members, only generations."""
        member = (request.member_id, request.generation_id, request.group_instance_id)
        try:
            group.check_commit(*member, asker, now, is_txn=True)
        except KafkaError as error:
            if error.code == ErrorCode.STALE_MEMBER_EPOCH:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.detail) from error
            raise


def _unchanged(error: KafkaError) -> NoReturn:
    """Nothing was written and nothing had changed: whoever asked is told, and the shard goes on."""
    raise error


def _no_group(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")


def _no_consumer_group(group_id: str, other: Group | None) -> KafkaError:
    reason = "not found" if other is None else "is not a consumer group"
    return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")


def _no_member(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {group_id} not found.")


def _no_generation(group_id: str, generation: int) -> KafkaError:
    return KafkaError(
        ErrorCode.ILLEGAL_GENERATION, f"{group_id!r} has no generation {generation}: unknown group"
    )
