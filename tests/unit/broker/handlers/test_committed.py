"""Committed offsets as clients of every version commit, fetch and delete them."""

import uuid

import pytest

from ottla.broker.authorizer import Operation
from ottla.broker.handlers import asking
from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from tests.unit.broker.client import frame_of
from tests.unit.broker.handlers.coordinating import coordinating, scenario

GROUP = "readers"


class Witness:
    def __init__(self):
        self.seen = []

    def committed(self, group, topic_partition, offset):
        self.seen.append((group, str(topic_partition), offset))


def to_commit(*places, topic_ids=None):
    """(topic, partition, offset), one topic for each in the request."""
    topic = OffsetCommitRequest.Topic
    return [
        topic(
            name=name,
            topic_id=(topic_ids or {}).get(name, uuid.UUID(int=0)),
            partitions=[
                topic.Partition(partition_index=index, committed_offset=offset, committed_metadata="note")
            ],
        )
        for name, index, offset in places
    ]


def asked(**topics):
    """Topics to fetch, for the versions that ask about one group."""
    return [OffsetFetchRequest.Topic(name=name, partition_indexes=list(at)) for name, at in topics.items()]


def group(group_id=GROUP, topics=None, **how):
    topic = OffsetFetchRequest.Group.Topic
    named = (
        None if topics is None else [topic(name=name, partition_indexes=at) for name, at in topics.items()]
    )
    return OffsetFetchRequest.Group(group_id=group_id, topics=named, **how)


def codes(response):
    return [
        (topic.name, each.partition_index, ErrorCode(each.error_code))
        for topic in response.topics
        for each in topic.partitions
    ]


def offsets(topics):
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in topics
        for each in topic.partitions
    }


async def commit(client, version, *places, group_id=GROUP, **how):
    return await client.ask("OffsetCommit", version, group_id=group_id, topics=to_commit(*places, **how))


# --- commit -------------------------------------------------------------------------------------------------------


@scenario
async def test_what_any_version_commits_any_version_fetches():
    async with coordinating("tea") as client:
        ids = {name: image.topic_id for name, image in client.node.metadata.topics.items()}
        for version in range(11):
            await commit(client, version, ("tea", 0, 100 + version), topic_ids=ids)
            for reading in range(8):
                response = await client.ask("OffsetFetch", reading, group_id=GROUP, topics=asked(tea=[0, 1]))
                assert offsets(response.topics) == {("tea", 0): 100 + version, ("tea", 1): -1}
                assert [each.metadata for each in response.topics[0].partitions] == ["note", ""]
            for reading in (8, 9):
                (found,) = (
                    await client.ask("OffsetFetch", reading, groups=[group(topics={"tea": [0]})])
                ).groups
                assert offsets(found.topics) == {("tea", 0): 100 + version}


@scenario
async def test_what_is_refused_leaves_the_rest_alone_and_everything_comes_back_in_order():
    async with coordinating("tea", "milk", "gin") as client:
        client.node.authorizer.deny(Operation.READ, "gin")
        places = [
            ("nowhere", 0, 1),
            ("tea", 1, 2),
            ("gin", 0, 3),
            ("tea", 7, 4),
            ("milk", 0, 5),
            ("tea", -1, 6),
        ]
        response = await commit(client, 8, *places)
        assert codes(response) == [
            ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("tea", 1, ErrorCode.NONE),
            ("gin", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            ("tea", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("milk", 0, ErrorCode.NONE),
            ("tea", -1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        (found,) = (await client.ask("OffsetFetch", 8, groups=[group()])).groups
        assert offsets(found.topics) == {("tea", 1): 2, ("milk", 0): 5}


@scenario
async def test_by_id_a_topic_is_committed_to_and_an_unknown_id_is_not():
    async with coordinating("tea") as client:
        known, unknown = client.node.metadata.topics["tea"].topic_id, uuid.uuid4()
        topics = to_commit(("tea", 0, 5), ("b", 0, 6), ("c", 0, 7), topic_ids={"tea": known, "b": unknown})
        response = await client.ask("OffsetCommit", 10, group_id=GROUP, topics=topics)
        assert [(each.topic_id, each.partitions[0].error_code) for each in response.topics] == [
            (known, ErrorCode.NONE),
            (unknown, ErrorCode.UNKNOWN_TOPIC_ID),
            (uuid.UUID(int=0), ErrorCode.UNKNOWN_TOPIC_ID),
        ]


@scenario
async def test_an_error_of_the_group_is_told_where_nothing_worse_is_known():
    async with coordinating("tea") as client:
        places = to_commit(("tea", 0, 5), ("nowhere", 0, 5))
        member = {"group_id": GROUP, "generation_id_or_member_epoch": 3, "member_id": "ghost"}
        response = await client.ask("OffsetCommit", 8, topics=places, **member)
        assert codes(response) == [
            ("tea", 0, ErrorCode.ILLEGAL_GENERATION),
            ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        response = await client.ask("OffsetCommit", 9, topics=places[:1], **member)
        assert codes(response) == [("tea", 0, ErrorCode.GROUP_ID_NOT_FOUND)]


@scenario
async def test_metadata_that_is_too_long_is_refused_for_its_partition_alone():
    async with coordinating("tea", config={"offset.metadata.max.bytes": 8}) as client:
        topics = to_commit(("tea", 0, 5), ("tea", 1, 6))
        topics[0].partitions[0].committed_metadata = "x" * 9
        response = await client.ask("OffsetCommit", 8, group_id=GROUP, topics=topics)
        assert codes(response) == [
            ("tea", 0, ErrorCode.OFFSET_METADATA_TOO_LARGE),
            ("tea", 1, ErrorCode.NONE),
        ]


@scenario
async def test_who_watches_is_told_of_what_was_committed_and_of_nothing_else():
    async with coordinating("tea") as client:
        witness = Witness()
        client.node.observers.append(witness)
        await commit(client, 8, ("tea", 0, 5), ("nowhere", 0, 6), ("tea", 9, 7), ("tea", 1, 8))
        client.node.authorizer.deny(Operation.READ, GROUP)
        await commit(client, 8, ("tea", 0, 9))
        assert witness.seen == [
            (GROUP, str(TopicPartition("tea", 0)), 5),
            (GROUP, str(TopicPartition("tea", 1)), 8),
        ]


@scenario
async def test_a_group_that_is_not_theirs_is_neither_written_nor_read():
    async with coordinating("tea") as client:
        client.node.authorizer.deny(Operation.READ, GROUP)
        client.node.authorizer.deny(Operation.DESCRIBE, GROUP)
        client.node.authorizer.deny(Operation.DELETE, GROUP)
        denied = ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert codes(await commit(client, 8, ("tea", 0, 5))) == [("tea", 0, denied)]
        one = {"group_id": GROUP, "topics": asked(tea=[0])}
        assert codes(await client.ask("OffsetFetch", 1, **one)) == [("tea", 0, denied)]
        assert (await client.ask("OffsetFetch", 2, **one)).error_code == denied
        many = await client.ask("OffsetFetch", 8, groups=[group(), group("others")])
        assert [(each.group_id, each.error_code) for each in many.groups] == [(GROUP, denied), ("others", 0)]
        assert (await client.ask("OffsetDelete", 0, group_id=GROUP, topics=[])).error_code == denied


@scenario
async def test_a_commit_of_nothing_is_fine_wherever_the_group_may_be():
    async with coordinating() as client:
        assert (await client.ask("OffsetCommit", 8, group_id=GROUP, topics=[])).topics == []


# --- fetch --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 7, 8, 9, 10])
@scenario
async def test_without_topics_everything_is_fetched_that_may_be_seen(version):
    async with coordinating("tea", "milk", "gin") as client:
        await commit(client, 8, ("tea", 0, 5), ("milk", 1, 6), ("gin", 0, 7))
        client.node.authorizer.deny(Operation.DESCRIBE, "gin")
        if version < 8:
            response = await client.ask("OffsetFetch", version, group_id=GROUP, topics=None)
            topics = response.topics
        else:
            topics = (await client.ask("OffsetFetch", version, groups=[group()])).groups[0].topics
        if version >= 10:
            names = {image.topic_id: name for name, image in client.node.metadata.topics.items()}
            assert {names[each.topic_id] for each in topics} == {"tea", "milk"}
        else:
            assert offsets(topics) == {("tea", 0): 5, ("milk", 1): 6}


@scenario
async def test_topics_are_answered_in_the_order_in_which_they_were_asked_for():
    async with coordinating("tea", "gin") as client:
        await commit(client, 8, ("tea", 0, 5), ("gin", 0, 7))
        client.node.authorizer.deny(Operation.DESCRIBE, "gin")
        wanted = group(topics={"nowhere": [0], "gin": [0, 1], "tea": [0]})
        (found,) = (await client.ask("OffsetFetch", 9, groups=[wanted])).groups
        assert [
            (topic.name, each.committed_offset, each.error_code)
            for topic in found.topics
            for each in topic.partitions
        ] == [
            ("nowhere", -1, 0),
            ("gin", -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            ("gin", -1, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            ("tea", 5, 0),
        ]


@scenario
async def test_by_id_both_ways():
    async with coordinating("tea") as client:
        await commit(client, 8, ("tea", 0, 5))
        known, unknown = client.node.metadata.topics["tea"].topic_id, uuid.uuid4()
        topics = [
            OffsetFetchRequest.Group.Topic(topic_id=each, partition_indexes=[0]) for each in (unknown, known)
        ]
        wanted = OffsetFetchRequest.Group(group_id=GROUP, topics=topics)
        (found,) = (await client.ask("OffsetFetch", 10, groups=[wanted])).groups
        assert [
            (topic.topic_id, topic.partitions[0].committed_offset, topic.partitions[0].error_code)
            for topic in found.topics
        ] == [(unknown, -1, ErrorCode.UNKNOWN_TOPIC_ID), (known, 5, 0)]


@scenario
async def test_groups_of_one_request_fail_alone():
    async with coordinating("tea") as client:
        await commit(client, 8, ("tea", 0, 5))
        client.node.authorizer.deny(Operation.DESCRIBE, "theirs")
        wanted = [group("nobody", {"tea": [0]}), group("theirs"), group()]
        found = (await client.ask("OffsetFetch", 9, groups=wanted)).groups
        assert [each.group_id for each in found] == ["nobody", "theirs", GROUP]
        assert (found[1].error_code, found[1].topics) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
        assert offsets(found[0].topics) == {("tea", 0): -1}
        assert offsets(found[2].topics) == {("tea", 0): 5}


@scenario
async def test_a_request_about_hundreds_of_groups_gets_hundreds_of_answers():
    async with coordinating("tea") as client:
        await commit(client, 8, ("tea", 0, 5), group_id="g7")
        wanted = [group(f"g{number}", {"tea": [0]}) for number in range(250)]
        found = (await client.ask("OffsetFetch", 8, groups=wanted)).groups
        assert [each.group_id for each in found if offsets(each.topics) != {("tea", 0): -1}] == ["g7"]
        assert len(found) == 250


# --- delete -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 7, 8, 9])
@scenario
async def test_a_request_that_asks_for_more_than_the_broker_can_hold_is_not_answered(version, monkeypatch):
    monkeypatch.setattr(asking, "PARTITIONS_MAX", 3)
    async with coordinating("tea") as client:
        for amount in (3, 4):
            how = {"groups": [group(topics={"tea": [0] * amount})]}
            if version < 8:
                how = {"group_id": GROUP, "topics": asked(tea=[0] * amount)}
            frame = frame_of(9, version, OffsetFetchRequest(**how))
            reply = await client._caller.ask(frame)
            assert bool(reply) == (amount == 3)
        assert len(client._caller.closed) == 1


@scenario
async def test_everything_of_a_group_can_be_had_once():
    async with coordinating("tea") as client:
        await commit(client, 8, ("tea", 0, 7))
        once = [group(), group("other"), group(topics={"tea": [0]})]
        found = (await client.ask("OffsetFetch", 8, groups=once)).groups
        assert [each.error_code for each in found] == [ErrorCode.NONE] * 3
        twice = (await client.ask("OffsetFetch", 8, groups=[*once, group()])).groups
        assert {each.error_code for each in twice} == {ErrorCode.INVALID_REQUEST}


def to_delete(*places):
    topic = OffsetDeleteRequest.Topic
    return [topic(name=name, partitions=[topic.Partition(partition_index=index)]) for name, index in places]


@scenario
async def test_offsets_are_deleted_where_there_is_a_topic_to_delete_them_of():
    async with coordinating("tea", "gin") as client:
        await commit(client, 8, ("tea", 0, 5), ("tea", 1, 6), ("gin", 0, 7))
        client.node.authorizer.deny(Operation.READ, "gin")
        topics = to_delete(("nowhere", 0), ("tea", 1), ("gin", 0), ("tea", 4))
        response = await client.ask("OffsetDelete", 0, group_id=GROUP, topics=topics)
        assert response.error_code == ErrorCode.NONE
        assert codes(response) == [
            ("nowhere", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("tea", 1, ErrorCode.NONE),
            ("gin", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            ("tea", 4, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]
        (found,) = (await client.ask("OffsetFetch", 8, groups=[group()])).groups
        assert offsets(found.topics) == {("tea", 0): 5, ("gin", 0): 7}


@scenario
async def test_of_a_group_that_is_not_there_nothing_is_deleted():
    async with coordinating("tea") as client:
        for group_id, code in (("nobody", ErrorCode.GROUP_ID_NOT_FOUND), ("", ErrorCode.INVALID_GROUP_ID)):
            response = await client.ask("OffsetDelete", 0, group_id=group_id, topics=to_delete(("tea", 0)))
            assert (response.error_code, response.topics) == (code, [])


# --- where the coordinator is not ---------------------------------------------------------------------------------


@scenario
async def test_whoever_asks_where_nobody_coordinates_is_told_so_everywhere():
    async with coordinating("tea") as client:
        client.node.groups.close()
        code = ErrorCode.NOT_COORDINATOR
        assert codes(await commit(client, 8, ("tea", 0, 5))) == [("tea", 0, code)]
        one = {"group_id": GROUP, "topics": asked(tea=[0])}
        assert codes(await client.ask("OffsetFetch", 0, **one)) == [("tea", 0, code)]
        assert (await client.ask("OffsetFetch", 7, **one)).error_code == code
        assert (await client.ask("OffsetFetch", 8, groups=[group()])).groups[0].error_code == code
