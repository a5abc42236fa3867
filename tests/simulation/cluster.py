"""Brokers with coordinators, and a node that keeps the partitions of topics.

Coordinators die and move. The data loses nothing, but messages to it get lost.
"""

import itertools
import uuid
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ottla.core.clock import Moment
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.groups.group import Asker
from ottla.groups.shard import GroupShard
from ottla.protocol.messages.record_types import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.replication.machine import Decision, Producer
from ottla.replication.state import PartitionState, TopicImage
from ottla.testing.simulation.network import ROUGH, Weather
from ottla.testing.simulation.producer_states import Marker, ProducerStates
from ottla.testing.simulation.replicated_log import ReplicatedLog
from ottla.testing.simulation.shard_host import OnceTicket, SimShardHost
from ottla.testing.simulation.storms import Storm
from ottla.testing.simulation.world import World
from ottla.transactions.markers import WriteMarkers
from ottla.transactions.shard import TransactionShard
from tests.simulation.ledger import Ledger
from tests.simulation.peers import Ask, Call, Peer, Script, Sleep, code_of

OFFSETS = TopicPartition("__consumer_offsets", 0)
GROUP_APIS = {"join", "sync", "heartbeat", "leave", "consumer_heartbeat", "commit", "fetch", "txn_commit"}
VERSIONS = {"join": 9, "sync": 5, "heartbeat": 4, "leave": 5, "consumer_heartbeat": 1, "commit": 9, "txn_commit": 5,
            "init": 5, "end": 5}  # fmt: skip
OVERTAKEN = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)

GROUP_SETTINGS = SimpleNamespace(
    offset_metadata_max_bytes=4096,
    offsets_retention_minutes=10_080,
    group_initial_rebalance_delay_ms=50,
    group_min_session_timeout_ms=100,
    group_max_session_timeout_ms=60_000,
    group_max_size=100,
    group_consumer_max_size=100,
    group_consumer_assignors=("uniform", "range"),
    group_consumer_migration_policy="bidirectional",
)
SESSION_MS = 800
CONSUMER_SETTINGS = SimpleNamespace(
    consumer_session_timeout_ms=SESSION_MS, consumer_heartbeat_interval_ms=150
)
TRANSACTION_SETTINGS = SimpleNamespace(
    transaction_max_timeout_ms=60_000, transactional_id_expiration_ms=10**9
)


def topic(name: str, partitions: int) -> TopicImage:
    topic_id = uuid.uuid5(uuid.NAMESPACE_OID, name)
    states = tuple(PartitionState(name, topic_id, i, 1, 0, 0, (1,), (1,)) for i in range(partitions))
    return TopicImage(name, topic_id, states)


class Broker(Peer):
    """Leads shards of coordinators, when it is its turn."""

    def __init__(self, cluster: "Cluster", name: str) -> None:
        super().__init__(cluster.world, name)
        self.cluster = cluster
        self.groups = cluster.host_type(
            self.world, name, cluster.group_log, CONSUMER_OFFSETS, cluster.new_group_shard
        )
        self.transactions = cluster.host_type(
            self.world, name, cluster.transaction_log, TRANSACTION_STATE, cluster.new_transaction_shard,
            carry_out=lambda effect: self.spawn(self._write_markers(effect)),
        )  # fmt: skip

    def serve(self, sender: str, call: Call, answer: Callable[[Any], None]) -> None:
        ticket = OnceTicket(answer)
        if call.api == "mark":
            self.groups.mark(call.request[1], ticket)
        elif call.api == "txn_commit":
            self.spawn(self._commit_in_transaction(call.request, ticket))
        elif call.api in GROUP_APIS:
            self.groups.ask(lambda shard, now: self._group(shard, call, ticket, sender, now), ticket)
        else:
            self.transactions.ask(lambda shard, now: self._transaction(shard, call, sender, now), ticket)

    def is_current(self, api: str) -> bool:
        return api not in GROUP_APIS or self.groups.epoch == self.cluster.group_log.epoch

    def _group(
        self, shard: GroupShard, call: Call, ticket: OnceTicket, sender: str, now: Moment
    ) -> Decision[Any]:
        if call.api == "fetch":
            return Decision(shard.fetch_offsets(*call.request))
        asker = Asker(VERSIONS[call.api], sender, "/127.0.0.1")
        if call.api in ("join", "sync"):
            decide = shard.decide_join if call.api == "join" else shard.decide_sync
            return decide(call.request, asker, ticket, now)
        return getattr(shard, f"decide_{call.api}")(call.request, asker, now)

    def _transaction(self, shard: TransactionShard, call: Call, sender: str, now: Moment) -> Decision[Any]:
        if call.api == "add":
            transactional_id, producer, partition = call.request
            return shard.decide_add_partitions(transactional_id, producer, [partition], 2, now)
        asker = Asker(VERSIONS[call.api], sender, "/127.0.0.1")
        if call.api == "init":
            return shard.decide_init(call.request, asker, None, now)
        return shard.decide_end(call.request, asker, now)

    def _commit_in_transaction(self, request: Any, ticket: OnceTicket) -> Script:
        """The offsets' partition joins the transaction, then the offsets are written (KIP-890)."""
        producer = Producer(request.producer_id, request.producer_epoch)
        target = self.cluster.coordinator(self.cluster.transaction_log, self.chance)
        added = yield Ask(target, "add", (request.transactional_id, producer, OFFSETS))
        if code_of(added):
            ticket.answer(KafkaError(code_of(added)))
            return
        asker = Asker(VERSIONS["txn_commit"], self.name, "/127.0.0.1")
        self.groups.ask(lambda shard, now: shard.decide_txn_commit(request, asker, now), ticket)

    def _write_markers(self, effect: WriteMarkers) -> Script:
        """Until all are written, or somebody else coordinates."""
        marker = Marker(
            effect.producer, effect.is_commit, effect.coordinator_epoch, effect.transaction_version
        )
        for partition in effect.partitions:
            while True:
                if self.transactions.epoch != effect.coordinator_epoch:
                    return
                target = (
                    "data"
                    if partition != OFFSETS
                    else self.cluster.coordinator(self.cluster.group_log, self.chance)
                )
                reply = yield Ask(target, "mark", (partition, marker))
                if code_of(reply) in OVERTAKEN:
                    return
                if not code_of(reply):
                    break
                yield Sleep(self.chance.randint(20, 100))
        self.transactions.ask(
            lambda shard, now: shard.decide_marked(
                effect.transactional_id, effect.producer, effect.coordinator_epoch, effect.partitions, now
            )
        )

    def crash(self) -> None:
        super().crash()
        self.groups.crash()
        self.transactions.crash()


class Data(Peer):
    """All partitions of all topics. Who reads committed sees `committed`, by the position at which it was written."""

    def __init__(self, cluster: "Cluster") -> None:
        super().__init__(cluster.world, "data")
        self.cluster = cluster
        self.committed: dict[TopicPartition, list[tuple[int, Any]]] = {}
        self._positions = itertools.count()
        self._states: dict[TopicPartition, ProducerStates] = {}
        self._open: dict[tuple[TopicPartition, int], list[tuple[str, int, Any]]] = {}
        self._sequences: dict[tuple[TopicPartition, Producer], int] = {}

    def serve(self, sender: str, call: Call, answer: Callable[[Any], None]) -> None:
        if call.api == "mark":
            self._mark(*call.request, answer)
        else:
            self.spawn(self._produce(*call.request, answer))

    def _produce(
        self, transactional_id: str, producer: Producer, attempt: str, place: TopicPartition, sequence: int,
        value: Any, answer: Callable[[Any], None],
    ) -> Script:  # fmt: skip
        states = self._states.setdefault(place, ProducerStates())
        try:
            states.check(producer)
            if not states.is_open(producer):
                target = self.cluster.coordinator(self.cluster.transaction_log, self.chance)
                added = yield Ask(target, "add", (transactional_id, producer, place))
                if code_of(added):
                    raise KafkaError(code_of(added))
            states.check(producer)
            expected = self._sequences.get((place, producer), 0)
            if sequence > expected:
                raise KafkaError(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        except KafkaError as error:
            answer(error)
            return
        if sequence == expected:
            self._sequences[place, producer] = sequence + 1
            states.write(producer)
            self._open.setdefault((place, producer.id), []).append((attempt, next(self._positions), value))
            self.world.note(f"{place}: {value} by {producer} in {attempt}")
        answer(None)

    def _mark(self, place: TopicPartition, marker: Marker, answer: Callable[[Any], None]) -> None:
        states = self._states.setdefault(place, ProducerStates())
        try:
            states.check_marker(marker)
        except KafkaError as error:
            answer(error)
            return
        states.end(marker)
        span = self._open.pop((place, marker.producer.id), [])
        self.cluster.ledger.ended(str(place), [attempt for attempt, _, _ in span], marker.is_commit)
        if marker.is_commit:
            self.committed.setdefault(place, []).extend(record for _, *record in span)
        answer(None)

    @property
    def open_transactions(self) -> int:
        return len(self._open)


class Cluster:
    """Three brokers, the data, and the ledger that watches."""

    host_type: type[SimShardHost[Any]] = SimShardHost
    group_shard = GroupShard
    transaction_shard = TransactionShard

    def __init__(self, seed: int, weather: Weather = ROUGH, *, refusal: float = 0.0) -> None:
        self.world = World(seed, weather)
        self.ledger = Ledger(self.world)
        self.group_log = ReplicatedLog(self.world, "groups", refusal=refusal)
        self.transaction_log = ReplicatedLog(self.world, "transactions", refusal=refusal)
        self.group_log.watchers.append(self.ledger.group_record)
        images = [topic("input", 3), topic("more", 2)]
        self.topics = SimpleNamespace(
            topics={image.name: image for image in images},
            topic_of_id={image.topic_id: image for image in images},
        )
        self._ids = self.world.stream("ids")
        self._producer_ids = iter(range(1_000, 10**6))
        self.data = Data(self)
        self.brokers = [Broker(self, f"b{number}") for number in range(3)]
        self.names = [broker.name for broker in self.brokers]
        self.group_log.elect("b0")
        self.transaction_log.elect("b1")

    def new_group_shard(self, epoch: int, now: Moment) -> GroupShard:
        return self.group_shard(
            GROUP_SETTINGS, lambda group: CONSUMER_SETTINGS, self.topics, self.new_id, now
        )

    def new_transaction_shard(self, epoch: int, now: Moment) -> TransactionShard:
        return self.transaction_shard(TRANSACTION_SETTINGS, lambda: next(self._producer_ids), epoch, now)

    def new_id(self) -> uuid.UUID:
        return uuid.UUID(int=self._ids.getrandbits(128))

    def coordinator(self, log: ReplicatedLog, chance: Any) -> str:
        """Who coordinates, as somebody knows who may be behind the times."""
        return log.leader if log.leader is not None and chance.random() < 0.9 else chance.choice(self.names)

    def storm(self, clients: list[str], end_ms: int) -> None:
        """Faults for brokers and clients, and elections for no reason."""
        others = {"move groups": self.group_log.elect, "move transactions": self.transaction_log.elect}
        nodes = [*self.names, *self.names, *clients]  # brokers are struck twice as often
        Storm(self.world, nodes, ["data"], others, gap_ms=700, lasts_ms=(20, 600), end_ms=end_ms).start()
        self.world.after(end_ms, self._calm_logs)

    def _calm_logs(self) -> None:
        self.group_log.refusal = self.transaction_log.refusal = 0.0
