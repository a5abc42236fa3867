"""`kafka-topics` on a broker of ours: what it prints, and what older tools printed with --zookeeper."""

import uuid

import pytest

from ottla.cli.classic import topics
from ottla.cli.classic.java import Illegal
from ottla.cli.classic.topic_descriptions import _Shown
from ottla.cli.classic.topics import is_included
from ottla.cli.main import main
from ottla.client.admin.config_values import ConfigEntry, ConfigSource
from ottla.client.admin.topic_values import PartitionDescription, PartitionReassignment, TopicDescription
from ottla.core.ids import TopicPartition
from ottla.testing import Broker


@pytest.fixture(scope="module")
def server():
    with Broker() as broker:
        yield broker.bootstrap_server


@pytest.fixture
def run(server, capsys, monkeypatch):
    """The exit code and the output of a command line, where @ is our broker and `zk:2181/kafka` knows it."""
    monkeypatch.setattr("ottla.cli.classic.zookeeper.servers_from", {"zk:2181/kafka": server}.__getitem__)

    def once(line: str) -> tuple[int, str]:
        code = main(["kafka-topics.sh", *line.replace("@", server).split()])
        return code, capsys.readouterr().out

    return once


def test_a_topic_lives_from_its_creation_to_its_deletion(run):
    assert run("--bootstrap-server @ --create --topic life --partitions 2") == (0, "Created topic life.\n")
    _, out = run("--bootstrap-server @ --describe --topic life")
    head, *partitions = out.splitlines()
    assert head.startswith("Topic: life\tTopicId: ")
    assert head.endswith("\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: ")
    assert partitions == [
        f"\tTopic: life\tPartition: {n}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: "
        for n in (0, 1)
    ]
    assert run("--bootstrap-server @ --alter --topic life --partitions 3") == (0, "")
    assert run("--bootstrap-server @ --delete --topic life") == (0, "")
    assert run("--bootstrap-server @ --list --topic life") == (0, "\n")


def test_a_topic_is_described_by_its_id(run):
    run("--bootstrap-server @ --create --topic with-id")
    topic_id = (
        run("--bootstrap-server @ --describe --topic with-id")[1].split("\t")[1].removeprefix("TopicId: ")
    )
    code, out = run(f"--bootstrap-server @ --describe --topic-id {topic_id}")
    assert code == 0
    assert out.startswith("Topic: with-id\t")


def test_old_command_lines_work_with_zookeeper_and_say_more(run):
    made = run("--create --zookeeper zk:2181/kafka --topic old --replication-factor 1 --partitions 4")
    assert made == (0, "Created topic old.\n")
    assert "old\n" in run("--list --zookeeper zk:2181/kafka")[1]
    assert run("--zookeeper zk:2181/kafka --alter --topic old --partitions 5") == (
        0,
        "WARNING: If partitions are increased for a topic that has a key,"
        " the partition logic or ordering of the messages will be affected\n"
        "Adding partitions succeeded!\n",
    )
    code, out = run(
        "--zookeeper zk:2181/kafka --alter --topic old --config flush.ms=5 --config retention.ms=1"
    )
    assert code == 0
    assert out.startswith("WARNING: Altering topic configuration from this script has been deprecated")
    assert out.endswith("\nUpdated config for topic old.\n")
    assert run("--zookeeper zk:2181/kafka --alter --topic old --delete-config retention.ms")[0] == 0
    described = run("--topic old --describe --zookeeper zk:2181/kafka")[1]
    assert "PartitionCount: 5\tReplicationFactor: 1\tConfigs: flush.ms=5\n" in described
    assert run("--delete --zookeeper zk:2181/kafka --topic old") == (
        0,
        "Topic old is marked for deletion.\n"
        "Note: This will have no impact if delete.topic.enable is not set to true.\n",
    )


def test_broker_list_is_an_old_word_for_bootstrap_server(run):
    assert run("--broker-list @ --list --topic nothing") == (0, "\n")


def test_where_nobody_listens_that_is_said_on_stdout(run):
    code, out = run("--bootstrap-server 127.0.0.1:1 --list")
    assert code == 1
    assert out.startswith("Error while executing topic command : cannot connect to 127.0.0.1:1")


@pytest.mark.parametrize(
    ("name", "pattern", "is_meant"),
    [
        ("a", None, True),
        ("a", "a", True),
        ("ab", "a", False),
        ("ab", "a.*", True),
        ("b", "a,b", True),
        ("b", "'a, b'", True),
    ],
)
def test_topics_are_meant_by_regular_expressions_with_commas(name, pattern, is_meant):
    assert is_included(name, pattern, False) is is_meant


def test_internal_topics_can_be_left_out():
    assert is_included("__consumer_offsets", None, False)
    assert not is_included("__consumer_offsets", None, True)
    with pytest.raises(Illegal, match=r"^\( is an invalid regex\.$"):
        is_included("a", "(", False)


# --- what a broker alone cannot show ----------------------------------------------------------------------------------

SOUND = PartitionDescription(0, 1, 0, (1, 2), (1, 2), (), (), ())
WEAK = PartitionDescription(1, 1, 0, (1, 2), (1,), (), None, None)
DEAD = PartitionDescription(2, -1, 0, (1, 2), (), (), (2,), (1,))


@pytest.fixture
def shown():
    topic = TopicDescription("t", uuid.UUID(int=0), False, (DEAD, WEAK, SOUND))
    settings = {
        "min.insync.replicas": ConfigEntry("min.insync.replicas", "1", ConfigSource.DEFAULT_CONFIG),
        "retention.ms": ConfigEntry("retention.ms", "5", ConfigSource.TOPIC_CONFIG),
    }
    moves = {TopicPartition("t", 1): PartitionReassignment((1, 2, 3), (3,), (1,))}
    return _Shown(topic, settings, moves, {1, 2})


@pytest.mark.parametrize(
    ("option", "numbers"),
    [
        ("--under-replicated-partitions", [1, 2]),
        ("--unavailable-partitions", [2]),
        ("--under-min-isr-partitions", [2]),
        ("--at-min-isr-partitions", [1]),
    ],
)
def test_only_partitions_in_trouble_are_shown_when_asked_for(shown, capsys, option, numbers):
    shown.print(topics._parser().read(["--describe", option]))
    told = [line.split("\t")[2] for line in capsys.readouterr().out.splitlines()]
    assert told == [f"Partition: {number}" for number in numbers]


def test_a_topic_is_shown_with_its_moves_and_without_what_is_not_known(shown, capsys):
    shown.print(topics._parser().read(["--describe"]))
    assert capsys.readouterr().out == (
        "Topic: t\tPartitionCount: 3\tReplicationFactor: 2\tConfigs: retention.ms=5\n"
        "\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\tElr: \tLastKnownElr: \n"
        "\tTopic: t\tPartition: 1\tLeader: 1\tReplicas: 1,2\tIsr: 1\tAdding Replicas: 3\tRemoving Replicas: 1"
        "\tElr: N/A\tLastKnownElr: N/A\n"
        "\tTopic: t\tPartition: 2\tLeader: none\tReplicas: 1,2\tIsr: \tElr: 2\tLastKnownElr: 1\n"
    )
