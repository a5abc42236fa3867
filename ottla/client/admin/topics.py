"""Topics: make, delete, list, describe, grow."""

import uuid
from collections.abc import Iterable, Mapping

from ottla.client.admin.config_values import ConfigEntry, ConfigSource, config_text
from ottla.client.admin.describing import described, described_all
from ottla.client.admin.operations import known
from ottla.client.admin.routes import Answers, Client, Routes, all_of, outcome, the_one
from ottla.client.admin.topic_values import (
    CreatedTopic,
    NewPartitions,
    NewTopic,
    TopicDescription,
    TopicListing,
)
from ottla.client.deadline import Deadline
from ottla.core.errors import ErrorCode, KafkaError, StaleMetadataError
from ottla.core.ids import NULL_ID, format_id
from ottla.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

TopicKey = str | uuid.UUID
"""A topic by its name or its id."""
_IDS_SINCE = 6  # DeleteTopics


async def create_topics(
    admin: Client,
    new_topics: Iterable[NewTopic | str],
    *,
    validate_only: bool = False,
    wait: bool = True,
    timeout_ms: float | None = None,
) -> dict[str, CreatedTopic]:
    """Make topics, or find out whether they could be made. With `wait`, returns when their partitions have leaders."""
    answers = await _create(admin._routes, list(new_topics), validate_only, wait, timeout_ms)
    return all_of(answers, "the creation of topics")


async def create_topic(
    admin: Client,
    name: str,
    partitions: int = -1,
    replication_factor: int = -1,
    *,
    configs: Mapping[str, object] | None = None,
    wait: bool = True,
    timeout_ms: float | None = None,
) -> CreatedTopic:
    """Make one topic. -1 is the broker's default."""
    topic = NewTopic(name, partitions, replication_factor, None, configs)
    return the_one(await _create(admin._routes, [topic], False, wait, timeout_ms))


async def delete_topics(
    admin: Client, topics: Iterable[TopicKey], *, timeout_ms: float | None = None
) -> None:
    """Delete topics, by name or id, with all that is in them."""
    all_of(await _delete(admin._routes, list(topics), timeout_ms), "the deletion of topics")


async def delete_topic(admin: Client, topic: TopicKey, *, timeout_ms: float | None = None) -> None:
    """Delete one topic, by name or id."""
    the_one(await _delete(admin._routes, [topic], timeout_ms))


async def list_topics(
    admin: Client, *, include_internal: bool = False, timeout_ms: float | None = None
) -> dict[str, TopicListing]:
    """All topics that the one who asks may see, by name."""
    routes = admin._routes

    async def look() -> None:
        await routes.cluster.refresh(None)

    await routes.patient(look, routes.deadline(timeout_ms), "the topics were not listed")
    found = sorted(routes.cluster.metadata.topics.items())
    return {
        name: TopicListing(name, each.topic_id, each.is_internal)
        for name, each in found
        if include_internal or not each.is_internal
    }


async def describe_topics(
    admin: Client,
    topics: Iterable[TopicKey] | None = None,
    *,
    include_authorized_operations: bool = False,
    timeout_ms: float | None = None,
) -> dict[str, TopicDescription]:
    """Topics with their partitions, replicas and leaders, by name, also those that were asked for by id; or all."""
    routes = admin._routes
    deadline = routes.deadline(timeout_ms)
    if topics is None:
        return await described_all(routes, include_authorized_operations, deadline)
    answers = await described(routes, topics, include_authorized_operations, deadline)
    return {each.name: each for each in all_of(answers, "the description of topics").values()}


async def describe_topic(
    admin: Client,
    topic: TopicKey,
    *,
    include_authorized_operations: bool = False,
    timeout_ms: float | None = None,
) -> TopicDescription:
    """One topic, by name or id."""
    routes = admin._routes
    deadline = routes.deadline(timeout_ms)
    return the_one(await described(routes, [topic], include_authorized_operations, deadline))


async def create_partitions(
    admin: Client,
    new_partitions: Mapping[str, NewPartitions | int],
    *,
    validate_only: bool = False,
    wait: bool = True,
    timeout_ms: float | None = None,
) -> None:
    """Let topics grow to so many partitions in all. With `wait`, returns when the new ones have leaders."""
    routes = admin._routes
    deadline = routes.deadline(timeout_ms)
    wanted = {
        name: NewPartitions(each) if isinstance(each, int) else each for name, each in new_partitions.items()
    }

    async def ask(names: list[str]) -> Answers[str, None]:
        request = CreatePartitionsRequest(
            topics=[_grown(name, wanted[name]) for name in names],
            timeout_ms=routes.broker_ms(deadline),
            validate_only=validate_only,
        )
        answer: CreatePartitionsResponse = await routes.cluster.ask_controller(request)
        rows = answer.results
        return {
            row.name: outcome(row.error_code, f"topic {row.name}", row.error_message, None) for row in rows
        }

    answers = await routes.settle(wanted, ask, deadline, "the topics were not given partitions")
    grown = {name: wanted[name].total_count for name, each in answers.items() if each is None}
    if wait and not validate_only:
        await _wait_for_leaders(routes, grown, deadline)
    all_of(answers, "the growth of topics")


# --- requests -----------------------------------------------------------------------------------------------------


async def _create(
    routes: Routes,
    new_topics: list[NewTopic | str],
    validate_only: bool,
    wait: bool,
    timeout_ms: float | None,
) -> Answers[str, CreatedTopic]:
    deadline = routes.deadline(timeout_ms)
    wanted = {
        topic.name: topic
        for topic in (NewTopic(each) if isinstance(each, str) else each for each in new_topics)
    }
    if len(wanted) < len(new_topics):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a topic is to be created twice in one call")

    async def ask(names: list[str]) -> Answers[str, CreatedTopic]:
        request = CreateTopicsRequest(
            topics=[_new(wanted[name]) for name in names],
            timeout_ms=routes.broker_ms(deadline),
            validate_only=validate_only,
        )
        answer: CreateTopicsResponse = await routes.cluster.ask_controller(request)
        return {
            row.name: outcome(row.error_code, f"topic {row.name}", row.error_message, _created(row))
            for row in answer.topics
        }

    answers = await routes.settle(wanted, ask, deadline, "the topics were not created")
    if wait and not validate_only:
        # How many partitions a broker's default is, old brokers do not tell: one is waited for at least.
        made = [each for each in answers.values() if not isinstance(each, KafkaError)]
        counts = {each.name: max(1, each.num_partitions, wanted[each.name].num_partitions) for each in made}
        await _wait_for_leaders(routes, counts, deadline, {each.name: each.topic_id for each in made})
    return answers


def _new(topic: NewTopic) -> CreateTopicsRequest.Topic:
    kind = CreateTopicsRequest.Topic
    places = topic.replica_assignments or {}
    return kind(
        name=topic.name,
        num_partitions=-1 if places else topic.num_partitions,
        replication_factor=-1 if places else topic.replication_factor,
        assignments=[
            kind.Assignment(partition_index=number, broker_ids=list(ids)) for number, ids in places.items()
        ],
        configs=[
            kind.Setting(name=key, value=config_text(value))
            for key, value in (topic.topic_configs or {}).items()
        ],
    )


def _created(row: CreateTopicsResponse.Topic) -> CreatedTopic:
    configs = {
        each.name: ConfigEntry(
            each.name,
            each.value,
            known(ConfigSource, each.config_source),
            each.read_only,
            each.is_sensitive,
        )
        for each in row.configs or []
    }
    return CreatedTopic(row.name, row.topic_id, row.num_partitions, row.replication_factor, configs)


def _grown(name: str, wanted: NewPartitions) -> CreatePartitionsRequest.Topic:
    kind = CreatePartitionsRequest.Topic
    places = wanted.new_assignments
    assignments = None if places is None else [kind.Assignment(broker_ids=list(each)) for each in places]
    return kind(name=name, count=wanted.total_count, assignments=assignments)


async def _delete(
    routes: Routes, topics: list[TopicKey], timeout_ms: float | None
) -> Answers[TopicKey, None]:
    deadline = routes.deadline(timeout_ms)
    kind = DeleteTopicsRequest.Topic

    async def ask(keys: list[TopicKey]) -> Answers[TopicKey, None]:
        names = [key for key in keys if isinstance(key, str)]
        ids = [key for key in keys if isinstance(key, uuid.UUID)]
        rows = [kind(name=name, topic_id=NULL_ID) for name in names]
        rows += [kind(name=None, topic_id=topic_id) for topic_id in ids]
        request = DeleteTopicsRequest(timeout_ms=routes.broker_ms(deadline))
        if not ids and await routes.version(DeleteTopicsRequest) < _IDS_SINCE:
            request.topic_names = names
        else:
            request.topics = rows
        answer: DeleteTopicsResponse = await routes.cluster.ask_controller(request)
        found: Answers[TopicKey, None] = {}
        for row in answer.responses:
            key: TopicKey = row.topic_id if row.name is None or row.name not in names else row.name
            found[key] = outcome(row.error_code, f"topic {spelled(key)}", row.error_message, None)
        return found

    return await routes.settle(topics, ask, deadline, "the topics were not deleted")


def spelled(key: TopicKey) -> str:
    return key if isinstance(key, str) else format_id(key)


async def _wait_for_leaders(
    routes: Routes,
    counts: Mapping[str, int],
    deadline: Deadline,
    ids: Mapping[str, uuid.UUID] | None = None,
) -> None:
    """Return when the broker that answers sees so many partitions of each topic led.

    A topic of that name may have been deleted just before: with `ids`, it is not taken for the new one.
    """
    metadata = routes.cluster.metadata
    missing = set(counts)

    def is_led(name: str) -> bool:
        topic = metadata.topics.get(name)
        if topic is None:
            return False
        wanted = (ids or {}).get(name, NULL_ID)
        if NULL_ID not in (wanted, topic.topic_id) and wanted != topic.topic_id:
            return False
        return len(topic.available) >= max(counts[name], len(topic.partitions))

    async def look() -> None:
        await routes.cluster.refresh(missing)
        missing.difference_update([name for name in missing if is_led(name)])
        if missing:
            sentence = f"topic {min(missing)} has partitions without a leader"
            raise StaleMetadataError(ErrorCode.LEADER_NOT_AVAILABLE, sentence)

    if counts:
        await routes.patient(look, deadline, "the topics were created, but not led")
