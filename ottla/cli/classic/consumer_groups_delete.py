"""`kafka-consumer-groups --delete` and `--delete-offsets`."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.cli.classic.consumer_groups_describe import listed
from ottla.cli.classic.consumer_groups_output import Column, print_error, print_table
from ottla.cli.classic.consumer_groups_targets import one, topics_of
from ottla.cli.classic.java import exception_text, hash_ordered, message_of
from ottla.cli.dump.output import printable
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition

_COLUMNS = (Column("TOPIC", 15), Column("PARTITION", 10, False), Column("STATUS", 15, False))
_ABOUT_THE_GROUP = (
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.NON_EMPTY_GROUP,
)
_NO_PARTITION = -1
_SUCCESSFUL = "Successful"


async def delete(admin: Any, options: argparse.Namespace) -> None:
    from ottla.client.admin import groups as group_calls
    from ottla.client.errors import PartialFailure

    names = [each.group for each in await listed(admin)] if options.all_groups else options.group
    names = hash_ordered(dict.fromkeys(names))
    errors: Mapping[str, KafkaError] = {}
    try:
        if names:
            await group_calls.delete_groups(admin, names)
    except PartialFailure as failure:
        errors = failure.errors
    gone = ", ".join(
        f"'{printable(name)}'" for name in hash_ordered(each for each in names if each not in errors)
    )
    if not errors:
        print(f"Deletion of requested consumer groups ({gone}) was successful.")
        return
    print_error("Deletion of some consumer groups failed:")
    for name in hash_ordered(each for each in names if each in errors):
        why = exception_text(errors[name], errors[name].detail)
        print(f"* Group '{printable(name)}' could not be deleted due to: {why}")
    if gone:
        print(f"\nThese consumer groups were deleted successfully: {gone}")


async def delete_offsets(admin: Any, options: argparse.Namespace) -> None:
    group = one(options, "group")
    assert group is not None
    wanted = topics_of(options.topic)
    places, unknown = await _places(admin, wanted.topics)
    error, found = await _delete(admin, group, [*wanted.partitions, *places])
    if error is None:
        print(f"Request succeeded for deleting offsets from group {printable(group)}.")
    elif error.code in _ABOUT_THE_GROUP:
        print_error(message_of(error, error.detail))
    else:
        print_error("Encountered some partition-level error, see the follow-up details.")
    missing = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    rows = {**found, **{TopicPartition(topic, _NO_PARTITION): missing for topic in unknown}}
    print_table(
        _COLUMNS,
        (
            (place.topic, place.partition if place.partition >= 0 else None, _status(rows[place]))
            for place in sorted(rows, key=lambda each: (each.topic, str(each.partition)))
        ),
    )


def _status(error: KafkaError | None) -> str:
    return _SUCCESSFUL if error is None else f"Error: {exception_text(error, error.detail)}"


async def _places(admin: Any, topics: Sequence[str]) -> tuple[list[TopicPartition], list[str]]:
    """All partitions of these topics, and the topics that do not exist."""
    from ottla.cli.outcomes import settled
    from ottla.client.admin.topics import describe_topics

    if not topics:
        return [], []
    found = await settled(describe_topics(admin, topics))
    places = [
        TopicPartition(name, each.partition)
        for name, topic in found.done.items()
        for each in topic.partitions
    ]
    return places, list(found.failures)


async def _delete(
    admin: Any, group: str, places: Sequence[TopicPartition]
) -> tuple[KafkaError | None, dict[TopicPartition, KafkaError | None]]:
    """What is wrong with the whole, or else with the first partition; and with each. Without places it is asked, too:
    then the answer is whether there is such a group."""
    from ottla.client.admin.routes import by_topic, check, outcome
    from ottla.protocol.messages.offsets import OffsetDeleteRequest, OffsetDeleteResponse

    routes, kind = admin._routes, OffsetDeleteRequest.Topic
    topics = [
        kind(name=topic, partitions=[kind.Partition(partition_index=number) for number in numbers])
        for topic, numbers in by_topic(places).items()
    ]

    async def ask(node_id: int) -> OffsetDeleteResponse:
        answer: OffsetDeleteResponse = await routes.ask_coordinator(
            node_id, OffsetDeleteRequest(group_id=group, topics=topics)
        )
        check(answer.error_code, f"group {group}")
        return answer

    try:
        failed = f"the offsets of group {group} were not deleted"
        answer = await routes.group(group, ask, routes.deadline(None), failed)
    except KafkaError as error:
        if error.code not in _ABOUT_THE_GROUP:
            raise
        return error, dict.fromkeys(places, error)
    found = {
        (place := TopicPartition(topic.name, row.partition_index)): outcome(
            row.error_code, str(place), None, None
        )
        for topic in answer.topics
        for row in topic.partitions
    }
    return next((each for each in found.values() if each is not None), None), found
