"""`ottla group` against a broker with groups of both protocols, in both isolation levels."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys

import pytest

from ottla.cli.group_lag import GroupLag, PartitionLag
from ottla.cli.group_look import Look
from ottla.cli.group_members import Described
from ottla.cli.main import main
from ottla.cli.remote import cluster
from ottla.core.errors import ErrorCode
from ottla.core.hosts import Address
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.consumer_groups import ConsumerGroupDescribeResponse
from ottla.protocol.messages.groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from ottla.testing import Broker
from tests.unit.cli.fake_cluster import SILENT, fake_cluster
from tests.unit.cli.states import Asked, now_ms, runner

HOUR_MS = 3_600_000
OTTLA = [sys.executable, "-m", "ottla.cli.main"]


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def asked(broker):
    """orders: ten old records and an open transaction in partition 0, five records in partition 1."""
    made = Asked(broker.bootstrap_server)
    made.create("orders", 2)
    made.create("unread", 2)
    made.produce("orders", 10, timestamp=now_ms() - HOUR_MS)
    made.produce("orders", 5, partition=1)
    made.begin("pay", "orders", 3)
    made.commit("billing", "orders", 4)
    made.commit("billing", "orders", 5, partition=1)
    made.commit("waiting", "orders", 10)
    return made


@pytest.fixture
def ottla(asked, capsys):
    return runner(capsys, asked.address)


# --- lag ------------------------------------------------------------------------------------------------------------


def test_lag_is_shown_for_readers_of_everything_and_of_committed_records(ottla):
    (group,) = ottla("group", "lag", "billing", "--json").json["groups"]
    assert (group["group"], group["type"], group["state"]) == ("billing", "classic", "Empty")
    first, second = group["partitions"]
    assert {
        "topic": "orders",
        "partition": 0,
        "committed_offset": 4,
        "log_end_offset": 13,
        "last_stable_offset": 10,
        "lag": 9,
        "lag_read_committed": 6,
        "error": None,
    }.items() <= first.items()
    assert 3600 <= first["lag_seconds"] == first["lag_seconds_read_committed"] < 2 * 3600
    assert (second["partition"], second["lag"], second["lag_seconds"]) == (1, 0, 0)
    total = group["total"]
    assert (total["partitions"], total["partitions_unknown"]) == (2, 0)
    assert (total["lag"], total["lag_read_committed"]) == (9, 6)
    assert total["lag_seconds"] == first["lag_seconds"]


def test_who_waits_for_a_transaction_is_behind_only_as_a_reader_of_everything(ottla):
    (group,) = ottla("group", "lag", "waiting", "--json").json["groups"]
    (row,) = group["partitions"]
    assert (row["lag"], row["lag_read_committed"], row["lag_seconds_read_committed"]) == (3, 0, 0)
    assert 0 <= row["lag_seconds"] < 3600


def test_through_a_pipe_lag_is_tab_separated(ottla):
    ran = ottla("group", "lag", "billing", "waiting")
    assert ran.code == 0
    assert [(row["group"], row["partition"], row["lag"]) for row in ran.rows] == [
        ("billing", "0", "9"),
        ("billing", "1", "0"),
        ("waiting", "0", "3"),
    ]
    assert ran.rows[0]["member_id"] == "-"


def test_a_member_of_a_classic_group_is_named_beside_what_it_owns(ottla, asked):
    member = asked.join("readers", "orders", [1])
    (row,) = ottla("group", "lag", "readers").rows
    assert (row["state"], row["topic"], row["partition"]) == ("Stable", "orders", "1")
    assert (row["member_id"], row["client_id"], row["host"]) == (member, "ottla", "/127.0.0.1")
    assert (row["committed_offset"], row["log_end_offset"], row["lag"], row["lag_seconds"]) == (
        "-",
        "5",
        "-",
        "-",
    )


def test_a_member_of_a_consumer_group_is_named_beside_what_it_owns(ottla, asked):
    member = asked.join_consumers("modern", "unread")
    (group,) = ottla("group", "lag", "modern", "--json").json["groups"]
    assert (group["type"], group["state"]) == ("consumer", "Stable")
    assert [(row["partition"], row["member_id"]) for row in group["partitions"]] == [(0, member), (1, member)]
    assert group["total"]["lag"] is None
    assert group["total"]["partitions_unknown"] == 2


def test_all_means_every_group_of_consumers(ottla):
    found = ottla("group", "lag", "--all", "--json").json["groups"]
    assert {"billing", "waiting"} <= {each["group"] for each in found}


def test_a_group_that_nobody_knows_is_not_found(ottla):
    ran = ottla("group", "lag", "biling")
    assert (ran.code, ran.out) == (4, "")
    assert ran.err.startswith("ottla: there is no group 'biling'; did you mean 'billing'")


def test_one_unknown_group_among_others_is_a_part_that_failed(ottla):
    ran = ottla("group", "lag", "waiting", "biling")
    assert ran.code == 3
    assert [row["group"] for row in ran.rows] == ["waiting"]
    assert "'biling'" in ran.err


def test_offsets_of_a_partition_that_is_gone_are_shown_with_a_reason(ottla, asked, broker):
    asked.commit("billing2", "orders", 1)
    broker.fail_next("ListOffsets", "NOT_LEADER_OR_FOLLOWER")
    ran = ottla("group", "lag", "billing2")
    assert ran.code == 3
    assert (ran.rows[0]["committed_offset"], ran.rows[0]["lag"]) == ("1", "-")
    assert ran.err == "ottla: group 'billing2', orders-0: NOT_LEADER_OR_FOLLOWER\n"


def test_a_record_that_cannot_be_read_costs_only_its_age(ottla, broker):
    broker.fail_next("Fetch", "TOPIC_AUTHORIZATION_FAILED")
    (group,) = ottla("group", "lag", "billing", "--json").json["groups"]
    assert (group["partitions"][0]["lag"], group["partitions"][0]["lag_seconds"]) == (9, None)


def test_all_leaves_out_what_has_gone_meanwhile_and_says_who_was_silent():
    def answer(node_id, request):
        if isinstance(request, ListGroupsRequest):
            row = ListGroupsResponse.Group(group_id="gone", protocol_type="consumer", group_type="classic")
            return SILENT if node_id == 2 else ListGroupsResponse(error_code=0, groups=[row])
        if isinstance(request, FindCoordinatorRequest):
            row = FindCoordinatorResponse.Coordinator(
                key="gone", node_id=1, host="127.0.0.1", port=fake.ports[1], error_code=0
            )
            return FindCoordinatorResponse(coordinators=[row])
        told = {
            "group_id": "gone",
            "group_state": "",
            "error_code": ErrorCode.GROUP_ID_NOT_FOUND,
            "members": [],
        }
        if isinstance(request, DescribeGroupsRequest):
            group = DescribeGroupsResponse.Group(protocol_type="", protocol_data="", **told)
            return DescribeGroupsResponse(groups=[group])
        group = ConsumerGroupDescribeResponse.Group(
            group_epoch=0, assignment_epoch=0, assignor_name="", **told
        )
        return ConsumerGroupDescribeResponse(groups=[group])

    async def work():
        nonlocal fake
        async with fake_cluster(answer) as fake, cluster([Address("127.0.0.1", fake.ports[1])], 300) as asked:
            return await Look([], is_all=True, as_json=True).take(asked)

    fake = None
    found = asyncio.run(work())
    assert list(found) == ["broker 2"]
    assert "did not answer ListGroups" in found["broker 2"].message


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ([], "name groups, or say --all"),
        (["g", "--all"], "name groups or say --all"),
        (["--watch", "g"], "--watch takes seconds, not 'g'"),
        (["g", "--watch", "0"], "--watch takes 0.1 to 86400 seconds"),
        (["g", "--watch=nan"], "--watch takes 0.1 to 86400 seconds"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(capsys, args, sentence):
    assert main(["group", "lag", *args]) == 2
    assert sentence in capsys.readouterr().err


# --- watch ----------------------------------------------------------------------------------------------------------


def watch(asked, *args, **options):
    command = [*OTTLA, "group", "lag", *args, "-b", asked.address]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


def end(process):
    """As Ctrl-C does. What it said on stderr."""
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    return err.strip()


def test_a_watch_writes_lines_until_it_is_interrupted(asked):
    process = watch(asked, "waiting", "--watch", "0.1", stdout=subprocess.PIPE)
    names = process.stdout.readline().rstrip("\n").split("\t")
    looks = [dict(zip(names, process.stdout.readline().split("\t"), strict=True)) for _ in range(3)]
    assert end(process) == ""
    assert [look["lag"] for look in looks] == ["3"] * 3
    assert int(looks[0]["time_ms"]) < int(looks[2]["time_ms"])


def test_a_watch_sees_what_changes(asked):
    asked.create("moving")
    asked.commit("mover", "moving", 0)
    process = watch(asked, "mover", "--watch", "0.1", "--json", stdout=subprocess.PIPE)
    first = json.loads(process.stdout.readline())
    asked.produce("moving", 7)
    while (look := json.loads(process.stdout.readline()))["groups"][0]["total"]["lag"] != 7:
        assert look["groups"][0]["total"]["lag"] == 0
    assert first["groups"][0]["total"]["lag"] == 0
    assert end(process) == ""


def test_a_watch_on_a_terminal_draws_tables_in_one_place(asked):
    inside, outside = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "250"}
    env.pop("NO_COLOR", None)
    process = watch(asked, "billing", "--watch", "0.1", stdout=outside, env=env)
    os.close(outside)
    seen = b""
    while seen.count(b"behind by 9 (read committed: 6)") < 3:
        seen += os.read(inside, 65536)
    process.send_signal(signal.SIGINT)
    try:
        while data := os.read(inside, 65536):
            seen += data
    except OSError:  # the other side of a terminal is gone
        pass
    assert process.wait(timeout=30) == 130
    process.stderr.close()
    os.close(inside)
    assert b"lag read committed" in seen
    assert b"\x1b[1A" in seen, "the cursor goes up again"
    assert b"\x1b[?25h" in seen, "the cursor is visible again"
    assert b"Traceback" not in seen


def test_a_watch_of_a_group_that_nobody_knows_ends_at_once(asked):
    process = watch(asked, "biling", "--watch", stdout=subprocess.PIPE)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (4, "")
    assert "'biling'" in err


def test_a_watch_lives_through_a_restart_of_the_broker():
    with Broker() as broker:
        asked = Asked(broker.bootstrap_server)
        asked.create("t")
        asked.commit("g", "t", 0)
        process = watch(asked, "g", "--watch", "0.1", "--json", stdout=subprocess.PIPE)
        process.stdout.readline()
        broker.restart()
        assert "closed the connection" in process.stderr.readline()
        asked.produce("t", 2)
        while json.loads(process.stdout.readline())["groups"][0]["total"]["lag"] != 2:
            pass
        end(process)


# --- ls, describe ---------------------------------------------------------------------------------------------------


def test_groups_are_listed_and_filtered(ottla, asked):
    asked.join("listed", "orders", [0])
    rows = {row["group"]: row for row in ottla("group", "ls").rows}
    assert rows["billing"]["state"] == "Empty"
    assert (rows["listed"]["state"], rows["listed"]["type"], rows["listed"]["protocol_type"]) == (
        "Stable",
        "classic",
        "consumer",
    )
    stable = ottla("group", "list", "--state", "Stable", "--json").json["groups"]
    assert "listed" in {each["group"] for each in stable}
    assert "billing" not in {each["group"] for each in stable}
    assert "listed" not in ottla("group", "ls", "--type", "consumer").out


def test_a_group_is_described_with_members_and_offsets(ottla, asked):
    member = asked.join("described", "orders", [0, 1])
    (group,) = ottla("group", "describe", "described", "--json").json["groups"]
    assert (group["state"], group["protocol"], group["coordinator"]) == ("Stable", "range", 1)
    (only,) = group["members"]
    assert (only["member_id"], only["partitions"]) == (member, ["orders:0", "orders:1"])
    assert [row["log_end_offset"] for row in group["partitions"]] == [13, 5]
    ran = ottla("group", "describe", "described")
    assert f"{member}\t-\tottla\t/127.0.0.1\torders:0,orders:1" in ran.out.splitlines()


def test_describing_what_is_not_there_is_not_found(ottla):
    ran = ottla("group", "describe", "nope")
    assert (ran.code, ran.out) == (4, "")


def test_a_state_that_no_group_has_is_a_usage_error(ottla):
    assert "billing" in ottla("group", "ls", "--state", "empty").out
    ran = ottla("group", "ls", "--state", "Foo")
    assert (ran.code, ran.out, "'empty'" in ran.err) == (2, "", True)


def test_the_name_of_a_group_cannot_move_the_cursor(capsys, monkeypatch):
    monkeypatch.setattr("ottla.cli.group_look.is_for_people", lambda: True)
    described = Described("evil\x1b[2J", "classic", "Empty", 1, "", ())
    Look(["evil"], is_all=False, as_json=False).show({"evil": GroupLag(described, ())})
    shown = capsys.readouterr().out
    assert "evil\\x1b[2J  (classic, Empty, 0 members)" in shown
    assert "\x1b[2J" not in shown
    assert "nothing is committed" in shown


def test_a_lag_that_nobody_knows_is_not_said_to_be_nothing(capsys, monkeypatch):
    monkeypatch.setattr("ottla.cli.group_look.is_for_people", lambda: True)
    row = PartitionLag(TopicPartition("t", 0), 5, None, None, 0, None, "nobody leads it")
    described = Described("g", "classic", "Empty", 1, "", ())
    Look(["g"], is_all=False, as_json=False).show({"g": GroupLag(described, (row,))})
    assert "nobody knows how far it is behind" in capsys.readouterr().out
