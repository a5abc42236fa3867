"""Topics: what is created, grown, deleted, shown, and what is refused."""

from typing import Any

from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest
from ottla.protocol.schema import NULL_UUID
from tests.interop.dialogues.talk import NO_TOPIC, Talk

NEW = CreateTopicsRequest.Topic
_LONG = "a" * 250


def new(name: str, partitions: int = 1, factor: int = 1, **more: Any) -> NEW:
    return NEW(
        **{
            "name": name,
            "num_partitions": partitions,
            "replication_factor": factor,
            "assignments": [],
            "configs": [],
            **more,
        }
    )


def config(**values: str | None) -> list[NEW.Setting]:
    return [NEW.Setting(name=name.replace("_", "."), value=value) for name, value in values.items()]


def assigned(*replicas: tuple[int, list[int]]) -> list[NEW.Assignment]:
    return [NEW.Assignment(partition_index=index, broker_ids=ids) for index, ids in replicas]


CREATIONS = {
    "usual": [new("fresh")],
    "defaults": [new("fresh", -1, -1)],
    "many partitions": [new("fresh", 7)],
    "no partitions": [new("fresh", 0)],
    "minus two partitions": [new("fresh", -2)],
    "factor 0": [new("fresh", 1, 0)],
    "factor -2": [new("fresh", 1, -2)],
    "factor 2": [new("fresh", 1, 2)],
    "no name": [new("")],
    "dot": [new(".")],
    "dots": [new("..")],
    "slash": [new("a/b")],
    "letters": [new("käse")],
    "long": [new(_LONG)],
    "longest": [new(_LONG[:249])],
    "exists": [new("t.here")],
    "collides": [new("t_here")],
    "both collide": [new("new.one"), new("new_one")],
    "twice": [new("fresh"), new("fresh")],
    "twice among others": [new("fresh"), new("fresh"), new("other")],
    "one good, one bad": [new("fresh"), new("a/b")],
    "nothing": [],
    "metadata": [new("__cluster_metadata")],
    "assigned": [new("fresh", -1, -1, assignments=assigned((0, [1]), (1, [1])))],
    "assigned and counted": [new("fresh", 2, 1, assignments=assigned((0, [1]), (1, [1])))],
    "assigned and counted wrong": [new("fresh", 1, -1, assignments=assigned((0, [1]), (1, [1])))],
    "assigned and a factor": [new("fresh", -1, 1, assignments=assigned((0, [1])))],
    "assigned to nobody": [new("fresh", -1, -1, assignments=assigned((0, [])))],
    "assigned to a stranger": [new("fresh", -1, -1, assignments=assigned((0, [9])))],
    "assigned to a broker twice": [new("fresh", -1, -1, assignments=assigned((0, [1, 1])))],
    "assigned with a gap": [new("fresh", -1, -1, assignments=assigned((0, [1]), (2, [1])))],
    "assigned from 1": [new("fresh", -1, -1, assignments=assigned((1, [1])))],
    "assigned a partition twice": [new("fresh", -1, -1, assignments=assigned((0, [1]), (0, [1])))],
    "assigned unevenly": [new("fresh", -1, -1, assignments=assigned((0, [1]), (1, [1, 2])))],
    "assigned to -1": [new("fresh", -1, -1, assignments=assigned((0, [-1])))],
    "settings": [new("fresh", configs=config(cleanup_policy="compact", retention_ms="5000"))],
    "unknown setting": [new("fresh", configs=config(no_such_key="1"))],
    "bad number": [new("fresh", configs=config(retention_ms="soon"))],
    "out of range": [new("fresh", configs=config(segment_bytes="1"))],
    "bad word": [new("fresh", configs=config(cleanup_policy="burn"))],
    "bad codec": [new("fresh", configs=config(compression_type="rar"))],
    "empty list": [new("fresh", configs=config(cleanup_policy=""))],
    "null setting": [new("fresh", configs=config(retention_ms=None))],
    "setting twice": [new("fresh", configs=config(retention_ms="1") + config(retention_ms="2"))],
    "spaces": [new("fresh", configs=config(retention_ms=" 500 "))],
    "two that exclude each other": [
        new("fresh", configs=config(local_retention_ms="500", retention_ms="100"))
    ],
    "bad factor and setting": [new("fresh", 1, 5, configs=config(no_such_key="1"))],
}


_REFUSED = ("no partitions", "factor 0", "factor 2", "slash", "exists", "collides", "twice", "bad number")
_REFUSED += ("assigned with a gap", "assigned to a stranger", "unknown setting", "out of range")
_CREATED = ("assigned", "settings", "spaces")


async def create(talk: Talk) -> None:
    """Everything is only validated: that leaves nothing behind, and must not answer otherwise."""
    await talk.create("t.here")
    for label, topics in CREATIONS.items():
        await talk.ask(
            label, CreateTopicsRequest(topics=topics, timeout_ms=9000, validate_only=True), since=1
        )
    for label in _REFUSED:
        await talk.ask(f"{label} for real", CreateTopicsRequest(topics=CREATIONS[label], timeout_ms=9000))
    for label in _CREATED:
        (wanted,) = CREATIONS[label]
        await talk.ask(
            f"{label} made", lambda version, wanted=wanted, label=label: _made(wanted, label, version)
        )


def _made(wanted: NEW, label: str, version: int) -> CreateTopicsRequest:
    """The topic under a name that is used only once."""
    topic = new(f"made-{label}-{version}", wanted.num_partitions, wanted.replication_factor)
    topic.assignments, topic.configs = wanted.assignments, wanted.configs
    return CreateTopicsRequest(topics=[topic], timeout_ms=9000)


async def delete(talk: Talk) -> None:
    await talk.create("doomed")
    one = DeleteTopicsRequest.Topic
    by_name = {"unknown": ["nobody"], "bad name": ["a/b"], "twice": ["doomed", "doomed"], "none": []}
    by_name |= {"twice unknown": ["nobody", "nobody"], "empty": [""]}
    for label, names in by_name.items():
        await talk.ask(label, DeleteTopicsRequest(topic_names=names, timeout_ms=9000), until=5)
        topics = [one(name=name, topic_id=NULL_UUID) for name in names]
        await talk.ask(f"{label} in topics", DeleteTopicsRequest(topics=topics, timeout_ms=9000), since=6)
    known = talk.ids["doomed"]
    for label, topics in {
        "unknown id": [one(name=None, topic_id=NO_TOPIC)],
        "id and name": [one(name="doomed", topic_id=known)],
        "neither": [one(name=None, topic_id=NULL_UUID)],
        "id twice": [one(name=None, topic_id=known)] * 2,
        "as both": [one(name=None, topic_id=known), one(name="doomed", topic_id=NULL_UUID)],
        "by id": [one(name=None, topic_id=known)],
        "by id again": [one(name=None, topic_id=known)],
    }.items():
        await talk.ask(label, DeleteTopicsRequest(topics=topics, timeout_ms=9000), since=6)
    for version in range(6):
        name = f"doomed-{version}"
        await talk.create(name)
        await talk.ask(name, DeleteTopicsRequest(topic_names=[name], timeout_ms=9000), version, version)


async def grow(talk: Talk) -> None:
    await talk.create("small", 2)
    one = CreatePartitionsRequest.Topic

    def wanted(name: str, count: int, *replicas: list[int]) -> CreatePartitionsRequest.Topic:
        parts = [one.Assignment(broker_ids=ids) for ids in replicas]
        return one(name=name, count=count, assignments=parts or None)

    cases = {
        "more": [wanted("small", 3)],
        "as many": [wanted("small", 2)],
        "fewer": [wanted("small", 1)],
        "none": [wanted("small", 0)],
        "less than none": [wanted("small", -1)],
        "unknown": [wanted("nobody", 3)],
        "bad name": [wanted("a/b", 3)],
        "twice": [wanted("small", 3), wanted("small", 4)],
        "one good, one bad": [wanted("small", 3), wanted("nobody", 3)],
        "assigned": [wanted("small", 3, [1])],
        "assigned to a stranger": [wanted("small", 3, [7])],
        "assigned too few": [wanted("small", 4, [1])],
        "assigned too many": [wanted("small", 3, [1], [1])],
        "assigned to nobody": [wanted("small", 3, [])],
        "assigned twice": [wanted("small", 3, [1, 1])],
        "assigned another factor": [wanted("small", 3, [1, 2])],
        "assigned nothing": [one(name="small", count=3, assignments=[])],
        "too many": [wanted("small", 100_000)],
        "nothing": [],
    }
    for label, topics in cases.items():
        request = CreatePartitionsRequest(topics=topics, timeout_ms=9000, validate_only=True)
        await talk.ask(label, request)
        if label not in {"more", "assigned", "one good, one bad", "assigned nothing", "too many"}:
            request = CreatePartitionsRequest(topics=topics, timeout_ms=9000, validate_only=False)
            await talk.ask(f"{label} for real", request)
    await talk.ask(
        "grows",
        lambda version: CreatePartitionsRequest(
            topics=[wanted("small", 3 + version)], timeout_ms=9000, validate_only=False
        ),
    )


async def show(talk: Talk) -> None:
    """Metadata and its younger sisters."""
    await talk.create("known", 3)
    await talk.create("next", 2)
    topic = MetadataRequest.Topic
    lists = {"known": ["known"], "unknown": ["nobody"], "bad name": ["a/b"], "twice": ["known", "known"]}
    lists |= {"several": ["nobody", "known", "next"], "none": [], "empty": [""], "long": [_LONG]}
    lists |= {"unknown twice": ["nobody", "nobody"], "internal": ["__share_group_state_no"]}
    for label, names in lists.items():
        if label != "none":
            request = MetadataRequest(
                topics=[topic(name=name) for name in names], allow_auto_topic_creation=False
            )
            await talk.ask(label, request, since=4)
    await talk.ask("none", MetadataRequest(topics=[]), since=1)
    for label, names in lists.items():
        request = MetadataRequest(
            topics=[topic(name=name) for name in names],
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
        )
        await talk.ask(f"{label}, operations", request, since=8)
    known = talk.ids["known"]
    for label, topics in {
        "id": [topic(name=None, topic_id=known)],
        "unknown id": [topic(name=None, topic_id=NO_TOPIC)],
        "id and name": [topic(name="known", topic_id=known)],
        "id and another name": [topic(name="next", topic_id=known)],
        "unknown id and name": [topic(name="known", topic_id=NO_TOPIC)],
        "neither": [topic(name=None)],
        "some by id": [topic(name=None, topic_id=known), topic(name="next")],
    }.items():
        await talk.ask(label, MetadataRequest(topics=topics, allow_auto_topic_creation=False), since=10)
    request = MetadataRequest(topics=[topic(name="known")], include_cluster_authorized_operations=True)
    await talk.ask("cluster operations", request, since=8, until=10)
    for name in ("a/b", "", "..", "t" * 250):
        await talk.ask(f"creates {name[:5]!r} not", MetadataRequest(topics=[topic(name=name)]))
    await talk.ask("creates", lambda version: MetadataRequest(topics=[topic(name=f"auto-{version}")]))
    await talk.ask("created in versions 0-3", MetadataRequest(topics=[topic(name="known")]), until=3)


ALL = (create, delete, grow, show)
