"""Nodes in Kafka's layout: its JSON is read, ours is what its tools read, and nonsense is refused by name."""

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.errors import OttlaError, ProtocolError
from ottla.core.ids import format_id, parse_id
from ottla.metadata import paths
from ottla.metadata.paths import (
    BrokerNode,
    ClusterIdNode,
    ConfigNode,
    ControllerEpochNode,
    ControllerNode,
    DeletedReplicasNode,
    DeleteTopicNode,
    EndpointNode,
    PartitionStateNode,
    ProducerIdBlockNode,
    TopicNode,
    escape,
    unescape,
)

TOPIC_ID = parse_id("ZOLr9CLNQjSW70hyIHx6BQ")

# As `zookeeper-shell` shows them for Apache Kafka 3.x.
KAFKA_TOPIC = (
    b'{"removing_replicas":{},"partitions":{"0":[0]},"topic_id":"ZOLr9CLNQjSW70hyIHx6BQ",'
    b'"adding_replicas":{},"version":3}'
)
KAFKA_CONTROLLER = b'{"version":2,"brokerid":0,"timestamp":"1719917952299","kraftControllerEpoch":-1}'
KAFKA_CLUSTER_ID = b'{"version":"1","id":"Sfr7YvlkRHSHrmSrwq9mug"}'
KAFKA_CONFIG = b'{"version":1,"config":{"retention.ms":"100000"}}'
KAFKA_STATE = b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'
KAFKA_BROKER = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT","TLS":"SSL"},'
    b'"endpoints":["PLAINTEXT://localhost:9091","TLS://[::1]:9093"],"jmx_port":-1,"port":9091,"host":"localhost",'
    b'"version":5,"timestamp":"1707276552023"}'
)
KAFKA_BLOCK = b'{"version":1,"broker":0,"block_start":"1000","block_end":"1999"}'


def test_kafkas_nodes_are_read_and_written_to_the_byte():
    assert TopicNode.decode("/t", KAFKA_TOPIC) == TopicNode(TOPIC_ID, ((0,),))
    assert TopicNode(TOPIC_ID, ((0,),)).encode() == KAFKA_TOPIC
    assert ControllerNode.decode(KAFKA_CONTROLLER) == 0
    assert ControllerNode.encode(0, 1719917952299) == KAFKA_CONTROLLER
    assert ClusterIdNode.decode(KAFKA_CLUSTER_ID) == "Sfr7YvlkRHSHrmSrwq9mug"
    assert ClusterIdNode.encode("Sfr7YvlkRHSHrmSrwq9mug") == KAFKA_CLUSTER_ID
    assert ConfigNode.decode("/c", KAFKA_CONFIG) == {"retention.ms": "100000"}
    assert ConfigNode.encode({"retention.ms": "100000"}) == KAFKA_CONFIG
    assert PartitionStateNode.decode("/s", KAFKA_STATE) == PartitionStateNode(0, 0, (0,), 1)
    assert PartitionStateNode(0, 0, (0,), 1).encode() == KAFKA_STATE
    assert ProducerIdBlockNode.decode(KAFKA_BLOCK) == (0, 1000, 1999)
    assert ProducerIdBlockNode(0, 1000, 1999).encode() == KAFKA_BLOCK
    assert ControllerEpochNode.decode(ControllerEpochNode.encode(7)) == 7


def test_a_broker_is_read_and_written_with_the_fields_of_kafka():
    endpoints = (
        EndpointNode("PLAINTEXT", "PLAINTEXT", "localhost", 9091),
        EndpointNode("TLS", "SSL", "::1", 9093),
    )
    assert BrokerNode.decode("/b", KAFKA_BROKER) == BrokerNode(endpoints)
    assert json.loads(BrokerNode(endpoints).encode(1707276552023)) == json.loads(KAFKA_BROKER)
    racked = BrokerNode(endpoints, "r1")
    assert BrokerNode.decode("/b", racked.encode(0)) == racked


def test_a_broker_without_plaintext_shows_old_tools_no_address():
    node = json.loads(BrokerNode((EndpointNode("TLS", "SSL", "h", 1),)).encode(0))
    assert (node["host"], node["port"]) == (None, -1)


def test_nodes_lie_where_kafka_looks_for_them():
    assert BrokerNode.path(3) == "/brokers/ids/3"
    assert TopicNode.path("t") == "/brokers/topics/t"
    assert PartitionStateNode.path("t", 2) == "/brokers/topics/t/partitions/2/state"
    assert PartitionStateNode.parents("t", 2) == (
        "/brokers/topics/t/partitions",
        "/brokers/topics/t/partitions/2",
    )
    assert ConfigNode.path("brokers", None) == "/config/brokers/<default>"
    assert ConfigNode.path("groups", "<default>") != ConfigNode.path("groups", None)
    assert DeleteTopicNode.path("t") == "/admin/delete_topics/t"
    assert DeletedReplicasNode.path(3, TOPIC_ID) == "/admin/deleted_replicas/3-ZOLr9CLNQjSW70hyIHx6BQ"
    assert list(paths.LAYOUT) == sorted(paths.LAYOUT), "parents come first"


def test_replicas_on_the_move_are_kept():
    node = TopicNode(TOPIC_ID, ((0, 1), (1, 2)), {1: (2,)}, {1: (0,)})
    assert TopicNode.decode("/t", node.encode()) == node


def test_replicas_that_are_to_be_deleted_are_kept_by_broker_and_topic_id():
    node = DeletedReplicasNode("t", (0, 2))
    assert DeletedReplicasNode.decode("/d", node.encode()) == node
    dashed = parse_id("-OLr9CLN-jSW70hyIHx6BQ")
    assert DeletedReplicasNode.parse(DeletedReplicasNode.path(3, dashed)) == (3, dashed)


def test_an_empty_config_node_has_no_settings():
    assert ConfigNode.decode("/c", b"") == {}


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (lambda d: TopicNode.decode("/t", d), b'{"partitions":{"0":[0]}}'),
        (lambda d: TopicNode.decode("/t", d), b'{"topic_id":"short","partitions":{"0":[0]}}'),
        (lambda d: TopicNode.decode("/t", d), KAFKA_TOPIC.replace(b'"0":[0]', b"")),
        (lambda d: TopicNode.decode("/t", d), KAFKA_TOPIC.replace(b'"0":[0]', b'"1":[0]')),
        (lambda d: TopicNode.decode("/t", d), KAFKA_TOPIC.replace(b'"0":[0]', b'"0":[]')),
        (lambda d: TopicNode.decode("/t", d), KAFKA_TOPIC.replace(b'"0":[0]', b'"x":[0]')),
        (lambda d: TopicNode.decode("/t", d), KAFKA_TOPIC.replace(b'"0":[0]', b'"0":[0,0]')),
        (lambda d: PartitionStateNode.decode("/s", d), KAFKA_STATE.replace(b'"leader":0', b'"leader":-2')),
        (lambda d: BrokerNode.decode("/b", d), KAFKA_BROKER.replace(b"TLS://[::1]:9093", b"nonsense")),
        (lambda d: BrokerNode.decode("/b", d), KAFKA_BROKER.replace(b'"TLS":"SSL"', b'"X":"SSL"')),
        (lambda d: ConfigNode.decode("/c", d), b'{"config":{"a":1}}'),
        (lambda d: DeletedReplicasNode.decode("/d", d), b'{"topic":"t"}'),
        (lambda d: DeletedReplicasNode.decode("/d", d), b'{"topic":"t","partitions":[-1]}'),
        (
            lambda d: DeletedReplicasNode.parse(d.decode()),
            b"/admin/deleted_replicas/x-ZOLr9CLNQjSW70hyIHx6BQ",
        ),
        (lambda d: DeletedReplicasNode.parse(d.decode()), b"/admin/deleted_replicas/3"),
        (ProducerIdBlockNode.decode, KAFKA_BLOCK.replace(b"1999", b"999")),
        (ProducerIdBlockNode.decode, KAFKA_BLOCK.replace(b"1999", b"99999999999999999999")),
        (ClusterIdNode.decode, b'{"id":""}'),
        (ControllerEpochNode.decode, b"x"),
        (ControllerEpochNode.decode, b"\xff"),
        (ControllerNode.decode, b'{"brokerid":"0"}'),
    ],
)
def test_nonsense_is_refused_by_name(decode, data):
    with pytest.raises(ProtocolError, match=r"^/"):
        decode(data)


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.booleans(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "topic_id",
                        "partitions",
                        "isr",
                        "leader",
                        "config",
                        "endpoints",
                        "0",
                        "broker",
                        "id",
                        "rack",
                        "listener_security_protocol_map",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
    )
)
def test_whatever_json_says_it_is_read_or_refused(value):
    data = json.dumps(value).encode()
    for decode in (TopicNode.decode, PartitionStateNode.decode, BrokerNode.decode, ConfigNode.decode):
        try:
            decode("/x", data)
        except OttlaError as error:
            assert "/x" in str(error)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_name_makes_one_step_of_a_path_and_comes_back(name):
    step = escape(name)
    assert "/" not in step and "\0" not in step and step not in (".", "..")
    assert unescape(step) == name


def test_topics_keep_their_names_in_paths():
    assert ConfigNode.path("topics", "a.b_c-d") == "/config/topics/a.b_c-d"
    assert ConfigNode.path("groups", "a/b c") == "/config/groups/a%2Fb%20c"


def test_ids_are_spelled_as_kafka_spells_them():
    assert format_id(uuid.UUID(bytes=parse_id("ZOLr9CLNQjSW70hyIHx6BQ").bytes)) == "ZOLr9CLNQjSW70hyIHx6BQ"
