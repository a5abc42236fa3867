"""`kafka-broker-api-versions`: which requests each broker answers, and in which versions."""

import argparse
import sys
from typing import Any, NamedTuple

from ottla.cli.classic.admin_parser import AdminParser, require, servers_in
from ottla.cli.classic.java import message_of
from ottla.cli.classic.running import Tool, with_admin
from ottla.core.errors import ConfigError, OttlaError


class _Known(NamedTuple):
    """An API as the clients of Kafka 4.3 know it; they speak all versions up to `last`, if any."""

    name: str
    last: int | None
    first: int = 0


_GONE = (4, 5, 6, 7)
"""Of ZooKeeper's time: today's clients know their names, and no version of them."""
_BETWEEN_BROKERS = (56, 67)
_ONLY_APACHE = {
    80: _Known("AddRaftVoter", 1),
    81: _Known("RemoveRaftVoter", 0),
    83: _Known("InitializeShareGroupState", 0),
    84: _Known("ReadShareGroupState", 0),
    85: _Known("WriteShareGroupState", 1),
    86: _Known("DeleteShareGroupState", 0),
    87: _Known("ReadShareGroupStateSummary", 1),
    88: _Known("StreamsGroupHeartbeat", 0),
    89: _Known("StreamsGroupDescribe", 0),
}
_FIRST = {
    1: 4,
    2: 1,
    8: 2,
    9: 1,
    19: 2,
    20: 1,
    23: 2,
    27: 1,
    29: 1,
    30: 1,
    31: 1,
    32: 1,
    34: 1,
    35: 1,
    38: 1,
    39: 1,
    40: 1,
    41: 1,
    56: 2,
    76: 1,
    77: 1,
    78: 1,
    79: 1,
}
"""Where Kafka 4 no longer speaks the first versions."""


def _parser() -> AdminParser:
    parser = AdminParser(
        "kafka-broker-api-versions", "This tool helps to retrieve broker version information."
    )
    parser.connection()
    return parser


def run(options: argparse.Namespace) -> None:
    if not options.zookeeper and not options.broker_list:
        require(options, "bootstrap-server")
    with_admin(servers_in(options), options.command_config, _print_versions)


async def _print_versions(admin: Any) -> None:
    from ottla.cli.dump.output import printable

    cluster = admin._routes.cluster
    await cluster.refresh([])
    for node_id, node in sorted(cluster.metadata.brokers.items()):
        rack = "null" if node.rack is None else printable(node.rack)
        name = f"{printable(node.host)}:{node.port} (id: {node_id} rack: {rack} isFenced: false)"
        try:
            peer = await cluster.peer(node_id)
        except OttlaError as error:
            print(f"{name} -> ERROR: {message_of(error)}")
            continue
        ranges = {key: (each.first, each.last) for key, each in (peer.versions or {}).items()}
        print(f"{name} -> {described(ranges)}")


def described(ranges: dict[int, tuple[int, int]]) -> str:
    """What a broker speaks, from the point of view of Kafka's clients."""
    known = _known()
    lines = {
        key: f"{_name(known, key)}: {_range(*ranges[key])}" + _usable(known.get(key), *ranges[key])
        for key in ranges
    }
    for key, api in known.items():
        if key not in lines and key not in (*_GONE, *_BETWEEN_BROKERS):
            lines[key] = f"{api.name}({key}): UNSUPPORTED"
    return "(\n\t" + ",\n\t".join(lines[key] for key in sorted(lines)) + "\n)"


def _known() -> dict[int, _Known]:
    from ottla.protocol.apis import APIS

    ours = {
        key: _Known(api.name, None if key in _GONE else api.versions.last, _FIRST.get(key, 0))
        for key, api in APIS.items()
    }
    return ours | _ONLY_APACHE


def _name(known: dict[int, _Known], key: int) -> str:
    return f"{known[key].name if key in known else 'UNKNOWN'}({key})"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def _usable(api: _Known | None, first: int, last: int) -> str:
    if api is None:
        return ""
    if api.last is None or api.last < first:
        return " [unusable: node too new]"
    if last < api.first:
        return " [unusable: node too old]"
    return f" [usable: {min(api.last, last)}]"


def _report(error: Exception) -> None:
    print(error if isinstance(error, ConfigError) else message_of(error), file=sys.stderr)


TOOL = Tool(_parser, run, _report)
