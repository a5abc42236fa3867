"""`ottla produce`: what arrives, what is said of it, and which exit code a shell sees."""

import base64
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import termios

import pytest

from ottla.cli.main import main
from ottla.testing import Broker
from tests.unit.cli.nouns import asked, broker, topic  # noqa: F401 - fixtures
from tests.unit.cli.states import Ran


@pytest.fixture
def produce(broker, capfd, monkeypatch, tmp_path):  # noqa: F811 - the fixture
    """Runs `ottla produce ...` with these bytes as stdin."""

    def run(*words, stdin=b"", server=None):
        path = tmp_path / "stdin"
        path.write_bytes(stdin)
        with path.open() as file:
            monkeypatch.setattr("sys.stdin", file)
            code = main(["produce", *words, "-b", server or broker.bootstrap_server])
        return Ran(code, *capfd.readouterr())

    return run


@pytest.fixture
def there(broker):  # noqa: F811 - the fixture
    """What lies in a topic, as (key, value), by partition."""

    def records(name, partition=None):
        return [(each.key, each.value) for each in broker.records(name, partition, timeout=0)]

    return records


def lines_of(there, topic):  # noqa: F811
    return [value for _, value in there(topic)]


def test_every_line_is_a_record_the_last_one_without_an_end_as_well(produce, there, topic):  # noqa: F811
    ran = produce(topic, "-p", "0", stdin=b"one\n\ntwo\r\n\xff\x00\nlast")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "ottla: 5 records acknowledged in 1 partition\n"
    assert there(topic, 0) == [
        (None, b"one"),
        (None, b""),
        (None, b"two\r"),
        (None, b"\xff\x00"),
        (None, b"last"),
    ]


def test_nothing_to_read_is_nothing_to_write(produce, there, topic):  # noqa: F811
    ran = produce(topic)
    assert (ran.code, ran.err) == (0, "ottla: 0 records acknowledged in 0 partitions\n")
    assert produce(topic, "--quiet").err == ""
    assert there(topic) == []


def test_values_on_the_command_line_have_the_key_and_the_headers_of_all(produce, broker, topic):  # noqa: F811
    ran = produce(topic, "-v", "tea", "-v", "", "-k", "anna", "-H", "trace=1", "-H", "who=a=b")
    assert ran.code == 0
    found = broker.records(topic, timeout=0)
    assert [(each.key, each.value) for each in found] == [(b"anna", b"tea"), (b"anna", b"")]
    assert {tuple(each.headers) for each in found} == {(("trace", b"1"), ("who", b"a=b"))}


def test_a_key_may_be_deleted_and_a_marker_means_null(produce, there, topic):  # noqa: F811
    assert produce(topic, "-k", "anna", "--tombstone").code == 0
    assert produce(topic, "-K", ":", "-Z", "NULL", stdin=b"bob:NULL\nNULL:x\n").code == 0
    assert produce(topic, "-Z", "", "-k", "c", stdin=b"\n").code == 0
    assert sorted(there(topic), key=repr) == sorted(
        [(b"anna", None), (b"bob", None), (None, b"x"), (b"c", None)], key=repr
    )


def test_the_first_separator_parts_key_and_value(produce, there, topic):  # noqa: F811
    assert produce(topic, "-K", "\\t", "-p", "1", stdin=b"a\tb\tc\n\t\n").code == 0
    assert there(topic, 1) == [(b"a", b"b\tc"), (b"", b"")]


def test_a_line_without_a_key_ends_it_and_says_where(produce, there, topic):  # noqa: F811
    ran = produce(topic, "-K", ":", stdin=b"a:1\nb:2\nnothing\nc:3\n")
    assert ran.code == 3
    assert ran.err == (
        "ottla: line 3: there is no ':' in it, so that it has no key; acknowledged: 2 of 2 records\n"
    )
    assert sorted(there(topic)) == [(b"a", b"1"), (b"b", b"2")]
    ran = produce(topic, "-K", ":", stdin=b"nothing\n")
    assert (ran.code, ran.err.endswith("no key; nothing was written\n")) == (1, True)


def test_json_is_read_as_consume_prints_it(produce, broker, topic, tmp_path):  # noqa: F811
    raw = {"base64": base64.b64encode(b"\xff\xfe").decode()}
    rows = [
        {
            "topic": "other",
            "partition": 1,
            "offset": 7,
            "timestamp": 5,
            "key": "k",
            "value": "v",
            "headers": [],
        },
        {"key": raw, "value": raw, "headers": [["h", "1"], ["h", None], ["b", raw]], "partition": 1},
        {"value": None, "key": "gone", "partition": 1},
    ]
    path = tmp_path / "records.ndjson"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    assert produce(topic, "--file", str(path)).code == 0
    found = broker.records(topic, 1, timeout=0)
    assert [(each.key, each.value) for each in found] == [
        (b"k", b"v"),
        (b"\xff\xfe", b"\xff\xfe"),
        (b"gone", None),
    ]
    assert found[0].timestamp == 5
    assert list(found[1].headers) == [("h", b"1"), ("h", None), ("b", b"\xff\xfe")]


def test_json_on_stdin_names_topics_unless_the_command_does(produce, there, asked):  # noqa: F811
    one, other = asked.create("named-1"), asked.create("named-2")
    stdin = b'{"topic": "named-1", "value": "a"}\n{"topic": "named-2", "value": "b"}\n'
    found = produce("--json", stdin=stdin).json
    assert [(each["topic"], each["records"]) for each in found["partitions"]] == [(one, 1), (other, 1)]
    ran = produce("--file", "-", stdin=b'{"topic": "named-3", "value": "a"}\n')
    assert ran.code == 4
    assert "there is no topic 'named-3'; did you mean" in ran.err
    ran = produce("--file", "-", stdin=b'{"value": "a"}\n')
    assert (ran.code, "line 1: it names no topic" in ran.err) == (1, True)
    assert lines_of(there, one) == [b"a"]


def test_the_document_says_what_lies_where(produce, topic):  # noqa: F811
    produce(topic, "-p", "1", "-v", "before")
    found = produce(topic, "-p", "1", "-v", "a", "-v", "b", "--json").json
    assert found.pop("seconds") >= 0
    assert found == {
        "acknowledged": 2,
        "not_acknowledged": 0,
        "bytes": 2,
        "transaction": None,
        "partitions": [{"topic": topic, "partition": 1, "records": 2, "last_offset": 2}],
        "error": None,
    }


def test_a_format_reads_what_it_prints(produce, broker, topic):  # noqa: F811
    form = r"%p|%T|%h|%k{hex}|%v{base64}\n"
    assert produce(topic, "-f", form, stdin=b"1|5|a=1,b=2|6b|dg==\n||||\n").code == 0
    found = broker.records(topic, 1, timeout=0)
    assert next((each.key, each.value, each.timestamp, list(each.headers)) for each in found) == (
        b"k",
        b"v",
        5,
        [("a", b"1"), ("b", b"2")],
    )
    ran = produce(topic, "-f", "%k;%s;;", stdin=b"a;1;;b;2\n;;c")
    assert (ran.code, "record 3: there is no ';' behind its key" in ran.err) == (3, True)


def test_a_topic_that_is_missing_is_not_made_by_asking(produce, broker, topic):  # noqa: F811
    ran = produce(topic + "x", "-v", "a")
    assert (ran.code, f"did you mean '{topic}'" in ran.err) == (4, True)
    assert topic + "x" not in broker.topics()
    ran = produce(topic + "x", "-v", "a", "--create")
    assert (ran.code, f"topic {topic}x was created" in ran.err) == (0, True)
    assert broker.topics()[topic + "x"] == 1
    assert produce("bad/name", "-v", "a", "--create").code == 1


def test_a_partition_that_is_missing_is_named_with_those_there_are(produce, there, topic):  # noqa: F811
    ran = produce(topic, "-p", "7", "-v", "a")
    assert (ran.code, "has no partition 7, but 0 to 1" in ran.err) == (4, True)
    row = b'{"value": "a", "partition": 7}\n'
    ran = produce(topic, "--file", "-", stdin=row)
    assert (ran.code, "line 1: topic" in ran.err, "--repartition" in ran.err) == (4, True, True)
    assert produce(topic, "--file", "-", "--repartition", stdin=row).code == 0
    assert lines_of(there, topic) == [b"a"]


def test_a_record_that_is_too_large_is_named_by_its_line(produce, there, topic):  # noqa: F811
    large = b"x" * 2_000_000
    ran = produce(topic, "-p", "0", stdin=b"one\n" + large + b"\nthree\n")
    assert (ran.code, ran.err.startswith("ottla: line 2: ")) == (3, True)
    assert b"one" in lines_of(there, topic)
    assert large not in lines_of(there, topic)
    ran = produce(topic, "-X", "buffer.memory=100000", stdin=b"a\nb\n" + large + b"\n")
    assert (ran.code, "line 3 has more than 100000 bytes" in ran.err) == (3, True)
    ran = produce(topic, "-X", "buffer.memory=1000", stdin=b"a\nb\n" + b"x" * 990 + b"\nc\n")
    assert (ran.code, "line 3: a record for topic" in ran.err) == (3, True)
    assert "acknowledged: 2 of 2 records" in ran.err


def test_everything_in_a_transaction_or_nothing(produce, broker, asked):  # noqa: F811
    name = asked.create("all-or-nothing")
    ran = produce(name, "--txn", stdin=b"a\nb\n")
    assert (ran.code, ran.err) == (
        0,
        "ottla: 2 records acknowledged in 1 partition, in a transaction that was committed\n",
    )
    ran = produce(name, "--transactional-id", "me", "-K", ":", "--json", stdin=b"c:1\nbad\n")
    assert ran.code == 1
    assert ran.err.endswith("the transaction was aborted, and nothing was written\n")
    assert json.loads(ran.out)["transaction"] == "aborted"


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_batches_are_compressed_and_read_back(produce, there, topic, codec):  # noqa: F811
    assert produce(topic, "-z", codec, "-p", "0", stdin=b"a\n" * 100).code == 0
    assert lines_of(there, topic) == [b"a"] * 100


def test_without_acks_it_is_not_said_that_they_arrived(produce, topic):  # noqa: F811
    ran = produce(topic, "--acks", "0", "-v", "a")
    assert ran.err == "ottla: 1 record sent to 1 partition (acks=0: no broker says whether they arrived)\n"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["t", "-K", ":", "-k", "a"], "-K and -k contradict"),
        (["t", "-v", "a", "--file", "x"], "-v and --file contradict"),
        (["t", "--tombstone"], "say which, with -k"),
        (["t", "-K", ""], "cannot be empty"),
        (["t", "-H", "name"], "write -H name=value"),
        (["t", "-f", "%k%s"], "nothing says where %k ends and %s begins"),
        (["t", "-f", "%k %k"], "the key in it more than once"),
        (["t", "-f", "nothing"], "neither a key nor a value"),
        (["t", "-f", "%q"], "%q is no token of an input"),
        (["t", "-f", "%d %s"], "%d is only written"),
        (["t", "-f", "%s%"], "lone %"),
        (["t", "-f", "%v{xml}"], "take hex, base64, json"),
        (["t", "-f", "%k %s", "-k", "a"], "-k and %k in -f contradict"),
        (["t", "--txn", "--acks", "1"], "needs --acks all"),
        (["-v", "a"], "which topic?"),
        (["t", "-v", "a", "-X", "batch.size=x"], "batch.size"),
    ],
)
def test_what_makes_no_sense_is_usage(produce, words, sentence):
    ran = produce(*words)
    assert (ran.code, sentence in ran.err) == (2, True), ran.err


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (b"hello", "it is no JSON"),
        (b"5", "it is a number"),
        (b'{"vlaue": "x"}', "'vlaue' is no part of a record"),
        (b'{"value": {"a": 1}}', "a document in JSON is written as a text"),
        (b'{"value": {"base64": "!"}}', "no base64"),
        (b'{"value": 5}', "the value is a number"),
        (b'{"headers": [["a"]]}', "a header is a pair"),
        (b'{"headers": 5}', "the headers are a number"),
        (b'{"partition": -1}', "the partition is -1"),
        (b'{"timestamp": "now"}', 'the timestamp is "now"'),
        (b'{"topic": 5}', "the topic is a number"),
        (b'{"key": "\\ud800"}', "surrogate"),
        (b"[" * 100_000, "it is no JSON"),
    ],
)
def test_json_that_is_no_record_is_told_with_its_line(produce, topic, row, sentence):  # noqa: F811
    ran = produce(topic, "--file", "-", stdin=b'{"value": "good"}\n' + row + b"\n")
    assert (ran.code, "line 2: " in ran.err, sentence in ran.err) == (3, True, True), ran.err


def test_files_are_read_one_after_the_other_and_one_that_is_missing_is_told_before(
    produce,
    there,
    topic,  # noqa: F811
    tmp_path,
):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a\nb")
    two.write_bytes(b"c\n")
    files = ["--lines", "--file", str(one), "--file", str(two)]
    assert produce(topic, "-p", "0", *files).code == 0
    assert lines_of(there, topic) == [b"a", b"b", b"c"]
    ran = produce(topic, *files, "--file", str(tmp_path / "none"))
    assert (ran.code, "No such file" in ran.err) == (1, True)
    ran = produce(topic, "--file", str(tmp_path))
    assert (ran.code, "is a directory" in ran.err) == (1, True)
    assert len(there(topic)) == 3


def test_where_nobody_is_that_is_said_at_once(produce):
    assert produce("t", "-v", "a", server="localhost:1").code == 6


# --- as a process -----------------------------------------------------------------------------------------------------


@pytest.fixture
def started():
    """Runs it as a process, that does not outlive the test."""
    running = []

    def start(*words):
        command = [sys.executable, "-m", "ottla.cli.main", "produce", *words]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        running.append(process)
        return process

    yield start
    for process in running:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_it_and_tells_what_was_acknowledged(started, broker, topic, number):  # noqa: F811
    process = started(topic, "-p", "0", "-b", broker.bootstrap_server)
    process.stdin.write(b"a\nb\nc\nhalf of a li")
    process.stdin.flush()
    assert len(broker.records(topic, 0, at_least=3, timeout=30)) == 3
    process.send_signal(number)
    process.wait(30)  # its stdin stays open until then
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert err == b"ottla: interrupted: acknowledged: 3 of 3 records\n"


def test_ctrl_c_in_a_transaction_aborts_it(started, broker, topic):  # noqa: F811
    process = started(topic, "-p", "0", "--txn", "--json", "--lines", "-b", broker.bootstrap_server)
    process.stdin.write(b"a\nb\n")
    process.stdin.flush()
    assert len(broker.records(topic, 0, at_least=2, timeout=30)) == 2
    process.send_signal(signal.SIGINT)
    process.wait(30)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err == b"ottla: interrupted: the transaction was aborted, and nothing was written\n"
    assert json.loads(out)["transaction"] == "aborted"


def test_a_broker_that_dies_leaves_a_sentence_with_counts(started):
    with Broker() as broker:  # noqa: F811
        broker.create_topic("t")
        process = started("t", "--timeout", "1", "-b", broker.bootstrap_server)
        process.stdin.write(b"a\nb\n")
        process.stdin.flush()
        assert len(broker.records("t", 0, at_least=2, timeout=30)) == 2
        broker.kill()
        process.stdin.write(b"c\n")
        process.stdin.flush()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 6
    assert b"acknowledged: 2 of 3 records; of the other 1 some may be written all the same" in err
    assert err.count(b"\n") == 1


def test_in_a_transaction_whose_broker_died_nothing_is_claimed(started):
    with Broker() as broker:  # noqa: F811
        broker.create_topic("t")
        process = started("t", "--timeout", "1", "--txn", "-b", broker.bootstrap_server)
        process.stdin.write(b"a\n")
        process.stdin.flush()
        assert len(broker.records("t", 0, at_least=1, timeout=30)) == 1
        broker.kill()
        _, err = process.communicate(b"c\n", timeout=60)
    assert process.returncode == 6
    assert b"what became of the transaction is not known" in err
    assert b"nothing was written" not in err


def test_a_second_signal_ends_it_at_once(started):
    with Broker() as broker:  # noqa: F811
        broker.create_topic("t")
        process = started("t", "-b", broker.bootstrap_server)
        process.stdin.write(b"a\n")
        process.stdin.flush()
        assert len(broker.records("t", 0, at_least=1, timeout=30)) == 1
        broker.pause()
        process.stdin.write(b"b\n")
        process.stdin.flush()
        while fcntl.ioctl(process.stdin, termios.FIONREAD, b"1234") != bytes(4):
            pass  # it has not read it yet
        process.send_signal(signal.SIGINT)
        assert process.stderr.readline() == b"ottla: waiting for 1 record; Ctrl-C ends it at once\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        broker.resume()


def test_who_types_is_told_how_to_end(broker, topic):  # noqa: F811
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "ottla.cli.main", "produce", topic, "-b", broker.bootstrap_server]
    process = subprocess.Popen(command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        os.close(theirs)
        assert process.stderr.readline() == (
            f"ottla: type records for {topic}, one in each line; Ctrl-D ends, Ctrl-C stops\n".encode()
        )
        os.write(ours, b"one\n")
        assert broker.records(topic, at_least=1, timeout=30)[0].value == b"one"
        os.write(ours, b"\x04")
        assert process.communicate(timeout=30)[1] == b"ottla: 1 record acknowledged in 1 partition\n"
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()
        os.close(ours)


def test_what_consume_prints_produce_writes(produce, broker, asked, capfd):  # noqa: F811
    one, other = asked.create("copied-from", 2), asked.create("copied-to", 2)
    rows = [
        {"key": "k", "value": "v", "headers": [["h", "1"], ["h", None]], "partition": 1, "timestamp": 5},
        {"key": None, "value": {"base64": "//4="}, "partition": 0, "timestamp": 6},
        {"key": "gone", "value": None, "partition": 1, "timestamp": 7},
    ]
    assert produce(one, "--file", "-", stdin="\n".join(map(json.dumps, rows)).encode()).code == 0
    code = main(["consume", one, "-o", "start", "-e", "--json", "-b", broker.bootstrap_server])
    printed = capfd.readouterr().out.encode()
    assert (code, printed.count(b"\n")) == (0, 3)
    assert produce(other, "--json", stdin=printed).json["acknowledged"] == 3
    for partition in (0, 1):
        assert [
            (each.timestamp, each.key, each.value, list(each.headers))
            for each in broker.records(one, partition, timeout=0)
        ] == [
            (each.timestamp, each.key, each.value, list(each.headers))
            for each in broker.records(other, partition, timeout=0)
        ]
