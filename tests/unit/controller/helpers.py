"""Small clusters, and chance that is none."""

import uuid

from ottla.controller.commands import NewTopic
from ottla.controller.context import Context, Policy, StoredEpoch
from ottla.controller.decision import Decision, Effect
from ottla.controller.topics import Defaults, create
from ottla.replication.state import BrokerImage, Endpoint, PartitionState

TOPIC_ID = uuid.UUID(int=1000)
DEFAULTS = Defaults(partitions=1, replication_factor=1)


class Loaded:
    """Chance: ids count upwards, and every throw is `throw`."""

    def __init__(self, throw: int = 0) -> None:
        self._throw = throw
        self._last = 999

    def new_id(self) -> uuid.UUID:
        self._last += 1
        return uuid.UUID(int=self._last)

    def below(self, bound: int) -> int:
        return self._throw % bound


def broker(node_id: int, epoch: int = 1, previous: int = -1) -> BrokerImage:
    """`previous` is the life that it says was ended by a clean shutdown."""
    endpoints = (Endpoint("PLAINTEXT", "PLAINTEXT", "h", 9092 + node_id),)
    return BrokerImage(node_id, epoch, endpoints, previous_epoch=previous)


def cluster(*ids: int, min_insync: int = 1, unclean: bool = False) -> Context:
    """Brokers in their first life, which has been noticed."""
    context = Context(ids[0], epoch=5, epoch_version=4, brokers={id: broker(id) for id in ids})
    context.epochs = {id: StoredEpoch(1, 0) for id in ids}
    context.policy = lambda topic: Policy(min_insync, unclean)
    return context


def carried_out(context: Context, decision: Decision) -> Decision:
    """As if the writes had lasted."""
    for change in decision.changes:
        context.apply(change)
    return decision


def with_topic(context: Context, topic: NewTopic, throw: int = 0) -> Decision:
    decision, answers = create(context, [topic], DEFAULTS, Loaded(throw))
    assert not isinstance(answers[topic.name], Exception), answers
    return carried_out(context, decision)


def present(context: Context, topic: str = "t", partition: int = 0) -> PartitionState:
    return context.topics[topic].image.partitions[partition]


def look(state: PartitionState) -> tuple[int, tuple[int, ...], tuple[int, ...], int]:
    """Leader, ISR, ELR, leader epoch."""
    return state.leader, state.isr, state.elr, state.leader_epoch


def effects(decision: Decision, kind: type[Effect]) -> list[Effect]:
    return [effect for effect in decision.effects if isinstance(effect, kind)]


def state(leader: int, replicas: str, isr: str, **more: object) -> PartitionState:
    """Replicas and ISR as digits: '012'."""
    ids = tuple(map(int, replicas)), tuple(map(int, isr))
    fields = {"topic_id": TOPIC_ID, "leader_epoch": 3, "partition_epoch": 7, **more}
    return PartitionState("t", partition=0, leader=leader, replicas=ids[0], isr=ids[1], **fields)
