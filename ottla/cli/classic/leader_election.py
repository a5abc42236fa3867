"""`kafka-leader-election`: elect leaders of partitions now, the preferred ones, or unclean ones where none is left."""

import argparse
import sys
from typing import Any

from ottla.cli.classic.admin_parser import AdminParser, has, servers_in
from ottla.cli.classic.java import Illegal, exception_text, hash_ordered, integer, message_of
from ottla.cli.classic.json_fields import array_of, field, object_of, of_kind, parsed, text_of, twice
from ottla.cli.classic.parser import Refused
from ottla.cli.classic.running import Tool, with_admin
from ottla.cli.dump.output import printable
from ottla.core.ids import TopicPartition

_TYPES = ("PREFERRED", "UNCLEAN")
_WHICH = ("topic", "all-topic-partitions", "path-to-json-file")
_JACKSON = "com.fasterxml.jackson.databind.JsonMappingException: "


def _parser() -> AdminParser:
    parser = AdminParser(
        "kafka-leader-election",
        "This tool attempts to elect a new leader for a set of topic partitions. The type of elections supported are "
        "preferred replicas and unclean replicas.",
    )
    parser.option(
        "--bootstrap-server", help="A server of the cluster, as host:port.", metavar="String: host:port"
    )
    parser.option("--command-config", help="Property file with settings of the Admin Client.")
    parser.option(
        "--admin.config", dest="admin_config", help="The same as --command-config, as it was once called."
    )
    parser.option("--zookeeper", help="The ZooKeeper that knows the brokers, as host:port[/chroot].")
    parser.option(
        "--election-type",
        help='"preferred": the first replica; "unclean": any that lives, where no leader is left.',
        metavar="[PREFERRED,UNCLEAN]: election type",
    )
    parser.option("--topic", help="The topic of --partition.", metavar="String: topic name")
    parser.option("--partition", help="The partition of --topic.", metavar="Integer: partition id")
    parser.flag("--all-topic-partitions", help="Elect for all partitions that need it.")
    parser.option(
        "--path-to-json-file",
        help='The partitions: {"partitions": [{"topic": "foo", "partition": 1}]}',
        metavar="String: Path to JSON file",
    )
    return parser


def run(options: argparse.Namespace) -> int:
    if options.admin_config and options.command_config:
        raise Refused('Option "[admin.config]" can\'t be used with option "[command-config]"')
    _check(options)
    if options.admin_config:
        print(
            "Option --admin.config has been deprecated and will be removed in a future version. Use --command-config "
            "instead."
        )
    kind = options.election_type.upper()
    if kind not in _TYPES:
        raise Illegal(f"Cannot parse argument '{options.election_type}' of option election-type")
    places = _places(options)
    servers = servers_in(options)
    config = options.command_config or options.admin_config
    return with_admin(servers, config, lambda admin: _elect(admin, kind, places))


def _check(options: argparse.Namespace) -> None:
    """Raises Illegal."""
    missing = [] if has(options, "bootstrap-server") or has(options, "zookeeper") else ["bootstrap-server"]
    missing += [] if has(options, "election-type") else ["election-type"]
    if missing:
        raise Illegal(f"Missing required option(s): {', '.join(missing)}")
    if sum(has(options, name) for name in _WHICH) != 1:
        raise Illegal(f"One and only one of the following options is required: {', '.join(_WHICH)}")
    if has(options, "topic") and not has(options, "partition"):
        raise Illegal("Missing required option(s): partition")
    if has(options, "partition") and not has(options, "topic"):
        raise Illegal("Option partition is only allowed if topic is used")


def _places(options: argparse.Namespace) -> list[TopicPartition] | None:
    """Which are to be elected for; None means all."""
    if options.topic is not None:
        try:
            return [TopicPartition(options.topic, integer(options.partition))]
        except Illegal:
            raise Illegal(f"Cannot parse argument '{options.partition}' of option partition") from None
    if options.path_to_json_file is None:
        return None
    try:
        text = text_of(options.path_to_json_file)
    except Illegal as error:
        raise Illegal(f"java.io.IOException: {error}") from None
    return read_partitions(text)


def read_partitions(text: str) -> list[TopicPartition]:
    """The partitions that a file names. Raises Illegal."""
    try:
        document = parsed(text)
    except ValueError:
        raise Illegal("Replica election data is empty") from None
    try:
        found = object_of(document)
        if "partitions" not in found:
            raise Illegal('Replica election data is missing "partitions" field')
        rows = [object_of(row) for row in array_of(found["partitions"])]
        places = [
            TopicPartition(of_kind(field(row, "topic"), str), of_kind(field(row, "partition"), int))
            for row in rows
        ]
    except Illegal as error:
        raise Illegal(str(error) if str(error).startswith("Replica") else f"{_JACKSON}{error}") from None
    if doubled := twice(places):
        named = ", ".join(map(str, doubled))
        raise Illegal(f"Replica election data contains duplicate partitions: [{named}]")
    return places


async def _elect(admin: Any, kind: str, places: list[TopicPartition] | None) -> int:
    from ottla.client.admin.partitions import elect_leaders
    from ottla.client.admin.topic_values import ElectionType
    from ottla.client.errors import PartialFailure

    wanted = ElectionType[kind]
    found: Any
    try:
        found = await elect_leaders(admin, wanted, places) if places != [] else {}
    except PartialFailure as failure:
        found = failure.results
    changed = [each for each in hash_ordered(found) if found[each] is True]
    right = [each for each in hash_ordered(found) if found[each] is False]
    failed = [each for each in hash_ordered(found) if isinstance(found[each], Exception)]
    if changed:
        named = ", ".join(map(str, changed))
        print(f"Successfully completed leader election ({kind}) for partitions {named}")
    if right and places is not None:  # asked for all, brokers may name those that need none, and tools do not
        print(f"Valid replica already elected for partitions {', '.join(map(str, right))}")
    for each in failed:
        why = exception_text(found[each], str(each))
        print(f"Error completing leader election ({kind}) for partition: {printable(str(each))}: {why}")
    if failed:
        raise Illegal(f"{len(failed)} replica(s) could not be elected")
    return 0


def _report(error: Exception) -> None:
    print(message_of(error), file=sys.stderr)


TOOL = Tool(_parser, run, _report)
