"""`kafka-consumer-groups --list` and `--describe`: names, states, members, and offsets with their lag."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.cli.classic.consumer_groups_output import Column, print_error, print_table
from ottla.cli.classic.consumer_groups_targets import one
from ottla.cli.classic.java import Illegal, exception_text, hash_ordered
from ottla.cli.classic.parser import Refused
from ottla.cli.dump.output import printable
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin.group_values import GroupDescription, MemberDescription
    from ottla.client.records import OffsetAndMetadata

_STATES = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
)
_TYPES = ("Consumer", "Classic")
_CONSUMERS = ("consumer", "")  # protocol types; a group that only keeps offsets has none
_EMPTY, _DEAD, _STABLE = "Empty", "Dead", "Stable"
EXECUTION = "java.util.concurrent.ExecutionException: "
_STATES_SINCE = 4  # ListGroups
_NAME_MIN, _NAME_GAP, _WORD = 15, 10, 20
_GROUP = Column("GROUP", 15)
_OFFSETS = (_GROUP, Column("TOPIC", 15), Column("PARTITION", 10, False))
_LAGS = (
    Column("CURRENT-OFFSET", 15, False),
    Column("LOG-END-OFFSET", 15, False),
    Column("LAG", 15, False),
    Column("CONSUMER-ID", 15),
    Column("HOST", 15),
    Column("CLIENT-ID", 0),
)
_LEADER_EPOCH = Column("LEADER-EPOCH", 15, False)


# --- which there are --------------------------------------------------------------------------------------------------


class Listing(NamedTuple):
    """A line of the list."""

    group: str
    type: str
    state: str


async def listed(admin: Any, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[Listing]:
    """The groups of consumers, in the order of a `HashMap` that brokers' answers were put into. Raises Illegal."""
    from ottla.client.admin.routes import Answers, all_of, check
    from ottla.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse

    routes = admin._routes
    deadline, failed = routes.deadline(None), "the groups were not listed"

    async def ask_one(node_id: int, _: list[int]) -> Answers[int, list[ListGroupsResponse.Group]]:
        version = await routes.cluster.version_of(node_id, ListGroupsRequest)
        wanted = list(states) if version >= _STATES_SINCE else []
        answer: ListGroupsResponse = await routes.cluster.ask(
            node_id, ListGroupsRequest(states_filter=wanted, types_filter=[])
        )
        check(answer.error_code, f"the groups of broker {node_id}")
        return {node_id: answer.groups}

    async def ask(some: list[int]) -> Answers[int, list[ListGroupsResponse.Group]]:
        asked: Answers[int, list[ListGroupsResponse.Group]] = await routes.from_brokers(
            {each: [each] for each in some}, ask_one
        )
        return asked

    try:
        brokers = await routes.patient(routes.brokers, deadline, failed)
        answers = all_of(await routes.settle(brokers, ask, deadline, failed), "the listing of groups")
    except KafkaError as error:
        raise executing(error) from error
    found = {
        row.group_id: Listing(row.group_id, (row.group_type or "Classic").capitalize(), row.group_state)
        for rows in answers.values()
        for row in rows
        if row.protocol_type in _CONSUMERS
    }
    known = {key: each for key, each in found.items() if each.type in (types or _TYPES)}
    return [known[group] for group in hash_ordered(known)]


def executing(error: KafkaError, about: str | None = None) -> Illegal:
    """An error as the tool words it where it waited for one. `about` is what ours puts in front of it, if not all."""
    return Illegal(f"{EXECUTION}{exception_text(error, error.detail if about is None else about)}")


async def list_groups(admin: Any, options: argparse.Namespace) -> None:
    states = _chosen(options, "state", _STATES, "Invalid state list '{}'. Valid states are: {}")
    types = _chosen(options, "type", _TYPES, "Invalid types list '{}'. Valid types are: {}")
    found = await listed(admin, states or (), types or ())
    if states is None and types is None:
        for each in found:
            print(printable(each.group))
        return
    width = max([_NAME_MIN, *(len(printable(each.group)) for each in found)]) + _NAME_GAP
    for name, kind, state in [Listing("GROUP", "TYPE", "STATE"), *found]:
        words = [*([kind] if types is not None else []), *([state] if states is not None else [])]
        print(" ".join([f"{printable(name):<{width}}", *(f"{word:<{_WORD}}" for word in words)]))


def _chosen(
    options: argparse.Namespace, name: str, known: Sequence[str], complaint: str
) -> Sequence[str] | None:
    """The states or types that are asked for; none of them is all of them, and None is that nobody asked."""
    if not getattr(options, name):
        return None
    text = one(options, name)
    if not text:
        return ()
    spelled = {each.lower(): each for each in known}
    words = [word.strip().lower() for word in text.split(",")]
    if any(word not in spelled for word in words):
        raise Refused(complaint.format(text, ", ".join(known)))
    return [spelled[word] for word in words]


# --- describe ---------------------------------------------------------------------------------------------------------


async def described(
    admin: Any, groups: Iterable[str], where: str = ""
) -> dict[str, "GroupDescription | KafkaError"]:
    """Each group, or why it cannot be described. Raises Illegal for those that are none of consumers."""
    from ottla.client.admin import groups as group_calls
    from ottla.client.errors import PartialFailure

    names = list(dict.fromkeys(groups))
    try:
        found: Mapping[str, Any] = await group_calls.describe_groups(admin, names) if names else {}
    except PartialFailure as failure:
        found = failure.results
    for group, each in found.items():
        if not isinstance(each, KafkaError) and each.protocol_type not in _CONSUMERS:
            kind = each.protocol_type
            raise Illegal(
                f"{where}java.lang.IllegalArgumentException: GroupId {group} is not a consumer group ({kind})."
            )
    return dict(found)


async def describe(admin: Any, options: argparse.Namespace) -> None:
    names = [each.group for each in await listed(admin)] if options.all_groups else options.group
    found = await described(admin, names)
    groups: list[GroupDescription] = []
    for name in sorted(found):
        each = found[name]
        if isinstance(each, KafkaError):
            if each.code == ErrorCode.GROUP_ID_NOT_FOUND:
                each = KafkaError(each.code, f"Group {name} not found.")
                raise Illegal(exception_text(each))
            raise Illegal(exception_text(each, f"group {name}"))
        groups.append(each)
    for group in groups:
        if options.members:
            _say_state(group)
            _print_members(group, options.verbose)
        elif options.state:
            _say_state(group)
            _print_state(admin, group, options.verbose)
        else:
            rows = await _lags(admin, group)
            _say_state(group)
            _print_offsets(group, rows, options.verbose)


def _say_state(group: "GroupDescription") -> None:
    name = printable(group.group_id)
    if group.state == _EMPTY:
        print(f"\nConsumer group '{name}' has no active members.", file=sys.stderr)
    elif group.state == _DEAD:
        print_error(f"Consumer group '{name}' does not exist.")
    elif group.state != _STABLE:
        print(f"\nWarning: Consumer group '{name}' is rebalancing.", file=sys.stderr)


class _Lag(NamedTuple):
    place: TopicPartition
    committed: "OffsetAndMetadata | None"
    end: int | None
    member: "MemberDescription | None"

    @property
    def lag(self) -> int | None:
        return None if self.committed is None or self.end is None else self.end - self.committed.offset


async def _lags(admin: Any, group: "GroupDescription") -> list[_Lag]:
    """First the partitions that are assigned, by their members: who has most comes first. Then the others."""
    from ottla.cli.outcomes import settled
    from ottla.client.admin.group_offsets import list_group_offsets
    from ottla.client.admin.partitions import OffsetSpec, list_offsets

    committed = await list_group_offsets(admin, group.group_id)
    owners = {
        place: member
        for member in sorted(group.members, key=lambda each: -len(each.assignment))
        for place in sorted(member.assignment)
    }
    places = [*owners, *sorted(committed.keys() - owners.keys())]
    ends = (
        (await settled(list_offsets(admin, dict.fromkeys(places, OffsetSpec.LATEST)))).done if places else {}
    )
    return [
        _Lag(each, committed.get(each), ends[each].offset if each in ends else None, owners.get(each))
        for each in places
    ]


def _print_offsets(group: "GroupDescription", rows: Sequence[_Lag], verbose: bool) -> None:
    if not rows:
        return

    def cells() -> Iterator[list[object]]:
        for each in rows:
            place, committed, end, member = each
            epoch = None if committed is None or committed.leader_epoch < 0 else committed.leader_epoch
            owner = (
                (None,) * 3 if member is None else (member.member_id, member.client_host, member.client_id)
            )
            head = [group.group_id, place.topic, place.partition, *([epoch] if verbose else [])]
            yield [*head, None if committed is None else committed.offset, end, each.lag, *owner]

    print_table([*_OFFSETS, *([_LEADER_EPOCH] if verbose else []), *_LAGS], cells())


def _print_members(group: "GroupDescription", verbose: bool) -> None:
    has_instances = any(each.group_instance_id is not None for each in group.members)
    # In a group of the new protocol, members of the old one have yet to be upgraded.
    is_mixed = group.type == _TYPES[0] and any(each.is_classic for each in group.members)
    columns = [_GROUP, Column("CONSUMER-ID", 15)]
    columns += [Column("GROUP-INSTANCE-ID", 17)] if has_instances else []
    columns += [Column("HOST", 15), Column("CLIENT-ID", 15), Column("#PARTITIONS", 15, False)]
    if verbose:
        columns += [
            Column("CURRENT-EPOCH", 15, False),
            Column("CURRENT-ASSIGNMENT", 20),
            Column("TARGET-EPOCH", 15, False),
            Column("TARGET-ASSIGNMENT", 20),
            *([Column("UPGRADED", 0)] if is_mixed else []),
        ]

    def cells() -> Iterator[list[object]]:
        for each in group.members:
            row: list[object] = [group.group_id, each.member_id]
            row += [each.group_instance_id] if has_instances else []
            row += [each.client_host, each.client_id, len(each.assignment)]
            if verbose:
                row += [each.member_epoch, _assignment(each.assignment)]
                row += [group.assignment_epoch, _assignment(each.target_assignment or ())]
                row += ["false" if each.is_classic else "true"] if is_mixed else []
            yield row

    print_table(columns, cells(), end="" if verbose else " ")


def _assignment(places: Iterable[TopicPartition]) -> str | None:
    """`orders:0,1;payments:2`."""
    numbers: dict[str, list[str]] = {}
    for place in sorted(places):
        numbers.setdefault(place.topic, []).append(str(place.partition))
    return ";".join(f"{topic}:{','.join(each)}" for topic, each in numbers.items()) or None


def _print_state(admin: Any, group: "GroupDescription", verbose: bool) -> None:
    address = admin._routes.cluster.metadata.brokers.get(group.coordinator)
    place = "" if address is None else f"{address.host}:{address.port}"
    columns = [_GROUP, Column("COORDINATOR (ID)", 25), Column("ASSIGNMENT-STRATEGY", 20, False)]
    columns += [Column("STATE", 20, False)]
    row: list[object] = [
        group.group_id,
        f"{place}  ({group.coordinator})",
        group.assignor or None,
        group.state,
    ]
    if verbose:
        columns += [Column("GROUP-EPOCH", 15, False), Column("TARGET-ASSIGNMENT-EPOCH", 25, False)]
        row += [group.group_epoch, group.assignment_epoch]
    print_table([*columns, Column("#MEMBERS", 0)], [[*row, len(group.members)]])
