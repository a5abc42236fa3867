"""A classic group on its host, and what clients do with it. Every reply is encoded in the version of its request."""

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.timers import Timers
from ottla.groups.classic import ClassicGroup
from ottla.protocol.codec import encode, encode_versioned
from ottla.protocol.messages.coordinator_records import GroupMetadataValue
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
)
from ottla.protocol.messages.subscription import ConsumerProtocolSubscription
from ottla.replication.machine import LATER, Alarm, Entry, Producer
from tests.unit.groups.hosting import GroupSettings, Host, Slip, asker, new_ids, surroundings

GROUP = "g"
RANGE = {"range": b"x"}


class VersionedSlip(Slip):
    """A ticket of a client that must be able to read what it gets."""

    def __init__(self, version: int, name: str = "") -> None:
        super().__init__(name)
        self.version = version

    def answer(self, reply: Any) -> None:
        assert self.is_waiting, f"{self.name}: answered twice"
        if not isinstance(reply, KafkaError):
            encode(reply, self.version)
        super().answer(reply)

    @property
    def code(self) -> ErrorCode:
        reply = self.reply
        return reply.code if isinstance(reply, KafkaError) else ErrorCode(reply.error_code)


class Classics:
    """One group, its host and its clients."""

    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.settings = settings or GroupSettings()
        self.new_id = new_ids()
        timers: Timers[Alarm] = Timers(0)
        self.group = self._new_group(timers)
        self.host = Host(self.apply, timers)

    def _new_group(self, timers: Timers[Alarm]) -> ClassicGroup:
        return ClassicGroup(GROUP, surroundings(self.settings, timers=timers, new_id=self.new_id))

    def apply(self, entry: Entry, producer: Producer | None = None) -> None:
        """As the shard does it."""
        if entry.value is None:
            self.group.apply_tombstone()
        else:
            self.group.apply_metadata(entry.value)

    def restart(self) -> list[Any]:
        """Another coordinator reads the log. Returns who waited for the one before."""
        waiting = list(self.group.waiting())
        self.host.timers = Timers(self.host.now.monotonic_ms)
        self.group = self.replayed(self.host.timers)
        self.group.started(self.host.now)
        return waiting

    def replayed(self, timers: Timers[Alarm] | None = None) -> ClassicGroup:
        """What another coordinator would know. A group that was removed is as new when somebody asks for it."""
        timers = Timers(0) if timers is None else timers
        group = self._new_group(timers)
        for entry, _ in self.host.log:
            if entry.value is None:
                group = self._new_group(timers)
            else:
                group.apply_metadata(entry.value)
        return group

    # --- clients -------------------------------------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        version: int = 9,
        instance: str | None = None,
        protocols: Mapping[str, bytes] | Sequence[tuple[str, bytes]] | None = None,
        protocol_type: str = "consumer",
        session: int = 10_000,
        rebalance: int = 60_000,
        client: str = "client",
        group: str = GROUP,
    ) -> VersionedSlip:
        named = RANGE if protocols is None else protocols
        pairs = named.items() if isinstance(named, Mapping) else named
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session,
            rebalance_timeout_ms=rebalance if version else -1,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequest.Protocol(name=name, metadata=data) for name, data in pairs],
        )
        return self._ask(self.group.decide_join, request, version, client)

    def come(self, **how: Any) -> tuple[str, VersionedSlip]:
        """A dynamic member gets its id and joins with it."""
        member_id = self.join(**how).reply.member_id
        return member_id, self.join(member_id, **how)

    def sync(
        self,
        member_id: str,
        generation: int | None = None,
        assignments: Mapping[str, bytes] | None = None,
        *,
        version: int = 5,
        instance: str | None = None,
        names: tuple[str | None, str | None] | None = None,
    ) -> VersionedSlip:
        group = self.group
        names = names or (group.protocol_type or "consumer", group.protocol_name or "range")
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=group.generation if generation is None else generation,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=names[0],
            protocol_name=names[1],
            assignments=[
                SyncGroupRequest.Assignment(member_id=who, assignment=what)
                for who, what in (assignments or {}).items()
            ],
        )
        return self._ask(self.group.decide_sync, request, version)

    def heartbeat(
        self, member_id: str, generation: int | None = None, instance: str | None = None
    ) -> ErrorCode:
        generation = self.group.generation if generation is None else generation
        request = HeartbeatRequest(
            group_id=GROUP, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        try:
            reply: HeartbeatResponse = self.host.carry_out(
                self.group.decide_heartbeat(request, asker(4), self.host.now)
            )
        except KafkaError as error:
            return error.code
        return ErrorCode(reply.error_code)

    def leave(self, *members: str | tuple[str, str | None], version: int = 5) -> LeaveGroupResponse:
        named = [(one, None) if isinstance(one, str) else one for one in members]
        request = LeaveGroupRequest(group_id=GROUP)
        if version < 3:
            request.member_id = named[0][0]
        else:
            request.members = [
                LeaveGroupRequest.Member(member_id=who, group_instance_id=what) for who, what in named
            ]
        reply: LeaveGroupResponse = self.host.carry_out(
            self.group.decide_leave(request, asker(version), self.host.now)
        )
        encode(reply, version)
        return reply

    def commit(
        self, member_id: str = "", generation: int = -1, instance: str | None = None, is_txn: bool = False
    ) -> ErrorCode:
        try:
            self.group.check_commit(member_id, generation, instance, asker(8), self.host.now, is_txn=is_txn)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def _ask(self, decide: Any, request: Any, version: int, client: str = "client") -> VersionedSlip:
        encode(request, version)
        slip = VersionedSlip(version)
        try:
            reply = self.host.carry_out(decide(request, asker(version, client), slip, self.host.now))
        except KafkaError as error:
            reply = error
        if reply is not LATER:
            slip.answer(reply)
        return slip

    # --- whole lives ---------------------------------------------------------------------------------------------

    def settle(self, *how: Mapping[str, Any], share: bytes = b"p") -> list[str]:
        """A stable group, with one member for each way to join."""
        delay_ms = self.settings.group_initial_rebalance_delay_ms
        self.settings.group_initial_rebalance_delay_ms = delay_ms or 1
        slips = [self.join(**one) if "instance" in one else self.come(**one)[1] for one in how]
        self.host.advance((delay_ms or 1) * (len(how) + 1))
        self.settings.group_initial_rebalance_delay_ms = delay_ms
        ids = [slip.reply.member_id for slip in slips]
        self.sync(
            slips[0].reply.leader, assignments={one: share + str(n).encode() for n, one in enumerate(ids)}
        )
        for one in ids:
            assert self.sync(one).code == ErrorCode.NONE
        return ids


def subscription(*topics: str, version: int = 3, **more: Any) -> bytes:
    """What a consumer says to its leader."""
    return encode_versioned(ConsumerProtocolSubscription(topics=list(topics), **more), version)


def hard_state(group: ClassicGroup) -> tuple[Any, ...]:
    """What the log must hold of a group that is settled."""
    return (
        group.state_name,
        group.generation,
        group.protocol_type,
        group.protocol_name,
        group.leader_id,
        {
            one.member_id: (
                one.instance_id,
                one.client_id,
                one.client_host,
                one.session_timeout_ms,
                one.rebalance_timeout_ms,
                one.metadata(group.protocol_name),
                one.assignment,
            )
            for one in group.members.values()
        },
        group.empty_since_ms(),
    )


def last_written(classics: Classics) -> GroupMetadataValue:
    """The youngest entry of the group."""
    value: GroupMetadataValue = classics.host.log[-1][0].value
    return value


def members_told(reply: JoinGroupResponse) -> dict[str, bytes]:
    """What a leader is told."""
    return {one.member_id: bytes(one.metadata) for one in reply.members}
