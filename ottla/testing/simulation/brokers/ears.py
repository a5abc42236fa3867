"""Hears what brokers say to each other where it is rare, and counts it. Nothing is changed by it.

The functions of the product that say it are wrapped while a run lasts. One that is compiled cannot be wrapped; then
what it says is not counted.
"""

import contextlib
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

from ottla.broker.election import ControllerHost
from ottla.broker.markers import MarkerWriter, TransactionEnder
from ottla.broker.orders import Orders
from ottla.broker.remote_markers import MarkerRouter
from ottla.broker.remote_verification import RemoteVerification
from ottla.core.errors import KafkaError
from ottla.replication.exchange import FetchAnswer
from ottla.replication.following import Following, Outcome
from ottla.replication.partition import Partition
from ottla.testing.simulation.world import World
from ottla.transactions.shard import TransactionShard
from ottla.transactions.states import State


@contextlib.contextmanager
def listening(world: World) -> Iterator[None]:
    """Count for this world, until the end of the block."""
    wrappers: list[tuple[type, str, Callable[[World, Any], Any]]] = [
        (Following, "apply", _answers),
        (Partition, "append", _appends),
        (ControllerHost, "alter_partitions", _alterations),
        (Orders, "follow", _orders),
        (RemoteVerification, "ask", _vouching),
        (MarkerRouter, "_write_at", _markers),
        (MarkerWriter, "_append", _marked),
        (TransactionEnder, "_pause", _again),
        (TransactionShard, "activate", _successors),
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


def _vouching(world: World, ask: Callable[..., Any]) -> Callable[..., Any]:
    async def heard(vouching: RemoteVerification, *asked: Any, **how: Any) -> Any:
        codes = await ask(vouching, *asked, **how)
        for code in set(codes.values()):
            world.sometimes("another broker vouches" if not code else f"another broker refuses ({int(code)})")
        return codes

    return heard


def _markers(world: World, write: Callable[..., Any]) -> Callable[..., Any]:
    async def heard(router: MarkerRouter, leader: int, marker: Any) -> Any:
        codes = await write(router, leader, marker)
        for code in sorted(set(codes.values())):
            world.sometimes(
                "another broker writes markers" if not code else f"a marker is not written ({int(code)})"
            )
        return codes

    return heard


def _marked(world: World, append: Callable[..., Any]) -> Callable[..., Any]:
    def heard(writer: MarkerWriter, place: Any, marker: Any) -> Any:
        try:
            return append(writer, place, marker)
        except KafkaError as error:
            world.sometimes(f"a marker is refused ({int(error.code)})")
            raise

    return heard


def _again(world: World, pause: Callable[..., Any]) -> Callable[..., Any]:
    async def heard(ender: TransactionEnder, *about: Any) -> None:
        world.sometimes("a marker is tried again")
        await pause(ender, *about)

    return heard


def _successors(world: World, activate: Callable[..., Any]) -> Callable[..., Any]:
    def heard(shard: TransactionShard, now: Any) -> None:
        activate(shard, now)
        states = {each.state for each in shard.transactions.values()}
        if any(state.is_prepared for state in states):
            world.sometimes("a coordinator ends what another has decided")
        if State.ONGOING in states:
            world.sometimes("a coordinator takes over an open transaction")

    return heard
