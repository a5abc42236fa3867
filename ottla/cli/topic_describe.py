"""`ottla topic describe`: where the partitions of topics lie, what is in them, and what was set.

Exit codes: 0 done, 3 some of it could not be said, 4 no such topic, 5 not allowed, 6 no broker answers.
"""

from collections.abc import Mapping
from typing import Any

import click

from ottla.cli import completing
from ottla.cli.outcomes import finish
from ottla.cli.remote import Admin, Failed, failed, with_admin
from ottla.cli.session import json_option, reach_options, session
from ottla.cli.tables import document, part, show
from ottla.cli.targets import Bounds, bounds, described
from ottla.client.admin.config_values import ConfigResource, ConfigSource
from ottla.client.admin.configs import describe_configs
from ottla.client.admin.topic_values import PartitionDescription, TopicDescription
from ottla.core.errors import KafkaError
from ottla.core.ids import NULL_ID, TopicPartition, format_id

NO_LEADER = -1
_TOPIC = ["topic", "partitions", "replicas", "internal", "topic_id"]
_PARTITION = ["partition", "leader", "replicas", "isr", "offline", "start_offset", "end_offset"]
_WIDE = [*_PARTITION, "leader_epoch", "elr", "last_known_elr"]
_SETTING = ["setting", "value"]


@click.command()
@click.argument("topics", nargs=-1, required=True, metavar="NAME...", shell_complete=completing.topics)
@json_option
@reach_options
def describe(topics: tuple[str, ...], as_json: bool) -> int:
    """Show topics: leader, replicas, in-sync replicas and offsets of each partition, and the settings of the topic
    that somebody has set.

    Offsets are those of the first record and behind the last one. The replicas of one partition stand in the order
    in which they are preferred as leaders. --wide shows leader epochs and eligible leader replicas, too.

    --json: {"topics": [{"topic", "topic_id", "internal", "partitions": [{"partition", "leader", "leader_epoch",
    "replicas", "isr", "offline", "start_offset", "end_offset", "elr", "last_known_elr"}], "configs": {KEY: VALUE}}],
    "failures": [SENTENCE]}.
    """

    async def work(admin: Admin) -> int:
        found = await described(admin, topics)
        failures = list(found.failures.values())
        told = []
        for each in found.done.values():
            logs, faults = await _offsets(admin, each)
            configs, unread = await _configs(admin, each.name)
            told.append(document_of(each, logs, configs))
            failures += [*faults, *unread]

        def show_all() -> None:
            if as_json:
                document({"topics": told, "failures": [why.message for why in failures]})
                return
            for number, each in enumerate(told):
                if number:
                    part()
                _show(each)

        return finish(failures, is_some_done=bool(told), show=show_all)

    return with_admin(work)


async def _offsets(
    admin: Admin, topic: TopicDescription
) -> tuple[Mapping[TopicPartition, Bounds], list[Failed]]:
    """Nobody can be asked for the offsets of a partition that nobody leads."""
    led = [each.partition for each in topic.partitions if each.leader != NO_LEADER]
    found = await bounds(admin, [TopicPartition(topic.name, number) for number in led])
    return found.done, list(found.failures.values())


async def _configs(admin: Admin, topic: str) -> tuple[dict[str, str | None], list[Failed]]:
    resource = ConfigResource.topic(topic)
    try:
        entries = (await describe_configs(admin, [resource]))[resource]
    except KafkaError as error:  # to see a topic and to see its settings are two permissions
        return {}, [failed(error)]
    own = ConfigSource.TOPIC_CONFIG
    return {name: entry.value for name, entry in sorted(entries.items()) if entry.source is own}, []


def document_of(
    topic: TopicDescription, logs: Mapping[TopicPartition, Bounds], configs: Mapping[str, str | None]
) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "topic_id": None if topic.topic_id == NULL_ID else format_id(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": [
            _partition(each, logs.get(TopicPartition(topic.name, each.partition)))
            for each in topic.partitions
        ],
        "configs": dict(configs),
    }


def _partition(each: PartitionDescription, log: Bounds | None) -> dict[str, Any]:
    elr, last_known = each.eligible_leader_replicas, each.last_known_eligible_leader_replicas
    return {
        "partition": each.partition,
        "leader": None if each.leader == NO_LEADER else each.leader,
        "leader_epoch": each.leader_epoch,
        "replicas": list(each.replicas),
        "isr": list(each.isr),
        "offline": list(each.offline_replicas),
        "start_offset": None if log is None else log.start,
        "end_offset": None if log is None else log.end,
        "elr": None if elr is None else list(elr),
        "last_known_elr": None if last_known is None else list(last_known),
    }


def _show(told: dict[str, Any]) -> None:
    partitions = told["partitions"]
    head = {
        **told,
        "partitions": len(partitions),
        "replicas": max((len(each["replicas"]) for each in partitions), default=0),
        "internal": "yes" if told["internal"] else None,
    }
    show([head], _TOPIC)
    part()
    show(partitions, _WIDE if session().is_wide else _PARTITION)
    if told["configs"]:
        part()
        show([{"setting": name, "value": value} for name, value in told["configs"].items()], _SETTING)
