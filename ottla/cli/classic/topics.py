"""`kafka-topics`: create, list, describe, alter and delete topics.

With `--zookeeper` it is the tool of Kafka 2 and before: it then alters settings of topics, too, and says more about
what it does.
"""

import argparse
import re
import sys
from typing import Any

from ottla.cli.classic.admin_parser import AdminParser, forbid, has, require, servers_in
from ottla.cli.classic.java import Illegal, integer, message_of
from ottla.cli.classic.parser import Refused
from ottla.cli.classic.running import Tool, with_admin
from ottla.cli.classic.topic_settings import check_settings
from ottla.core.errors import ConfigError, ErrorCode, KafkaError, OttlaError

_ACTIONS = ("create", "list", "alter", "describe", "delete")
_REPORTS = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
_INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_CONFIGS_TOOL = " (To alter topic configurations, the kafka-configs tool can be used.)"
_FACTOR_MAX = 32767


def _parser() -> AdminParser:
    parser = AdminParser("kafka-topics", "Create, delete, describe, or change a topic.")
    parser.connection()
    parser.flag("--list", help="List all available topics.")
    parser.flag("--create", help="Create a new topic.")
    parser.flag("--delete", help="Delete a topic.")
    parser.flag("--alter", help="Alter the number of partitions and their replicas.")
    parser.flag("--describe", help="List details for the given topics.")
    parser.option(
        "--topic", help="The topic; a regular expression, except for --create.", metavar="String: topic"
    )
    parser.option("--topic-id", help="The id of the topic to describe.", metavar="String: topic-id")
    parser.options("--config", help="A setting of the topic being created.", metavar="String: name=value")
    parser.options(
        "--delete-config", help="A setting to be removed; with --zookeeper only.", metavar="String: name"
    )
    parser.option("--partitions", help="The number of partitions.", metavar="Integer")
    parser.option("--replication-factor", help="The number of replicas of each partition.", metavar="Integer")
    parser.option(
        "--replica-assignment", help="The brokers of each partition, such as 1:2,2:3.", metavar="String"
    )
    parser.flag("--under-replicated-partitions", help="Describe only those that miss replicas.")
    parser.flag("--unavailable-partitions", help="Describe only those without a leader.")
    parser.flag("--under-min-isr-partitions", help="Describe only those below min.insync.replicas.")
    parser.flag("--at-min-isr-partitions", help="Describe only those that are at min.insync.replicas.")
    parser.flag("--topics-with-overrides", help="Describe only topics with settings of their own.")
    parser.flag("--if-exists", help="Alter, delete or describe only if the topic exists.")
    parser.flag("--if-not-exists", help="Create only if the topic does not exist.")
    parser.flag("--exclude-internal", help="Leave internal topics out.")
    parser.flag("--force", help="Does nothing; older tools asked without it.")
    parser.option(
        "--partition-size-limit-per-response", help="How many partitions an answer has.", metavar="Integer"
    )
    return parser


def run(options: argparse.Namespace) -> int:
    _check(options)
    try:
        servers = servers_in(options)
        verb = next(each for each in _ACTIONS if has(options, each))
        with_admin(servers, options.command_config, lambda admin: _VERBS[verb](admin, options))
    except ConfigError as error:
        print(message_of(error), file=sys.stderr)
        return 1
    except OttlaError as error:
        print(f"Error while executing topic command : {message_of(error, f'topic {options.topic}')}")
        return 1
    return 0


# --- the command line -------------------------------------------------------------------------------------------------


def _check(options: argparse.Namespace) -> None:
    """Raises Refused for what makes no sense together."""
    if sum(has(options, each) for each in _ACTIONS) != 1:
        raise Refused(
            "Command must include exactly one action: --list, --describe, --create, --alter or --delete"
        )
    if options.delete_config and not options.zookeeper:
        print(
            "delete-config option is no longer supported and deprecated since version 4.0."
            " The config will be fully removed in future releases.",
            file=sys.stderr,
        )
    if not (options.bootstrap_server or options.broker_list or options.zookeeper):
        raise Refused("--bootstrap-server must be specified", shows_help=False)
    if options.describe and options.if_exists:
        if options.topic is None and options.topic_id is None:
            raise Refused("--topic or --topic-id is required to describe a topic")
        if options.topic is not None and options.topic_id is not None:
            print(
                "Only topic id will be used when both --topic and --topic-id are specified"
                " and topicId is not Uuid.ZERO_UUID"
            )
    if not options.list and not options.describe:
        require(options, "topic")
    if options.alter and not options.zookeeper:
        if options.config:
            raise Refused(
                'Option combination "[[bootstrap-server], [config]]" can\'t be used with option "[alter]"'
                + _CONFIGS_TOOL
            )
        require(options, "partitions")
    _check_together(options)


def _check_together(options: argparse.Namespace) -> None:
    def only_with(used: str, *verbs: str) -> None:
        forbid(options, used, *(each for each in _ACTIONS if each not in verbs))

    only_with("config", "alter", "create")
    only_with("partitions", "alter", "create")
    only_with("replication-factor", "create")
    only_with("replica-assignment", "alter", "create")
    if options.create:
        forbid(options, "replica-assignment", "partitions", "replication-factor")
    for report in _REPORTS:
        only_with(report, "describe")
        forbid(options, report, "topics-with-overrides")
    only_with("topics-with-overrides", "describe")
    only_with("if-exists", "alter", "delete", "describe")
    only_with("if-not-exists", "create")
    only_with("exclude-internal", "list", "describe")


def _number(options: argparse.Namespace, name: str) -> int | None:
    text = getattr(options, name.replace("-", "_"))
    try:
        return None if text is None else integer(text)
    except Illegal:
        raise Illegal(f"Cannot parse argument '{text}' of option {name}") from None


def _settings(words: list[str]) -> dict[str, str]:
    """`name=value` each."""
    found = {}
    for word in words:
        parts = re.split(r"\s*=\s*", word)
        while parts and not parts[-1]:
            parts.pop()  # as Java's split does
        if len(parts) != 2:  # a name and a value
            raise Illegal(
                "requirement failed: Invalid topic config:"
                ' all configs to be added must be in the format "key=val".'
            )
        found[parts[0].strip()] = parts[1].strip()
    check_settings(found)
    return found


def _assignment(text: str | None) -> list[list[int]]:
    """The brokers of each partition."""
    found: list[list[int]] = []
    for number, part in enumerate((text or "").split(",") if text else []):
        brokers = [integer(each.strip()) for each in part.split(":")]
        if twice := sorted({each for each in brokers if brokers.count(each) > 1}):
            raise Illegal(
                "Partition replica lists may not contain duplicate entries: " + ",".join(map(str, twice))
            )
        found.append(brokers)
        if len(brokers) != len(found[0]):
            raise Illegal(f"Partition {number} has different replication factor: {brokers}")
    return found


def is_included(name: str, pattern: str | None, exclude_internal: bool) -> bool:
    """Is it a topic that a regular expression means, in which commas stand between alternatives?"""
    if exclude_internal and name in _INTERNAL:
        return False
    if pattern is None:
        return True
    plain = pattern.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        return re.fullmatch(plain, name) is not None
    except re.error:
        raise Illegal(f"{pattern} is an invalid regex.") from None


# --- what it does -----------------------------------------------------------------------------------------------------


async def _create(admin: Any, options: argparse.Namespace) -> None:
    from ottla.client.admin import topics
    from ottla.client.admin.topic_values import NewTopic

    name = options.topic
    partitions, factor = _number(options, "partitions"), _number(options, "replication-factor")
    places = _assignment(options.replica_assignment)
    settings = _settings(options.config)
    if "." in name or "_" in name:
        print(
            "WARNING: Due to limitations in metric names, topics with a period ('.') or underscore ('_') could"
            " collide. To avoid issues it is best to use either, but not both."
        )
    if factor is not None and not 1 <= factor <= _FACTOR_MAX:
        raise Illegal(f"The replication factor must be between 1 and {_FACTOR_MAX} inclusive")
    if partitions is not None and partitions < 1:
        raise Illegal("The partitions must be greater than 0")
    new = NewTopic(
        name,
        -1 if partitions is None else partitions,
        -1 if factor is None else factor,
        dict(enumerate(places)) or None,
        settings,
    )
    try:
        await topics.create_topics(admin, [new], wait=False)
    except KafkaError as error:
        if error.code == ErrorCode.TOPIC_ALREADY_EXISTS and options.if_not_exists:
            return
        raise
    print(f"Created topic {name}.")


async def _names(admin: Any, options: argparse.Namespace) -> list[str]:
    """The topics that are meant. Raises Illegal if there are none though there should be."""
    from ottla.client.admin import topics

    found = await topics.list_topics(admin, include_internal=True)
    wanted = [each for each in sorted(found) if is_included(each, options.topic, options.exclude_internal)]
    if not found and options.topic is not None:
        is_included("", options.topic, False)
    if options.topic and not wanted and not options.if_exists and not options.list:
        raise Illegal(f"Topic '{options.topic}' does not exist as expected")
    return wanted


async def _list(admin: Any, options: argparse.Namespace) -> None:
    from ottla.cli.dump.output import printable

    print("\n".join(map(printable, await _names(admin, options))))


async def _describe(admin: Any, options: argparse.Namespace) -> None:
    from ottla.cli.classic.topic_descriptions import describe, topics_with_id

    if options.topic_id is not None and (found := await topics_with_id(admin, options)) is not None:
        await describe(admin, options, found)
    else:
        await describe(admin, options, list(await _names(admin, options)))


async def _alter(admin: Any, options: argparse.Namespace) -> None:
    from ottla.client.admin import topics
    from ottla.client.admin.topic_values import NewPartitions

    places = _assignment(options.replica_assignment)
    total = _number(options, "partitions")
    settings = _settings(options.config)
    names = await _names(admin, options)
    for name in names if settings or options.delete_config else []:
        await _alter_settings(admin, name, settings, options.delete_config)
    if not names or total is None:
        return
    if options.zookeeper:
        print(
            "WARNING: If partitions are increased for a topic that has a key,"
            " the partition logic or ordering of the messages will be affected"
        )
    wanted: dict[str, NewPartitions | int] = dict.fromkeys(names, total)
    if places:
        described = await topics.describe_topics(admin, names)
        wanted = {name: NewPartitions(total, places[len(described[name].partitions) :]) for name in names}
    await topics.create_partitions(admin, wanted, wait=False)
    if options.zookeeper:
        print("Adding partitions succeeded!")


async def _alter_settings(admin: Any, name: str, added: dict[str, str], deleted: list[str]) -> None:
    """Only with --zookeeper: today's tool sends people to kafka-configs."""
    from ottla.client.admin import configs
    from ottla.client.admin.config_values import ConfigResource

    print(
        "WARNING: Altering topic configuration from this script has been deprecated"
        " and may be removed in future releases.\n"
        "         Going forward, please use kafka-configs.sh for this functionality"
    )
    changes: dict[str, str | None] = {**added, **dict.fromkeys(deleted)}
    await configs.incremental_alter_configs(admin, {ConfigResource.topic(name): changes})
    print(f"Updated config for topic {name}.")


async def _delete(admin: Any, options: argparse.Namespace) -> None:
    from ottla.client.admin import topics

    names = await _names(admin, options)
    await topics.delete_topics(admin, names)
    for name in names if options.zookeeper else []:
        print(f"Topic {name} is marked for deletion.")
        print("Note: This will have no impact if delete.topic.enable is not set to true.")


_VERBS = {"create": _create, "list": _list, "alter": _alter, "describe": _describe, "delete": _delete}


def _report(error: Exception) -> None:
    print(message_of(error), file=sys.stderr)


TOOL = Tool(_parser, run, _report)
