"""The assignors that a member of a classic group votes for, and what it says with each vote.

Whether members keep their partitions while the group rebalances is not voted on. A member follows the cooperative
rules if every assignor it lists is cooperative, and the eager ones otherwise: with `range, cooperative-sticky` it gives
up everything before it joins, whoever wins the vote. That is how Kafka lets groups move from one to the other.
"""

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ottla.assignors.exchange import subscription_of
from ottla.assignors.registry import CLIENT_SIDE, Assignor, checked, client_side
from ottla.assignors.spec import Assign, Assignment, Members, PartitionCounts
from ottla.assignors.user_data import Claim
from ottla.core.errors import ConfigError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.groups import JoinGroupRequest

_NAMESAKES = ("kafka", "aiokafka")
"""Packages whose assignors have the names of ours, do the same, and are called in another way."""


class Votes(NamedTuple):
    """The assignors by name, most wanted first."""

    assignors: Mapping[str, Assignor]

    @property
    def is_cooperative(self) -> bool:
        return all(each.is_cooperative for each in self.assignors.values())

    def protocols(
        self, topics: Iterable[str], owned: Claim, given: Claim, rack_id: str | None
    ) -> list[JoinGroupRequest.Protocol]:
        """What a member sends when it joins. `owned` is what it holds on to, `given` what it got last: an eager member
        owns nothing by then, but sticky remembers."""
        names = sorted(topics)
        return [
            JoinGroupRequest.Protocol(
                name=name,
                metadata=subscription_of(
                    assignor, names, owned if assignor.is_cooperative else given, rack_id
                ),
            )
            for name, assignor in self.assignors.items()
        ]


def read_votes(strategy: object) -> Votes:
    """From the setting `partition_assignment_strategy`. Raises ConfigError."""
    found: dict[str, Assignor] = {}
    for each in _listed(strategy):
        assignor = _assignor(each)
        if assignor.name in found:
            raise ConfigError(f"partition.assignment.strategy: two assignors are called {assignor.name!r}")
        found[assignor.name] = _safe(assignor)
    if not found:
        raise ConfigError("partition.assignment.strategy names no assignor")
    return Votes(found)


def grouped(partitions: Iterable[TopicPartition]) -> dict[str, frozenset[int]]:
    """Partitions by topic, as assignors have them."""
    found: dict[str, set[int]] = {}
    for each in partitions:
        found.setdefault(each.topic, set()).add(each.partition)
    return {topic: frozenset(numbers) for topic, numbers in found.items()}


def _listed(strategy: Any) -> list[Any]:
    if isinstance(strategy, str):
        return [each.strip() for each in strategy.split(",") if each.strip()]
    # An Assignor is a tuple too.
    if isinstance(strategy, Assignor) or not isinstance(strategy, Iterable):
        return [strategy]
    return list(strategy)


def _assignor(each: Any) -> Assignor:
    if isinstance(each, str):
        try:
            (found,) = client_side([each]).values()
        except ConfigError as error:
            raise ConfigError(f"partition.assignment.strategy: {error}") from error
        return found
    if isinstance(each, Assignor):
        return each if each in CLIENT_SIDE.values() else _custom(each)
    name = getattr(each, "name", None)
    if name in CLIENT_SIDE and _package(each) in _NAMESAKES:
        return CLIENT_SIDE[str(name)]
    made = each() if isinstance(each, type) else each
    assign: Callable[..., Any] | None = getattr(made, "assign", made if callable(made) else None)
    name = name or getattr(each, "__name__", None)
    if assign is None or not isinstance(name, str):
        kind = type(each).__name__
        raise ConfigError(
            f"partition.assignment.strategy: a {kind} is no assignor: it needs `name` and `assign`"
        )
    return _custom(Assignor(name, assign, bool(getattr(made, "is_cooperative", False))))


def _package(each: Any) -> str:
    cls = each if isinstance(each, type) else type(each)
    return cls.__module__.partition(".")[0]


def _custom(assignor: Assignor) -> Assignor:
    return assignor._replace(assign=checked(assignor.name, assignor.assign))


def _safe(assignor: Assignor) -> Assignor:
    """A stranger's cooperative assignor, such that no partition ever has two readers."""
    if not assignor.is_cooperative or assignor in CLIENT_SIDE.values():
        return assignor
    return assignor._replace(
        assign=functools.partial(_held_back, assignor.assign), claim=CLIENT_SIDE["cooperative-sticky"].claim
    )


def _held_back(assign: Assign[str], members: Members[str], counts: PartitionCounts[str]) -> Assignment[str]:
    """What a member is to get while another reads it goes to nobody: the other gives it up, and all join again."""
    owners: dict[tuple[str, int], tuple[int, str]] = {}
    for member_id, member in members.items():
        for topic, numbers in member.current.items():
            for number in numbers:
                claim = member.generation_id, member_id
                owners[topic, number] = max(owners.get((topic, number), claim), claim)
    assignment: Assignment[str] = {}
    for member_id, share in assign(members, counts).items():
        kept = {
            topic: frozenset(
                each for each in numbers if owners.get((topic, each), (0, member_id))[1] == member_id
            )
            for topic, numbers in share.items()
        }
        assignment[member_id] = {topic: numbers for topic, numbers in kept.items() if numbers}
    return assignment
