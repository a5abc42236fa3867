"""Births, deaths, ISR changes, settings and cut-short controllers in any order: what must hold whatever happens.

A model of what every replica has goes along. A leader commits only with all of an ISR that is large enough; a broker
that dies uncleanly has lost everything when it comes back. Then whoever is in sync or eligible has all that is
committed, and nobody leads with less unless nobody was left who had it, or unclean leaders are allowed.
"""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.broker.stored import load_brokers, load_context
from ottla.controller import alterations, brokers, configs, preferred, shutdown, topics
from ottla.controller.commands import ConfigResource, NewTopic, ResourceType
from ottla.controller.context import Policy
from ottla.controller.decision import LeaderAndIsr, UpdateMetadata
from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition
from ottla.metadata.paths import BrokerNode, EndpointNode
from ottla.metadata.store import Create, Delete
from ottla.replication.exchange import BrokerLife, Proposal
from ottla.replication.state import NO_LEADER
from tests.unit.controller.helpers import DEFAULTS, Loaded, carried_out, present
from tests.unit.controller.tree_store import TreeStore, now

ALL = range(4)
PLACES = {"wide": {0: [0, 1, 2], 1: [3, 2, 1]}, "pair": {0: [1, 0]}, "solo": {0: [2]}}
PARTITIONS = [TopicPartition(name, index) for name, places in PLACES.items() for index in places]
MIN, UNCLEAN = "min.insync.replicas", "unclean.leader.election.enable"
EVERYBODY = ConfigResource(ResourceType.BROKER, "")
some_broker, some_partition = st.sampled_from(ALL), st.sampled_from(PARTITIONS)
some_steps = st.none() | st.integers(0, 4)
"""How many writes of a decision happen before its controller dies; None: all."""


class Elections(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.store = TreeStore()
        self.lives = {}  # live brokers and their epochs
        self.last_life = {}
        self.noticed = {}  # the last life of each that a controller has dealt with
        self.stopped_cleanly = {}  # dead ones and the epoch of their last life
        self.has = {p: dict.fromkeys(ALL, 0) for p in PARTITIONS}
        self.committed = dict.fromkeys(PARTITIONS, 0)
        self.eligible = {p: set() for p in PARTITIONS}  # who left while nothing could be committed
        self.caught_up = {}  # in which life a follower had all that the leader had

    @initialize(least=st.sampled_from(["1", "2"]))
    def begin(self, least):
        for id in ALL:
            self.start(id, is_seen=False)
        self.take_over()
        for name, places in PLACES.items():
            wanted = NewTopic(name, assignments=places)
            decision = topics.create(self.context, [wanted], DEFAULTS, Loaded())[0]
            self.carry_out(decision)
        self.seen = {p: present(self.context, *p) for p in PARTITIONS}
        self.configure(None, {MIN: least})

    # Brokers

    @rule(id=some_broker, is_clean=st.booleans(), is_seen=st.booleans())
    def die(self, id, is_clean, is_seen):
        if id in self.lives:
            epoch = self.lives.pop(id)
            if is_clean:
                self.stopped_cleanly[id] = epoch
            self.store.write(Delete(BrokerNode.path(id)))
            if is_seen:
                self.notice()

    @rule(id=some_broker, is_seen=st.booleans(), steps=some_steps)
    def start(self, id, is_seen, steps=None):
        if id not in self.lives:
            previous = self.stopped_cleanly.pop(id, -1)
            if previous < 0:
                for where in PARTITIONS:
                    self.lose(id, where)
            node = BrokerNode((EndpointNode("P", "PLAINTEXT", "h", 1),), None, previous)
            self.last_life[id] = self.lives[id] = self.store.write(
                Create(BrokerNode.path(id), node.encode(0))
            )
            if is_seen:
                self.notice(steps)

    @rule(id=some_broker, where=some_partition)
    def lose_a_disk(self, id, where):
        if self.knows(id):
            self.lose(id, where)
            self.carry_out(brokers.fail(self.context, id, [where]))

    # Leaders and followers

    @rule()
    def commit(self):
        for where in PARTITIONS:
            state = present(self.context, *where)
            if len(state.isr) >= self.least(state) and all(self.knows(id) for id in state.isr):
                self.committed[where] += 1
                for id in state.replicas:
                    if id in state.isr:
                        self.has[where][id] = self.committed[where]
                    else:  # it has caught up with less
                        self.caught_up.pop((where, id, state.leader_epoch), None)

    @rule(where=some_partition)
    def catch_up(self, where):
        state = present(self.context, *where)
        for id in state.replicas:
            if self.knows(state.leader) and id in self.lives and id not in state.offline:
                self.has[where][id] = self.has[where][state.leader]
                self.caught_up[where, id, state.leader_epoch] = self.lives[id]

    @rule()
    def come_to_rest(self):
        self.notice()
        for where in PARTITIONS:
            self.catch_up(where)
            self.alter(where, frozenset(ALL), is_late=False)

    @rule(where=some_partition, keep=st.frozensets(some_broker), is_late=st.booleans())
    def alter(self, where, keep, is_late):
        """Some leave, and whoever has caught up joins; perhaps upon the state before."""
        state = present(self.context, *where)
        if not self.knows(state.leader):
            return
        joining = {
            id: epoch
            for (p, id, leader_epoch), epoch in self.caught_up.items()
            if (p, leader_epoch) == (where, state.leader_epoch)
        }
        members = [BrokerLife(id) for id in state.isr if id in keep | {state.leader}]
        members += [BrokerLife(id, epoch) for id, epoch in joining.items() if id in keep - {*state.isr}]
        wanted = Proposal(
            where, state.topic_id, state.leader_epoch, state.partition_epoch - is_late, tuple(members)
        )
        decision, answers = alterations.alter(self.context, state.leader, self.lives[state.leader], [wanted])
        assert bool(decision.writes) <= (not is_late)
        self.carry_out(decision)
        answer = answers[where]
        assert isinstance(answer, KafkaError) or answer == present(self.context, *where)
        assert isinstance(answer, KafkaError) or wanted.members == set(answer.isr)

    @rule(where=some_partition, id=some_broker)
    def count_in_a_former_life(self, where, id):
        """A follower has caught up, and restarts before the leader's proposal arrives."""
        self.catch_up(where)
        self.die(id, is_clean=False, is_seen=True)
        self.start(id, is_seen=True)
        self.alter(where, frozenset(ALL), is_late=False)

    @rule(where=some_partition, id=some_broker)
    def alter_as_a_zombie(self, where, id):
        state = present(self.context, *where)
        if id == state.leader or id not in self.context.brokers:
            return
        wanted = Proposal(where, state.topic_id, state.leader_epoch - 1, 0, (BrokerLife(id),))
        epoch = self.context.brokers[id].epoch
        assert alterations.alter(self.context, id, epoch, [wanted])[0].writes == []

    # The controller

    @rule(steps=some_steps)
    def notice(self, steps=None):
        self.carry_out(brokers.change(self.context, now(load_brokers(self.store))), steps)

    @rule(steps=some_steps)
    def take_over(self, steps=None):
        self.context = now(load_context(self.store, 0, 1, 0))
        self.context.policy = self.policy
        self.carry_out(brokers.begin(self.context), steps)

    @rule(topic=st.sampled_from([None, *PLACES]), least=st.sampled_from(["1", "2", "3", None]))
    def require(self, topic, least):
        self.configure(topic, {MIN: least})

    @rule(topic=st.sampled_from([None, *PLACES]), allowed=st.sampled_from(["true", "false", None]))
    def allow_unclean(self, topic, allowed):
        self.configure(topic, {UNCLEAN: allowed})

    @rule(id=some_broker)
    def ask_to_stop(self, id):
        if self.knows(id):
            decision, remaining = shutdown.prepare(self.context, id, self.lives[id])
            self.carry_out(decision)
            led = [p for p in PARTITIONS if present(self.context, *p).leader == id]
            staying = self.context.brokers.keys() - self.context.shutting_down
            assert {*remaining} == {p for p in led if staying & {*present(self.context, *p).replicas}}

    @rule(kind=st.sampled_from(preferred.ElectionType), where=st.none() | st.lists(some_partition))
    @precondition(lambda self: not self.unnoticed())
    def elect(self, kind, where):
        self.carry_out(preferred.elect(self.context, kind, where)[0])

    @rule(percent=st.sampled_from([0, 50]))
    def rebalance(self, percent):
        self.carry_out(preferred.rebalance(self.context, percent))

    # What must hold

    @invariant()
    def states_are_sound(self):
        for where in PARTITIONS:
            state = present(self.context, *where)
            assert (state.leader == NO_LEADER) == (not state.isr)
            assert state.leader == NO_LEADER or state.leader in state.isr
            assert state.leader == NO_LEADER or state.leader in self.context.brokers
            assert state.leader not in state.offline
            assert {*state.isr, *state.elr} <= {*state.replicas}
            assert not {*state.isr} & {*state.elr}
            assert {*state.isr} <= self.context.brokers.keys()
            assert not state.elr or len(state.isr) < self.least(state)
            assert state.leader == NO_LEADER or state.last_known_leader == NO_LEADER

    @invariant()
    def epochs_grow(self):
        for where, before in self.seen.items():
            after = present(self.context, *where)
            assert after.partition_epoch >= before.partition_epoch
            assert after.leader_epoch >= before.leader_epoch
            if after._replace(offline=before.offline) != before:
                assert after.partition_epoch > before.partition_epoch
            if after.leader != before.leader:
                assert after.leader_epoch > before.leader_epoch

    @invariant()
    def nothing_is_lost_that_somebody_has(self):
        for where, before in self.seen.items():
            after, held = present(self.context, *where), self.has[where]
            if (
                after.leader != NO_LEADER
                and held[after.leader] < self.committed[where]
                and self.is_life_known(after.leader)
            ):
                keepers = [
                    id for id in (*before.isr, *self.eligible[where]) if held[id] >= self.committed[where]
                ]
                assert after.is_recovering or not keepers, (where, before, after)
                self.committed[where] = held[after.leader]
            for id in (*after.isr, *after.elr):
                assert held[id] >= self.committed[where] or not self.is_life_known(id), (where, id, after)
            self.seen[where] = after
            left = {*self.eligible[where], *before.isr} - {*after.isr}
            left = {id for id in left if held[id] >= self.committed[where]}
            self.eligible[where] = left if len(after.isr) < self.least(after) else set()

    @invariant()
    def what_is_applied_is_what_is_stored(self):
        stored = now(load_context(self.store, 0, 1, 0))
        assert stored.configs == self.context.configs
        assert stored.epochs == self.context.epochs
        assert {s.topic_partition: s for s in stored.states()} == {
            s.topic_partition: s._replace(offline=()) for s in self.context.states()
        }

    def lose(self, id, where):
        self.has[where][id] = 0
        self.eligible[where].discard(id)

    def knows(self, id):
        """Does it live, and does the controller know it in this life?"""
        return (
            id in self.lives
            and id in self.context.brokers
            and self.context.brokers[id].epoch == self.lives[id]
        )

    def is_life_known(self, id):
        """Has it begun no life that the controller has not seen?"""
        return self.noticed.get(id) == self.last_life[id]

    def unnoticed(self):
        return {id: b.epoch for id, b in self.context.brokers.items()} != self.lives

    def least(self, state):
        return min(self.policy(state.topic).min_insync_replicas, len(state.replicas))

    def policy(self, topic):
        own = self.context.configs.get(ConfigResource(ResourceType.TOPIC, topic))
        default = self.context.configs.get(EVERYBODY)
        values = {**(default.values if default else {}), **(own.values if own else {})}
        return Policy(int(values.get(MIN, 1)), values.get(UNCLEAN) == "true")

    def configure(self, topic, values):
        resource = ConfigResource(ResourceType.TOPIC, topic) if topic else EVERYBODY
        after = configs.altered(self.context, resource, values, replace=False)
        for where in PARTITIONS:
            if MIN in values and topic in (None, where.topic) and present(self.context, *where).isr:
                self.eligible[where].clear()
        self.carry_out(configs.alter(self.context, resource, after))

    def carry_out(self, decision, steps=None):
        """Carried out; or only so many writes of it, and then another controller takes over."""
        told = Counter(
            (type(e), e.broker) for e in decision.effects if isinstance(e, LeaderAndIsr | UpdateMetadata)
        )
        assert not told or max(told.values()) == 1
        for write in decision.writes[:steps]:
            self.store.write(write)
        if steps is not None and steps < len(decision.writes):
            self.take_over()
        else:
            carried_out(self.context, decision)
            self.noticed |= {id: broker.epoch for id, broker in self.context.brokers.items()}


Elections.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestElections = Elections.TestCase
