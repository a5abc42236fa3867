"""The controller and the store as one small value, and the controller's own functions at work on it.

What the store says of brokers and what the controller has seen of it are kept apart: it looks when it gets to it.
"""

from typing import NamedTuple

from ottla.controller import alterations, brokers, configs, elections
from ottla.controller.commands import ConfigResource, ResourceType
from ottla.controller.context import Context, Policy, StoredConfig, StoredEpoch, StoredTopic
from ottla.controller.decision import Decision, LeaderAndIsr
from ottla.core.errors import KafkaError
from ottla.replication.exchange import Proposal
from ottla.replication.state import NO_EPOCH, BrokerImage, PartitionState, TopicImage
from ottla.testing.simulation.explorer.replicas import REPLICAS, TOPIC, TOPIC_ID

_SETTINGS = ConfigResource(ResourceType.TOPIC, TOPIC.topic)
GONE = (NO_EPOCH, NO_EPOCH)
"""Of a broker: not registered."""


class Order(NamedTuple):
    """LeaderAndIsr for one broker, in one of its lives."""

    broker: int
    life: int
    state: PartitionState


class Office(NamedTuple):
    """Lives are pairs: which it is, and which clean one came before, in the order of the replicas."""

    state: PartitionState
    registered: tuple[tuple[int, int], ...]
    seen: tuple[tuple[int, int], ...]
    stored: tuple[int, ...]
    """The last life of each broker that the controller has written down."""
    alterations: int = 0
    min_insync: int = 2


Orders = tuple[Order, ...]


class Clerk:
    """Lets the controller decide. A decision is written at once: what only one controller does cannot conflict."""

    def look(self, office: Office) -> tuple[Office, Orders]:
        """The controller sees who lives now."""
        context = self._context(office)
        decision = brokers.change(context, _images(office.registered))
        return self._after(office, context, decision)

    def alter(
        self, office: Office, broker: int, life: int, proposal: Proposal
    ) -> tuple[Office, Orders, PartitionState | KafkaError]:
        context = self._context(office)
        try:
            decision, answers = alterations.alter(context, broker, life, [proposal])
        except KafkaError as error:
            return office, (), error
        after, orders = self._after(office, context, decision)
        if after.state.partition_epoch != office.state.partition_epoch:
            after = after._replace(alterations=office.alterations + 1)
        return after, orders, answers[TOPIC]

    def hand_over(self, office: Office, broker: int) -> tuple[Office, Orders]:
        state = elections.hand_over(office.state, broker)
        state = state._replace(partition_epoch=state.partition_epoch + 1)
        lives = zip(REPLICAS, office.seen, strict=True)
        orders = tuple(Order(id, life[0], state) for id, life in lives if life != GONE)
        return office._replace(state=state), orders

    def set_min_insync(self, office: Office, value: int) -> tuple[Office, Orders]:
        """Somebody changes min.insync.replicas."""
        context = self._context(office)
        decision = configs.alter(context, _SETTINGS, {configs.MIN_INSYNC: str(value)})
        after, orders = self._after(office, context, decision)
        return after._replace(min_insync=value), orders

    def _context(self, office: Office) -> Context:
        policy = Policy(office.min_insync)
        image = TopicImage(TOPIC.topic, TOPIC_ID, (office.state,))
        return Context(
            controller_id=0,
            epoch=1,
            epoch_version=1,
            brokers={broker.node_id: broker for broker in _images(office.seen)},
            topics={TOPIC.topic: StoredTopic(image, 0)},
            epochs={
                id: StoredEpoch(life, life)
                for id, life in zip(REPLICAS, office.stored, strict=True)
                if life != NO_EPOCH
            },
            configs={_SETTINGS: StoredConfig({configs.MIN_INSYNC: str(office.min_insync)}, 0)},
            policy=lambda topic: policy,
        )

    def _after(self, office: Office, context: Context, decision: Decision) -> tuple[Office, Orders]:
        for change in decision.changes:
            context.apply(change)
        seen = tuple(_life(context.brokers.get(id)) for id in REPLICAS)
        told = [effect for effect in decision.effects if isinstance(effect, LeaderAndIsr)]
        orders = (
            Order(each.broker, context.brokers[each.broker].epoch, state)
            for each in told
            for state in each.states
        )
        after = office._replace(
            state=context.topics[TOPIC.topic].image.partitions[0],
            seen=seen,
            stored=tuple(context.epochs[id].epoch if id in context.epochs else NO_EPOCH for id in REPLICAS),
        )
        return after, tuple(orders)


def _images(lives: tuple[tuple[int, int], ...]) -> list[BrokerImage]:
    return [
        BrokerImage(id, life, (), previous_epoch=previous)
        for id, (life, previous) in zip(REPLICAS, lives, strict=True)
        if life != NO_EPOCH
    ]


def _life(broker: BrokerImage | None) -> tuple[int, int]:
    return GONE if broker is None else (broker.epoch, broker.previous_epoch)
