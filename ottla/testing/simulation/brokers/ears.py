"""Hears what brokers say to each other where it is rare, and counts it. Nothing is changed by it.

The functions of the product that say it are wrapped while a run lasts. One that is compiled cannot be wrapped; then
what it says is not counted.
"""

import contextlib
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from ottla.broker.election import ControllerHost
from ottla.broker.orders import Orders
from ottla.core.errors import KafkaError
from ottla.replication.exchange import FetchAnswer
from ottla.replication.following import Following, Outcome
from ottla.replication.partition import Partition
from ottla.testing.simulation.world import World


@contextlib.contextmanager
def listening(world: World) -> Iterator[None]:
    """Count for this world, until the end of the block."""
    wrappers: list[tuple[type, str, Callable[[World, Any], Any]]] = [
        (Following, "apply", _answers),
        (Partition, "append", _appends),
        (ControllerHost, "alter_partitions", _alterations),
        (Orders, "follow", _orders),
    ]
    with contextlib.ExitStack() as stack:
        for owner, name, wrap in wrappers:
            said = vars(owner)[name]
            if isinstance(said, FunctionType):
                setattr(owner, name, wrap(world, said))
                stack.callback(setattr, owner, name, said)
        yield


def _answers(world: World, apply: Callable[..., Outcome]) -> Callable[..., Outcome]:
    def heard(following: Following, question: Any, answer: FetchAnswer, now_ms: int) -> Outcome:
        outcome = apply(following, question, answer, now_ms)
        if outcome is Outcome.STALE:
            world.sometimes("a late answer to a follower is dropped")
        elif outcome is Outcome.TRUNCATED:
            world.sometimes("a follower is told where the logs part")
        elif outcome is Outcome.REFUSED:
            world.sometimes(f"a follower is refused ({int(answer.error)})")
        return outcome

    return heard


def _appends(world: World, append: Callable[..., Any]) -> Callable[..., Any]:
    def heard(partition: Partition, data: Any, acks: int, now_ms: int, *, client: bool = True) -> Any:
        appended = append(partition, data, acks, now_ms, client=client)
        if appended.is_duplicate:
            world.sometimes("a duplicate is suppressed")
        return appended

    return heard


def _alterations(world: World, alter: Callable[..., Any]) -> Callable[..., Any]:
    async def heard(host: ControllerHost, *arguments: Any) -> Any:
        try:
            outcomes = await alter(host, *arguments)
        except KafkaError as error:
            world.sometimes(f"an ISR is refused ({int(error.code)})")
            raise
        for outcome in outcomes.values():
            if isinstance(outcome, KafkaError):
                world.sometimes(f"an ISR is refused ({int(outcome.code)})")
        return outcomes

    return heard


def _orders(world: World, follow: Callable[..., Any]) -> Callable[..., Any]:
    async def heard(orders: Orders, order: Any) -> Any:
        try:
            return await follow(orders, order)
        except KafkaError as error:
            world.sometimes(f"an order is refused ({int(error.code)})")
            raise

    return heard
