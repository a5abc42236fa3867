"""`kafka-reassign-partitions` on brokers of ours. What it prints is compared with Apache's own in tests/interop."""

import json

import pytest

from ottla.cli.classic.reassign_throttles import copies, topic_settings
from ottla.cli.main import main
from ottla.client.admin.topic_values import PartitionReassignment
from ottla.core.ids import TopicPartition
from tests.unit.cli.several import several_brokers
from tests.unit.cli.states import Ran

FOO = TopicPartition("foo", 0)


@pytest.fixture
def several():
    with several_brokers(3, auto_leader_rebalance_enable=False) as running:
        running.create("foo", (0, 1), (1, 2))
        yield running


@pytest.fixture
def run(capsys):
    def run(address, *words):
        code = main(["kafka-reassign-partitions", "--bootstrap-server", address, *words])
        return Ran(code, *capsys.readouterr())

    return run


def plan(tmp_path, *rows):
    path = tmp_path / "plan.json"
    rows = [{"topic": "foo", "partition": number, "replicas": replicas} for number, replicas in rows]
    path.write_text(json.dumps({"version": 1, "partitions": rows}))
    return str(path)


def test_partitions_move_and_the_end_is_seen(several, run, tmp_path):
    file = plan(tmp_path, (0, [2, 1]))
    ran = run(several.address, "--execute", "--reassignment-json-file", file, "--throttle", "100000000")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.endswith("Successfully started partition reassignment for foo-0\n")
    several.until(
        lambda: all(
            node.metadata.topics["foo"].partitions[0].replicas == (2, 1)
            for node in several.cluster.nodes.values()
        )
    )
    several.until_in_sync("foo")
    ran = run(several.address, "--verify", "--reassignment-json-file", file)
    assert ran.out.splitlines() == [
        "Status of partition reassignment:",
        "Reassignment of partition foo-0 is completed.",
        "",
        "Clearing broker-level throttles on brokers 0,1,2",
        "Clearing topic-level throttles on topic foo",
    ]
    assert run(several.address, "--list").out == "No partition reassignments found.\n"


def test_what_is_generated_can_be_executed(several, run, tmp_path):
    topics = tmp_path / "topics.json"
    topics.write_text('{"version": 1, "topics": [{"topic": "foo"}]}')
    words = ("--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "0,2")
    _, current, _, _, proposed = run(several.address, *words).out.splitlines()
    assert [row["replicas"] for row in json.loads(current)["partitions"]] == [[0, 1], [1, 2]]
    file = tmp_path / "proposed.json"
    file.write_text(proposed)
    assert all(set(row["replicas"]) == {0, 2} for row in json.loads(proposed)["partitions"])
    assert run(several.address, "--execute", "--reassignment-json-file", str(file)).code == 0


def test_an_unknown_broker_is_an_error_on_stdout(several, run, tmp_path):
    ran = run(several.address, "--execute", "--reassignment-json-file", plan(tmp_path, (0, [7])))
    assert (ran.code, ran.out, ran.err) == (1, "Error: Unknown broker id 7\n", "")


def test_a_reason_is_given_beside_what_apache_says(run):
    ran = run("nonsense", "--list")
    assert ran.out == "Error: Failed to create new KafkaAdminClient\n"
    assert ran.err == "Invalid url in bootstrap.servers: nonsense\n"
    ran = run("127.0.0.1:1", "--list", "--command-config", "/no/such")
    assert (ran.code, ran.out) == (1, "Error: /no/such\n")


def test_throttles_name_who_gives_and_who_takes():
    going = {FOO: PartitionReassignment((3, 0, 1), (3,), (0,))}
    bar = TopicPartition("bar", 1)
    found = copies(going, {FOO: (2, 1), bar: (5,)}, {FOO: (3, 0, 1), bar: (4, 5)})
    assert found[FOO] == ({0, 1}, {2, 3})
    assert topic_settings(found) == {
        "bar": {
            "leader.replication.throttled.replicas": "1:4,1:5",
            "follower.replication.throttled.replicas": "",
        },
        "foo": {
            "leader.replication.throttled.replicas": "0:0,0:1",
            "follower.replication.throttled.replicas": "0:2,0:3",
        },
    }
