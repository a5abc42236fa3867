"""A shard under random requests: reading its log again gives the same groups and offsets, after every step.

Offsets are also held against a model that keeps every record and works out from scratch what is committed.
"""

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages import coordinator_records as records
from ottla.protocol.messages.coordinator_records import OffsetCommitKey
from ottla.replication.machine import Entry, Producer
from tests.unit.groups.hosting import GroupSettings, asker
from tests.unit.groups.shard_hosting import (
    ShardHost,
    assert_replay_agrees,
    cluster,
    consumer_heartbeat,
    subscription,
)

GROUP_NAMES = ["a", "b"]
GROUPS = st.sampled_from(GROUP_NAMES)
TOPICS = st.sampled_from(["orders", "payments"])
PLACES = st.sampled_from([("orders", 0), ("orders", 1), ("payments", 0)])
PRODUCERS = st.integers(1, 2)
OFFSETS = st.dictionaries(PLACES, st.integers(0, 99), min_size=1, max_size=3)
GENERATIONS = st.sampled_from([-1, -1, 0, 1, 2])
MINUTE = 60_000

Where = tuple[str, TopicPartition]


class Model:
    """Every record of the log about offsets, in order; what is committed is worked out when asked."""

    def __init__(self, log: list) -> None:
        self.committed: dict[Where, tuple[int, int]] = {}
        """When it was written, and the offset."""
        pending: list[tuple[int, Where, int, int]] = []
        for when, (first, second) in enumerate(log):
            if isinstance(first, Producer):
                mine = [one for one in pending if one[2] == first.id]
                pending = [one for one in pending if one[2] != first.id]
                for written, where, _, offset in mine if second else []:
                    self.committed[where] = max(self.committed.get(where, (-1, 0)), (written, offset))
            elif isinstance(first, Entry) and isinstance(first.key, OffsetCommitKey):
                where = first.key.group, TopicPartition(first.key.topic, first.key.partition)
                if first.value is None:
                    self.committed.pop(where, None)
                    pending = [one for one in pending if one[1] != where]
                elif second is None:
                    self.committed[where] = when, first.value.offset
                else:
                    pending.append((when, where, second.id, first.value.offset))
        self.pending = {where for _, where, _, _ in pending}


class OffsetsAgainstTheirLog(RuleBasedStateMachine):
    """Offsets, in groups that nobody is in unless a machine below has members."""

    def __init__(self) -> None:
        super().__init__()
        self.host = ShardHost(GroupSettings(offsets_retention_minutes=1))
        self.member_ids = [""]
        self.consumer_ids: list[tuple[str, int]] = [("x", 0), ("y", 0)]

    def some_member(self, number: int) -> str:
        return self.member_ids[number % len(self.member_ids)]

    @rule(
        group=GROUPS,
        offsets=OFFSETS,
        generation=GENERATIONS,
        number=st.integers(0, 5),
        note=st.integers(0, 9),
    )
    def commit(self, group, offsets, generation, number, note):
        """Now and then with a note that is too long."""
        member = self.some_member(number) if generation >= 0 else ""
        metadata = "x" * (5_000 if note == 9 else note)
        with suppress(KafkaError):
            self.host.commit(group, offsets, member=member, generation=generation, metadata=metadata)

    @rule(group=GROUPS, offsets=OFFSETS, retention_ms=st.sampled_from([0, 1, 20 * MINUTE]))
    def commit_with_retention(self, group, offsets, retention_ms):
        with suppress(KafkaError):
            self.host.commit(group, offsets, retention_ms=retention_ms, version=4)

    @rule(group=GROUPS, offsets=OFFSETS, producer=PRODUCERS, generation=GENERATIONS, number=st.integers(0, 5))
    def txn_commit(self, group, offsets, producer, generation, number):
        member = self.some_member(number) if generation >= 0 else ""
        with suppress(KafkaError):
            self.host.txn_commit(group, offsets, producer, member=member, generation=generation)

    @rule(producer=PRODUCERS, is_commit=st.booleans())
    def end(self, producer, is_commit):
        self.host.end(producer, is_commit=is_commit)

    @rule(group=GROUPS, where=st.lists(PLACES, max_size=3))
    def delete_offsets(self, group, where):
        with suppress(KafkaError):
            self.host.delete_offsets(group, *where)

    @rule(group=GROUPS)
    def delete_group(self, group):
        with suppress(KafkaError):
            self.host.delete_group(group)

    @rule(topic=TOPICS)
    def forget_topic(self, topic):
        self.host.forget(topic)

    @rule()
    def expire(self):
        self.host.expire()

    @rule(by_ms=st.sampled_from([0, 1, 3_000, 11_000, MINUTE]))
    def let_pass(self, by_ms):
        self.host.advance(by_ms)

    @rule()
    def take_over(self):
        self.host.take_over()

    @invariant()
    def reading_the_log_again_gives_the_same(self):
        assert_replay_agrees(self.host)

    @invariant()
    def what_is_committed_is_what_the_log_says(self):
        model = Model(self.host.log)
        found = {(group, where): offset for group, where, offset in self.host.shard.committed()}
        assert found == {where: offset for where, (_, offset) in model.committed.items()}

    @invariant()
    def unstable_is_what_a_transaction_will_decide_about(self):
        model = Model(self.host.log)
        places = [TopicPartition(topic, index) for topic in ("orders", "payments") for index in (0, 1)]
        for group in GROUP_NAMES:
            found = self.host.fetch(group, *places, is_stable=True)
            unstable = {where for where, offset in found.items() if offset == -88}
            assert unstable == {where for one, where in model.pending if one == group}

    @invariant()
    def every_group_with_offsets_is_listed(self):
        known = {row.group_id for row in self.host.shard.list((), ())}
        assert {group for group, _, _ in self.host.shard.committed()} <= known


class ShardAgainstItsLog(OffsetsAgainstTheirLog):
    """The same with members of both protocols, who come, go and die, and with a log that says no."""

    @rule(group=GROUPS, number=st.integers(0, 5), topics=st.lists(TOPICS, min_size=1, unique=True))
    def join(self, group, number, topics):
        self.host.join(group, self.some_member(number), topics)

    @rule(group=GROUPS, number=st.integers(0, 5), generation=st.integers(1, 4))
    def sync(self, group, number, generation):
        self.learn()
        self.host.sync(group, self.some_member(number), generation)

    @rule(group=GROUPS)
    def settle(self, group):
        with suppress(KafkaError, AssertionError):
            self.member_ids.append(self.host.settle(group))

    @rule(group=GROUPS, number=st.integers(0, 5), generation=st.integers(0, 3))
    def beat(self, group, number, generation):
        with suppress(KafkaError):
            self.host.heartbeat(group, self.some_member(number), generation)

    @rule(group=GROUPS, number=st.integers(0, 5))
    def leave(self, group, number):
        with suppress(KafkaError):
            self.host.leave(group, self.some_member(number))

    @rule(group=GROUPS, number=st.integers(0, 1), epoch=st.sampled_from([None, None, 0, -1]))
    def consumer_beat(self, group, number, epoch):
        """In the epoch that it last heard of, or joining, or leaving."""
        member, known = self.consumer_ids[number]
        with suppress(KafkaError):
            reply = consumer_heartbeat(self.host, group, member, known if epoch is None else epoch)
            self.consumer_ids[number] = member, max(reply.member_epoch, 0)

    def learn(self) -> None:
        """Ids that joins were answered with."""
        for slip in self.host.slips:
            for reply in slip.replies:
                member_id = getattr(reply, "member_id", "")
                if member_id and member_id not in self.member_ids:
                    self.member_ids.append(member_id)
        self.host.slips = [slip for slip in self.host.slips if slip.is_waiting]

    @rule(group=GROUPS, offsets=OFFSETS, what=st.integers(0, 5))
    def try_in_vain(self, group, offsets, what):
        """The log refuses what is too large; whoever asked is told, and the shard goes on as it was."""
        host = self.host
        host.host.refuse_with = KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "refused")
        with suppress(KafkaError):
            match what:
                case 0:
                    host.commit(group, offsets)
                case 1:
                    host.txn_commit(group, offsets)
                case 2:
                    host.delete_group(group)
                case 3:
                    host.expire()
                case 4:
                    consumer_heartbeat(host, group, "z", 0)
                case 5:
                    host.join(group)
        host.host.refuse_with = None

    @invariant()
    def nobody_is_answered_twice(self):
        assert all(len(slip.replies) <= 1 for slip in self.host.slips)


TestOffsetsAgainstTheirLog = OffsetsAgainstTheirLog.TestCase
TestOffsetsAgainstTheirLog.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestShardAgainstItsLog = ShardAgainstItsLog.TestCase
TestShardAgainstItsLog.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


GROUP_IDS = st.sampled_from(["a", "b"])
MEMBER_IDS = st.sampled_from(["m", "n", ""])
NUMBERS = st.integers(-2, 5)
IDS = st.sampled_from([image.topic_id for image in cluster("orders", "payments").topics.values()])
ASSIGNED = st.lists(
    st.builds(records.AssignedTopic, topic_id=IDS, partitions=st.lists(st.integers(-1, 3), max_size=3)),
    max_size=2,
)
BLOBS = st.sampled_from([b"", b"\x00", b"\xff" * 8, subscription(["orders"])])
MEMBERS = st.lists(
    st.builds(
        records.GroupMetadataValue.Member,
        member_id=MEMBER_IDS,
        group_instance_id=st.sampled_from([None, "i"]),
        client_id=st.just("c"),
        client_host=st.just("h"),
        session_timeout=NUMBERS,
        rebalance_timeout=NUMBERS,
        subscription=BLOBS,
        assignment=BLOBS,
    ),
    max_size=3,
)
CLASSIC_CLIENTS = st.none() | st.builds(
    records.ConsumerGroupMemberMetadataValue.ClassicMember,
    session_timeout_ms=NUMBERS,
    supported_protocols=st.lists(
        st.builds(
            records.ConsumerGroupMemberMetadataValue.ClassicMember.Protocol,
            name=st.just("range"),
            metadata=BLOBS,
        ),
        max_size=1,
    ),
)
TARGETS = st.lists(
    st.builds(
        records.ConsumerGroupTargetAssignmentMemberValue.Topic,
        topic_id=IDS,
        partitions=st.lists(st.integers(-1, 3), max_size=3),
    ),
    max_size=2,
)


def record(key: st.SearchStrategy, value: st.SearchStrategy) -> st.SearchStrategy[Entry]:
    return st.builds(Entry, key, st.none() | value)


RECORDS = st.one_of(
    record(
        st.builds(OffsetCommitKey, group=GROUP_IDS, topic=TOPICS, partition=NUMBERS),
        st.builds(
            records.OffsetCommitValue,
            offset=NUMBERS,
            metadata=st.just(""),
            commit_timestamp=NUMBERS,
            expire_timestamp=NUMBERS,
        ),
    ),
    record(
        st.builds(records.GroupMetadataKey, group=GROUP_IDS),
        st.builds(
            records.GroupMetadataValue,
            protocol_type=st.sampled_from(["", "consumer", "connect"]),
            generation=NUMBERS,
            protocol=st.sampled_from([None, "range", "other"]),
            leader=st.sampled_from([None, "m", "gone"]),
            current_state_timestamp=NUMBERS,
            members=MEMBERS,
        ),
    ),
    record(
        st.builds(records.ConsumerGroupMetadataKey, group_id=GROUP_IDS),
        st.builds(records.ConsumerGroupMetadataValue, epoch=NUMBERS, metadata_hash=NUMBERS),
    ),
    record(
        st.builds(records.ConsumerGroupPartitionMetadataKey, group_id=GROUP_IDS),
        st.just(records.ConsumerGroupPartitionMetadataValue(topics=[])),
    ),
    record(
        st.builds(records.ConsumerGroupMemberMetadataKey, group_id=GROUP_IDS, member_id=MEMBER_IDS),
        st.builds(
            records.ConsumerGroupMemberMetadataValue,
            instance_id=st.sampled_from([None, "i"]),
            rack_id=st.none(),
            client_id=st.just("c"),
            client_host=st.just("h"),
            subscribed_topic_names=st.lists(TOPICS, max_size=2),
            subscribed_topic_regex=st.sampled_from([None, "ord.*"]),
            rebalance_timeout_ms=NUMBERS,
            server_assignor=st.sampled_from([None, "uniform", "nobody's"]),
            classic_member_metadata=CLASSIC_CLIENTS,
        ),
    ),
    record(
        st.builds(records.ConsumerGroupTargetAssignmentMetadataKey, group_id=GROUP_IDS),
        st.builds(records.ConsumerGroupTargetAssignmentMetadataValue, assignment_epoch=NUMBERS),
    ),
    record(
        st.builds(records.ConsumerGroupTargetAssignmentMemberKey, group_id=GROUP_IDS, member_id=MEMBER_IDS),
        st.builds(records.ConsumerGroupTargetAssignmentMemberValue, topic_partitions=TARGETS),
    ),
    record(
        st.builds(records.ConsumerGroupCurrentMemberAssignmentKey, group_id=GROUP_IDS, member_id=MEMBER_IDS),
        st.builds(
            records.ConsumerGroupCurrentMemberAssignmentValue,
            member_epoch=NUMBERS,
            previous_member_epoch=NUMBERS,
            state=st.integers(-1, 4),
            assigned_partitions=ASSIGNED,
            partitions_pending_revocation=ASSIGNED,
        ),
    ),
    record(
        st.builds(
            records.ConsumerGroupRegularExpressionKey,
            group_id=GROUP_IDS,
            regular_expression=st.sampled_from(["ord.*", "((("]),
        ),
        st.builds(
            records.ConsumerGroupRegularExpressionValue,
            topics=st.lists(TOPICS, max_size=2),
            version=NUMBERS,
            timestamp=NUMBERS,
        ),
    ),
)


@settings(max_examples=150, deadline=None)
@given(
    log=st.lists(st.tuples(RECORDS, st.none() | PRODUCERS), max_size=12),
    ends=st.lists(st.tuples(PRODUCERS, st.booleans()), max_size=2),
)
def test_whatever_the_log_says_the_shard_can_be_loaded_and_asked(log, ends):
    """Records that no coordinator would write in this order, or at all."""
    host = ShardHost()
    for entry, producer_id in log:
        host.write(entry.key, entry.value, None if producer_id is None else Producer(producer_id, 0))
    for producer_id, is_commit in ends:
        host.end(producer_id, is_commit=is_commit)
    assert_replay_agrees(host)
    host.take_over()
    host.advance(1)
    for group in ("a", "b"):
        host.shard.describe(group, asker(6))
        with suppress(KafkaError):
            host.shard.describe_consumer(group)
        with suppress(KafkaError):
            host.fetch(group, is_stable=True)
        with suppress(KafkaError):
            consumer_heartbeat(host, group, "x", 0)
        host.join(group)
        with suppress(KafkaError):
            host.commit(group, {("orders", 0): 1})
        with suppress(KafkaError):
            host.delete_offsets(group, ("orders", 0))
    host.advance(3_600_000)
    host.forget("orders")
    host.expire()
    for group in ("a", "b"):
        with suppress(KafkaError):
            host.delete_group(group)
    assert_replay_agrees(host)
