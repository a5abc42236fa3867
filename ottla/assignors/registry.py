"""The assignors by their names, and those that users bring along as `package.module:name`.

What a stranger's assignor returns is checked before it is used: a partition with two readers, or with one that did not
ask for it, must not get into a group's state.
"""

import functools
import importlib
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ottla.assignors import cooperative_sticky, range, round_robin, sticky, uniform
from ottla.assignors.spec import Assign, Assignment, Members, PartitionCounts, T
from ottla.assignors.user_data import (
    Claim,
    as_mapping,
    decode_cooperative,
    decode_sticky,
    encode_cooperative,
    encode_sticky,
)
from ottla.core.errors import ConfigError, ErrorCode, KafkaError
from ottla.protocol.messages.subscription import ConsumerProtocolSubscription


def _says_nothing(claim: Claim) -> bytes | None:
    return None


def _claims_nothing(subscription: ConsumerProtocolSubscription) -> Claim:
    return Claim({})


def _sticky_claim(subscription: ConsumerProtocolSubscription) -> Claim:
    """From the user data only: an eager member owns nothing when it joins, it only remembers."""
    return decode_sticky(subscription.user_data)


def _cooperative_claim(subscription: ConsumerProtocolSubscription) -> Claim:
    owned = as_mapping(subscription.owned_partitions)
    if subscription.generation_id >= 0:
        return Claim(owned, subscription.generation_id)
    return Claim(owned, decode_cooperative(subscription.user_data))


class Assignor(NamedTuple):
    """An assignor of a classic group: what the leader runs, and what members tell it about themselves."""

    name: str
    """The protocol that members vote for when they join."""
    assign: Assign[str]
    is_cooperative: bool = False
    """Whether members keep what they own while the group rebalances, and may join twice for it."""
    user_data: Callable[[Claim], bytes | None] = _says_nothing
    """What a member puts into its subscription, given what it has."""
    claim: Callable[[ConsumerProtocolSubscription], Claim] = _claims_nothing
    """What the leader takes out of it."""


CLIENT_SIDE: Mapping[str, Assignor] = {
    each.name: each
    for each in (
        Assignor("range", range.assign),
        Assignor("roundrobin", round_robin.assign),
        Assignor("sticky", sticky.assign, user_data=encode_sticky, claim=_sticky_claim),
        Assignor(
            "cooperative-sticky",
            cooperative_sticky.assign,
            is_cooperative=True,
            user_data=lambda claim: encode_cooperative(claim.generation_id),
            claim=_cooperative_claim,
        ),
    )
}

SERVER_SIDE: Mapping[str, Assign[uuid.UUID]] = {"uniform": uniform.assign, "range": range.assign}

_JAVA_CLASSES = {
    "org.apache.kafka.clients.consumer.RangeAssignor": "range",
    "org.apache.kafka.clients.consumer.RoundRobinAssignor": "roundrobin",
    "org.apache.kafka.clients.consumer.StickyAssignor": "sticky",
    "org.apache.kafka.clients.consumer.CooperativeStickyAssignor": "cooperative-sticky",
    "org.apache.kafka.coordinator.group.assignor.UniformAssignor": "uniform",
    "org.apache.kafka.coordinator.group.assignor.RangeAssignor": "range",
}
"""Settings written for Kafka name classes; they mean ours."""


def client_side(names: Iterable[str]) -> dict[str, Assignor]:
    """The assignors of a consumer by the names members vote with, most wanted first. Raises ConfigError."""
    found: dict[str, Assignor] = {}
    for text in names:
        assignor = CLIENT_SIDE.get(_JAVA_CLASSES.get(text, text)) or _custom(text, CLIENT_SIDE)
        _add(found, assignor.name, assignor)
    return found


def server_side(names: Iterable[str]) -> dict[str, Assign[uuid.UUID]]:
    """The coordinator's assignors by the names members ask for, the default first. Raises ConfigError."""
    found: dict[str, Assign[uuid.UUID]] = {}
    for text in names:
        name = _JAVA_CLASSES.get(text, text)
        if name in SERVER_SIDE:
            _add(found, name, SERVER_SIDE[name])
        else:
            custom = _custom(text, SERVER_SIDE)
            # Whoever wrote it for topic names will find ids as good: it can only sort and look up.
            assign: Assign[Any] = custom.assign
            _add(found, custom.name, assign)
    return found


def _add(found: dict[str, Any], name: str, assignor: object) -> None:
    if name in found:
        raise ConfigError(f"two assignors are called {name!r}")
    found[name] = assignor


def _custom(text: str, known: Mapping[str, object]) -> Assignor:
    """The function, or the Assignor, that `package.module:name` names."""
    module_name, colon, name = text.partition(":")
    if not (module_name and colon and name):
        raise ConfigError(
            f"{text!r} is no assignor: there are {', '.join(known)}, and your own as package.module:name"
        )
    try:
        found = functools.reduce(getattr, name.split("."), importlib.import_module(module_name))
    except Exception as error:  # anything may happen while a stranger's module is imported
        raise ConfigError(
            f"the assignor {text!r} cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if isinstance(found, Assignor):
        return found._replace(assign=checked(found.name, found.assign))
    if not callable(found):
        raise ConfigError(f"the assignor {text!r} cannot be called: it is of type {type(found).__name__}")
    return Assignor(name, checked(name, found))


def checked(name: str, assign: Assign[T]) -> Assign[T]:
    """The same assignor, with errors and impossible results turned into UNKNOWN_SERVER_ERROR, as Kafka has it."""

    def assign_and_check(members: Members[T], partition_counts: PartitionCounts[T]) -> Assignment[T]:
        try:
            assigned = assign(members, partition_counts)
            assignment = {member_id: _tidy(share) for member_id, share in assigned.items()}
            fault = _fault(assignment, members, partition_counts)
        except Exception as error:  # its author's mistakes may look like anything
            detail = f"the assignor {name!r} failed: {type(error).__name__}: {error}"
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, detail) from error
        if fault is not None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the assignor {name!r} {fault}")
        return {member_id: assignment.get(member_id, {}) for member_id in members}

    return assign_and_check


def _tidy(share: Mapping[T, Iterable[int]]) -> dict[T, frozenset[int]]:
    found = {topic: frozenset(partitions) for topic, partitions in share.items()}
    return {topic: partitions for topic, partitions in found.items() if partitions}


def _fault(
    assignment: Assignment[T], members: Members[T], partition_counts: PartitionCounts[T]
) -> str | None:
    """What is wrong with a result, as the end of a sentence. Partitions may be left without a reader."""
    taken: set[tuple[T, int]] = set()
    for member_id, share in assignment.items():
        if member_id not in members:
            return f"assigned to {member_id!r}, which is no member"
        for topic, partitions in share.items():
            if topic not in members[member_id].subscribed:
                return f"gave {member_id!r} the topic {topic}, to which it is not subscribed"
            for partition in partitions:
                if not 0 <= partition < partition_counts.get(topic, 0):
                    return f"assigned partition {partition} of topic {topic}, which does not exist"
                if (topic, partition) in taken:
                    return f"assigned partition {partition} of topic {topic} twice"
                taken.add((topic, partition))
    return None
