"""`kafka-get-offsets`: the first, the last or any other offset of partitions, as `topic:partition:offset`."""

import argparse
import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.cli.classic.admin_parser import AdminParser, require, servers_in
from ottla.cli.classic.java import Illegal, exception_text, message_of
from ottla.cli.classic.parser import Refused
from ottla.cli.classic.running import Tool, with_admin
from ottla.cli.classic.topics import is_included
from ottla.core.errors import ConfigError, KafkaError
from ottla.core.ids import TopicPartition

_PLACES = {
    "latest": -1,
    "earliest": -2,
    "max-timestamp": -3,
    "earliest-local": -4,
    "latest-tiered": -5,
    "earliest-pending-upload": -6,
}
_NO_OFFSET = -1
_RULE = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?")


def _parser() -> AdminParser:
    parser = AdminParser(
        "kafka-get-offsets", "An interactive shell for getting topic-partition offsets.", "Error occurred: "
    )
    parser.connection()
    parser.option(
        "--topic-partitions",
        help="Partitions as topic1:1,topic2:0-3,topic3,topic4:5-,topic5:-3; topics may be regular expressions.",
    )
    parser.option("--topic", help="The topic, or a regular expression; by default all.")
    parser.option("--partitions", help="Numbers of partitions, with commas; by default all.")
    parser.option("--time", help=f"A time in milliseconds, -1 to -6, or {', '.join(_PLACES)}.")
    parser.option("--offsets", help="Does nothing; older tools could print more than one.")
    parser.flag("--exclude-internal-topics", help="Leave internal topics out.")
    return parser


def run(options: argparse.Namespace) -> None:
    if not options.zookeeper and not options.broker_list:
        require(options, "bootstrap-server")
    try:
        servers = servers_in(options)
    except ConfigError:
        raise Refused("Please provide valid host:port like host1:9091,host2:9092\n") from None
    if options.topic_partitions is not None and (options.topic is not None or options.partitions is not None):
        raise Illegal("--topic-partitions cannot be used with --topic or --partitions")
    place = _place("latest" if options.time is None else options.time)
    rules = _rules(options)
    with_admin(
        servers,
        options.command_config,
        lambda admin: _print_offsets(admin, rules, place, options.exclude_internal_topics),
    )


# --- what is asked for ------------------------------------------------------------------------------------------------


class _Rule(NamedTuple):
    """Topics by a regular expression, and which of their partitions."""

    topic: str
    partition: Callable[[int], bool]

    def allows(self, partition: TopicPartition) -> bool:
        return is_included(partition.topic, self.topic, False) and self.partition(partition.partition)


def _place(text: str) -> int:
    if text in _PLACES:
        return _PLACES[text]
    try:
        return int(text)
    except ValueError:
        names = " / ".join(f"{number} or {name}" for name, number in _PLACES.items())
        raise Illegal(
            f"Malformed time argument {text}. Please use {names}, or a specified long format timestamp"
        ) from None


def _rules(options: argparse.Namespace) -> list[_Rule]:
    if options.topic_partitions is not None:
        return [_rule(each) for each in options.topic_partitions.split(",")]
    try:
        numbers = {int(each) for each in (options.partitions or "").split(",") if options.partitions}
    except ValueError:
        raise Illegal(
            "--partitions expects a comma separated list of numeric partition ids,"
            f" but received: {options.partitions}"
        ) from None
    topic = ".*" if options.topic is None else options.topic
    return [_Rule(topic, lambda number: not numbers or number in numbers)]


def _rule(text: str) -> _Rule:
    match = _RULE.fullmatch(text)
    if match is None:
        raise Illegal(f"org.apache.kafka.tools.TerseException: Invalid rule specification: {text}")
    topic, number, first, end = match.groups()
    if number:
        return _Rule(topic or ".*", lambda each: each == int(number))
    low, high = int(first or 0), int(end) if end else sys.maxsize
    return _Rule(topic or ".*", lambda each: low <= each < high)


# --- finding it -------------------------------------------------------------------------------------------------------


async def _print_offsets(admin: Any, rules: list[_Rule], place: int, exclude_internal: bool) -> None:
    from ottla.cli.dump.output import printable
    from ottla.client.admin import partitions, topics
    from ottla.client.errors import PartialFailure

    names = await topics.list_topics(admin, include_internal=not exclude_internal)
    wanted = [name for name in names if any(is_included(name, rule.topic, False) for rule in rules)]
    described = (await topics.describe_topics(admin, wanted)).values() if wanted else ()
    asked = [
        partition
        for topic in described
        for each in topic.partitions
        if any(rule.allows(partition := TopicPartition(topic.name, each.partition)) for rule in rules)
    ]
    if not asked:
        raise Illegal("Could not match any topic-partitions with the specified filters")
    found: dict[TopicPartition, Any]
    try:
        found = dict(await partitions.list_offsets(admin, dict.fromkeys(asked, place)))
    except PartialFailure as failure:
        found = failure.results
    for each in sorted(found, key=str):  # by the names of partitions: t-10 comes before t-2
        answer = found[each]
        if isinstance(answer, KafkaError):
            why = exception_text(answer, answer.detail)  # which brokers send no sentence with
            print(f"Skip getting offsets for topic-partition {each} due to error: {why}", file=sys.stderr)
        elif answer.offset != _NO_OFFSET:
            print(f"{printable(each.topic)}:{each.partition}:{answer.offset}")


def _report(error: Exception) -> None:
    print(f"Error occurred: {message_of(error)}", file=sys.stderr)


TOOL = Tool(_parser, run, _report)
