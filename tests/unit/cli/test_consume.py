"""What `ottla consume` prints, where it begins and ends, and what a group has committed of it."""

import base64
import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest

from ottla.cli.main import main
from ottla.client import Admin, Producer
from ottla.core.ids import TopicPartition
from ottla.testing import Broker
from tests.unit.cli.nouns import asked, broker, topic
from tests.unit.cli.states import now_ms

__all__ = ["asked", "broker", "topic"]

_SECONDS = 20
_AGO = (now_ms() // 1000 - 7200) * 1000
"""Two hours ago, to the second. Not long ago: what is older than the retention time is deleted under our feet."""


@pytest.fixture
def consume(broker, capfdbinary):
    """Runs `ottla consume ...`; returns the code, what it printed, and what it said."""

    def run(*words):
        capfdbinary.readouterr()
        code = main(["consume", *words, "-b", broker.bootstrap_server])
        out, err = capfdbinary.readouterr()
        return code, out, err.decode()

    return run


@pytest.fixture
def send(broker):
    """Sends values to partition 0 of a topic, or records as dictionaries."""

    def send(topic, *records):
        with Producer(bootstrap_servers=broker.bootstrap_server) as producer:
            for each in records:
                fields = each if isinstance(each, dict) else {"value": each}
                producer.send(topic, **{"partition": 0, **fields})

    return send


@pytest.fixture
def committed(broker):
    def committed(group, topic, partition=0):
        with Admin(bootstrap_servers=broker.bootstrap_server) as admin:
            found = admin.list_group_offsets(group)
            place = found.get(TopicPartition(topic, partition))
            return None if place is None else place.offset

    return committed


# --- what is printed --------------------------------------------------------------------------------------------------


def test_values_are_lines_of_the_bytes_that_they_are(consume, send, topic):
    send(topic, b"tea", b"\xff\x00\x1b", b"", None)
    assert consume(topic, "-e") == (0, b"tea\n\xff\x00\x1b\n\n\n", "")


def test_json_has_everything_of_a_record(consume, send, topic):
    headers = [("shop", b"Prague"), ("raw", b"\xff"), ("none", None), ("shop", b"Brno")]
    send(topic, {"value": b"\xc3\x28", "key": "čaj".encode(), "timestamp_ms": _AGO, "headers": headers})
    send(topic, {"value": None, "key": None, "timestamp_ms": _AGO + 1})
    code, out, _ = consume(topic, "-e", "--json")
    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [
        {
            "topic": topic,
            "partition": 0,
            "offset": 0,
            "timestamp": _AGO,
            "key": "čaj",
            "value": {"base64": base64.b64encode(b"\xc3\x28").decode()},
            "headers": [["shop", "Prague"], ["raw", {"base64": "/w=="}], ["none", None], ["shop", "Brno"]],
        },
        {
            "topic": topic,
            "partition": 0,
            "offset": 1,
            "timestamp": _AGO + 1,
            "key": None,
            "value": None,
            "headers": [],
        },
    ]


def test_a_format_prints_what_it_says_and_nothing_else(consume, send, topic):
    send(topic, {"value": b"tea", "key": b"anna"}, {"value": b"cake", "key": b"ben"})
    assert consume(topic, "-e", "-f", r"%p/%o %k=%v{hex};") == (0, b"0/0 anna=746561;0/1 ben=63616b65;", "")


def test_a_format_and_json_are_one_too_many(consume, topic):
    code, _, err = consume(topic, "-f", "%s", "--json")
    assert code == 2 and "say one of them" in err


def test_grep_looks_into_the_bytes_of_values_and_counts_after_it(consume, send, topic):
    send(topic, b"green tea", b"coffee", b"\xff tea", {"value": b"water", "key": b"tea"}, b"iced tea")
    assert consume(topic, "-e", "--grep", "tea")[1] == b"green tea\n\xff tea\niced tea\n"
    assert consume(topic, "-n", "2", "--grep", "tea$")[1] == b"green tea\n\xff tea\n"


def test_what_is_no_regular_expression_is_refused(consume, topic):
    code, _, err = consume(topic, "--grep", "(")
    assert code == 2 and "no regular expression" in err
    code, _, err = consume("(", "--regex")
    assert code == 2 and "no regular expression" in err


def test_flags_of_a_pattern_hold_for_that_pattern(consume, send, topic):
    send(topic, b"tea")
    flagged = f"(?i){topic.upper()}"
    assert consume("--regex", "no-such", flagged, "-e") == (0, b"tea\n", "")
    assert consume("--regex", flagged, topic.upper(), "-e") == (0, b"tea\n", "")
    assert consume("--regex", "(?i)no-such", topic.upper(), "-e")[0] == 4


# --- where it begins and ends -----------------------------------------------------------------------------------------


@pytest.fixture
def ten(send, topic):
    """Values 0 to 9, a millisecond apart, two hours ago."""
    send(topic, *({"value": b"%d" % n, "timestamp_ms": _AGO + n} for n in range(10)))
    return topic


@pytest.mark.parametrize(
    ("place", "first", "end"),
    [
        ("start", 0, 10),
        ("end", 10, 10),
        ("-3", 7, 10),
        ("-300", 0, 10),
        ("4", 4, 10),
        ("400", 10, 10),
        ("@{6}", 6, 10),
        ("@-1h", 10, 10),
        (":3", 0, 3),
        ("2:5", 2, 5),
        ("5:2", 0, 0),
        ("-4:-2", 6, 8),
        ("@{3}:@{5}", 3, 5),
        ("@{iso}.002:@{iso}.004", 2, 4),
        ("@{8}:end", 8, 10),
        ("3:", 3, 10),
    ],
)
def test_a_span_is_read_with_its_start_and_without_its_end(consume, ten, place, first, end):
    times = [_AGO + number for number in range(10)]
    second = datetime.fromtimestamp(_AGO // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    code, out, _ = consume(ten, "-e", "-o", place.format(*times, iso=second))
    assert code == 0
    assert [int(each) for each in out.split()] == list(range(first, end))


def test_an_end_that_is_said_needs_no_e(consume, ten):
    assert consume(ten, "-o", "7:9")[1] == b"7\n8\n"
    assert consume(ten, "-o", "-1:end")[1] == b"9\n"


def test_the_count_is_exact(consume, ten):
    assert consume(ten, "-n", "3")[1] == b"0\n1\n2\n"
    assert consume(ten, "-n", "30", "-e")[1].split() == [b"%d" % n for n in range(10)]


def test_what_is_no_place_is_said(consume, ten):
    code, _, err = consume(ten, "-o", "somewhere")
    assert code == 2 and "'somewhere' is no place" in err


def test_partitions_are_chosen_by_number(consume, send, topic):
    send(topic, b"zero", {"value": b"one", "partition": 1})
    assert consume(topic, "-e", "-p", "1")[1] == b"one\n"
    assert consume(f"{topic}:0", "-e")[1] == b"zero\n"
    assert sorted(consume(topic, "-e", "-p", "0", "-p", "1")[1].split()) == [b"one", b"zero"]
    code, _, err = consume(topic, "-p", "7")
    assert code == 4 and "has no partition 7" in err


def test_an_empty_topic_ends_at_once(consume, topic):
    assert consume(topic, "-e") == (0, b"", "")


def test_records_that_were_deleted_do_not_hold_up_the_end(consume, ten, broker):
    with Admin(bootstrap_servers=broker.bootstrap_server) as admin:
        admin.delete_records({TopicPartition(ten, 0): 10})
    assert consume(ten, "-e") == (0, b"", "")
    assert consume(ten, "-e", "-o", "5") == (0, b"", "")


def test_several_topics_and_patterns(consume, send, topic, asked):
    other = asked.create(f"{topic}-other")
    send(topic, b"a")
    send(other, b"b")
    assert sorted(consume(topic, other, "-e")[1].split()) == [b"a", b"b"]
    assert sorted(consume(f"{topic}(-other)?", "--regex", "-e")[1].split()) == [b"a", b"b"]
    assert consume(topic, "--regex", "-e")[1] == b"a\n"
    code, _, err = consume("nothing-like.*", "--regex")
    assert code == 4 and "no topic matches" in err


def test_a_topic_that_is_not_there_is_not_made_by_asking(consume, broker, topic):
    code, out, err = consume(f"{topic}x", "-e")
    assert (code, out) == (4, b"") and f"did you mean '{topic}'" in err
    with Admin(bootstrap_servers=broker.bootstrap_server) as admin:
        assert f"{topic}x" not in admin.list_topics()


def test_nobody_to_ask_is_said_in_time(capfd):
    assert main(["consume", "orders", "-b", "127.0.0.1:1", "--timeout", "1"]) == 6
    assert "cannot connect to 127.0.0.1:1" in capfd.readouterr().err


# --- transactions -----------------------------------------------------------------------------------------------------


def test_the_end_is_behind_markers_and_aborted_records(consume, topic, asked):
    asked.produce(topic)
    owner, _ = asked.begin(f"{topic}-a", topic, 3)
    asked.end(f"{topic}-a", owner, commit=False)
    owner, _ = asked.begin(f"{topic}-b", topic, 2, owner=None)
    asked.end(f"{topic}-b", owner)
    assert consume(topic, "-e")[1] == b"value\n" * 3
    assert consume(topic, "-e", "--isolation", "read_uncommitted")[1] == b"value\n" * 6
    assert consume(topic, "-e", "-o", "-1") == (0, b"", "")


def test_an_open_transaction_is_not_waited_for(consume, topic, asked):
    asked.produce(topic, 2)
    owner, _ = asked.begin(f"{topic}-open", topic, 3)
    assert consume(topic, "-e")[1] == b"value\n" * 2
    assert consume(topic, "-e", "--isolation", "read_uncommitted")[1] == b"value\n" * 5
    asked.end(f"{topic}-open", owner, commit=False)


# --- groups -----------------------------------------------------------------------------------------------------------


def test_a_group_goes_on_where_it_was(consume, committed, ten):
    assert consume(ten, "-g", f"{ten}-g", "-n", "4")[1] == b"0\n1\n2\n3\n"
    assert committed(f"{ten}-g", ten) == 4
    assert consume(ten, "-g", f"{ten}-g", "-e")[1].split() == [b"4", b"5", b"6", b"7", b"8", b"9"]
    assert committed(f"{ten}-g", ten) == 10
    assert consume(ten, "-g", f"{ten}-g", "-e") == (0, b"", "")


def test_a_group_commits_what_it_looked_at_up_to_the_last_that_was_wanted(consume, committed, ten):
    assert consume(ten, "-g", f"{ten}-g", "-n", "2", "--grep", "[1357]")[1] == b"1\n3\n"
    assert committed(f"{ten}-g", ten) == 4
    assert consume(ten, "-g", f"{ten}-g", "-o", ":6")[1] == b"4\n5\n"
    assert committed(f"{ten}-g", ten) == 6


def test_a_place_counts_for_a_group_only_where_nothing_is_committed(consume, committed, ten):
    assert consume(ten, "-g", f"{ten}-g", "-o", "-2", "-n", "1")[1] == b"8\n"
    assert consume(ten, "-g", f"{ten}-g", "-o", "start", "-n", "1")[1] == b"9\n"
    assert consume(ten, "-g", f"{ten}-new", "-o", "end", "-e") == (0, b"", "")


def test_partitions_by_hand_are_committed_too(consume, committed, ten):
    assert consume(ten, "-g", f"{ten}-g", "-p", "0", "-n", "3")[1] == b"0\n1\n2\n"
    assert committed(f"{ten}-g", ten) == 3
    assert consume(ten, "-g", f"{ten}-g", "-p", "0", "-n", "1")[1] == b"3\n"


def test_a_commit_that_is_refused_is_a_failure(consume, broker, ten):
    broker.faults.fail_next("OffsetCommit", "GROUP_AUTHORIZATION_FAILED", times=2)
    try:
        code, out, err = consume(ten, "-g", "readers-refused", "-n", "4")
    finally:
        broker.faults.clear()
    assert (code, out) == (5, b"0\n1\n2\n3\n") and "GROUP_AUTHORIZATION_FAILED" in err


def test_a_group_has_a_name(consume, ten):
    code, out, err = consume(ten, "-g", "", "-e")
    assert (code, out) == (2, b"") and "must not be empty" in err


# --- as a process -----------------------------------------------------------------------------------------------------


def start(server, *words, **how):
    command = [sys.executable, "-m", "ottla.cli.main", "consume", *words, "-b", server]
    return subprocess.Popen(command, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how})


def test_a_reader_that_hangs_up_ends_it_quietly(broker, send, topic):
    send(topic, b"one", b"two")
    with start(broker.bootstrap_server, topic) as process:
        assert process.stdout.readline() == b"one\n"
        process.stdout.close()
        assert process.wait(_SECONDS) == 1
        assert process.stderr.read() == b""


def test_what_a_reader_did_not_take_is_not_committed(broker, send, committed, topic):
    send(topic, *(b"x" * 100_000 for _ in range(20)))
    with start(broker.bootstrap_server, topic, "-g", f"{topic}-g") as process:
        assert process.stdout.read(10) == b"x" * 10
        process.stdout.close()
        assert process.wait(_SECONDS) == 1
    assert (committed(f"{topic}-g", topic) or 0) < 20


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_when_all_is_written_and_committed(
    broker,
    send,
    committed,
    topic,
    number,
):
    send(topic, b"one", b"two")
    with start(broker.bootstrap_server, topic, "-g", f"{topic}-g") as process:
        assert process.stdout.readline() + process.stdout.readline() == b"one\ntwo\n"
        process.send_signal(number)
        assert process.wait(_SECONDS) == 130
        assert process.stdout.read() == b"" and process.stderr.read() == b""
    assert committed(f"{topic}-g", topic) == 2


def test_partitions_that_come_to_be_are_read_too(broker, send, topic):
    send(topic, b"old")
    with start(broker.bootstrap_server, topic, "-n", "2", "-X", "metadata.max.age.ms=200") as process:
        assert process.stdout.readline() == b"old\n"
        with Admin(bootstrap_servers=broker.bootstrap_server) as admin:
            admin.create_partitions({topic: 3})
        send(topic, {"value": b"new", "partition": 2})
        assert process.stdout.read() == b"new\n"
        assert process.wait(_SECONDS) == 0


def test_a_terminal_sees_no_control_characters(broker, send, topic):
    send(topic, b"a\x1b[2Jb\tc\xff\xc2\x9b", "čaj\u202e".encode())
    ours, theirs = pty.openpty()
    with start(broker.bootstrap_server, topic, "-e", stdout=theirs) as process:
        os.close(theirs)
        assert process.wait(_SECONDS) == 0
    seen = os.read(ours, 1000)
    os.close(ours)
    assert seen.replace(b"\r\n", b"\n") == rb"a\x1b[2Jb" + b"\t" + rb"c\xff\x9b" + "\nčaj\\u202e\n".encode()


def test_a_broker_that_dies_is_missed_once_and_read_again_when_it_is_back():
    with Broker() as own:
        with Producer(bootstrap_servers=own.bootstrap_server) as producer:
            producer.send("orders", b"one").get()
        process = start(own.bootstrap_server, "orders", "-n", "2", "-X", "retry.backoff.max.ms=200")
        with process:
            assert process.stdout.readline() == b"one\n"
            own.stop()
            said = process.stderr.readline().decode()
            own.start()
            with Producer(bootstrap_servers=own.bootstrap_server) as producer:
                producer.send("orders", b"two").get()
            assert process.stdout.read() == b"two\n"
            assert process.wait(_SECONDS) == 0
            assert re.match("ottla: consume: .*; it goes on as soon as that is over\n", said)
            assert process.stderr.read() == b""


def test_it_waits_for_records_that_come(broker, consume, send, topic):
    waiting = threading.Thread(target=send, args=(topic, b"late"))
    waiting.start()
    try:
        assert consume(topic, "-n", "1")[1] == b"late\n"
    finally:
        waiting.join()


def test_json_goes_through_a_pipe_into_another_topic(broker, send, topic, asked):
    copy = asked.create(f"{topic}-copy")
    send(
        topic,
        {"value": b"\xff\x00", "key": "čaj".encode(), "headers": [("a", b"\xfe"), ("b", None)]},
        {"value": None, "key": b"gone"},
        {"value": b'{"a": "\\n"}', "key": None},
    )
    with start(broker.bootstrap_server, topic, "-e", "--json") as process:
        words = ["produce", copy, "--file", "-", "--quiet", "-b", broker.bootstrap_server]
        command = [sys.executable, "-m", "ottla.cli.main", *words]
        assert subprocess.run(command, stdin=process.stdout, timeout=_SECONDS).returncode == 0
    first, second = (
        [each[2:] for each in broker.records(name) if each.partition == 0] for name in (topic, copy)
    )
    assert first == second and len(first) == 3
