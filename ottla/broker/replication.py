"""What this broker's replicas have to do with those of others: follow leaders, change ISRs, keep to quotas.

Made when the first partition with more than one replica comes: a broker that is alone needs none of it.
"""

from typing import TYPE_CHECKING

from ottla.broker.config import BrokerConfig
from ottla.broker.follower_fetch import FollowerFetch
from ottla.broker.isr_changes import IsrChanges
from ottla.broker.low_watermarks import LowWatermarks
from ottla.broker.peers import Peers
from ottla.broker.session_watch import SessionWatch
from ottla.broker.stores import session_timeout_ms
from ottla.replication.partition import Partition
from ottla.replication.selector import ReplicaView, selector_of
from ottla.replication.throttle import RateLimit, may_serve, throttled_replicas

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class Replication:
    """`moved` is to be called with every partition that was given orders or was stopped."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        config = broker.config
        windows = config.replication_quota_window_num, config.replication_quota_window_size_seconds
        self._leader_limit = RateLimit(config.leader_replication_throttled_rate, *windows)
        self._follower_limit = RateLimit(config.follower_replication_throttled_rate, *windows)
        self._select = selector_of(config.replica_selector_class)
        self._peers = Peers(broker)
        self.fetching = FollowerFetch(broker, self._peers, self._follower_limit)
        self.isr_changes = IsrChanges(broker, self._peers)
        self.isr_changes.may_change = lambda: broker.controller.may_decide
        self.low_watermarks = LowWatermarks(lambda: broker.metadata.brokers)
        session = SessionWatch(broker.clock, lambda: session_timeout_ms(config, broker.controller.store))
        session.follow(broker.controller.store.session)
        broker.may_lead = session.may_lead
        broker.controller.on_session, broker.controller.on_registered = session.follow, session.registered
        self._follow_gauges()
        config.on_change(BrokerConfig.leader_replication_throttled_rate, self._set_leader_rate)
        config.on_change(BrokerConfig.follower_replication_throttled_rate, self._set_follower_rate)
        config.on_change(BrokerConfig.num_replica_fetchers, lambda _: self.fetching.spread_anew())

    def _set_leader_rate(self, rate: int) -> None:
        self._leader_limit.bytes_per_s = rate

    def _set_follower_rate(self, rate: int) -> None:
        self._follower_limit.bytes_per_s = rate

    def _follow_gauges(self) -> None:
        metrics, replicas = self._broker.metrics, self._broker.replicas
        self._bytes_out = metrics.replication_bytes_out.labels()
        metrics.under_replicated.labels().follow(
            lambda: sum(
                each.leading is not None and len(each.isr) <= len(each.leading.followers)
                for each in replicas.partitions.values()
            )
        )
        metrics.replication_lag.labels().follow(
            lambda: max((each.replication_lag for each in replicas.partitions.values()), default=0)
        )
        metrics.under_min_isr.labels().follow(
            lambda: sum(each.is_leader and each.is_under_min_isr for each in replicas.partitions.values())
        )

    def moved(self, partition: Partition) -> None:
        """Orders have come for it, or it is here no more."""
        self.fetching.follow(partition)
        self.low_watermarks.look_at(partition)
        if partition.is_leader:
            self.isr_changes.start()

    async def close(self) -> None:
        """Return when no log is written to any more from here."""
        await self.isr_changes.close()
        await self.fetching.close()
        self._peers.close()

    # --- as leader ----------------------------------------------------------------------------------------------

    def fetched(self, partition: Partition, now_ms: int) -> None:
        """A follower has fetched: it may have caught up, or have deleted what we have."""
        if self.low_watermarks:
            self.low_watermarks.look_at(partition)
        if partition.someone_may_join(now_ms):
            self.isr_changes.look_at(partition)

    def may_send(self, partition: Partition, replica: int, now_ms: int) -> bool:
        """May this follower get records now, as far as quotas go?"""
        words = partition.config.leader_replication_throttled_replicas
        if not words:
            return True
        place = partition.topic_partition.partition, replica
        return may_serve(self._leader_limit, place, throttled_replicas(words), partition.isr, now_ms)

    def sent(self, partition: Partition, replica: int, size: int, now_ms: int) -> None:
        """A follower was sent so much."""
        self._bytes_out.value += size
        words = partition.config.leader_replication_throttled_replicas
        if words and (partition.topic_partition.partition, replica) in throttled_replicas(words):
            self._leader_limit.record(size, now_ms)

    @property
    def has_selector(self) -> bool:
        """May consumers read from followers, so that these must hear of high watermarks without delay?"""
        return self._select is not None

    def preferred(
        self, partition: Partition, rack: str, offset: int, listener: str, now_ms: int
    ) -> int | None:
        """Who a consumer in that rack should read from, if not from us, the leader (KIP-392)."""
        leading = partition.leading
        if self._select is None or leading is None:
            return None
        us, brokers, log = self._broker.node_id, self._broker.metadata.brokers, partition.log
        rack_of = {id: broker.rack for id, broker in brokers.items() if broker.endpoint(listener) is not None}
        views = [ReplicaView(us, rack_of.get(us), log.log_start_offset, log.end_offset, now_ms)]
        for id, follower in leading.followers.items():
            is_usable = id in rack_of and id in partition.isr
            views.append(
                ReplicaView(
                    id,
                    rack_of.get(id),
                    follower.log_start_offset,
                    follower.end_offset,
                    follower.caught_up_ms,
                    is_usable,
                )
            )
        chosen = self._select(rack, offset, us, views)
        return None if chosen == us else chosen
