"""What a controller tells this broker, carried out: replicas, metadata and settings follow.

Orders come from the controller in this process or over the wire, one after the other; the next is sent when the one
before is answered. An order of a controller that has been replaced since, or one for an earlier life of this broker,
is refused: whoever sent it does not know yet. So is a late copy of one that was followed long ago: a replica that was
to be deleted may have been given back since, and a topic's name may be another's.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ottla.broker.metadata import Metadata
from ottla.controller.commands import ConfigResource, ResourceType
from ottla.controller.decision import ConfigChange, Effect, LeaderAndIsr, StopReplicas, UpdateMetadata
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.replication.state import NO_EPOCH, PartitionState, TopicImage

logger = logging.getLogger(__name__)

NO_NUMBER = -1
Answers = Mapping[TopicPartition, ErrorCode]
"""How each partition took an order; empty where it is about none."""


Settings = Mapping[ConfigResource, Mapping[str, str]]


class Order(NamedTuple):
    """One effect of a decision, whose it is, and for which life of the broker it is meant."""

    effect: Effect
    controller_id: int
    controller_epoch: int
    broker_epoch: int = NO_EPOCH
    number: int = NO_NUMBER
    """Grows from order to order of one controller."""


class Replicas(Protocol):
    """The partitions of a broker. Errors of single ones are returned."""

    async def leader_and_isr(
        self, controller_epoch: int, states: Sequence[PartitionState]
    ) -> Mapping[TopicPartition, ErrorCode]: ...

    async def stop_replicas(
        self, controller_epoch: int, partitions: Mapping[TopicPartition, bool]
    ) -> Mapping[TopicPartition, ErrorCode]: ...


class Configs(Protocol):
    """What is configured."""

    def check(self, resource: ConfigResource, values: Mapping[str, str]) -> None:
        """Raises KafkaError for a setting that cannot be."""

    def apply(self, resource: ConfigResource, values: Mapping[str, str]) -> None: ...

    def forget_topic(self, name: str) -> None: ...


class Orders:
    """The receiving end of one broker. `configs` is what the store holds, as far as we were told."""

    def __init__(self, node_id: int, replicas: Replicas, metadata: Metadata, configs: Configs) -> None:
        self.configs: dict[ConfigResource, Mapping[str, str]] = {}
        self.controller_epoch = -1
        """The newest that we have heard of."""
        self._told = (-1, NO_EPOCH)
        """The newest controller that has told how the whole cluster looks, and in which life of ours."""
        self._number = NO_NUMBER
        """Of the last order that we have heard from that controller."""
        self.broker_epoch = NO_EPOCH
        """Our own: who registers says which it is."""
        self.on_told: Callable[[], object] | None = None
        """Called once, when a controller has told how the whole cluster looks."""
        self.read_settings: Callable[[Sequence[str]], Awaitable[Settings]] = _none_are_known
        """Reads those of some topics from the store."""
        self._under_way: set[asyncio.Task[Answers]] = set()
        self._node_id = node_id
        self._replicas = replicas
        self._metadata = metadata
        self._configs = configs

    @property
    def was_told(self) -> bool:
        """Has a controller told how the whole cluster looks, in this life of the process?"""
        return self._told[0] >= 0

    @property
    def is_told(self) -> bool:
        """Do we know the whole cluster from the newest controller that we have heard of? Only then is a topic that we
        do not know one that is gone: its first orders may have come before it has told of all topics."""
        return self._told[0] == self.controller_epoch

    async def follow_to_the_end(self, order: Order) -> Answers:
        """As `follow`, for a controller that may hang up in the middle. What is begun is finished all the same: half an
        order leaves half a log, of which nobody knows."""
        following = asyncio.ensure_future(self.follow(order))
        self._under_way.add(following)
        following.add_done_callback(self._ended)
        return await asyncio.shield(following)

    def _ended(self, following: "asyncio.Task[Answers]") -> None:
        self._under_way.discard(following)
        if not following.cancelled():
            following.exception()  # counts as seen: who asked may be gone

    async def rest(self) -> None:
        """Returns when nothing is under way that somebody else has asked for."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    def abandon(self) -> None:
        """Finish nothing, as the end of the process would have it."""
        for following in self._under_way:
            following.cancel()

    async def follow(self, order: Order) -> Answers:
        """Do what concerns this broker. Raises STALE_CONTROLLER_EPOCH and STALE_BROKER_EPOCH."""
        self._check(order)
        match order.effect:
            case ConfigChange(resource, values):
                self.follow_config(resource, values)
            case LeaderAndIsr(self._node_id, states):
                await self._learn_settings(order, states)
                return _judged(
                    "LeaderAndIsr", await self._replicas.leader_and_isr(order.controller_epoch, states)
                )
            case StopReplicas(self._node_id, partitions):
                return _judged(
                    "StopReplica", await self._replicas.stop_replicas(order.controller_epoch, partitions)
                )
            case UpdateMetadata(self._node_id):
                self._update_metadata(order.effect, order)
        return {}

    async def _learn_settings(self, order: Order, states: Sequence[PartitionState]) -> None:
        """A new topic is never served without its settings. Those of others we are told by a notice, some time."""
        names = {state.topic for state in states if state.is_new}
        if unknown := sorted(n for n in names if ConfigResource(ResourceType.TOPIC, n) not in self.configs):
            settings = await self.read_settings(unknown)
            self._check(order)  # who asked may have asked again, and have deleted the topic since
            for resource, values in settings.items():
                if resource not in self.configs:  # a notice may have come in the meantime
                    self.follow_config(resource, values)

    def _check(self, order: Order) -> None:
        """Is it still this order's turn?"""
        self._check_controller(order)
        self._check_life(order)
        self._check_turn(order)

    def _check_controller(self, order: Order) -> None:
        if order.controller_epoch < self.controller_epoch:
            raise KafkaError(
                ErrorCode.STALE_CONTROLLER_EPOCH,
                f"controller {order.controller_id} has epoch {order.controller_epoch}, "
                f"there is one with {self.controller_epoch}",
            )

    def _check_life(self, order: Order) -> None:
        """The controller may hear of our registration before we do: a larger epoch than we know is ours, too."""
        if order.broker_epoch != NO_EPOCH and order.broker_epoch < self.broker_epoch:
            raise KafkaError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"the order is for broker {self._node_id} in epoch {order.broker_epoch}, now it is {self.broker_epoch}",
            )

    def _check_turn(self, order: Order) -> None:
        """No order is sent before the last one is answered: a smaller number is that of a copy that was on its way for
        long. The same number again means that our answer got lost."""
        is_new = order.controller_epoch > self.controller_epoch
        if not is_new and NO_NUMBER < order.number < self._number:
            raise KafkaError(
                ErrorCode.STALE_CONTROLLER_EPOCH,
                f"order {order.number} comes late: order {self._number} has been followed",
            )
        self.controller_epoch = order.controller_epoch
        self._number = order.number if is_new else max(self._number, order.number)

    def _update_metadata(self, news: UpdateMetadata, order: Order) -> None:
        """A message that was sent twice may come late: what we know better stays."""
        known, controller_id = self._metadata.topics, order.controller_id
        topics = [_newest(topic, known.get(topic.name)) for topic in news.topics]
        deleted = list(news.deleted)
        if news.brokers is not None and self._told != (order.controller_epoch, order.broker_epoch):
            # The first that it says to us is everything. Of what was deleted before, it may know nothing any more.
            self._told = order.controller_epoch, order.broker_epoch
            named = {*deleted, *(topic.name for topic in topics)}
            deleted += [name for name in known if name not in named]
        self._metadata.update(
            topics=topics, deleted=deleted, brokers=news.brokers, controller_id=controller_id
        )
        if news.brokers is not None and self.on_told is not None:
            told, self.on_told = self.on_told, None
            told()
        if controller_id != self._node_id:  # the controller says so itself, in its own time
            for name in deleted:
                self.follow_config(ConfigResource(ResourceType.TOPIC, name), None)

    def follow_configs(self, stored: Mapping[ConfigResource, Mapping[str, str]]) -> None:
        """These are all settings that are stored."""
        for resource in sorted(self.configs.keys() - stored.keys()):
            self.follow_config(resource, None)
        for resource, values in stored.items():
            if self.configs.get(resource) != values:
                self.follow_config(resource, values)

    def follow_config(self, resource: ConfigResource, values: Mapping[str, str] | None) -> None:
        """These are the settings of a resource now; None if it is gone."""
        if values is not None:
            self._configs.apply(resource, values)
            self.configs[resource] = values
        else:
            self.configs.pop(resource, None)
            if resource.type is ResourceType.TOPIC:
                self._configs.forget_topic(resource.name)
            else:
                self._configs.apply(resource, {})


async def _none_are_known(topics: Sequence[str]) -> Settings:
    return {}


def failed(answers: Answers) -> list[TopicPartition]:
    """The partitions that lie on a disk that has failed."""
    return [partition for partition, code in answers.items() if code == ErrorCode.KAFKA_STORAGE_ERROR]


def mistaken(answers: Answers) -> list[TopicPartition]:
    """The partitions of which the broker has another topic's."""
    return [partition for partition, code in answers.items() if code == ErrorCode.INCONSISTENT_TOPIC_ID]


def _newest(topic: TopicImage, known: TopicImage | None) -> TopicImage:
    """The topic with the newer state of each partition."""
    if known is None or known.topic_id != topic.topic_id:
        return topic
    before = {state.partition: state for state in known.partitions}
    states = [_newer(state, before.get(state.partition)) for state in topic.partitions]
    return topic._replace(partitions=tuple(states))


def _newer(state: PartitionState, known: PartitionState | None) -> PartitionState:
    return state if known is None or state.partition_epoch >= known.partition_epoch else known


def _judged(call: str, answers: Answers) -> Answers:
    """Say what was refused."""
    for partition, code in answers.items():
        if code != ErrorCode.NONE:
            logger.warning("%s for %s was answered with %s", call, partition, code.name)
    return answers
