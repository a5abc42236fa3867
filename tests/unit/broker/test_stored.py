"""Reading the store: what Kafka's tools or a crash may have left there, and what is refused."""

import asyncio

import pytest

from ottla.broker.stored import StoredCluster, leftovers, load_brokers, load_cluster, load_context
from ottla.controller.commands import ConfigResource, ResourceType
from ottla.controller.context import NO_STATE
from ottla.core.errors import ProtocolError
from ottla.core.ids import format_id, parse_id
from ottla.metadata import paths
from ottla.metadata.embedded import MEMORY, EmbeddedStore
from ottla.metadata.paths import (
    BrokerNode,
    ConfigNode,
    DeletedReplicasNode,
    EndpointNode,
    PartitionStateNode,
    TopicNode,
)
from ottla.metadata.store import Create
from tests.unit.controller.helpers import TOPIC_ID


def stored(*nodes: Create):
    """An async function's result over a store with the layout and these nodes."""

    def over(read):
        async def inner():
            store = await EmbeddedStore.open(MEMORY)
            await store.multi([*map(Create, paths.LAYOUT), *nodes])
            return await read(store)

        return asyncio.run(inner())

    return over


def topic(name: str, *replicas: tuple[int, ...], states: bool = True) -> list[Create]:
    nodes = [Create(TopicNode.path(name), TopicNode(TOPIC_ID, replicas).encode())]
    if states:
        nodes.append(Create(f"/brokers/topics/{name}/partitions"))
        for index, ids in enumerate(replicas):
            nodes.append(Create(f"/brokers/topics/{name}/partitions/{index}"))
            state = PartitionStateNode(ids[0], 4, ids, 1)
            nodes.append(Create(PartitionStateNode.path(name, index), state.encode()))
    return nodes


async def context_of(store):
    return await load_context(store, 0, 3, 2)


def test_an_empty_cluster():
    assert stored()(lambda store: load_cluster(store, "id")) == StoredCluster("id", {}, {}, frozenset())


def test_topics_settings_and_marks():
    cluster = stored(
        *topic("t", (0,)),
        *topic("gone", (0,)),
        Create("/admin/delete_topics/gone"),
        Create("/config/topics/t", ConfigNode.encode({"a": "1"})),
        Create("/config/brokers/<default>", ConfigNode.encode({"b": "2"})),
        Create("/config/brokers/7", b""),
    )(lambda store: load_cluster(store, "id"))
    assert cluster.topics == {"t": TOPIC_ID, "gone": TOPIC_ID}
    assert cluster.doomed == {"gone"}
    assert cluster.configs == {
        ConfigResource(ResourceType.TOPIC, "t"): {"a": "1"},
        ConfigResource(ResourceType.BROKER, ""): {"b": "2"},
        ConfigResource(ResourceType.BROKER, "7"): {},
    }


def test_what_brokers_have_lost_and_not_deleted_yet():
    other = parse_id("ZOLr9CLNQjSW70hyIHx6BQ")
    nodes = [
        *topic("t", (0, 1), (1,)),
        Create(DeletedReplicasNode.path(0, TOPIC_ID), DeletedReplicasNode("t", (0, 1)).encode()),
        Create(DeletedReplicasNode.path(0, other), DeletedReplicasNode("gone", (0, 7)).encode()),
    ]
    context = stored(*nodes)(context_of)
    assert context.deletions == {(0, TOPIC_ID): ("t", (0, 1), 0), (0, other): ("gone", (0, 7), 0)}
    cluster = stored(*nodes)(lambda store: load_cluster(store, "id"))
    assert cluster.lost == {(0, TOPIC_ID): {1}, (0, other): {0, 7}}, "partition 0 is broker 0's all the same"


def test_states_with_their_epochs():
    context = stored(*topic("t", (0, 1), (1, 0)))(context_of)
    first, second = context.topics["t"].image.partitions
    assert (first.leader, first.leader_epoch, first.partition_epoch, first.isr) == (0, 4, 0, (0, 1))
    assert (second.partition, second.leader, second.replicas) == (1, 1, (1, 0))
    assert (context.epoch, context.epoch_version, context.controller_id) == (3, 2, 0)


def test_doomed_topics_are_kept_apart_also_when_hardly_anything_is_left():
    context = stored(*topic("t", (0,)), Create("/admin/delete_topics/t"), Create("/admin/delete_topics/u"))(
        context_of
    )
    assert context.topics == {}
    assert context.doomed["t"].image.name == "t"
    assert context.doomed["u"] is None


def test_a_topic_without_states_waits_to_be_led():
    above = "/brokers/topics/t/partitions"
    nodes = [*topic("t", (0,), (0,), states=False), Create(above), Create(f"{above}/1")]
    context = stored(*nodes)(context_of)
    assert [s.partition_epoch for s in context.topics["t"].image.partitions] == [NO_STATE, NO_STATE]
    assert context.skeletons == {above, f"{above}/1"}


def test_replicas_on_the_move():
    node = TopicNode(TOPIC_ID, ((0, 1),), {0: (1,)}, {0: (0,)})
    context = stored(Create(TopicNode.path("t"), node.encode()))(context_of)
    (state,) = context.topics["t"].image.partitions
    assert (state.adding, state.removing) == ((1,), (0,))


def test_live_brokers():
    node = BrokerNode((EndpointNode("PLAINTEXT", "PLAINTEXT", "h", 1),), "r").encode(0)
    nodes = [Create(BrokerNode.path(id), node, ephemeral=True) for id in (10, 9)]
    nine, ten = stored(*nodes)(load_brokers)
    assert (nine.node_id, ten.node_id, nine.rack, nine.endpoints[0].host) == (9, 10, "r", "h")
    assert nine.epoch > 0


def test_leftovers_come_children_first():
    nodes = [*topic("t", (0,)), Create("/config/topics/t"), *topic("t2", (0,))]
    found = stored(*nodes)(lambda store: leftovers(store, "t"))
    assert found == [
        "/brokers/topics/t/partitions/0/state", "/brokers/topics/t/partitions/0", "/brokers/topics/t/partitions",
        "/brokers/topics/t", "/config/topics/t",
    ]  # fmt: skip
    assert stored()(lambda store: leftovers(store, "t")) == []


@pytest.mark.parametrize(
    "node",
    [
        Create("/brokers/topics/.."),
        Create("/brokers/topics/t", b"{}"),
        Create("/brokers/ids/x", BrokerNode(()).encode(0)),
        Create("/config/topics/t", b"[]"),
    ],
)
def test_what_cannot_be_is_refused_by_name(node):
    with pytest.raises(ProtocolError, match=node.path.rpartition("/")[0]):
        stored(node)(context_of)


def test_a_topic_written_by_kafka_is_read():
    data = b'{"removing_replicas":{},"partitions":{"0":[0]},"topic_id":"ZOLr9CLNQjSW70hyIHx6BQ","version":3}'
    cluster = stored(Create("/brokers/topics/t", data))(lambda store: load_cluster(store, "id"))
    assert format_id(cluster.topics["t"]) == "ZOLr9CLNQjSW70hyIHx6BQ"
    assert cluster.topics["t"] == parse_id("ZOLr9CLNQjSW70hyIHx6BQ")
