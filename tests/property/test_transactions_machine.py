"""Producers, zombies and a network that repeats, delays and loses, against the coordinator of transactions.

The ledger reads the log and the partitions, not the coordinator: what was begun, how it ended, who has which marker.
Requests stay in the network and may be delivered again at any time. For clients of transaction version 2 nothing of
that may touch any transaction but their own; for older ones it can, which is why there is version 2.
"""

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition
from ottla.replication.machine import Producer
from ottla.transactions.markers import WriteMarkers
from ottla.transactions.states import State
from ottla.transactions.transaction import LAST_EPOCH, of_record
from tests.unit.transactions.stage import Stage, TransactionSettings

IDS = ["t", "u"]
PARTITIONS = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
SOME = st.sets(st.sampled_from(PARTITIONS), min_size=1).map(lambda chosen: tuple(sorted(chosen)))
INDEX = st.integers(0, 1_000_000)
LOST = st.sampled_from([False, False, False, True])
TIMEOUT_MS = 1000
EXPIRATION_MS = 50_000
KEPT_MAX = 30  # requests and orders that can still be delivered
COME_AGAIN = 51


@dataclass(eq=False)
class Instance:
    """One transaction."""

    begun_by: "Request | None"
    producer: Producer
    partitions: frozenset[TopicPartition]
    outcome: bool | None = None
    is_complete: bool = False


@dataclass(eq=False)
class Client:
    """A producer. It has one request under way, and goes on when it gets the first reply to it."""

    transactional_id: str
    is_new: bool
    producer: Producer | None = None
    transactions: int = 0
    pending: "Request | None" = None


@dataclass(eq=False)
class Request:
    client: Client
    transaction: int
    kind: str
    producer: Producer
    partitions: tuple[TopicPartition, ...] = ()
    commit: bool = False

    @property
    def label(self) -> tuple[Client, int]:
        """Which of its transactions the client means."""
        return self.client, self.transaction

    def is_of(self, instance: Instance) -> bool:
        return instance.begun_by is not None and instance.begun_by.label == self.label


@dataclass(eq=False)
class Partition:
    """What a leader knows: the epoch of each producer, and whose transaction is open."""

    epochs: dict[int, int] = field(default_factory=dict)
    open: dict[int, Instance] = field(default_factory=dict)
    ended: list[tuple[Instance, bool]] = field(default_factory=list)

    def write(self, producer: Producer, instance: Instance) -> None:
        if producer.epoch < self.epochs.get(producer.id, 0):
            return  # fenced
        self.epochs[producer.id] = producer.epoch
        assert self.open.setdefault(producer.id, instance) is instance, "torn into another transaction"

    def mark(self, order: WriteMarkers) -> None:
        producer = order.producer
        known = self.epochs.get(producer.id, -1)
        if producer.epoch < known:
            return
        if order.transaction_version >= 2 and producer.epoch == known and producer.id in self.open:
            return  # the marker of a version 2 is above what it ends: this one ended the transaction before (KIP-1228)
        self.epochs[producer.id] = producer.epoch
        instance = self.open.pop(producer.id, None)
        if instance is not None:
            self.ended.append((instance, order.is_commit))


class WatchedStage(Stage):
    """Keeps the ledger of what is written."""

    def __init__(self) -> None:
        self.instances: list[Instance] = []
        self.current: dict[str, Instance | None] = {}
        self.marked: dict[Instance, set[TopicPartition]] = {}
        self.issued: list[tuple[WriteMarkers, Instance]] = []
        self.request: Request | None = None
        self.over: set[tuple[Client, int]] = set()
        self._last: dict = {}
        super().__init__(TransactionSettings(transactional_id_expiration_ms=EXPIRATION_MS))

    def carry_out(self, decision):
        written, ordered = len(self.log), len(self.orders)
        reply = super().carry_out(decision)
        for entry in self.log[written:]:
            self._watch(entry)
        for order in self.orders[ordered:]:
            instance = self.current[order.transactional_id]
            assert instance is not None and order.is_commit == instance.outcome
            assert instance.partitions.issuperset(order.partitions)
            self.issued = [*self.issued, (order, instance)][-KEPT_MAX:]
        return reply

    def _watch(self, entry) -> None:
        name = entry.key.transactional_id
        before = self._last.get(name)
        if entry.value is None:
            assert before.state.is_idle
            del self._last[name]
            return
        step = self._last[name] = of_record(name, entry.value)
        if before is not None:
            is_same = step.producer_id == before.producer_id
            assert step.producer_epoch >= before.producer_epoch if is_same else step.producer_epoch == 0
            assert step.producer_id >= before.producer_id
        if step.state is State.ONGOING:
            self._begin_or_grow(name, before, step)
        elif step.state.is_prepared:
            self._decide(name, before, step)
        elif step.state.is_complete:
            self._complete(name, step)
        else:
            assert before is None or before.state.is_idle

    def _begin_or_grow(self, name, before, step):
        instance = self.current.get(name)
        if before.state.is_idle:
            instance = self.current[name] = Instance(self.request, step.producer, step.partitions)
            self.instances.append(instance)
            if self.request is not None and self.request.client.is_new:
                assert self.request.label not in self.over, "a late request began a transaction anew"
        self._check_request(instance)
        assert instance.outcome is None and step.partitions >= instance.partitions
        instance.partitions = step.partitions

    def _decide(self, name, before, step):
        if self.request is not None and self.request.kind == "end":
            self.over.add(self.request.label)
        if before.state.is_idle:
            assert not step.state.is_commit
            self.current[name] = None  # an empty one
            return
        assert before.state is State.ONGOING
        instance = self.current[name]
        self._check_request(instance)
        assert instance.outcome is None, "an outcome never changes"
        instance.outcome = step.state.is_commit
        if instance.begun_by is not None:
            self.over.add(instance.begun_by.label)

    def _complete(self, name, step):
        instance = self.current[name]
        if instance is not None:
            assert instance.outcome == step.state.is_commit
            assert self.marked.get(instance, set()) >= instance.partitions
            instance.is_complete = True

    def _check_request(self, instance):
        """A client of version 2 touches its own transaction only. A new owner may abort anybody's."""
        request = self.request
        if request is not None and request.client.is_new and request.kind != "take over":
            assert request.is_of(instance), "a late request touched another transaction"


class TransactionsUnderFire(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stage = WatchedStage()
        self.clients: list[Client] = []
        self.network: list[Request] = []
        self.partitions = {partition: Partition() for partition in PARTITIONS}

    # --- clients -------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < 5)
    @rule(name=st.sampled_from(IDS), is_new=st.sampled_from([True, True, False]), is_lost=LOST)
    def start_producer(self, name, is_new, is_lost):
        client = Client(name, is_new)
        self.clients.append(client)
        self._send(Request(client, 0, "take over", Producer(-1, -1)), is_lost)

    @precondition(lambda self: self.clients)
    @rule(index=INDEX, some=SOME, is_lost=LOST)
    def add_partitions(self, index, some, is_lost):
        self._ask(index, "add", is_lost, partitions=some)

    @precondition(lambda self: self.clients)
    @rule(index=INDEX, commit=st.booleans(), is_lost=LOST)
    def end(self, index, commit, is_lost):
        self._ask(index, "end", is_lost, commit=commit)

    @precondition(lambda self: self.clients)
    @rule(index=INDEX, kind=st.sampled_from(["go on", "go on", "take over"]), is_lost=LOST)
    def init(self, index, kind, is_lost):
        self._ask(index, kind, is_lost)

    @precondition(lambda self: self.clients)
    @rule(index=INDEX, some=SOME, more=SOME, commit=st.booleans())
    def end_one_and_begin_the_next(self, index, some, more, commit):
        """What happens most of the time, so that there is something to disturb."""
        self._ask(index, "add", is_lost=False, partitions=some)
        self._ask(index, "end", is_lost=False, commit=commit)
        self._mark_all()
        self._ask(index, "add", is_lost=False, partitions=more)

    @precondition(lambda self: any(client.pending for client in self.clients))
    @rule(index=INDEX, is_lost=LOST)
    def try_again(self, index, is_lost):
        waiting = [client.pending for client in self.clients if client.pending]
        self._deliver(waiting[index % len(waiting)], is_lost)

    @precondition(lambda self: self.network)
    @rule(index=INDEX)
    def deliver_late(self, index):
        self._deliver(self.network[index % len(self.network)], is_lost=False)

    def _ask(self, index, kind, is_lost, **what):
        client = self.clients[index % len(self.clients)]
        if client.pending is None and client.producer is not None:
            producer = Producer(-1, -1) if kind == "take over" else client.producer
            self._send(Request(client, client.transactions, kind, producer, **what), is_lost)

    def _send(self, request, is_lost):
        request.client.pending = request
        self.network = [*self.network, request][-KEPT_MAX:]
        self._deliver(request, is_lost)

    def _deliver(self, request, is_lost):
        self.stage.request = request
        try:
            error, reply = 0, self._carry_out(request)
        except KafkaError as refused:
            error, reply = int(refused.code), None
        self.stage.request = None
        if not is_lost and request.client.pending is request:
            self._receive(request, error, reply)

    def _carry_out(self, request):
        name, is_new = request.client.transactional_id, request.client.is_new
        if request.kind == "add":
            names = map(str, request.partitions)
            return self.stage.add(name, request.producer, *names, version=5 if is_new else 3)
        if request.kind == "end":
            return self.stage.end(name, request.producer, commit=request.commit, version=5 if is_new else 4)
        response = self.stage.init(name, request.producer, timeout_ms=TIMEOUT_MS)
        if response.error_code:
            raise KafkaError(response.error_code)
        return Producer(response.producer_id, response.producer_epoch)

    def _receive(self, request, error, reply):
        client = request.client
        if error == COME_AGAIN:
            return  # it stays pending
        client.pending = None
        if error:
            return  # it may go on with InitProducerId, or try in vain
        if request.kind == "add":
            self._write(request)
            return
        if request.kind == "end" and client.is_new:
            own = [instance for instance in self.stage.instances if request.is_of(instance)]
            assert all(instance.outcome == request.commit for instance in own)
            assert own or not request.commit, "what is said to be committed was begun"
        assert 0 <= reply.epoch <= LAST_EPOCH
        client.producer = reply
        client.transactions += 1

    def _write(self, request):
        """The coordinator agreed: the client writes to the partitions."""
        instance = self.stage.current[request.client.transactional_id]
        assert instance is not None and instance.partitions.issuperset(request.partitions)
        if request.client.is_new:
            assert request.is_of(instance)
        for partition in request.partitions:
            self.partitions[partition].write(request.producer, instance)

    # --- the coordinator and its surroundings ----------------------------------------------------------------------

    @precondition(lambda self: self.stage.issued)
    @rule(index=INDEX, some=SOME, is_lost=LOST)
    def write_markers(self, index, some, is_lost):
        order, instance = self.stage.issued[index % len(self.stage.issued)]
        self._mark(order, instance, [each for each in some if each in order.partitions], is_lost)

    @precondition(lambda self: self.stage.orders)
    @rule()
    def write_all_markers(self):
        self._mark_all()

    def _mark_all(self):
        for order in self.stage.orders:
            for issued, instance in self.stage.issued:
                if issued is order:
                    self._mark(order, instance, order.partitions, is_lost=False)
        self.stage.orders.clear()

    def _mark(self, order, instance, chosen, is_lost):
        if instance.is_complete and order.transaction_version < 2:
            return  # the epoch does not tell it from the next one: hosts do not deliver what they no longer wait for
        for partition in chosen:
            self.partitions[partition].mark(order)
            self.stage.marked.setdefault(instance, set()).add(partition)
        if chosen and not is_lost:
            self.stage.mark(order, *map(str, chosen))

    @rule(by_ms=st.sampled_from([1, 500, TIMEOUT_MS, 11_000]))
    def wait(self, by_ms):
        self.stage.advance(by_ms)

    @rule(is_compacted=st.booleans())
    def restart(self, is_compacted):
        self.stage.restart(compacted=is_compacted)

    @rule()
    def expire(self):
        self.stage.carry_out(self.stage.shard.decide_expire(self.stage.now))

    @rule(name=st.sampled_from(IDS), epoch=st.integers(LAST_EPOCH - 2, LAST_EPOCH))
    def let_years_pass(self, name, epoch):
        """The owner of an idle id went through most of its epochs; so everybody else is fenced."""
        transaction = self.stage.shard.transactions.get(name)
        if transaction is None or not transaction.state.is_idle or transaction.producer_epoch >= epoch:
            return
        owners = [client for client in self.clients if client.producer == transaction.producer]
        aged = transaction._replace(state=State.EMPTY, producer_epoch=epoch, start_ms=-1)
        self.stage.log.append(aged.to_entry())
        self.stage.shard.apply(self.stage.log[-1], None)
        self.stage._watch(self.stage.log[-1])
        for client in owners[:1]:
            client.producer, client.pending = aged.producer, None
            client.transactions += 1

    # --- what holds --------------------------------------------------------------------------------------------------

    @invariant()
    def replay_gives_the_same(self):
        held = self.stage.shard.transactions
        assert self.stage.replayed().transactions == held
        assert self.stage.replayed(compacted=True).transactions == held

    @invariant()
    def no_partition_has_two_outcomes_of_one_transaction(self):
        for partition in self.partitions.values():
            outcomes: dict[Instance, bool] = {}
            for instance, is_commit in partition.ended:
                assert outcomes.setdefault(instance, is_commit) == is_commit == instance.outcome

    def teardown(self):
        """Whatever was begun comes to its end, everywhere."""
        for _ in range(3):
            self._mark_all()
            self.stage.advance(TIMEOUT_MS + 10_000)
        self.stage.restart()
        self._mark_all()
        assert all(instance.is_complete for instance in self.stage.instances)
        assert all(each.state.is_idle for each in self.stage.shard.transactions.values())
        assert not any(partition.open for partition in self.partitions.values()), "a hanging transaction"


TransactionsUnderFire.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestTransactionsUnderFire = TransactionsUnderFire.TestCase
