"""One text for both faces: what is written here as a coroutine runs on an event loop, or in a thread that has none.

With blocking clients nothing in such a coroutine ever waits for a loop: every call is done when it returns. `drive`
runs it to its end by hand. So a rule is written once, and `AsyncX` and `X` cannot come to differ.
"""

import inspect
from collections.abc import Collection, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from ottla.client.errors import IllegalStateError
from ottla.client.listener import RebalanceListener
from ottla.client.records import ConsumerRecord
from ottla.core.ids import TopicPartition

T = TypeVar("T")

Batches = Mapping[TopicPartition, list[ConsumerRecord]]
"""What a poll brings."""


class AnyConsumer(Protocol):
    """What is needed of a consumer, of either face: methods return a value, or a coroutine of it."""

    def poll(self, timeout_ms: Any = ..., max_records: Any = ...) -> Any: ...
    def assignment(self) -> Any: ...
    def commit(self, offsets: Any = ...) -> Any: ...
    def pause(self, *partitions: TopicPartition) -> Any: ...
    def paused(self) -> Any: ...
    def resume(self, *partitions: TopicPartition) -> Any: ...
    def seek(self, partition: TopicPartition, offset: Any) -> Any: ...
    def subscribe(self, topics: Any = ..., pattern: Any = ..., listener: Any = ...) -> Any: ...
    def subscription(self) -> Any: ...
    def group_metadata(self) -> Any: ...


class AnyProducer(Protocol):
    """What is needed of a producer, of either face."""

    @property
    def transactional_id(self) -> str | None: ...
    def send(self, topic: str, value: Any = ..., key: Any = ..., headers: Any = ...) -> Any: ...
    def begin_transaction(self) -> Any: ...
    def send_offsets_to_transaction(self, offsets: Any, group: Any) -> Any: ...
    def commit_transaction(self) -> Any: ...
    def abort_transaction(self) -> Any: ...


async def settled(answer: Any) -> Any:
    """What a call of either face returned. A `Delivery` can be awaited too, but is no coroutine: it stays one."""
    return await answer if inspect.iscoroutine(answer) else answer


async def acknowledged(producer: AnyProducer, delivery: Any) -> Any:
    """Where the record of a delivery came to lie. Raises why it was not written."""
    return await delivery if inspect.iscoroutinefunction(producer.send) else delivery.get()


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine whose calls all block."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise IllegalStateError(
        "a coroutine waits where nobody runs a loop: use the Async class with async functions"
    )


class _Driven(RebalanceListener):
    """A listener of coroutines for a consumer that knows of none."""

    def __init__(self, listener: RebalanceListener) -> None:
        self._listener = listener

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        drive(settled(self._listener.on_partitions_assigned(assigned)))

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        drive(settled(self._listener.on_partitions_revoked(revoked)))

    def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        drive(settled(self._listener.on_partitions_lost(lost)))


def listener_for(consumer: AnyConsumer, listener: RebalanceListener) -> RebalanceListener:
    """A listener whose methods are coroutines, as this consumer can call it."""
    return listener if inspect.iscoroutinefunction(consumer.poll) else _Driven(listener)


async def go_back(consumer: AnyConsumer, offsets: Mapping[TopicPartition, int]) -> None:
    """Have these read again from there, as far as they are still ours."""
    held: Collection[TopicPartition] = await settled(consumer.assignment())
    for partition, offset in offsets.items():
        if partition in held:
            await settled(consumer.seek(partition, offset))
            await settled(consumer.resume(partition))
