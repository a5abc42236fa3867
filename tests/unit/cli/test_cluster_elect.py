"""`ottla cluster elect` gives leadership back, and elects the unclean only after somebody said yes."""

import itertools
import json

import pytest
from click.testing import CliRunner

from ottla.cli.cluster_elect import elect
from ottla.cli.main import main
from ottla.core.errors import ErrorCode
from ottla.protocol.messages.topics import ElectLeadersRequest, ElectLeadersResponse
from tests.unit.cli.fake_cluster import fake_cluster
from tests.unit.cli.several import several_brokers
from tests.unit.cli.states import runner
from tests.unit.cli.test_remote import scenario

_numbers = itertools.count()


@pytest.fixture
def several():
    with several_brokers(3, auto_leader_rebalance_enable=False) as running:
        yield running


@pytest.fixture
def ottla(several, capsys):
    return lambda *args: runner(capsys, several.address)(*args)


def astray(several, topic="orders"):
    """A topic of which every partition is led by its second replica. Returns the preferred leader."""
    preferred, second = [node.node_id for node in several.cluster.others]
    several.create(topic, (preferred, second), (preferred, second))
    several.stop(preferred)
    several.led_by(topic, second)
    several.led_by(topic, second, 1)
    several.start(preferred)
    several.until_in_sync(topic)
    return preferred, second


def test_preferred_replicas_lead_again(several, ottla):
    preferred, second = astray(several)
    plan = ottla("cluster", "elect", "--dry-run", "--json").json
    assert [(row["partition"], row["leader"], row["candidates"]) for row in plan["partitions"]] == [
        (0, second, [preferred]),
        (1, second, [preferred]),
    ]
    assert several.state("orders").leader == second
    told = ottla("cluster", "elect", "--json").json
    assert told["partitions"] == [
        {
            "topic": "orders",
            "partition": n,
            "leader_before": second,
            "leader": preferred,
            "outcome": "elected",
        }
        for n in range(2)
    ]
    assert [several.state("orders", number).leader for number in range(2)] == [preferred] * 2
    ran = ottla("cluster", "elect")
    assert (ran.code, ran.out) == (0, "there was nothing to elect\n")


def test_one_partition_is_elected_alone_and_what_needs_none_says_so(several, ottla):
    preferred, second = astray(several)
    (row,) = ottla("cluster", "elect", "--topic", "orders", "--partition", "1").rows
    assert (row["outcome"], row["leader"]) == ("elected", str(preferred))
    assert several.state("orders").leader == second
    rows = ottla("cluster", "elect", "--topic", "orders").rows
    assert [row["outcome"] for row in rows] == ["elected", "not needed"]


def test_a_preferred_replica_that_is_dead_is_a_failure(several, ottla):
    preferred, second = [node.node_id for node in several.cluster.others]
    several.create("orders", (preferred, second))
    several.kill(preferred)
    several.led_by("orders", second)
    ran = ottla("cluster", "elect", "--topic", "orders")
    assert ran.code == 1
    assert "orders:0: PREFERRED_LEADER_NOT_AVAILABLE" in ran.err


def leaderless(several):
    """A partition that the last replica in sync has taken down with it; the other one lives."""
    first, second = [node.node_id for node in several.cluster.others]
    several.create("orders", (first, second))
    several.kill(second)
    several.until(
        lambda: several.cluster.nodes[first].metadata.topics["orders"].partitions[0].isr == (first,)
    )
    several.kill(first)
    several.start(second)
    several.led_by("orders", -1)
    return first, second


def test_an_unclean_election_happens_only_after_a_yes(several, ottla):
    _, second = leaderless(several)
    ran = ottla("cluster", "elect")
    assert ran.code == 1, "a clean one is not possible"
    assert ottla("cluster", "elect", "--unclean", "--dry-run", "--json").json["partitions"][0][
        "candidates"
    ] == [second]
    for said, code in [("", 2), ("n\n", 1)]:
        result = CliRunner().invoke(elect, ["--unclean", "-b", several.address], input=said)
        assert result.exit_code == code
        assert f"orders:0 has no leader; replicas alive: {second}" in result.output
        assert "1 partition is without a leader. Records may be lost. Elect? [y/N]" in result.output
    assert several.state("orders").leader == -1
    told = ottla("cluster", "elect", "--unclean", "--yes", "--json").json
    assert told["partitions"] == [
        {"topic": "orders", "partition": 0, "leader_before": None, "leader": second, "outcome": "elected"}
    ]
    assert ottla("cluster", "elect", "--unclean", "--yes").out == "there was nothing to elect\n"


def test_a_topic_or_partition_that_does_not_exist_is_not_found(several, ottla):
    several.create("orders", (0,), (1,))
    ran = ottla("cluster", "elect", "--topic", "nope")
    assert (ran.code, ran.err) == (4, "ottla: there is no topic 'nope'\n")
    ran = ottla("cluster", "elect", "--topic", "orders", "--partition", "2")
    assert (ran.code, ran.err) == (4, "ottla: orders has no partition 2: they are numbered 0 to 1\n")
    ran = ottla("cluster", "elect", "--topic", "a b")
    assert ran.code == 4
    assert "there is no topic 'a b': the name" in ran.err


def test_a_partition_needs_a_topic(capsys):
    assert main(["cluster", "elect", "--partition", "1", "-b", "127.0.0.1:1"]) == 2
    assert capsys.readouterr().err == "ottla cluster elect: --partition goes with --topic\n"
    assert main(["cluster", "elect", "-b", "127.0.0.1:1"]) == 6


@scenario
async def test_who_is_not_the_controller_any_more_is_asked_again(capsys):
    import asyncio

    answers = [ErrorCode.NOT_CONTROLLER, ErrorCode.ELECTION_NOT_NEEDED]

    def answer(node_id, request):
        assert isinstance(request, ElectLeadersRequest)
        row = ElectLeadersResponse.Topic
        code = answers.pop(0)
        results = [row(topic="t", partition_result=[row.Partition(partition_id=0, error_code=code)])]
        return ElectLeadersResponse(error_code=0, replica_election_results=results)

    async with fake_cluster(answer, topics={"t": {0: 1}}, controller=2) as fake:
        args = ["cluster", "elect", "--topic", "t", "--json", "-b", f"127.0.0.1:{fake.ports[1]}"]
        assert await asyncio.to_thread(main, args) == 0
        assert [node for node, _ in fake.asked] == [2, 2]
    (row,) = json.loads(capsys.readouterr().out)["partitions"]
    assert row["outcome"] == "not needed"
