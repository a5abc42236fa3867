"""The coordinators of a broker, put together: groups, transactions, and what ties them to the logs.

a partition of __consumer_offsets or __transaction_state gets or loses its leader here -> its shard comes or goes
a transaction is decided -> markers go to its partitions, on whichever brokers -> the coordinator is told
a marker comes to a partition of __consumer_offsets -> offsets become visible
a topic is deleted -> its committed offsets go with it
a broker dies -> nobody waits for its answer any more
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinators import Coordinator, Surroundings
from ottla.broker.internal_topics import CONSUMER_OFFSETS, TRANSACTION_STATE, internal_topic
from ottla.broker.lag import INTERVAL_MS, LagMeter
from ottla.broker.markers import MarkerWriter, TransactionEnder
from ottla.broker.peers import Peers
from ottla.broker.remote_markers import MarkerRouter
from ottla.broker.remote_verification import RemoteVerification
from ottla.broker.shards import Shard
from ottla.broker.sober_clock import SoberClock
from ottla.broker.verification import Guards, Verifier
from ottla.core.clock import Moment
from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition, random_id
from ottla.groups.shard import GroupShard
from ottla.protocol.messages import record_types
from ottla.replication.machine import Decision, Producer
from ottla.replication.partition import Partition
from ottla.replication.state import TopicImage
from ottla.transactions.markers import WriteMarkers
from ottla.transactions.shard import TransactionShard

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

logger = logging.getLogger(__name__)


class Coordination:
    """Everything that coordinates on one broker."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        config = broker.config
        around = Surroundings(
            broker.clock,
            broker.metadata,
            broker.replicas.commit_of,
            self._create_topic,
            lambda: config.offsets_commit_timeout_ms,
            lambda: broker.producer_ids.refill(),
            broker.replicas.note_failure,
        )
        self.groups = Coordinator(
            CONSUMER_OFFSETS,
            record_types.CONSUMER_OFFSETS,
            self._new_group_shard,
            lambda: config.offsets_topic_num_partitions,
            around,
        )
        self.transactions = Coordinator(
            TRANSACTION_STATE,
            record_types.TRANSACTION_STATE,
            self._new_transaction_shard,
            lambda: config.transaction_state_log_num_partitions,
            around,
        )
        guards = Guards()
        self._peers = Peers(broker)
        self._vouching = RemoteVerification(broker.node_id, self.transactions, broker.metadata, self._peers)
        self.verifier = Verifier(
            self.transactions,
            guards,
            lambda: config.transaction_partition_verification_enable,
            self._vouching,
        )
        self.markers = MarkerWriter(
            broker.replicas, broker.clock, guards, lambda: config.offsets_commit_timeout_ms
        )
        self.markers.on_written = self._ended
        self._router = MarkerRouter(broker.node_id, self.markers, broker.metadata, self._leads, self._peers)
        self._ender = TransactionEnder(self._router, self._is_gone, self._marked, self._is_in_charge)
        self.transactions.on_effect = self._ender.carry_out
        broker.metadata.on_update = self._topics_changed
        self._missed: dict[int, set[str]] = {}
        """Topics that were deleted while a shard of groups was being loaded."""
        self._unchecked: dict[int, Shard[GroupShard]] = {}
        """Shards that came before the controller has told of all topics."""
        self.groups.on_active = self._catch_up
        self._lag = LagMeter(broker.replicas, broker.metrics, broker.clock)
        self._follow_gauges()
        self._duties = self._begin_duties()

    def _begin_duties(self) -> list[asyncio.Task[None]]:
        """What is to be done again and again, as long as the broker runs."""
        config, clock = self._broker.config, self._broker.sober_clock
        duties: list[tuple[str, Callable[[], Awaitable[None]], Callable[[], int]]] = [
            (
                "expire offsets",
                partial(self._expire, self.groups, clock),
                lambda: config.offsets_retention_check_interval_ms,
            ),
            (
                "expire transactional ids",
                partial(self._expire, self.transactions, clock),
                lambda: config.transaction_remove_expired_transaction_cleanup_interval_ms,
            ),
            ("measure lag", self._measure_lag, lambda: INTERVAL_MS),
        ]
        return [asyncio.create_task(self._repeat(*duty), name=duty[0]) for duty in duties]

    def retire(self) -> None:
        """Whoever waits for a rebalance is told to look elsewhere: the broker is about to stop."""
        self.groups.close()
        self.transactions.close()

    async def close(self) -> None:
        """Leave no task behind. What transactions still lack is left to the next start."""
        self.retire()
        for duty in self._duties:
            duty.cancel()
        if self._duties:
            await asyncio.wait(self._duties)
        await self._ender.close()
        await self._router.close()
        await self._vouching.close()
        self._peers.close()

    # --- machines -----------------------------------------------------------------------------------------------

    def _new_group_shard(self, leader_epoch: int, now: Moment) -> GroupShard:
        broker = self._broker
        # Hashes spread groups evenly enough for each shard to have its share of what the broker bears.
        groups_max = max(1, broker.config.group_max_count // self.groups.partition_count)
        return GroupShard(
            broker.config, broker.configs.group, broker.metadata, random_id, now, groups_max=groups_max
        )

    def _new_transaction_shard(self, leader_epoch: int, now: Moment) -> TransactionShard:
        broker = self._broker
        return TransactionShard(broker.config, broker.producer_ids.take, leader_epoch, now)

    async def _create_topic(self, name: str) -> TopicImage:
        broker = self._broker
        wanted = internal_topic(name, broker.config)
        created = (await broker.to_controller.create_topics([wanted]))[name]
        known = broker.metadata.topics.get(name)
        if known is not None:
            return known
        if isinstance(created, KafkaError):
            raise created
        return created

    # --- what happens -------------------------------------------------------------------------------------------

    def follow(self, partition: Partition) -> None:
        """Leadership of a partition may have changed. Only to be called when the controller has told everything that
        it has to tell: who takes an unknown topic for a deleted one would end transactions without markers."""
        topic = partition.topic_partition.topic
        if topic == CONSUMER_OFFSETS:
            self.groups.follow(partition)
        elif topic == TRANSACTION_STATE:
            self.transactions.follow(partition)

    def _ended(self, place: TopicPartition, producer: Producer, is_commit: bool) -> None:
        if place.topic != CONSUMER_OFFSETS:
            return
        shard = self.groups.shards.get(place.partition)
        observers = self._broker.observers if is_commit else ()
        committed = list(shard.machine.pending_of(producer)) if shard is not None and observers else ()
        self.groups.apply_end(place.partition, producer, is_commit=is_commit)
        for observer in observers:
            for group_id, where, offset in committed:
                observer.committed(group_id, where, offset)

    async def _marked(self, effect: WriteMarkers, done: Collection[TopicPartition]) -> None:
        def decide(shard: TransactionShard, now: Moment) -> Decision[None]:
            return shard.decide_marked(
                effect.transactional_id, effect.producer, effect.coordinator_epoch, done, now
            )

        await self.transactions.run(effect.transactional_id, decide)

    def _is_in_charge(self, effect: WriteMarkers) -> bool:
        """Where the shard is loaded anew, it gives its orders again."""
        index = self.transactions.partition_of(effect.transactional_id)
        shard = self.transactions.shards.get(index)
        return shard is not None and not shard.is_retired and shard.leader_epoch == effect.coordinator_epoch

    def _leads(self, place: TopicPartition) -> bool:
        partition = self._broker.replicas.partitions.get(place)
        return partition is not None and partition.is_leader

    def _is_gone(self, place: TopicPartition) -> bool:
        """Was it deleted? While the controller has not told of all topics, nobody knows."""
        image = self._broker.metadata.topics.get(place.topic)
        is_known = image is not None and 0 <= place.partition < len(image.partitions)
        return not is_known and self._broker.controller.orders.is_told

    def _topics_changed(self, changed: Collection[str], deleted: Collection[str]) -> None:
        alive = self._broker.metadata.brokers.keys()
        self._router.keep(alive)
        self._vouching.keep(alive)
        names = {*changed, *deleted}
        for shard in list(self.groups.shards.values()):
            now = Moment(self._broker.clock.now_ms(), self._broker.clock.monotonic_ms())
            shard.machine.topics_changed(names, now)
            for name in deleted:
                self._decide(shard.run, partial(_forget, name))
        for index in self.groups.loading if deleted else ():
            self._missed.setdefault(index, set()).update(deleted)
        while self._unchecked and self._broker.controller.orders.is_told:
            self._forget_deleted(self._unchecked.popitem()[1])

    def _catch_up(self, index: int, shard: Shard[GroupShard]) -> None:
        """Nobody could commit anything meanwhile, so what it holds of topics that were deleted is of the old ones, also
        if there are new ones of their name by now."""
        for name in sorted(self._missed.pop(index, set())):
            self._decide(shard.run, partial(_forget, name))
        if self._broker.controller.orders.is_told:
            self._forget_deleted(shard)
        else:
            self._unchecked[index] = shard

    def _forget_deleted(self, shard: Shard[GroupShard]) -> None:
        """A topic that the controller did not tell of was deleted, and nobody who coordinated then could note it."""
        known = self._broker.metadata.topics
        for name in sorted(name for name in shard.machine.topics() if name not in known):
            self._decide(shard.run, partial(_forget, name))

    # --- duties -------------------------------------------------------------------------------------------------

    async def _repeat(
        self, name: str, duty: Callable[[], Awaitable[None]], interval_ms: Callable[[], int]
    ) -> None:
        while True:
            await asyncio.sleep(interval_ms() / 1000)
            try:
                await duty()
            except Exception as error:  # tried again at its next turn
                logger.error("a coordinator failed to %s", name, exc_info=error)

    async def _expire(self, coordinator: Coordinator[Any], clock: SoberClock) -> None:
        """By a clock that does not believe in sudden jumps: what is forgotten stays forgotten."""
        for shard in list(coordinator.shards.values()):
            self._decide(shard.run, partial(_expire, clock.now_ms()))
            await asyncio.sleep(0)

    async def _measure_lag(self) -> None:
        """For those who look at metrics; nobody else needs it kept."""
        if self._broker.config.http_listen:
            shards = list(self.groups.shards.values())
            await self._lag.update(each for shard in shards for each in shard.machine.committed())

    def _follow_gauges(self) -> None:
        metrics, groups, transactions = self._broker.metrics, self.groups.shards, self.transactions.shards
        metrics.groups.labels().follow(lambda: sum(shard.machine.count for shard in groups.values()))
        metrics.transactional_ids.labels().follow(
            lambda: sum(shard.machine.count for shard in transactions.values())
        )
        metrics.shards_loading.labels().follow(
            lambda: len(self.groups.loading) + len(self.transactions.loading)
        )

    @staticmethod
    def _decide(run: Callable[..., Any], decide: Callable[..., Decision[None]]) -> None:
        try:
            run(decide)
        except KafkaError as error:
            logger.warning("a coordinator could not forget what is old: %s", error)
        except Exception as error:
            logger.error("a coordinator failed to forget what is old", exc_info=error)


def _forget(topic: str, shard: GroupShard, now: Moment) -> Decision[None]:
    return shard.decide_forget_topic(topic, now)


def _expire(wall_ms: int, shard: GroupShard | TransactionShard, now: Moment) -> Decision[None]:
    return shard.decide_expire(now._replace(wall_ms=wall_ms))
