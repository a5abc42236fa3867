"""A group under consumers that come, go, die, dawdle and lose replies, and coordinators that die.

Consumers are modelled as honest but slow: they hold what they were given until they have given it back, and report
what they hold. Whatever happens, no partition is held by two of those who are members; a shard that is read from the
log knows the same; and when all answer, everybody ends up with the target.
"""

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.groups.classic import ClassicGroup
from ottla.groups.consumer import ConsumerGroup
from ottla.protocol.messages.consumer_groups import ConsumerGroupHeartbeatResponse
from tests.unit.groups.consumer_hosting import NOWHERE, Places, World, assigned
from tests.unit.groups.hosting import GroupSettings

TOPICS = ("orders", "payments", "refunds")
MEMBERS = ("a", "b", "c", "d")
SUBSCRIPTIONS = st.sampled_from([set(TOPICS), {"orders"}, {"orders", "payments"}, {"refunds"}, set()])
SELDOM = st.sampled_from([False, False, False, True])
REVOKES_MS = 20_000
FULL = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "nothing can be written")


@dataclass
class Consumer:
    """One client. `held` is what it works on, `told` what it was last told to work on."""

    member_id: str
    instance: str | None = None
    topics: frozenset[str] = frozenset()
    is_classic: bool = False
    epoch: int = 0
    held: Places = NOWHERE
    told: Places = NOWHERE
    is_unsure: bool = field(default=False)
    """A reply was lost: it tells all of itself next time."""

    def lose_everything(self) -> None:
        self.held = self.told = NOWHERE
        self.epoch = 0

    def is_told(self, given: Places) -> None:
        """It starts with what is new at once, and gives back what is not its own any more when it gets round to it."""
        self.told = given
        self.held |= given

    def give_back(self) -> None:
        self.held &= self.told


class ConsumerGroupMachine(RuleBasedStateMachine):
    """One group, in the words of its members."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(GroupSettings(group_initial_rebalance_delay_ms=0))
        self.consumers: dict[str, Consumer] = {}
        self.life = 0

    @initialize(counts=st.fixed_dictionaries({name: st.integers(1, 5) for name in TOPICS}))
    def make_topics(self, counts: dict[str, int]) -> None:
        for name, count in counts.items():
            self.world.make_topic(name, count)

    # --- the model ---

    @property
    def group(self) -> ConsumerGroup | None:
        group = self.world.shard._groups.get("g")
        return group if isinstance(group, ConsumerGroup) else None

    def members(self) -> list[Consumer]:
        """Those who are in the group, whether they know it or not."""
        group = self.group
        return (
            []
            if group is None
            else [c for c in self.consumers.values() if c.member_id in group.state.members]
        )

    def known(self, held: Places) -> Places:
        """What of it still exists: nobody can report partitions of a topic that is gone."""
        return frozenset(place for place in held if place.topic in self.world.topics.topics)

    def heartbeat(self, consumer: Consumer, is_lost: bool, **given: Any) -> None:
        """Send one, in the way of a client that knows whether its last reply came."""
        if consumer.is_classic:
            self.classic_beat(consumer)
            return
        owns = self.known(consumer.held)
        if consumer.epoch == 0:
            consumer.held = consumer.told = NOWHERE
            names = given.get("subscribed_topic_names", consumer.topics)
            self.talk(
                consumer,
                is_lost,
                lambda: self.world.join(
                    consumer.member_id,
                    names,
                    instance_id=consumer.instance,
                    rebalance_timeout_ms=REVOKES_MS,
                ),
            )
            return
        if consumer.is_unsure:
            given.setdefault("subscribed_topic_names", sorted(consumer.topics))
            given["rebalance_timeout_ms"] = REVOKES_MS
        self.talk(
            consumer,
            is_lost,
            lambda: self.world.beat(
                consumer.member_id, consumer.epoch, owns, instance_id=consumer.instance, **given
            ),
        )

    def talk(self, consumer: Consumer, is_lost: bool, send: Any) -> None:
        try:
            reply: ConsumerGroupHeartbeatResponse = send()
        except KafkaError as error:
            if error is FULL:
                consumer.is_unsure = True
                return
            if error.code in (
                ErrorCode.UNRELEASED_INSTANCE_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.FENCED_MEMBER_EPOCH,
                ErrorCode.FENCED_INSTANCE_ID,
            ):
                consumer.lose_everything()
                return
            raise
        consumer.is_unsure = is_lost
        if not is_lost:
            consumer.epoch = reply.member_epoch
            given = self.world.told(reply)
            if given is not None:
                consumer.is_told(given)

    # --- members of the consumer protocol ---

    @rule(name=st.sampled_from(MEMBERS), topics=SUBSCRIPTIONS, is_static=SELDOM, is_lost=SELDOM)
    def come(self, name: str, topics: set[str], is_static: bool, is_lost: bool) -> None:
        """A new process. It joins when nobody of its name is there."""
        if name in self.consumers:
            self.heartbeat(self.consumers[name], is_lost)
            return
        self.life += 1
        instance = f"instance-{name}" if is_static else None
        consumer = Consumer(f"{name}-{self.life}", instance, frozenset(topics))
        self.consumers[name] = consumer
        self.heartbeat(consumer, is_lost)

    @rule(name=st.sampled_from(MEMBERS))
    def die(self, name: str) -> None:
        """Without a word. What it held it holds until it is missed."""
        if name in self.consumers:
            dead = self.consumers.pop(name)
            self.consumers[f"{dead.member_id} (dead)"] = dead

    @rule(name=st.sampled_from(MEMBERS), is_lost=SELDOM)
    def beat(self, name: str, is_lost: bool) -> None:
        if name in self.consumers:
            self.heartbeat(self.consumers[name], is_lost)

    @rule(gives_back=st.booleans())
    def all_beat(self, gives_back: bool) -> None:
        for consumer in self.alive():
            if gives_back:
                consumer.give_back()
            self.heartbeat(consumer, is_lost=False)

    @rule(name=st.sampled_from(MEMBERS))
    def give_back(self, name: str) -> None:
        if name in self.consumers:
            self.consumers[name].give_back()

    @rule(name=st.sampled_from(MEMBERS), topics=SUBSCRIPTIONS, is_lost=SELDOM)
    def subscribe(self, name: str, topics: set[str], is_lost: bool) -> None:
        consumer = self.consumers.get(name)
        if consumer is not None and not consumer.is_classic:
            consumer.topics = frozenset(topics)
            self.heartbeat(consumer, is_lost, subscribed_topic_names=sorted(topics))

    @rule(name=st.sampled_from(MEMBERS), for_a_while=st.booleans())
    def leave(self, name: str, for_a_while: bool) -> None:
        consumer = self.consumers.pop(name, None)
        if consumer is None:
            return
        consumer.give_back()
        try:
            if consumer.is_classic:
                self.world.classic_leave((consumer.member_id, None))
            else:
                epoch = -2 if for_a_while and consumer.instance else -1
                self.world.go(consumer.member_id, epoch, consumer.instance)
        except KafkaError as error:
            assert error.code in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.GROUP_ID_NOT_FOUND,
                ErrorCode.FENCED_INSTANCE_ID,
            )

    # --- members of the classic protocol ---

    @rule(name=st.sampled_from(MEMBERS), topics=SUBSCRIPTIONS)
    @precondition(lambda self: self.group is not None and not self.group.is_empty)
    def come_as_classic(self, name: str, topics: set[str]) -> None:
        if name in self.consumers:
            return
        slip = self.world.classic_join(topics=sorted(topics))
        consumer = Consumer(slip.reply.member_id, None, frozenset(topics), is_classic=True)
        self.consumers[name] = consumer
        self.move_classic(consumer)

    def classic_beat(self, consumer: Consumer) -> None:
        if self.group is None or consumer.epoch == 0:
            return
        try:
            if self.world.classic_beat(consumer.member_id, consumer.epoch):
                self.move_classic(consumer)
        except KafkaError:
            consumer.lose_everything()

    def move_classic(self, consumer: Consumer) -> None:
        """Join with what it holds, and sync. A cooperative consumer: it gives back between two joins."""
        if self.group is None:
            return
        slip = self.world.classic_join(consumer.member_id, sorted(consumer.topics), self.known(consumer.held))
        if slip.is_waiting or isinstance(slip.reply, KafkaError) or slip.reply.error_code:
            consumer.lose_everything()
            return
        consumer.epoch = slip.reply.generation_id
        synced = self.world.classic_sync(consumer.member_id, consumer.epoch)
        if isinstance(synced.reply, KafkaError):
            assert synced.reply.code == ErrorCode.REBALANCE_IN_PROGRESS
        else:
            consumer.is_told(assigned(synced.reply.assignment))
            consumer.give_back()

    # --- the world ---

    @rule(name=st.sampled_from(TOPICS), more=st.integers(1, 2))
    def grow(self, name: str, more: int) -> None:
        known = self.world.topics.topics.get(name)
        self.world.make_topic(name, more + (len(known.partitions) if known else 0))

    @rule(name=st.sampled_from(TOPICS))
    def delete(self, name: str) -> None:
        """With the topic, everybody's partitions of it are gone, also those that a new topic of this name will have."""
        if name in self.world.topics.topics:
            self.world.delete_topic(name)
            for consumer in self.consumers.values():
                consumer.held = self.known(consumer.held)
                consumer.told = self.known(consumer.told)

    @rule(by_ms=st.sampled_from([1_000, 9_000, 9_000, REVOKES_MS, 45_000]))
    def let_time_pass(self, by_ms: int) -> None:
        self.world.advance(by_ms)

    @rule(by_ms=st.sampled_from([0, 1_000, REVOKES_MS, 45_000]))
    def write_nothing_for_a_while(self, by_ms: int) -> None:
        self.world.host.refuse_with = FULL
        self.world.advance(by_ms)
        for consumer in self.alive():
            if not consumer.is_classic:
                self.heartbeat(consumer, is_lost=False)
        self.world.host.refuse_with = None

    @rule()
    def take_over(self) -> None:
        self.world.take_over()

    def alive(self) -> list[Consumer]:
        return [self.consumers[name] for name in MEMBERS if name in self.consumers] or [
            Consumer("nobody", epoch=1)
        ]

    # --- what must hold ---

    @invariant()
    def no_partition_is_held_by_two_members(self) -> None:
        taken: dict[TopicPartition, str] = {}
        for consumer in self.members():
            for place in consumer.held:
                assert place not in taken, f"{place}: {taken[place]} and {consumer.member_id}"
                taken[place] = consumer.member_id

    @invariant()
    def no_partition_is_assigned_to_two_members(self) -> None:
        if self.group is not None:
            seen = [
                (topic_id, index)
                for member in self.group.state.members.values()
                for partitions in (member.assigned, member.to_revoke)
                for topic_id, indexes in partitions.items()
                for index in indexes
            ]
            assert len(seen) == len(set(seen))

    @invariant()
    def the_log_knows_the_same(self) -> None:
        group = self.group
        if group is not None:
            read = self.world.new_shard()._groups.get("g")
            assert isinstance(read, ConsumerGroup)
            assert vars(read.state) == vars(group.state)

    @invariant()
    def only_members_have_clocks(self) -> None:
        if self.group is not None:
            assert set(self.group.clocks._running) == set(self.group.state.members)

    def teardown(self) -> None:
        """When the dead are dead and everybody answers, all get what they should have."""
        self.world.advance(1)
        if isinstance(self.world.shard._groups.get("g"), ClassicGroup) or self.group is None:
            return
        for _ in range(12):
            self.world.advance(9_000)
            for consumer in self.alive():
                consumer.give_back()
                self.heartbeat(consumer, is_lost=False)
        group = self.group
        if group is None or group.is_empty:
            return
        assert group.state_name == "Stable", self.world.shard.describe_consumer("g")
        for consumer in self.members():
            target = self.world.named(group.state.targets.get(consumer.member_id, {}))
            assert consumer.held == target == self.world.has(consumer.member_id)
        wanted = {
            TopicPartition(name, index)
            for consumer in self.members()
            for name in consumer.topics
            if name in self.world.topics.topics
            for index in range(len(self.world.topics.topics[name].partitions))
        }
        assert set().union(*(consumer.held for consumer in self.members())) == wanted


ConsumerGroupMachine.TestCase.settings = hypothesis_settings(
    max_examples=60, stateful_step_count=40, deadline=None
)
TestConsumerGroup = ConsumerGroupMachine.TestCase
