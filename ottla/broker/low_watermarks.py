"""Low watermarks: where the logs of all live replicas of a partition have begun, so that what lies below is gone.

Who deletes records waits for them, or a follower that has not heard of it would be elected and bring the records back.
Followers say with every fetch where their logs begin. Who is dead is not waited for: it follows when it returns.
"""

import asyncio
from collections.abc import Callable, Container

from ottla.broker.waiting import reach
from ottla.core.errors import KafkaError
from ottla.core.watermark import Watermark
from ottla.replication.partition import Partition

_AGAIN_MS = 1_000
"""A follower that was not in sync may die without a word about its partitions: so we look for ourselves."""


class LowWatermarks:
    """Those that somebody waits for. `look_at` a partition when a follower has fetched, or orders have come."""

    def __init__(self, alive: Callable[[], Container[int]]) -> None:
        self._alive = alive
        self._waiting: dict[Partition, list[Watermark]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def look_at(self, partition: Partition) -> None:
        """Tell those who wait where it is now."""
        for mark in list(self._waiting.get(partition, ())):
            try:
                mark.reset(self.of(partition))
            except KafkaError as error:
                mark.fail(error)

    def of(self, partition: Partition) -> int:
        """Where it is now. Raises 6 if this broker does not lead."""
        partition.check_leader()
        assert partition.leading is not None, "leaders have a reign"
        return partition.leading.low_watermark(partition.log.log_start_offset, self._alive())

    async def reach(self, partition: Partition, offset: int, timeout_ms: int) -> bool:
        """Wait until it is at `offset`; False if the time is up first. Raises 6 if leadership goes."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout_ms / 1000
        mark = Watermark(-1)
        self._waiting.setdefault(partition, []).append(mark)
        try:
            while True:
                mark.reset(self.of(partition))
                left_s = deadline - clock()
                if mark.value >= offset or left_s <= 0:
                    return mark.value >= offset
                await reach(mark, offset, min(int(left_s * 1000) + 1, _AGAIN_MS))
        finally:
            self._waiting[partition].remove(mark)
            if not self._waiting[partition]:
                del self._waiting[partition]
