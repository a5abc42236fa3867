"""A shard with a log in memory: requests in short words, and a second shard that is read from the log at any moment."""

import uuid
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from ottla.core.clock import ManualClock, Moment
from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition
from ottla.groups.shard import GroupShard
from ottla.protocol.codec import encode_versioned
from ottla.protocol.messages.consumer_groups import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from ottla.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from ottla.protocol.messages.subscription import ConsumerProtocolSubscription
from ottla.protocol.messages.transactions import TxnOffsetCommitRequest
from ottla.replication.machine import Decision, Entry, Producer
from ottla.replication.state import PartitionState, TopicImage
from tests.unit.groups.hosting import START, GroupSettings, Host, Slip, as_kept, asker, new_ids

End = tuple[Producer, bool]


def topic(name: str, partition_count: int = 2) -> TopicImage:
    """A topic as brokers know it; its id follows from its name."""
    topic_id = uuid.uuid5(uuid.NAMESPACE_OID, name)
    return TopicImage(
        name,
        topic_id,
        tuple(PartitionState(name, topic_id, index, 1, 0, 0, (1,), (1,)) for index in range(partition_count)),
    )


def cluster(*names: str) -> Any:
    """What a broker was told of these topics."""
    images = [topic(name) for name in names]
    return SimpleNamespace(
        topics={image.name: image for image in images},
        topic_of_id={image.topic_id: image for image in images},
    )


class ShardHost:
    """One shard, its log and its clock."""

    def __init__(self, settings: GroupSettings | None = None, **given: Any) -> None:
        self.settings = settings or GroupSettings()
        self.topics = cluster("orders", "payments")
        self.given = given
        self.new_id = new_ids()
        self.clock = ManualClock(*START)
        self.log: list[tuple[Entry, Producer | None] | End] = []
        self.slips: list[Slip] = []
        self.take_over()

    @property
    def now(self) -> Moment:
        return Moment(self.clock.now_ms(), self.clock.monotonic_ms())

    def new_shard(self) -> GroupShard:
        """A shard that is fed with the log, and not yet active."""
        shard = GroupShard(
            self.settings, lambda group_id: self.settings, self.topics, self.new_id, self.now, **self.given
        )
        for record in self.log:
            if isinstance(record[0], Entry):
                shard.apply(*record)  # type: ignore[arg-type]  # the other kind is below
            else:
                shard.apply_end(*record)  # type: ignore[arg-type]  # the other kind is above
        return shard

    def take_over(self) -> None:
        """The coordinator dies, another reads the log."""
        self.shard = self.new_shard()
        self.shard.activate(self.now)
        self.host = Host(self.apply, self.shard.timers, self.clock)

    def apply(self, entry: Entry, producer: Producer | None) -> None:
        self.log.append((entry, producer))
        self.shard.apply(entry, producer)

    def write(self, key: Any, value: Any = None, producer: Producer | None = None) -> None:
        """A record that nobody decided about."""
        self.apply(as_kept(Entry(key, value)), producer)

    def run(self, decision: Decision[Any]) -> Any:
        return self.host.carry_out(decision)

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        """A marker of the producer's transaction."""
        marker = (Producer(producer_id, 0), is_commit)
        self.log.append(marker)
        self.shard.apply_end(*marker)

    def advance(self, by_ms: int) -> None:
        self.host.advance(by_ms)

    # --- offsets ---

    def commit(
        self,
        group: str,
        offsets: dict[tuple[str, int], int],
        *,
        member: str = "",
        generation: int = -1,
        version: int = 8,
        metadata: str | None = "",
        retention_ms: int = -1,
        instance: str | None = None,
    ) -> list[int]:
        """Returns the code for each partition."""
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member,
            generation_id_or_member_epoch=generation,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequest.Topic(
                    name=name,
                    partitions=[
                        OffsetCommitRequest.Topic.Partition(
                            partition_index=index, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
                for (name, index), offset in offsets.items()
            ],
        )
        response = self.run(self.shard.decide_commit(request, asker(version), self.now))
        return [row.error_code for each in response.topics for row in each.partitions]

    def txn_commit(
        self,
        group: str,
        offsets: dict[tuple[str, int], int],
        producer: int = 7,
        *,
        member: str = "",
        generation: int = -1,
        metadata: str = "",
    ) -> list[int]:
        request = TxnOffsetCommitRequest(
            transactional_id="txn",
            group_id=group,
            producer_id=producer,
            producer_epoch=0,
            member_id=member,
            generation_id=generation,
            topics=[
                TxnOffsetCommitRequest.Topic(
                    name=name,
                    partitions=[
                        TxnOffsetCommitRequest.Topic.Partition(
                            partition_index=index, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
                for (name, index), offset in offsets.items()
            ],
        )
        response = self.run(self.shard.decide_txn_commit(request, asker(5), self.now))
        return [row.error_code for each in response.topics for row in each.partitions]

    def fetch(
        self,
        group: str,
        *where: tuple[str, int],
        is_stable: bool = False,
        member: str | None = None,
        epoch: int = -1,
    ) -> dict[TopicPartition, int]:
        """Offsets, or the negative code where there is an error. Nothing named means everything."""
        topics = [
            OffsetFetchRequest.Group.Topic(name=name, partition_indexes=[index]) for name, index in where
        ]
        request = OffsetFetchRequest.Group(
            group_id=group, member_id=member, member_epoch=epoch, topics=topics or None
        )
        response = self.shard.fetch_offsets(request, is_stable)
        return {
            TopicPartition(each.name, row.partition_index): -row.error_code or row.committed_offset
            for each in response.topics
            for row in each.partitions
        }

    def delete_offsets(self, group: str, *where: tuple[str, int]) -> list[int]:
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequest.Topic(
                    name=name, partitions=[OffsetDeleteRequest.Topic.Partition(partition_index=index)]
                )
                for name, index in where
            ],
        )
        response = self.run(self.shard.decide_delete_offsets(request, self.now))
        return [row.error_code for each in response.topics for row in each.partitions]

    def delete_group(self, group: str) -> None:
        self.run(self.shard.decide_delete_group(group, self.now))

    def forget(self, name: str) -> None:
        self.run(self.shard.decide_forget_topic(name, self.now))

    def expire(self) -> None:
        self.run(self.shard.decide_expire(self.now))

    # --- members ---

    def join(
        self,
        group: str,
        member: str = "",
        topics: Sequence[str] = ("orders",),
        *,
        protocol_type: str = "consumer",
        version: int = 3,
        session_ms: int = 10_000,
    ) -> Slip:
        """Below version 4 a member is let in with its first request."""
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=60_000,
            member_id=member,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequest.Protocol(name="range", metadata=subscription(topics))],
        )
        slip = self.host.ask(self.shard.decide_join, request, asker(version))
        self.slips.append(slip)
        return slip

    def sync(self, group: str, member: str, generation: int, *, leads: bool = True) -> Slip:
        assignments = [SyncGroupRequest.Assignment(member_id=member, assignment=b"")] if leads else []
        request = SyncGroupRequest(
            group_id=group, generation_id=generation, member_id=member, assignments=assignments
        )
        slip = self.host.ask(self.shard.decide_sync, request, asker(3))
        self.slips.append(slip)
        return slip

    def heartbeat(self, group: str, member: str, generation: int) -> Any:
        request = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
        return self.run(self.shard.decide_heartbeat(request, asker(3), self.now))

    def leave(self, group: str, member: str) -> Any:
        request = LeaveGroupRequest(group_id=group, members=[LeaveGroupRequest.Member(member_id=member)])
        return self.run(self.shard.decide_leave(request, asker(3), self.now))

    def settle(self, group: str, topics: Sequence[str] = ("orders",), protocol_type: str = "consumer") -> str:
        """A group of one member that is stable in its first generation. Returns the member's id."""
        slip = self.join(group, topics=topics, protocol_type=protocol_type)
        self.advance(0)
        if isinstance(slip.reply, KafkaError):
            raise slip.reply
        member_id: str = slip.reply.member_id
        assert self.sync(group, member_id, slip.reply.generation_id).reply.error_code == 0
        return member_id


def subscription(topics: Sequence[str]) -> bytes:
    """What a consumer says when it joins."""
    message = ConsumerProtocolSubscription(topics=list(topics), user_data=None)
    return encode_versioned(message, 0)


def consumer_heartbeat(
    host: ShardHost, group: str, member: str, epoch: int, topics: Sequence[str] = ("orders",)
) -> ConsumerGroupHeartbeatResponse:
    """A member of the consumer protocol that tells all of itself when it joins, and nothing later."""
    is_joining = epoch == 0
    request = ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        rebalance_timeout_ms=60_000 if is_joining else -1,
        subscribed_topic_names=list(topics) if is_joining else None,
        topic_partitions=[] if is_joining else None,
    )
    response = host.run(host.shard.decide_consumer_heartbeat(request, asker(1), host.now))
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    return response


def assert_replay_agrees(host: ShardHost) -> None:
    """A shard that is read from the log knows all that the log holds.

    What a classic group does between Empty and Stable it does in memory, and so is a group that has not come further.
    """
    live, read = host.shard, host.new_shard()
    assert read._offsets == live._offsets
    in_memory = {row.group_id: row for row in live.list((), ())}
    in_log = {row.group_id: row for row in read.list((), ())}
    assert in_log.keys() <= in_memory.keys()
    for group_id, row in in_memory.items():
        if group_id not in in_log:
            assert row.group_type == "Classic", "a group of the consumer protocol lives in the log"
            assert not live._offsets.of_group(group_id)
            assert not live._offsets.has_pending(group_id)
            continue
        assert row.group_type == in_log[group_id].group_type
        if row.group_type == "Consumer":
            assert live.describe_consumer(group_id) == read.describe_consumer(group_id)
        elif row.group_state in ("Empty", "Stable"):
            assert live.describe(group_id, asker(6)) == read.describe(group_id, asker(6))
