"""The real host of the controller on a simulated broker: session, registration, orders, a line to others."""

import asyncio
import contextlib
import random
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ottla.broker import orders
from ottla.broker.election import ControllerHost
from ottla.broker.metadata import Metadata
from ottla.controller.commands import ConfigResource, Growth, NewTopic, ResourceType
from ottla.controller.context import Policy
from ottla.controller.preferred import ElectionType
from ottla.controller.topics import Defaults
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.metadata.store import StoreError
from ottla.replication.state import NO_EPOCH, BrokerImage, Endpoint
from ottla.testing.simulation.cluster.messages import Alter, Answer, Order, Stop
from ottla.testing.simulation.cluster.schedule import Work
from ottla.testing.simulation.cluster.settings import EXTRA, TOPIC
from ottla.testing.simulation.loop import WorldClock
from ottla.testing.simulation.store import SimSession

if TYPE_CHECKING:
    from ottla.testing.simulation.cluster.life import Life

_AGAIN_SECONDS = 0.1
_LEAVE_SECONDS = 1.0
_MIN_INSYNC = "min.insync.replicas"


class Wire:
    """How the controller on this broker reaches the others: by messages that may get lost."""

    def __init__(self, life: "Life") -> None:
        self._life = life

    async def ask(self, broker: BrokerImage, order: orders.Order) -> orders.Answers:
        answered: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

        def then(answer: Answer | None) -> None:
            if not answered.done():
                answered.set_result(answer)

        request_ms = self._life.settings.request_ms
        self._life.calls.ask(f"b{broker.node_id}", lambda number: Order(number, order), then, request_ms)
        answer = await answered
        if answer is None:
            raise ConnectionError(f"broker {broker.node_id} does not answer")
        if answer.error is not ErrorCode.NONE:
            raise KafkaError.of(answer.error, answer.value)
        found: orders.Answers = answer.value
        return found

    async def close(self) -> None:
        """There is nothing to close."""


class SimConfigs:
    """The settings of topics, as far as a simulated partition has any."""

    def __init__(self, life: "Life") -> None:
        self._life = life

    def check(self, resource: ConfigResource, values: Mapping[str, str]) -> None: ...

    def apply(self, resource: ConfigResource, values: Mapping[str, str]) -> None:
        if resource.type is ResourceType.TOPIC:
            wanted = int(values.get(_MIN_INSYNC, self._life.settings.min_insync_replicas))
            self._life.config_of(resource.name).min_insync_replicas = wanted

    def forget_topic(self, name: str) -> None:
        self._life.config_of(name).min_insync_replicas = self._life.settings.min_insync_replicas


class Office:
    """Everything that one life of a broker has to do with the controller, be it itself or another."""

    def __init__(self, life: "Life", previous_epoch: int) -> None:
        self.metadata = Metadata()
        self.host: ControllerHost | None = None
        self._life = life
        self._previous_epoch = previous_epoch

    async def work(self) -> None:
        """Open a session, register, stand for election; from the beginning again if that fails."""
        while True:
            try:
                await self._enter()
                return
            except (StoreError, KafkaError, OSError) as error:
                self._life.world.note(f"{self._life.name} does not get in: {error}")
                self._give_up()
                await asyncio.sleep(_AGAIN_SECONDS)

    def _give_up(self) -> None:
        """As a process does that ends because it could not start. Somebody starts the next."""
        host, self.host = self.host, None
        if host is not None:
            host.abandon()
            host.on_session = host.on_registered = _ignored  # what it hears now, nobody hears any more
            assert isinstance(host.store, SimSession)
            self._life.broker.store.expire(host.store)

    async def _enter(self) -> None:
        life, settings = self._life, self._life.settings
        store, name = life.broker.store, life.name
        host = ControllerHost(
            await store.open(name),
            node_id=life.broker.id,
            replicas=life.replicas,
            metadata=self.metadata,
            configs=SimConfigs(life),
            clock=WorldClock(life.world),
            defaults=lambda: Defaults(settings.partitions, settings.replication_factor),
            default_policy=lambda: Policy(settings.min_insync_replicas, settings.allows_unclean),
            line=Wire(life),
            open_session=lambda: store.open(name),
            registration_timeout_ms=4 * settings.session_ms,
            chance=random.Random(f"{life.world.seed}/{name}/{life.world.life(name)}"),
        )
        host.on_session = life.session_changed
        host.on_registered = life.registered
        self.host = host
        await host.open()
        await host.elect([Endpoint("PLAINTEXT", "PLAINTEXT", name, 9092)], None, self._previous_epoch)

    async def leave(self) -> None:
        """End the session, if the store can be told."""
        host = self.host
        if host is not None:
            with contextlib.suppress(TimeoutError, StoreError, KafkaError):
                async with asyncio.timeout(_LEAVE_SECONDS):
                    await host.resign()
                    await host.store.close()

    # --- asked by others ------------------------------------------------------------------------------------------

    def _controller(self) -> ControllerHost:
        if self.host is None:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "not yet")
        return self.host

    @property
    def is_registered(self) -> bool:
        """Before, no order is heard: it would be one for a former life."""
        return self.host is not None and self.host.broker_epoch != NO_EPOCH

    async def follow(self, order: orders.Order) -> orders.Answers:
        assert self.host is not None
        return await self.host.orders.follow(order)

    async def alter(self, message: Alter) -> Any:
        where = message.proposal.topic_partition
        found = await self._controller().alter_partitions(
            message.broker, message.broker_epoch, [message.proposal]
        )
        outcome = found[where]
        if isinstance(outcome, KafkaError):
            raise outcome
        return outcome

    async def shut_down(self, message: Stop) -> Any:
        return await self._controller().controlled_shutdown(message.broker, message.broker_epoch)

    async def run_errand(self, work: Work) -> Any:
        host = self._controller()
        where = TopicPartition(TOPIC, work.partition)
        if work.kind == "begin":
            ids = list(range(1, self._life.settings.brokers + 1))[: self._life.settings.replication_factor]
            assignments = {p: ids[p % len(ids) :] + ids[: p % len(ids)] for p in range(work.number)}
            return _judge(await host.create_topics([NewTopic(TOPIC, assignments=assignments)]))
        if work.kind == "create":
            return _judge(await host.create_topics([NewTopic(EXTRA, assignments={0: work.replicas})]))
        if work.kind == "delete":
            return _judge(await host.delete_topics([EXTRA]))
        if work.kind == "grow":
            topic = self.metadata.topics.get(EXTRA)
            count = 1 if topic is None else len(topic.partitions)
            return _judge(await host.create_partitions([Growth(EXTRA, count + 1)]))
        if work.kind == "elect":
            return await host.elect_leaders(ElectionType.PREFERRED, None)
        if work.kind == "min-insync":
            resource = ConfigResource(ResourceType.TOPIC, TOPIC)
            return await host.alter_configs(resource, {_MIN_INSYNC: str(work.number)})
        replicas = work.replicas if work.kind == "reassign" else None
        return _judge(await host.reassign({where: replicas}))


def _ignored(news: object) -> None: ...


def _judge(answers: Mapping[Any, Any]) -> Any:
    """Raise what one of them says."""
    for answer in answers.values():
        if isinstance(answer, KafkaError):
            raise answer
    return None
