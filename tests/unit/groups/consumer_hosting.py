"""Consumers of both protocols on a shard in memory, in short words: topics by name, partitions as `orders-0`."""

import uuid
from collections.abc import Iterable
from typing import Any

from ottla.core.ids import TopicPartition
from ottla.groups.consumer import ConsumerGroup
from ottla.protocol.codec import decode_versioned, encode_versioned
from ottla.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from ottla.protocol.messages.subscription import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.protocol.messages.subscription import TopicPartitions as NamedPartitions
from ottla.replication.state import PartitionState, TopicImage
from tests.unit.groups.hosting import GroupSettings, Slip, asker
from tests.unit.groups.shard_hosting import ShardHost

Places = frozenset[TopicPartition]
NOWHERE: Places = frozenset()


def places(text: str) -> Places:
    """From "orders-0 orders-1"."""
    return frozenset(map(TopicPartition.parse, text.split()))


class World(ShardHost):
    """A shard with one group, `g`, whose consumers go by their member ids."""

    def __init__(self, settings: GroupSettings | None = None, **partition_counts: int) -> None:
        super().__init__(settings)
        self.topics.topics.clear()
        self.topics.topic_of_id.clear()
        self.lives = 0
        for name, count in partition_counts.items():
            self.make_topic(name, count)

    @property
    def group(self) -> ConsumerGroup:
        group = self.shard._groups.get("g")
        assert isinstance(group, ConsumerGroup)
        return group

    def make_topic(self, name: str, partition_count: int) -> None:
        """Create it, or let it grow. A topic that was deleted comes back with another id."""
        known = self.topics.topics.get(name)
        self.lives += known is None
        topic_id = known.topic_id if known else uuid.uuid5(uuid.NAMESPACE_OID, f"{name} {self.lives}")
        partitions = tuple(
            PartitionState(name, topic_id, index, 1, 0, 0, (1,), (1,)) for index in range(partition_count)
        )
        image = TopicImage(name, topic_id, partitions)
        self.topics.topics[name] = self.topics.topic_of_id[topic_id] = image
        self.shard.topics_changed([name], self.now)

    def delete_topic(self, name: str) -> None:
        del self.topics.topic_of_id[self.topics.topics.pop(name).topic_id]
        self.shard.topics_changed([name], self.now)

    # --- the consumer protocol ---

    def send(self, request: ConsumerGroupHeartbeatRequest, version: int = 1) -> Any:
        decision = self.shard.decide_consumer_heartbeat(request, asker(version), self.now)
        return self.run(decision)

    def join(  # type: ignore[override]  # the classic protocol's join goes by another name here
        self, member: str, topics: Iterable[str] | None = ("orders",), version: int = 1, **given: Any
    ) -> ConsumerGroupHeartbeatResponse:
        """`given`: instance_id, subscribed_topic_regex, server_assignor, rack_id, rebalance_timeout_ms."""
        given.setdefault("rebalance_timeout_ms", 60_000)
        names = None if topics is None else list(topics)
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member,
            member_epoch=0,
            subscribed_topic_names=names,
            topic_partitions=[],
            **given,
        )
        return self.send(request, version)  # type: ignore[no-any-return]  # hosts carry any reply

    def beat(
        self, member: str, epoch: int, owns: Places | None = None, **given: Any
    ) -> ConsumerGroupHeartbeatResponse:
        """A member that stays. Without `owns` it says nothing about what it has."""
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member,
            member_epoch=epoch,
            topic_partitions=None if owns is None else self.by_id(owns),
            **given,
        )
        return self.send(request)  # type: ignore[no-any-return]  # hosts carry any reply

    def go(self, member: str, epoch: int = -1, instance: str | None = None) -> ConsumerGroupHeartbeatResponse:
        """Leave for good, or with -2 for a while."""
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member, member_epoch=epoch, instance_id=instance
        )
        return self.send(request)  # type: ignore[no-any-return]  # hosts carry any reply

    def by_id(self, owned: Places) -> list[TopicPartitions]:
        found: dict[uuid.UUID, list[int]] = {}
        for place in sorted(owned):
            found.setdefault(self.topics.topics[place.topic].topic_id, []).append(place.partition)
        return [TopicPartitions(topic_id=topic_id, partitions=each) for topic_id, each in found.items()]

    def named(self, partitions: Any) -> Places:
        """Of a list of topics in a message, or of a mapping; what was deleted has no name any more."""
        pairs = (
            partitions.items()
            if hasattr(partitions, "items")
            else [(one.topic_id, one.partitions) for one in partitions]
        )
        return frozenset(
            TopicPartition(self.topics.topic_of_id[topic_id].name, index)
            for topic_id, indexes in pairs
            for index in indexes
            if topic_id in self.topics.topic_of_id
        )

    def told(self, reply: ConsumerGroupHeartbeatResponse) -> Places | None:
        """What a reply assigns; None if it says nothing about it."""
        return None if reply.assignment is None else self.named(reply.assignment.topic_partitions)

    def has(self, member: str) -> Places:
        return self.named(self.group.state.members[member].assigned)

    # --- the classic protocol ---

    def classic_join(
        self,
        member: str = "",
        topics: Iterable[str] = ("orders",),
        owns: Places = NOWHERE,
        *,
        version: int = 9,
        instance: str | None = None,
        protocols: Iterable[str] = ("range",),
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
    ) -> Slip:
        owned: dict[str, list[int]] = {}
        for place in sorted(owns):
            owned.setdefault(place.topic, []).append(place.partition)
        said = ConsumerProtocolSubscription(
            topics=list(topics),
            owned_partitions=[
                NamedPartitions(topic=name, partitions=indexes) for name, indexes in owned.items()
            ],
        )
        blob = encode_versioned(said, 3)
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=60_000,
            member_id=member,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequest.Protocol(name=name, metadata=blob) for name in protocols],
        )
        return self.host.ask(self.shard.decide_join, request, asker(version))

    def classic_enter(self, **given: Any) -> JoinGroupResponse:
        """Join as a new member: with the id that the first answer brings. Returns the second answer."""
        member_id = self.classic_join(**given).reply.member_id
        return self.classic_join(member_id, **given).reply  # type: ignore[no-any-return]  # slips hold any reply

    def classic_sync(
        self, member: str, generation: int, assignments: dict[str, Places] | None = None, **given: Any
    ) -> Slip:
        """With assignments, as a leader does in a classic group."""
        request = SyncGroupRequest(
            group_id="g",
            generation_id=generation,
            member_id=member,
            assignments=[
                SyncGroupRequest.Assignment(member_id=one, assignment=assignment(owned))
                for one, owned in (assignments or {}).items()
            ],
            **given,
        )
        return self.host.ask(self.shard.decide_sync, request, asker(4))

    def classic_beat(self, member: str, generation: int, instance: str | None = None) -> int:
        """The code."""
        request = HeartbeatRequest(
            group_id="g", generation_id=generation, member_id=member, group_instance_id=instance
        )
        reply = self.run(self.shard.decide_heartbeat(request, asker(4), self.now))
        return int(reply.error_code)

    def classic_leave(self, *members: tuple[str, str | None], version: int = 5) -> list[int]:
        """Codes, by member."""
        request = LeaveGroupRequest(
            group_id="g",
            member_id=members[0][0] if version < 3 else "",
            members=[
                LeaveGroupRequest.Member(member_id=one, group_instance_id=instance)
                for one, instance in members
            ],
        )
        reply = self.run(self.shard.decide_leave(request, asker(version), self.now))
        return [reply.error_code] if version < 3 else [one.error_code for one in reply.members]

    def classic_group_of(self, *assignments: Places) -> list[str]:
        """A classic group that is stable with one member for each of these. Returns their ids."""
        ids = [self.classic_join().reply.member_id for _ in assignments]
        slips = [self.classic_join(one) for one in ids]
        self.advance(0)
        replies = [slip.reply for slip in slips]
        leader, generation = replies[0].leader, replies[0].generation_id
        for one in sorted(ids, key=lambda one: one != leader):
            plan = dict(zip(ids, assignments, strict=True)) if one == leader else None
            reply = self.classic_sync(one, generation, plan).reply
            assert reply.error_code == 0, reply
        return ids


def assignment(owned: Places) -> bytes:
    """What a leader hands in for a member."""
    by_topic: dict[str, list[int]] = {}
    for place in sorted(owned):
        by_topic.setdefault(place.topic, []).append(place.partition)
    named = [NamedPartitions(topic=name, partitions=indexes) for name, indexes in by_topic.items()]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=named), 1)


def assigned(blob: bytes) -> Places:
    """What a member reads from its sync."""
    read, _ = decode_versioned(ConsumerProtocolAssignment, blob)
    return frozenset(
        TopicPartition(one.topic, index) for one in read.assigned_partitions for index in one.partitions
    )
