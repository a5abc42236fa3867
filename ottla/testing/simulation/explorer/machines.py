"""Steps of the machines, by number: each is made once, and remembered.

The same broker in the same state does the same, whatever the others do. A world has hundreds of thousands of states,
but its brokers have a few thousand; that is what makes the explorer fast.
"""

from collections.abc import Hashable
from functools import cache
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.broker import orders as control
from ottla.controller.decision import LeaderAndIsr
from ottla.core.errors import KafkaError
from ottla.replication.exchange import BrokerLife, FetchQuestion, Proposal
from ottla.replication.state import PartitionState
from ottla.testing.simulation.explorer.ledger import Broken, Ledger, judge
from ottla.testing.simulation.explorer.office import Clerk, Office, Order, Orders
from ottla.testing.simulation.explorer.replicas import Answer, Replica, Workshop

Value = TypeVar("Value", bound=Hashable)
NOTHING = -1


class Numbered(Generic[Value]):
    """Values and their numbers."""

    def __init__(self) -> None:
        self._numbers: dict[Value, int] = {}
        self._values: list[Value] = []

    def __getitem__(self, number: int) -> Value:
        return self._values[number]

    def __len__(self) -> int:
        return len(self._values)

    def number(self, value: Value) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self._values)
            self._values.append(value)
        return found


class LateQuestion(NamedTuple):
    life: BrokerLife
    leader: int
    question: FetchQuestion


class LateAnswer(NamedTuple):
    life: BrokerLife
    answer: Answer


class LateProposal(NamedTuple):
    life: BrokerLife
    proposal: Proposal


Late = LateQuestion | LateAnswer | LateProposal


class Handled(NamedTuple):
    """What came of a proposal: controller, orders, and the leader if it hears of it or not."""

    office: int
    orders: Orders
    told: int
    untold: int


class Knowledge(NamedTuple):
    """Which orders are old news to a broker."""

    broker: int
    life: int
    partition_epoch: int


class Machines:
    """Everything is asked for, and answered, by number."""

    def __init__(self, *, keeps_old_orders: bool) -> None:
        self._workshop, self._clerk = Workshop(), Clerk()
        self._keeps_old_orders = keeps_old_orders
        self.replicas: Numbered[Replica] = Numbered()
        self.offices: Numbered[Office] = Numbered()
        self.mail: Numbered[Orders] = Numbered()
        self.states: Numbered[PartitionState] = Numbered()
        self.answers: Numbered[Answer] = Numbered()
        self.late: Numbered[Late] = Numbered()
        self.ledgers: Numbered[Ledger] = Numbered()
        self._remember()

    def _remember(self) -> None:
        brokers = self.follow_orders, self.append, self.question, self.answer, self.propose
        leaders = self.fetch, self.fetch_late, self.handle, self.handle_late
        controllers = self.look, self.hand_over, self.set_min_insync
        for step in (
            *brokers,
            *leaders,
            *controllers,
            self.due,
            self.knowledge,
            self.prune,
            self.post,
            self.judge,
        ):
            setattr(self, step.__name__, cache(step))

    # --- brokers --------------------------------------------------------------------------------------------------

    def _step(self, before: Replica, after: Replica) -> int:
        is_same_reign = before.reign and after.reign and before.leader_epoch == after.leader_epoch
        if is_same_reign and after.high_watermark < before.high_watermark:
            raise Broken(f"the high watermark of broker {after.broker} falls to {after.high_watermark}")
        return self.replicas.number(after)

    def follow_orders(self, replica: int, state: PartitionState) -> int:
        before = self.replicas[replica]
        return self._step(before, self._workshop.orders(before, state))

    def append(self, replica: int, value: int) -> int:
        before = self.replicas[replica]
        after = self._workshop.append(before, value)
        return replica if after is None else self._step(before, after)

    def question(self, replica: int) -> FetchQuestion | None:
        return self._workshop.question(self.replicas[replica])

    def fetch(self, leader: int, follower: int) -> tuple[int, int]:
        """The leader after it was asked, and its answer, if that would change anything."""
        asker, question = self.replicas[follower], self.question(follower)
        assert question is not None
        after, found = self._fetch(leader, BrokerLife(asker.broker, asker.life), question)
        number = NOTHING if found is None else self.answers.number(found)
        return after, number if number != NOTHING and self._changes(follower, number) else NOTHING

    def _changes(self, follower: int, answer: int) -> bool:
        try:
            return self.answer(follower, answer) != follower
        except (AssertionError, Broken):
            return True  # whoever applies it will see

    def fetch_late(self, leader: int, late: int) -> tuple[int, int]:
        asked = self.late[late]
        assert isinstance(asked, LateQuestion)
        after, found = self._fetch(leader, asked.life, asked.question)
        return after, NOTHING if found is None else self.answers.number(found)

    def _fetch(self, leader: int, life: BrokerLife, question: FetchQuestion) -> tuple[int, Answer | None]:
        before = self.replicas[leader]
        after, found = self._workshop.fetch(before, life, question)
        return self._step(before, after), found

    def answer(self, replica: int, answer: int) -> int:
        before = self.replicas[replica]
        return self._step(before, self._workshop.answer(before, self.answers[answer]))

    def propose(self, replica: int, lagging: tuple[int, ...]) -> int:
        before = self.replicas[replica]
        after = self._workshop.propose(before, lagging)
        return replica if after is None else self._step(before, after)

    # --- controller -----------------------------------------------------------------------------------------------

    def handle(self, office: int, replica: int) -> Handled:
        """The controller handles what a leader has asked for."""
        leader = self.replicas[replica]
        assert leader.reign is not None and leader.reign.proposal is not None
        proposal = leader.reign.proposal
        after, orders, outcome = self._clerk.alter(self.offices[office], leader.broker, leader.life, proposal)
        told = self._step(leader, self._workshop.answered(leader, proposal, outcome))
        untold = self._step(leader, self._workshop.answered(leader, proposal, None))
        return Handled(self._office(office, after), orders, told, untold)

    def handle_late(self, office: int, late: int) -> tuple[int, Orders]:
        asked = self.late[late]
        assert isinstance(asked, LateProposal)
        broker, life = asked.life
        after, orders, _ = self._clerk.alter(self.offices[office], broker, life, asked.proposal)
        return self._office(office, after), orders

    def look(self, office: int) -> tuple[int, Orders]:
        after, orders = self._clerk.look(self.offices[office])
        return self._office(office, after), orders

    def hand_over(self, office: int, broker: int) -> tuple[int, Orders]:
        after, orders = self._clerk.hand_over(self.offices[office], broker)
        return self._office(office, after), orders

    def set_min_insync(self, office: int, value: int) -> tuple[int, Orders]:
        after, orders = self._clerk.set_min_insync(self.offices[office], value)
        return self._office(office, after), orders

    def _office(self, before: int, after: Office) -> int:
        was, now = self.offices[before].state, after.state
        if now.leader_epoch < was.leader_epoch or now.partition_epoch < was.partition_epoch:
            raise Broken(f"epochs fall: from {was} to {now}")
        if now.leader_epoch == was.leader_epoch and now.leader != was.leader:
            raise Broken(f"epoch {now.leader_epoch} has two leaders, {was.leader} and {now.leader}")
        return self.offices.number(after)

    # --- orders ---------------------------------------------------------------------------------------------------

    def post(self, mail: int, orders: Orders) -> int:
        return self.mail.number(tuple(sorted({*self.mail[mail], *orders}, key=_order_key)))

    def due(self, mail: int, broker: int, life: int) -> Orders:
        """What a broker listens to, by its own rule: orders for its former lives are refused."""
        return tuple(order for order in self.mail[mail] if order.broker == broker and _is_heard(order, life))

    def knowledge(self, replica: int) -> Knowledge:
        known = self.replicas[replica]
        return Knowledge(known.broker, known.life, known.state.partition_epoch if known.state else NOTHING)

    def prune(self, mail: int, *known: Knowledge) -> int:
        """Drop orders that are old news."""
        if self._keeps_old_orders:
            return mail
        knows = {each.broker: each for each in known}
        return self.mail.number(
            tuple(order for order in self.mail[mail] if _is_news(order, knows[order.broker]))
        )

    # --- all together ---------------------------------------------------------------------------------------------

    def judge(self, a: int, b: int, c: int, office: int, ledger: int) -> int:
        brokers = self.replicas[a], self.replicas[b], self.replicas[c]
        return self.ledgers.number(judge(brokers, self.offices[office], self.ledgers[ledger]))


def _order_key(order: Order) -> tuple[int, int, int]:
    return order.broker, order.life, order.state.partition_epoch


def _is_heard(order: Order, life: int) -> bool:
    nobody: Any = None
    receiver = control.Orders(order.broker, nobody, nobody, nobody)
    receiver.broker_epoch = life
    effect = LeaderAndIsr(order.broker, (order.state,))
    try:
        receiver._check_life(control.Order(effect, 0, 0, order.life))
    except KafkaError:
        return False
    return True


def _is_news(order: Order, known: Knowledge) -> bool:
    return order.life == known.life and order.state.partition_epoch > known.partition_epoch
