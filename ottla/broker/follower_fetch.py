"""Following: this broker's replicas copy what their leaders have, over a few connections to each of them.

Who leads what is the controller's word; here every partition that follows gets the fetcher of its leader. When leaders
change, partitions move from one fetcher to another at once.
"""

import asyncio
import zlib
from typing import TYPE_CHECKING

from ottla.broker.fetcher import Fetcher
from ottla.broker.peers import Peers
from ottla.core.ids import TopicPartition
from ottla.replication.partition import Partition
from ottla.replication.throttle import RateLimit

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


class FollowerFetch:
    """All fetchers of a broker. `follow` every partition whenever it was given orders, or stopped."""

    def __init__(self, broker: "Broker", peers: Peers, limit: RateLimit) -> None:
        self._broker = broker
        self._peers = peers
        self._limit = limit
        self._fetchers: dict[tuple[int, int], Fetcher] = {}
        self._places: dict[TopicPartition, Fetcher] = {}

    def follow(self, partition: Partition) -> None:
        """Fetch it from its leader from now on, and from nobody else; from nobody if there is none, or it is us."""
        name = partition.topic_partition
        before, after = self._places.get(name), self._fetcher_of(partition)
        if before is not None and before is not after:
            del self._places[name]
            before.remove(partition)
        if after is not None:
            self._places[name] = after
            after.add(partition)

    def _fetcher_of(self, partition: Partition) -> Fetcher | None:
        state = partition.state
        if partition.is_stopped or state is None or partition.question() is None:
            return None
        count = self._broker.config.num_replica_fetchers
        topic, index = partition.topic_partition
        key = state.leader, (zlib.crc32(topic.encode()) + index) % count
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            fetcher = self._fetchers[key] = Fetcher(self._broker, self._peers, self._limit, *key)
            fetcher.on_idle = self._forget
        return fetcher

    def spread_anew(self) -> None:
        """The number of fetchers has changed."""
        for fetcher in list(self._fetchers.values()):
            for partition in fetcher.partitions():
                self.follow(partition)

    async def close(self) -> None:
        """Return when nothing more will be written to any log."""
        fetchers, self._fetchers = list(self._fetchers.values()), {}
        self._places.clear()
        await asyncio.gather(*(fetcher.close() for fetcher in fetchers))

    def _forget(self, fetcher: Fetcher) -> None:
        """It has nothing left to fetch."""
        if self._fetchers.get(fetcher.key) is fetcher:
            del self._fetchers[fetcher.key]
