"""`kafka.tools.ConsumerOffsetChecker`: how far a group has read, as the tool of Kafka 0.8 showed it.

Offsets are looked for in both places where groups have kept them: `__consumer_offsets`, through the coordinator, and
`/consumers/GROUP/offsets/TOPIC/PARTITION` in ZooKeeper. What the coordinator knows goes first, partition by partition:
whoever has moved from ZooKeeper to Kafka left the old offset behind. With `--bootstrap-server` instead of `--zookeeper`
there is only the first place.

It never had a script of its own: `kafka-run-class kafka.tools.ConsumerOffsetChecker`.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ottla.cli.classic.admin_parser import AdminParser, servers_in
from ottla.cli.classic.java import Illegal, integer, message_of
from ottla.cli.classic.parser import Refused
from ottla.cli.classic.running import Tool, with_admin
from ottla.cli.dump.output import printable
from ottla.core.ids import TopicPartition

_CONSUMERS = "/consumers"
_HEADER = ("Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner")
_UNKNOWN, _NOBODY = "unknown", "none"
_DEFAULT_ZOOKEEPER = "localhost:2181"
_DEFAULT_TIMEOUT_MS = "6000"


def _parser() -> AdminParser:
    parser = AdminParser(
        "kafka.tools.ConsumerOffsetChecker", "Check the offset of your consumers.", "Exiting due to: "
    )
    parser.option(
        "--zookeeper",
        help=f"ZooKeeper connect string. (default: {_DEFAULT_ZOOKEEPER})",
        metavar="String: urls",
    )
    parser.option("--bootstrap-server", help="A broker, instead of the ZooKeeper that knows it.")
    parser.option("--broker-list", help="The same.")
    parser.option("--command-config", help="Property file with settings.", metavar="String: file")
    parser.option("--topic", help="Topics with commas between them (all topics if absent).")
    parser.option("--group", help="Consumer group.")
    parser.option(
        "--socket.timeout.ms",
        help=f"How long an answer may take. (default: {_DEFAULT_TIMEOUT_MS})",
        metavar="Integer",
        dest="socket_timeout_ms",
    )
    parser.option(
        "--retry.backoff.ms",
        help="Does nothing; the older tool waited so long before it asked again.",
        metavar="Integer",
        dest="retry_backoff_ms",
    )
    parser.flag("--broker-info", help="Print broker info.")
    return parser


def run(options: argparse.Namespace) -> None:
    if options.group is None:
        raise Refused('Missing required argument "[group]"')
    timeout_ms = max(1, integer(options.socket_timeout_ms or _DEFAULT_TIMEOUT_MS))
    if not options.bootstrap_server and not options.broker_list:
        options.zookeeper = options.zookeeper or _DEFAULT_ZOOKEEPER
    else:
        options.zookeeper = None
    kept = Kept({}, {}) if options.zookeeper is None else _from_zookeeper(options.zookeeper, options.group)
    servers = servers_in(options)
    topics = None if options.topic is None else [each.strip() for each in options.topic.split(",")]

    async def work(admin: Any) -> None:
        rows = await _rows(admin, options.group, topics, kept)
        _print(options.group, rows)
        if options.broker_info:
            print("BROKER INFO")
            for node in sorted(admin._routes.cluster.metadata.brokers.values()):
                print(f"{node.node_id} -> {node.host}:{node.port}")

    with_admin(servers, options.command_config, work, timeout_ms)


# --- ZooKeeper --------------------------------------------------------------------------------------------------------


class Kept(NamedTuple):
    """What a group has in one of the places."""

    offsets: dict[TopicPartition, int]
    owners: dict[TopicPartition, str]


def _from_zookeeper(connect: str, group: str) -> Kept:
    from ottla.cli.classic.zookeeper import with_store

    async def read(store: Any) -> Kept:
        if not group or "/" in group or group in (".", ".."):
            return Kept({}, {})  # no node can be called so
        offsets = await _leaves(store, f"{_CONSUMERS}/{group}/offsets")
        owners = await _leaves(store, f"{_CONSUMERS}/{group}/owners")
        known = {place: int(text) for place, text in offsets.items() if text.isascii() and text.isdecimal()}
        return Kept(known, owners)

    return with_store(connect, read)


async def _leaves(store: Any, root: str) -> dict[TopicPartition, str]:
    """The nodes at TOPIC/PARTITION below it; nodes that go while one looks have gone."""
    paths = {
        f"{root}/{topic}/{number}": TopicPartition(topic, int(number))
        for topic in await _children(store, root)
        for number in await _children(store, f"{root}/{topic}")
        if number.isascii() and number.isdecimal()
    }
    nodes = await store.get_all(paths)
    return {
        place: nodes[path].data.decode(errors="replace") for path, place in paths.items() if path in nodes
    }


async def _children(store: Any, path: str) -> list[str]:
    from ottla.metadata.store import NoNode

    try:
        found: list[str] = await store.children(path)
        return found
    except NoNode:
        return []


# --- the brokers ------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A partition. Without a leader, nobody knows how long its log is."""

    place: TopicPartition
    offset: int | None
    log_size: int | None
    owner: str | None


async def _rows(admin: Any, group: str, topics: Sequence[str] | None, kept: Kept) -> list[Row]:
    """All partitions of the topics, by name. Raises Illegal if nobody knows the group."""
    from ottla.cli.outcomes import settled
    from ottla.client.admin.partitions import OffsetSpec, list_offsets
    from ottla.client.admin.topics import describe_topics

    told = await _from_coordinator(admin, group)
    offsets, owners = {**kept.offsets, **told.offsets}, {**kept.owners, **told.owners}
    names = sorted({place.topic for place in [*offsets, *owners]}) if topics is None else topics
    if not names or (topics is None and not offsets and not owners):
        raise Illegal(f"nobody knows a group {group}, neither the brokers nor ZooKeeper")
    found = await settled(describe_topics(admin, names))
    missing = [name for name in names if name in found.failures]
    if missing and (topics is not None or not found.done):
        raise Illegal(f"there is no topic {', '.join(missing)}")
    places = [
        TopicPartition(name, each.partition)
        for name in names
        if name in found.done
        for each in sorted(found.done[name].partitions, key=lambda each: each.partition)
    ]
    sizes = (await settled(list_offsets(admin, dict.fromkeys(places, OffsetSpec.LATEST)))).done
    return [
        Row(place, offsets.get(place), sizes[place].offset if place in sizes else None, owners.get(place))
        for place in places
    ]


async def _from_coordinator(admin: Any, group: str) -> Kept:
    """Nothing, if it does not know the group."""
    from ottla.client.admin.group_offsets import list_group_offsets
    from ottla.client.admin.groups import describe_groups
    from ottla.client.errors import PartialFailure
    from ottla.core.errors import ErrorCode, KafkaError

    owners: dict[TopicPartition, str] = {}
    try:
        for each in (await describe_groups(admin, [group])).values():
            owners |= {
                place: f"{member.client_id}_{member.client_host}"
                for member in each.members
                for place in member.assignment
            }
        committed = await list_group_offsets(admin, group)
    except PartialFailure as failure:
        if any(why.code != ErrorCode.GROUP_ID_NOT_FOUND for why in failure.errors.values()):
            raise
        return Kept({}, {})
    except KafkaError as error:
        if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return Kept({}, owners)
    return Kept({place: each.offset for place, each in committed.items() if each is not None}, owners)


# --- the table --------------------------------------------------------------------------------------------------------


def _print(group: str, rows: Iterable[Row]) -> None:
    print(_line(_HEADER))
    for place, offset, log_size, owner in rows:
        if log_size is None:
            print(f"No broker for partition {place.topic} - {place.partition}")
            continue
        lag = _UNKNOWN if offset is None else log_size - offset
        words = (group, place.topic, place.partition, _UNKNOWN if offset is None else offset, log_size, lag)
        print(_line([*words, _NOBODY if owner is None else owner]))


def _line(words: Sequence[object]) -> str:
    group, topic, partition, offset, log_size, lag, owner = (printable(str(word)) for word in words)
    return f"{group:<15} {topic:<30} {partition:<3} {offset:<15} {log_size:<15} {lag:<15} {owner}"


def _report(error: Exception) -> None:
    print(f"Exiting due to: {message_of(error)}", file=sys.stderr)


TOOL = Tool(_parser, run, _report)
