"""What a consumer is told when its group moves partitions."""

import inspect
from collections.abc import Collection
from typing import Any

from ottla.core.ids import TopicPartition


class RebalanceListener:
    """Override what you need. Methods may be coroutines where the consumer is asynchronous.

    They are called from within `poll` (and `close`), never while the application works on records: what was handed out
    before is done, so `on_partitions_revoked` is the place to commit it.
    """

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> Any:
        """These were added. Called before the first record of them is fetched: the place to `seek`."""

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> Any:
        """These are about to be given up, and are still ours while this runs."""

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> Any:
        """These are gone already, and may have another reader: to commit is too late."""
        return self.on_partitions_revoked(lost)


async def tell(answer: Any) -> None:
    """Await what a listener returned, if it is to be awaited."""
    if inspect.isawaitable(answer):
        await answer
