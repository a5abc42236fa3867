"""Replication that holds back while partitions move (KIP-73), as kafka-reassign-partitions has it.

Two settings of each broker that takes part say how many bytes a second, two of each topic say for which replicas. The
leader's side names all replicas that a partition has, the follower's side those that are new. They are set before the
move begins, and removed when nothing moves any more: what is forgotten slows down replicas that fall behind later.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ottla.cli.cluster_plan import Planned
from ottla.cli.cluster_state import BROKER, TOPIC, fault_of
from ottla.cli.remote import Cluster, Failed, each_of, pieces
from ottla.core.config import Source
from ottla.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_SET, _DELETE = 0, 1
_Altered = IncrementalAlterConfigsRequest.Resource
_OWN = {TOPIC: Source.TOPIC, BROKER: Source.BROKER}


class Throttled(NamedTuple):
    """Which brokers and topics hold back."""

    brokers: tuple[int, ...]
    topics: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.brokers or self.topics)


def words(planned: Iterable[Planned]) -> dict[str, tuple[str, str]]:
    """What the two settings of each topic have to say."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    for each in planned:
        topic, number = each.place
        if each.adds:
            leaders.setdefault(topic, []).extend(f"{number}:{id}" for id in each.now)
            followers.setdefault(topic, []).extend(f"{number}:{id}" for id in each.adds)
    return {topic: (",".join(leaders[topic]), ",".join(followers[topic])) for topic in leaders}


async def throttle(asked: Cluster, planned: Sequence[Planned], bytes_per_s: int) -> Throttled:
    """Hold back these moves. Returns who was told."""
    copying = [each for each in planned if each.adds]
    brokers = {id for each in copying for id in (*each.now, *each.then) if id in asked.brokers}
    topics = words(copying)
    await _alter_topics(
        asked, {topic: dict(zip(REPLICAS, pair, strict=True)) for topic, pair in topics.items()}
    )
    await _alter_brokers(asked, {id: dict.fromkeys(RATES, str(bytes_per_s)) for id in brokers})
    return Throttled(tuple(sorted(brokers)), tuple(topics))


async def remove(asked: Cluster, topics: Iterable[str]) -> Throttled:
    """No broker that lives holds back any more, and none of these topics. Returns who did."""
    found = await throttled(asked, topics)
    await _alter_brokers(asked, {id: dict.fromkeys(RATES) for id in found.brokers})
    await _alter_topics(asked, {topic: dict.fromkeys(REPLICAS) for topic in found.topics})
    return found


async def throttled(asked: Cluster, topics: Iterable[str]) -> Throttled:
    """Who of the brokers that live, and of these topics, has such a setting of its own."""
    named: list[str] = []
    for some in pieces(list(dict.fromkeys(topics))):
        answer: DescribeConfigsResponse = await asked.first.send(_describe(TOPIC, some, REPLICAS))
        named += _having(answer)

    async def one(id: int) -> list[str]:
        return _having(await asked.ask(id, _describe(BROKER, [str(id)], RATES)))

    answers = await each_of(sorted(asked.brokers), one)
    return Throttled(
        tuple(id for id, found in answers.items() if found and not isinstance(found, Failed)), tuple(named)
    )


def _describe(kind: int, names: Iterable[str], keys: Sequence[str]) -> DescribeConfigsRequest:
    wanted = DescribeConfigsRequest.Resource
    return DescribeConfigsRequest(
        resources=[
            wanted(resource_type=kind, resource_name=name, configuration_keys=list(keys)) for name in names
        ]
    )


def _having(answer: DescribeConfigsResponse) -> list[str]:
    return [
        row.resource_name
        for row in answer.results
        if not row.error_code and any(each.config_source == _OWN[row.resource_type] for each in row.configs)
    ]


# --- changing ---------------------------------------------------------------------------------------------------------


async def _alter_topics(asked: Cluster, wanted: Mapping[str, Mapping[str, str | None]]) -> None:
    for some in pieces(list(wanted)):
        request = _alter(TOPIC, {topic: wanted[topic] for topic in some})
        _check(await asked.ask_controller(request))


async def _alter_brokers(asked: Cluster, wanted: Mapping[int, Mapping[str, str | None]]) -> None:
    """Each is told itself: Kafka's brokers do not take settings of others."""

    async def one(id: int) -> None:
        _check(await asked.ask(id, _alter(BROKER, {str(id): wanted[id]})))

    for id, outcome in (await each_of(wanted, one)).items():
        if isinstance(outcome, Failed):
            raise Failed(f"broker {id} cannot be throttled: {outcome.message}", outcome.exit_code)


def _alter(kind: int, wanted: Mapping[str, Mapping[str, str | None]]) -> IncrementalAlterConfigsRequest:
    resources = [
        _Altered(
            resource_type=kind,
            resource_name=name,
            configs=[
                _Altered.Setting(name=key, config_operation=_DELETE if value is None else _SET, value=value)
                for key, value in settings.items()
            ],
        )
        for name, settings in wanted.items()
    ]
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=False)


def _check(answer: IncrementalAlterConfigsResponse | Any) -> None:
    for row in answer.responses:
        if fault := fault_of(row.error_code, row.error_message):
            raise Failed(f"the throttle of {row.resource_name} cannot be changed: {fault}")
