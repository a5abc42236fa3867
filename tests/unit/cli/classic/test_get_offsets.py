"""`kafka-get-offsets` on a broker of ours."""

import pytest

from ottla.cli.classic.get_offsets import _parser, _place, _rules
from ottla.cli.classic.java import Illegal
from ottla.cli.main import main
from ottla.client import Producer
from ottla.core.ids import TopicPartition
from ottla.testing import Broker


@pytest.fixture(scope="module")
def server():
    with Broker() as broker:
        words = [
            "--bootstrap-server",
            broker.bootstrap_server,
            "--create",
            "--topic",
            "t",
            "--partitions",
            "12",
        ]
        assert main(["kafka-topics", *words]) == 0
        with Producer(bootstrap_servers=broker.bootstrap_server) as producer:
            for number in range(3):
                producer.send("t", b"x", partition=2, timestamp_ms=10**12 + number)
        yield broker.bootstrap_server


@pytest.fixture
def run(server, capsys):
    def once(line: str) -> tuple[int, str, str]:
        code = main(["kafka-get-offsets", *line.replace("@", server).split()])
        return code, *capsys.readouterr()

    return once


def test_partitions_come_in_the_order_of_their_names(run):
    code, out, _ = run("--bootstrap-server @ --topic t")
    assert code == 0
    assert out.split() == [f"t:{n}:{3 if n == 2 else 0}" for n in (0, 1, 10, 11, 2, 3, 4, 5, 6, 7, 8, 9)]


@pytest.mark.parametrize("option", ["--broker-list @ --offsets 1", "--bootstrap-server @"])
@pytest.mark.parametrize(
    ("time", "offset"), [("-2", 0), ("earliest", 0), ("-1", 3), ("max-timestamp", 2), (f"{10**12 + 1}", 1)]
)
def test_offsets_are_found_by_time(run, option, time, offset):
    assert run(f"{option} --topic t --partitions 2 --time {time}") == (0, f"t:2:{offset}\n", "")


def test_times_behind_the_last_record_have_no_offset(run):
    assert run(f"--bootstrap-server @ --topic t --time {2 * 10**12}") == (0, "", "")


def test_what_matches_nothing_is_an_error(run):
    sentence = "Error occurred: Could not match any topic-partitions with the specified filters\n"
    assert run("--bootstrap-server @ --topic nope") == (1, "", sentence)


@pytest.mark.parametrize(
    ("rules", "numbers"),
    [
        ("t:1", [1]),
        ("t:1-3", [1, 2]),
        ("t:2-", [2, 3]),
        (":-2", [0, 1]),
        ("t", [0, 1, 2, 3]),
        ("t:0,t:3", [0, 3]),
    ],
)
def test_rules_choose_partitions(rules, numbers):
    found = _rules(_parser().read(["--topic-partitions", rules]))
    partitions = [TopicPartition("t", number) for number in range(4)]
    assert [each.partition for each in partitions if any(rule.allows(each) for rule in found)] == numbers


def test_places_are_names_or_numbers():
    assert [_place(each) for each in ("latest", "-3", "7", "earliest-pending-upload")] == [-1, -3, 7, -6]
    with pytest.raises(
        Illegal, match=r"^Malformed time argument soon\. Please use -1 or latest / -2 or earliest /"
    ):
        _place("soon")
