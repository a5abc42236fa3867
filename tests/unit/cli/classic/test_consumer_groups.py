"""`kafka-consumer-groups` on a broker of ours; that it prints what Apache's prints is for the interop tests to say."""

import argparse
import time

import pytest

from ottla.cli.classic.consumer_groups_targets import (
    Wanted,
    duration_ms,
    number_of,
    one,
    read_plan,
    time_ms,
    topics_of,
    written_plan,
)
from ottla.cli.classic.java import Illegal
from ottla.cli.classic.parser import Refused
from ottla.cli.main import main
from ottla.core.ids import TopicPartition
from ottla.testing import Broker
from tests.unit.cli.states import Asked

OFFSETS = (
    "GROUP           TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             "
    "CONSUMER-ID     HOST            CLIENT-ID"
)


@pytest.fixture(scope="module")
def asked():
    with Broker() as broker:
        asked = Asked(broker.bootstrap_server)
        asked.create("t", 2)
        asked.produce("t", 10, timestamp=10**12)
        asked.commit("billing", "t", 4)
        asked.join("busy", "t", [0, 1])
        asked.join_consumers("modern", "t")
        yield asked


@pytest.fixture
def run(asked, capsys, monkeypatch):
    monkeypatch.setattr("ottla.cli.classic.zookeeper.servers_from", {"zk:2181": asked.address}.__getitem__)

    def once(line, where="--bootstrap-server @"):
        words = f"{where} {line}".replace("@", asked.address).split()
        code = main(["kafka-consumer-groups", *words])
        return code, *capsys.readouterr()

    return once


def test_groups_are_listed_with_what_is_asked_for(run):
    assert sorted(run("--list")[1].split()) == ["billing", "busy", "modern"]
    assert run("--list --type consumer --state") == (
        0,
        f"{'GROUP':<25} {'TYPE':<20} {'STATE':<20}\n{'modern':<25} {'Consumer':<20} {'Stable':<20}\n",
        "",
    )
    assert run("--list --state empty")[1].splitlines()[1:] == [f"{'billing':<25} {'Empty':<20}"]


def test_the_table_of_offsets_is_the_one_that_scripts_know(run):
    code, out, err = run("--describe --group billing")
    assert (code, err) == (0, "\nConsumer group 'billing' has no active members.\n")
    assert out == (
        f"\n{OFFSETS}\n"
        "billing         t               0          4               10              6               "
        "-               -               -\n"
    )


@pytest.mark.parametrize("group", ["busy", "modern"])
def test_members_are_shown_with_what_they_have(run, group):
    _, out, err = run(f"--describe --group {group} --members --verbose")
    assert (err, out.splitlines()[2].split()[0]) == ("", group)
    assert " t:0,1 " in out
    assert "/127.0.0.1" in out


@pytest.mark.parametrize(
    "where",
    ["--broker-list @", "--zookeeper zk:2181", "--new-consumer --bootstrap-server @"],
)
def test_older_command_lines_work(run, where):
    assert run("--describe --group billing", where)[1].splitlines()[1] == OFFSETS


def test_what_goes_wrong_is_said_on_stdout_and_is_no_failure(run):
    prefix = "\nError: Executing consumer group command failed due to "
    assert run("--describe --group nope") == (
        0,
        f"{prefix}org.apache.kafka.common.errors.GroupIdNotFoundException: Group nope not found.\n",
        "",
    )
    code, out, err = run("--list", "--bootstrap-server 127.0.0.1:1")
    assert (code, err, out.startswith(prefix)) == (0, "", True)


def test_a_dry_run_resets_nothing_and_execute_does(run):
    table = "\nGROUP           TOPIC           PARTITION  NEW-OFFSET\nnew             t               0          7\n"
    reset = "--reset-offsets --group new --topic t:0 --to-offset 7"
    assert run(f"{reset} --dry-run") == (0, table, "")
    assert "GroupIdNotFound" in run("--describe --group new")[1]
    code, out, err = run(reset)
    assert (code, out, err.startswith("WARN: No action will be performed")) == (0, table, True)
    assert run(f"{reset} --execute") == (0, table, "")
    assert " 7               10              3 " in run("--describe --group new")[1]
    assert run("--reset-offsets --group new --all-topics --shift-by -2 --execute --export") == (
        0,
        "t,0,5\n\n",
        "",
    )
    assert run("--delete --group new")[1] == "Deletion of requested consumer groups ('new') was successful.\n"


def test_a_group_with_members_is_not_reset_and_not_deleted(run):
    assert (
        "Error: Assignments can only be reset if the group 'busy' is inactive, but the current state is Stable."
        in run("--reset-offsets --group busy --all-topics --to-latest --execute")[1]
    )
    assert "GroupNotEmptyException" in run("--delete --group busy")[1]


def test_a_file_that_makes_no_sense_is_refused(run, tmp_path):
    path = tmp_path / "offsets.csv"
    path.write_text("t,0\n")
    code, out, _ = run(f"--reset-offsets --group billing --from-file {path} --dry-run")
    assert (code, "is neither topic,partition,offset nor" in out) == (0, True)


# --- what it reads ----------------------------------------------------------------------------------------------------


def test_topics_may_have_partitions():
    assert topics_of(["a", "b:1,0"]) == Wanted(["a"], [TopicPartition("b", 1), TopicPartition("b", 0)])
    for word in ("a:", "a:b:c", "a:x", "a:1,"):
        with pytest.raises(Refused):
            topics_of([word])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01.000", 1000),
        ("1970-01-01T00:00:01.5Z", 1005),
        ("1970-01-01T01:00:01.000+01", 1000),
        ("1970-01-01T01:00:01.000+0100", 1000),
        ("1969-12-31T22:30:01.000-01:30", 1000),
        ("1960-01-01T00:00:01.000", 0),
    ],
)
def test_times_are_those_of_java(text, expected):
    assert time_ms(text) == expected


@pytest.mark.parametrize(
    "text", ["1970-01-01", "1970-01-01T00:00:01", "1970-13-01T00:00:01.000", "T", "yesterdayT"]
)
def test_what_is_no_time_is_refused(text):
    with pytest.raises(Illegal, match="ParseException"):
        time_ms(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("P1D", 86400),
        ("PT1H30M2.5S", 5402.5),
        ("-PT1M", -60),
        ("PT-1.5S", -1.5),
        ("p1dt1s", 86401),
        ("PT0S", 0),
    ],
)
def test_durations_are_those_of_java(text, seconds):
    assert duration_ms(text) == seconds * 1000


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "1h", "P1M", "P1W", "PT1.5M", f"P{'9' * 5000}D", "P-999999999999999D"]
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(Illegal):
        duration_ms(text)


def test_plans_are_written_and_read(tmp_path):
    plan = {
        "g": {TopicPartition("t", 1): 5, TopicPartition("a-rather-long-name-of-a-topic", 0): 6},
        'a "group"': {TopicPartition("t", 0): 0},
    }
    text = written_plan(plan, is_for_one=False)
    assert text == 'g,t,1,5\ng,"a-rather-long-name-of-a-topic",0,6\n"a ""group""",t,0,0\n'
    path = tmp_path / "plan.csv"
    path.write_text(text)
    assert read_plan(str(path), ["g"]) == plan
    path.write_text(written_plan({"g": plan["g"]}, is_for_one=True))
    assert read_plan(str(path), ["g"]) == {"g": plan["g"]}
    assert read_plan(str(path), ["g", "h"]) == {}
    path.write_text("")
    with pytest.raises(Illegal):
        read_plan(str(path), ["g"])


def test_an_option_has_one_value():
    assert one(argparse.Namespace(to_offset=["1"]), "to-offset") == "1"
    assert one(argparse.Namespace(state=[None]), "state") is None
    assert number_of(argparse.Namespace(timeout=["5"]), "timeout") == 5
    with pytest.raises(Illegal, match="Found multiple arguments for option timeout"):
        number_of(argparse.Namespace(timeout=["5", "6"]), "timeout")


def test_a_time_before_the_records_is_their_start(run):
    line = "--reset-offsets --group billing --topic t:0 --dry-run --export"
    assert run(f"{line} --by-duration P{int(time.time() // 86400)}D")[1] == "t,0,0\n\n"
    assert run(f"{line} --to-datetime 1950-01-01T00:00:00.000")[1] == "t,0,0\n\n"


def test_offsets_are_long_numbers(run, tmp_path):
    line = "--reset-offsets --group billing --dry-run"
    assert run(f"{line} --topic t:0 --to-offset 5000000000")[1].split()[-4:] == ["billing", "t", "0", "10"]
    assert run(f"{line} --topic t:0 --shift-by -5000000000")[1].split()[-4:] == ["billing", "t", "0", "0"]
    path = tmp_path / "plan"
    path.write_text("t,0,5000000000\n")
    assert read_plan(str(path), ["billing"]) == {"billing": {TopicPartition("t", 0): 5_000_000_000}}
    path.write_text(f"t,0,{2**63}\n")
    with pytest.raises(Illegal, match="must be numbers"):
        read_plan(str(path), ["billing"])


def test_a_cell_without_end_is_refused(tmp_path):
    path = tmp_path / "plan"
    path.write_text(f"t,0,{'9' * 200_000}\n")
    with pytest.raises(Illegal, match="field larger than"):
        read_plan(str(path), ["billing"])


def test_names_of_groups_come_back_with_their_lines(tmp_path):
    plan = {"two\nlines": {TopicPartition("t", 0): 1}}
    path = tmp_path / "plan"
    path.write_text(written_plan(plan, False))
    assert read_plan(str(path), ["a", "b"]) == plan


def test_what_makes_no_sense_for_one_group_resets_none(run, asked):
    asked.commit("aged", "t", 4)
    line = "--reset-offsets --group aged --group stranger --topic t:0 --shift-by -3"
    code, _, err = run(f"{line} --execute")
    assert (code, "no current committed offset" in err) == (1, True)
    assert run("--describe --group aged")[1].split()[-6:-5] == ["4"]
    run("--delete --group aged")
