"""Moves in any order with deaths, ISR changes, deletions and controllers that are cut short after any write.

A model of what lies on every broker's disk goes along. Nobody who counts goes before the others have enough; whoever
has lost a replica deletes it or is known to owe it; and when everybody is back, every move ends at its target.
"""

from collections import defaultdict

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.broker.stored import leftovers, load_brokers, load_cluster, load_context
from ottla.controller import alterations, brokers, deletions, elections, reassignment, shutdown, topics
from ottla.controller.commands import Growth, NewTopic
from ottla.controller.context import NO_STATE, Policy
from ottla.controller.decision import LeaderAndIsr, StopReplicas
from ottla.core.ids import TopicPartition
from ottla.metadata.paths import BrokerNode, EndpointNode
from ottla.metadata.store import Create, Delete, NoNode
from ottla.replication.exchange import BrokerLife, Proposal
from ottla.replication.state import NO_LEADER
from tests.unit.controller.helpers import DEFAULTS, Loaded, present
from tests.unit.controller.tree_store import TreeStore, now

ALL = range(5)
MOVED = [TopicPartition("t", 0), TopicPartition("t", 1)]
some_broker, some_partition = st.sampled_from(ALL), st.sampled_from(MOVED)
some_brokers = st.lists(some_broker, min_size=1, max_size=3, unique=True)


class CutShort(Exception):
    """The controller is gone."""


class Store(TreeStore):
    """Knows no children of what is not there, as `leftovers` expects."""

    async def children(self, path):
        found = self.tree.children(path)
        if found is None:
            raise NoNode(path)
        return found


class Moves(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.store, self.chance = Store(), Loaded()
        self.fuse = None  # so many writes, and the controller is cut short
        self.lives, self.last_life, self.stopped_cleanly = {}, {}, {}
        self.disks = {id: {} for id in ALL}  # the topic's id of every log on a disk
        self.has = defaultdict(lambda: dict.fromkeys(ALL, 0))  # records, by topic id and partition
        self.committed = defaultdict(int)
        self.smallest = {}  # side of a move so far

    @initialize(least=st.sampled_from([1, 2]))
    def begin(self, least):
        self.policy = lambda topic: Policy(least)
        for id in ALL:
            self.start(id)
        self.take_over()
        wanted = [NewTopic("t", assignments={0: [0, 1, 2], 1: [3, 4, 0]}), NewTopic("u", 2, 2)]
        self.carry_out(topics.create(self.context, wanted, DEFAULTS, self.chance)[0])

    # Brokers

    @rule(id=some_broker, is_clean=st.booleans())
    def die(self, id, is_clean):
        if id in self.lives:
            epoch = self.lives.pop(id)
            if is_clean:
                self.stopped_cleanly[id] = epoch
            self.store.write(Delete(BrokerNode.path(id)))

    @rule(id=some_broker)
    def start(self, id):
        """It reads what it has lost, deletes it, and registers. Nothing on its disk is nobody's."""
        if id in self.lives:
            return
        previous = self.stopped_cleanly.pop(id, -1)
        cluster = now(load_cluster(self.store, "c"))
        for where, topic_id in list(self.disks[id].items()):
            if previous < 0:
                self.has[topic_id, where.partition][id] = 0
            if where.partition in cluster.lost.get((id, topic_id), ()):
                self.delete(id, where)
            else:
                assert cluster.topics.get(where.topic) == topic_id, f"{where} on {id} is a stray"
        node = BrokerNode((EndpointNode("P", "PLAINTEXT", "h", 1),), None, previous)
        self.lives[id] = self.last_life[id] = self.store.write(Create(BrokerNode.path(id), node.encode(0)))

    @rule(id=some_broker)
    def ask_to_stop(self, id):
        if self.knows(id):
            self.attempt(lambda: self.carry_out(shutdown.prepare(self.context, id, self.lives[id])[0]))

    # Leaders and followers

    @rule(where=st.sampled_from([*MOVED, TopicPartition("u", 0)]))
    def commit(self, where):
        state = self.state(where)
        if not state or not state.isr or not all(self.knows(id) for id in state.isr):
            return
        if len(state.isr) >= elections.insync_min(state, self.policy(where.topic)):
            self.committed[state.topic_id, where.partition] += 1
            for id in state.isr:
                self.held(state)[id] = self.committed[state.topic_id, where.partition]

    @rule(where=some_partition, among=st.frozensets(some_broker))
    def sync(self, where, among):
        """These have caught up with the leader, and are the ISR."""
        state = self.state(where)
        if not state or not self.knows(state.leader):
            return
        able = [id for id in state.replicas if self.knows(id) and id not in self.context.shutting_down]
        members = [id for id in able if id in among and where in self.disks[id]]
        for id in members:
            self.held(state)[id] = self.held(state)[state.leader]
        isr = tuple(BrokerLife(id, self.lives[id]) for id in {*members, state.leader})
        wanted = Proposal(where, state.topic_id, state.leader_epoch, state.partition_epoch, isr)
        self.attempt(
            lambda: self.carry_out(
                alterations.alter(self.context, state.leader, self.lives[state.leader], [wanted])[0]
            )
        )

    @rule(where=some_partition)
    def sync_one_who_is_new(self, where):
        """The others fall behind."""
        self.sync(where, frozenset(self.state(where).adding[:1]))

    # What the controller is asked for

    @rule(where=some_partition, to=some_brokers, also=some_brokers)
    def move(self, where, to, also):
        wanted = {where: to, MOVED[1 - where.partition]: also} if len(also) == 1 else {where: to}
        self.alter(wanted)

    @rule(where=some_partition)
    def cancel(self, where):
        self.alter({where: None})

    def alter(self, wanted):
        decision, answers = reassignment.alter(self.context, wanted)
        for where, target in wanted.items():
            if answers[where] is None:
                size = len(target or reassignment.original(self.state(where)))
                self.smallest[where] = min(self.smallest[where], size)
        self.attempt(lambda: self.carry_out(decision))

    @rule()
    @precondition(lambda self: len(self.context.topics["t"].image.partitions) < 4)
    def grow(self):
        count = len(self.context.topics["t"].image.partitions) + 1
        growth = topics.grow(self.context, [Growth("t", count)], self.chance)[0]
        self.attempt(lambda: self.carry_out(growth))

    @rule()
    @precondition(lambda self: not self.unnoticed())
    def delete_the_other_topic(self):
        def work():
            self.carry_out(topics.doom(self.context, ["u"])[0])
            self.bury()

        self.attempt(work)

    @rule()
    @precondition(lambda self: not self.unnoticed())
    def create_it_again(self):
        wanted = [NewTopic("u", 2, 2)]
        decision = topics.create(self.context, wanted, DEFAULTS, self.chance)[0]
        self.attempt(lambda: self.carry_out(decision))

    # The controller

    @rule(writes=st.integers(0, 8))
    def light_a_fuse(self, writes):
        self.fuse = writes

    @rule()
    def notice(self):
        def work():
            known = {broker.epoch for broker in self.context.brokers.values()}
            found = now(load_brokers(self.store))
            self.carry_out(brokers.change(self.context, found))
            born = {broker.node_id for broker in found if broker.epoch not in known}
            self.carry_out(deletions.remind(self.context, born, born=True))

        self.attempt(work)

    @rule()
    def take_over(self):
        self.fuse = None
        self.context = now(load_context(self.store, 0, 1, 0))
        self.context.policy = self.policy
        born = {
            id for id, b in self.context.brokers.items() if elections.is_born(b, self.context.epochs.get(id))
        }
        self.carry_out(brokers.begin(self.context))
        self.carry_out(deletions.remind(self.context, born, born=True))
        self.carry_out(deletions.remind(self.context, self.context.brokers.keys() - born, born=False))
        self.bury()

    def attempt(self, work):
        try:
            work()
        except CutShort:
            self.take_over()

    def carry_out(self, decision):
        for write in decision.writes:
            self.burn()
            self.store.write(write)
        self.burn(0)  # it lasts, and nobody is told
        before = {s.topic_partition: s for s in self.context.states()} if hasattr(self, "context") else {}
        for change in decision.changes:
            self.context.apply(change)
        self.check_who_went(before)
        for effect in decision.effects:
            self.tell(effect)
        advance = reassignment.advance(self.context)
        if advance.writes:
            self.carry_out(advance)

    def burn(self, step=1):
        if self.fuse is not None:
            if self.fuse == 0:
                self.fuse = None
                raise CutShort
            self.fuse -= step

    def bury(self):
        if self.context.doomed:
            found = {name: now(leftovers(self.store, name)) for name in self.context.doomed}
            self.carry_out(topics.bury(self.context, found))

    def tell(self, effect):
        """Who does not live in the life that is meant hears nothing."""
        if isinstance(effect, LeaderAndIsr) and self.knows(effect.broker):
            for state in effect.states:
                disk = self.disks[effect.broker]
                topic_id = disk.setdefault(state.topic_partition, state.topic_id)
                assert topic_id == state.topic_id, "two topics meet"
        if isinstance(effect, StopReplicas) and self.knows(effect.broker):
            for where in effect.partitions:
                self.delete(effect.broker, where)
            self.carry_out(deletions.confirm(self.context, effect.broker, list(effect.partitions)))

    def delete(self, id, where):
        topic_id = self.disks[id].pop(where, None)
        if topic_id is not None:
            self.has[topic_id, where.partition][id] = 0

    # What must hold

    def check_who_went(self, before):
        """A replica that counted goes only when enough of the others have everything."""
        for was in before.values():
            state = self.state(was.topic_partition)
            if not state or state.topic_id != was.topic_id or was.partition_epoch == NO_STATE:
                continue
            gone = {*was.replicas} - {*state.replicas}
            assert not gone & {*state.isr, *state.elr, state.leader}
            if gone & {*was.isr, *was.elr}:
                assert len(state.isr) >= elections.insync_min(state, self.policy(state.topic))
                assert state.leader != NO_LEADER

    @invariant()
    def no_side_is_undercut(self):
        for where in MOVED:
            state = self.state(where)
            if reassignment.is_moving(state):
                sides = reassignment.original(state), reassignment.target(state)
                self.smallest[where] = min(self.smallest[where], *map(len, sides))
                assert all(sides)
            else:
                assert len(state.replicas) >= self.smallest.get(where, 0)
                self.smallest[where] = len(state.replicas)
            assert len(state.replicas) >= self.smallest[where]

    @invariant()
    def whoever_counts_has_what_is_committed(self):
        for state in self.context.states():
            held, committed = self.held(state), self.committed[state.topic_id, state.partition]
            if (
                state.leader != NO_LEADER
                and held[state.leader] < committed
                and self.is_life_known(state.leader)
            ):
                # Everybody who had it has died of it: the last leader leads with what it has.
                assert not any(held[id] >= committed for id in (*state.isr, *state.elr))
                committed = self.committed[state.topic_id, state.partition] = held[state.leader]
            for id in (*state.isr, *state.elr):
                assert held[id] >= committed or not self.is_life_known(id)

    @invariant()
    def nobody_keeps_what_it_has_lost_and_does_not_owe(self):
        for id, disk in self.disks.items():
            for where, topic_id in disk.items():
                state = self.state(where) or self.doomed(where)
                owed = self.context.deletions.get((id, topic_id))
                is_assigned = state and state.topic_id == topic_id and id in state.replicas
                assert is_assigned or (owed and where.partition in owed.partitions), (id, where)

    @invariant()
    def what_is_applied_is_what_is_stored(self):
        stored = now(load_context(self.store, 0, 1, 0))
        assert stored.topics == self.context.topics
        assert stored.deletions == self.context.deletions
        assert stored.doomed == self.context.doomed == {}

    def teardown(self):
        """When everybody is back and catches up, every move ends, and nothing is owed."""
        if hasattr(self, "context"):
            self.settle()

    def settle(self):
        for id in ALL:
            self.start(id)
        self.fuse = None
        goals = {where: reassignment.target(self.state(where)) for where in MOVED}
        self.take_over()
        for _ in range(3):
            for where in MOVED:
                self.sync(where, frozenset(ALL))
        for where, goal in goals.items():
            state = self.state(where)
            assert (state.replicas, state.adding, state.removing) == (goal, (), ()), state
            assert {*state.isr} == {*goal}
        assert self.context.deletions == {}
        for id, disk in self.disks.items():
            assert all(id in self.state(where).replicas for where in disk)

    # Looking

    def state(self, where):
        topic = self.context.topics.get(where.topic)
        return (
            present(self.context, *where) if topic and where.partition < len(topic.image.partitions) else None
        )

    def doomed(self, where):
        topic = self.context.doomed.get(where.topic)
        return topic and topic.image.partitions[where.partition]

    def held(self, state):
        return self.has[state.topic_id, state.partition]

    def knows(self, id):
        """Does it live, and does the controller know it in this life?"""
        known = self.context.brokers.get(id)
        return id in self.lives and known is not None and known.epoch == self.lives[id]

    def is_life_known(self, id):
        """Has it not begun a life, and lost its memory, without the controller having seen it?"""
        return self.context.epochs[id].epoch == self.last_life[id]

    def unnoticed(self):
        return any(not self.knows(id) for id in self.lives)


Moves.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestMoves = Moves.TestCase
