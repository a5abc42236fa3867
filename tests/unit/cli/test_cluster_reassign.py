"""`ottla cluster reassign` shows what it would do, does it, follows it to the end, and leaves no throttle behind."""

import json

import pytest

from ottla.cli import cluster_moving, cluster_reassigning
from ottla.cli.main import main
from tests.unit.cli.several import several_brokers
from tests.unit.cli.states import Asked, runner

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


@pytest.fixture
def several():
    """Followers fetch little at a time, so that a throttle can hold them."""
    with several_brokers(4, auto_leader_rebalance_enable=False, replica_fetch_max_bytes=1000) as running:
        yield running


@pytest.fixture
def ottla(several, capsys):
    return lambda *args: runner(capsys, several.address)("cluster", "reassign", *args)


def throttles(several, topic):
    """What brokers and the topic have set themselves."""

    async def work():
        nodes = several.cluster.nodes
        rates = {id: node.configs.broker.leader_replication_throttled_rate for id, node in nodes.items()}
        config = next(iter(nodes.values())).configs.topic(topic)
        words = (config.leader_replication_throttled_replicas, config.follower_replication_throttled_replicas)
        return {id for id, rate in rates.items() if rate < 2**63 - 1}, words

    return several.run(work())


def fill(several, topic, batches=50):
    """Records in batches that are fetched one by one."""
    leader = several.state(topic).leader
    asked = Asked(f"127.0.0.1:{several.cluster.nodes[leader].port}")
    for _ in range(batches):
        asked.produce(topic, 50)


def replicas(several, topic, count=1):
    return [several.state(topic, number).replicas for number in range(count)]


def test_without_execute_nothing_moves(several, ottla):
    several.create("orders", (0, 1), (1, 0))
    told = ottla("--drain", "1", "--json").json
    assert told["is_dry_run"]
    assert [row["removes"] for row in told["partitions"]] == [[1], [1]]
    assert told["rollback"]["partitions"][0] == {"topic": "orders", "partition": 0, "replicas": [0, 1]}
    assert replicas(several, "orders", 2) == [(0, 1), (1, 0)]
    (row, _) = ottla("--drain", "1").rows
    assert (row["now"], row["then"], row["adds"]) == ("0,1", "0,2", "2")
    assert ottla("--drain", "3").out == "nothing to move: every partition is where it is to be\n"


def test_a_broker_is_drained_and_the_end_waited_for(several, ottla):
    several.create("orders", (0, 1), (1, 0), (2, 3))
    ran = ottla("--drain", "1", "--execute", "--wait", "--json")
    assert [row["state"] for row in ran.json["partitions"]] == ["done", "done"]
    assert ran.json["failures"] == []
    several.until_in_sync("orders")
    assert all(1 not in found for found in replicas(several, "orders", 3))
    assert ottla("--list").out == "nothing moves\n"


def test_a_plan_in_a_file_is_executed_and_what_was_saved_brings_it_back(several, ottla, tmp_path):
    several.create("orders", (0, 1), (1, 0))
    plan, saved = tmp_path / "plan.json", tmp_path / "saved.json"
    row = {"topic": "orders", "partition": 1, "replicas": [3, 2]}
    plan.write_text(json.dumps({"version": 1, "partitions": [row]}))
    assert ottla("--file", str(plan), "--execute", "--wait", "--save", str(saved)).rows[0]["state"] == "done"
    assert ottla("--file", str(plan), "--verify", "--json").json["partitions"][0]["state"] == "done"
    assert replicas(several, "orders", 2) == [(0, 1), (3, 2)]
    assert ottla("--file", str(saved), "--verify").code == 3
    assert ottla("--file", str(saved), "--apply", "--wait").code == 0
    assert replicas(several, "orders", 2) == [(0, 1), (1, 0)]
    again = ottla("--file", str(plan), "--execute", "--save", str(saved))
    assert (again.code, again.err) == (1, f"ottla: {saved}: File exists\n"), (
        "what was saved is not written over"
    )


def test_one_partition_is_moved_by_hand(several, ottla):
    several.create("orders", (0,), (0,))
    args = ("--topic", "orders", "--partition", "1", "--replicas", "2,3")
    assert ottla(*args, "--plan").rows[0]["then"] == "2,3"
    assert ottla(*args, "--execute", "--wait").code == 0
    assert replicas(several, "orders", 2) == [(0,), (2, 3)]
    assert ottla(*args, "--execute").out == "nothing to move: every partition is where it is to be\n"


def test_topics_are_spread_over_brokers(several, ottla):
    several.create("orders", (0, 1), (0, 1), (0, 1), (0, 1))
    several.create("notes", (0,))
    told = ottla("--to", "0,1,2,3", "--topic", "orders", "--execute", "--wait", "--json").json
    assert {row["topic"] for row in told["partitions"]} == {"orders"}
    found = [id for each in replicas(several, "orders", 4) for id in each]
    assert sorted(found) == [0, 0, 1, 1, 2, 2, 3, 3]


# --- throttles --------------------------------------------------------------------------------------------------------


def test_a_throttle_holds_a_move_until_it_is_lifted(several, ottla):
    several.create("orders", (0,), min_insync_replicas=1)
    fill(several, "orders")
    args = ("--topic", "orders", "--partition", "0", "--replicas", "1", "--execute", "--throttle")
    ran = ottla(*args, "1", "--json")
    assert ran.json["partitions"][0]["state"] == "moving"
    several.until(lambda: several.cluster.nodes[1].configs.broker.leader_replication_throttled_rate == 1)
    assert throttles(several, "orders") == ({0, 1}, (("0:0",), ("0:1",)))
    (row,) = ottla("--list").rows
    assert (row["replicas"], row["adding"], row["removing"]) == ("1", "1", "0")
    assert 0 <= int(row["copied_bytes"]) < int(row["total_bytes"])
    ran = ottla("--verify")
    assert (ran.code, ran.rows[0]["state"]) == (3, "moving")
    assert throttles(several, "orders")[0] == {0, 1}, "not while it moves"
    refused = ottla(*args, "1G")
    assert refused.code == 1
    assert "1 partition is on the move already" in refused.err
    done = ottla(*args, "1G", "--additional", "--wait")
    assert done.rows[0]["state"] == "done", "another throttle holds for a move that is under way, too"
    assert replicas(several, "orders") == [(1,)]


def test_a_throttle_is_gone_after_waiting_for_the_end(several, ottla):
    several.create("orders", (0,))
    fill(several, "orders", 5)
    told = ottla(
        "--topic",
        "orders",
        "--partition",
        "0",
        "--replicas",
        "1,2",
        "--execute",
        "--wait",
        "--throttle",
        "1G",
        "--json",
    ).json
    assert (told["throttle"], told["throttles_removed"]) == (1 << 30, True)
    several.until(
        lambda: all(
            node.configs.broker.leader_replication_throttled_rate == 2**63 - 1
            for node in several.cluster.nodes.values()
        )
    )
    assert replicas(several, "orders") == [(1, 2)]


def test_cancelling_goes_back_and_removes_throttles(several, ottla):
    several.create("orders", (0,))
    fill(several, "orders")
    ottla("--topic", "orders", "--partition", "0", "--replicas", "1", "--execute", "--throttle", "1")
    ran = ottla("--cancel", "--json")
    assert ran.json["partitions"] == [
        {"topic": "orders", "partition": 0, "replicas": [0], "state": "cancelled"}
    ]
    assert ran.json["throttles_removed"]
    several.until(lambda: several.cluster.nodes[0].metadata.topics["orders"].partitions[0].replicas == (0,))
    assert ottla("--cancel").out == "nothing moves\n"
    assert ottla("--verify").out == "nothing moves\n"


def test_whoever_stops_waiting_does_not_stop_the_move(several, ottla, monkeypatch):
    several.create("orders", (0,))
    fill(several, "orders")

    async def interrupted(*_):
        raise KeyboardInterrupt

    assert cluster_reassigning.sizes_of is cluster_moving.sizes_of, (
        "imported before it is patched, not meanwhile"
    )
    with monkeypatch.context() as patch:
        patch.setattr(cluster_moving, "sizes_of", interrupted)
        ran = ottla(
            "--topic",
            "orders",
            "--partition",
            "0",
            "--replicas",
            "1",
            "--execute",
            "--wait",
            "--throttle",
            "1",
        )
    assert ran.code == 130
    assert "but the partitions go on moving: --verify tells when it is over" in ran.err
    assert len(ottla("--list", "--topic", "orders", "--json").json["partitions"]) == 1
    assert ottla("--list", "--topic", "orders", "--partition", "1", "--json").json["partitions"] == []
    ottla("--cancel")
    assert ottla("--verify", "--wait").code == 0


# --- what cannot be ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ([], "say what to move: --file, --drain, --to, or --topic, --partition and --replicas"),
        (["--execute"], "say what to move"),
        (["--drain", "1", "--replicas", "1"], "choose one of --replicas and --drain"),
        (["--drain", "1", "--execute", "--cancel"], "choose one of --execute and --cancel"),
        (["--replicas", "1,2"], "--replicas goes with --topic and --partition"),
        (["--partition", "1", "--replicas", "1,2"], "--partition goes with one --topic"),
        (
            ["--topic", "a", "--partition", "1", "--replicas", "1,x"],
            "--replicas takes ids of brokers as in 1,2,3",
        ),
        (["--topic", "a", "--partition", "1", "--replicas", "1,1"], "a broker is named twice in 1,1"),
        (["--topic", "a b", "--drain", "1"], "'a b' names no topic"),
        (["--topic", "a", "--partition", "0", "--drain", "1"], "--drain is for whole topics"),
        (["--drain", "1", "--to", "1,2"], "broker 1 cannot be drained to itself"),
        (
            ["--topic", "a", "--partition", "0", "--replicas", "1", "--to", "1"],
            "--to does not go with --replicas",
        ),
        (["--drain", "1", "--wait"], "--wait goes with --execute or --verify"),
        (["--cancel", "--throttle", "1"], "--throttle goes with --execute"),
        (["--drain", "1", "--throttle", "fast"], "--throttle takes bytes per second as in 1000000 or 50M"),
        (["--drain", "1", "--throttle", "0"], "--throttle takes bytes per second"),
        (["--cancel", "--drain", "1"], "--cancel takes moves by --file or --topic: leave out --drain"),
        (["--verify", "--drain", "1"], "--drain would be worked out anew"),
        (["--file", "/nowhere/plan.json"], "/nowhere/plan.json"),
    ],
)
def test_options_that_make_no_sense_get_a_sentence(capsys, args, sentence):
    assert main(["cluster", "reassign", *args, "-b", "127.0.0.1:1"]) == 2
    assert sentence in capsys.readouterr().err


def test_what_does_not_exist_is_not_found_and_a_file_without_sense_is_refused(several, ottla, tmp_path):
    several.create("orders", (0, 1))
    hand = ("--partition", "0", "--replicas")
    for args, sentence in [
        (("--topic", "nope", *hand, "0"), "there is no topic 'nope'"),
        (("--topic", "orders", "--partition", "3", "--replicas", "0"), "orders has no partition 3"),
        (("--topic", "orders", *hand, "0,9"), "broker 9 is not alive; alive are: 0, 1, 2, 3"),
        (("--drain", "9"), "there is no broker 9, nor has it replicas"),
        (("--drain", "0", "--to", "8"), "broker 8 is not alive"),
        (("--to", "0", "--topic", "nope"), "there is no topic 'nope'"),
        (("--list", "--topic", "nope"), "there is no topic 'nope'"),
    ]:
        ran = ottla(*args)
        assert ran.code == 4, ran.err
        assert sentence in ran.err
    assert ottla("--to", "0").code == 1
    plan = tmp_path / "plan.json"
    for content, sentence in [(b"nonsense", "is not JSON"), (b"\xff", "is not a text in UTF-8")]:
        plan.write_bytes(content)
        ran = ottla("--file", str(plan))
        assert (ran.code, sentence in ran.err, str(plan) in ran.err) == (2, True, True)


def test_where_nobody_listens_the_code_is_6(capsys):
    assert main(["cluster", "reassign", "--drain", "1", "-b", "127.0.0.1:1"]) == 6
    assert main(["cluster", "reassign", "--drain", "1", "--execute", "-b", "127.0.0.1:1"]) == 6
