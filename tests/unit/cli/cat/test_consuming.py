import json

import pytest

from ottla.client import Producer
from tests.unit.cli.cat.running import broker, cat, no_files_of_the_user

__all__ = ["broker", "cat", "no_files_of_the_user"]

TIME = 1_700_000_000_000


@pytest.fixture(scope="module", autouse=True)
def records(broker):
    """`tea` has five in one partition, a second apart; `two` one in each of two."""
    broker.create_topic("tea", 1)
    broker.create_topic("two", 2)
    with Producer(bootstrap_servers=broker.bootstrap_server) as producer:
        for number, (key, value) in enumerate(
            [(b"a", b"1"), (None, b"2"), (b"c", None), (b"", b""), (b"e", b"\0\0\0\x05x")]
        ):
            headers = [("h", b"1"), ("n", None)] if number == 0 else []
            producer.send("tea", value, key=key, headers=headers, timestamp_ms=TIME + number * 1000)
        for partition in (0, 1):
            producer.send("two", b"%d" % partition, partition=partition)
        producer.flush()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], b"1\n2\n\n\n\0\0\0\x05x\n"),
        (["-D", ";"], b"1;2;;;\0\0\0\x05x;"),
        (["-K:", "-c", "2"], b"a:1\n:2\n"),
        (["-K:", "-Z", "-c", "4"], b"a:1\nNULL:2\nc:NULL\nNULL:NULL\n"),
        (["-O", "-K:", "-c", "1"], b"0:a:1\n"),
        (["-f", "%t [%p] %o %k %S|", "-c", "3"], b"tea [0] 0 a 1|tea [0] 1  1|tea [0] 2 c -1|"),
        (["-o", "3"], b"\n\0\0\0\x05x\n"),
        (["-o", "+3", "-c", "-1"], b"\n\0\0\0\x05x\n"),
        (["-o", "-2"], b"\n\0\0\0\x05x\n"),
        (["-o", "end"], b""),
        (["-o", "9999"], b""),
        (["-o", "beginning", "-c", "1"], b"1\n"),
        (["-o", f"s@{TIME + 2500}"], b"\n\0\0\0\x05x\n"),
        (["-o", f"e@{TIME + 2000}"], b"1\n2\n"),
        (["-o", f"s@{TIME + 1000}", "-o", f"e@{TIME + 2000}"], b"2\n"),
        (["-s", "value=is", "-o", "4"], b"5x\n"),
        (["-s", "key=c", "-f", "%k.", "-c", "1"], b"a."),
    ],
)
def test_what_is_asked_for_is_written(cat, words, expected):
    assert cat("-Ct", "tea", "-eq", *words) == (0, expected, "")


def test_J_writes_a_json_object_for_each(cat):
    code, out, _ = cat("-Ct", "tea", "-eqJ")
    found = [json.loads(each) for each in out.splitlines()]
    assert code == 0
    assert found[0] == {
        "topic": "tea",
        "partition": 0,
        "offset": 0,
        "tstype": "create",
        "ts": TIME,
        "broker": 1,
        "headers": ["h", "1", "n", None],
        "key": "a",
        "payload": "1",
    }
    assert (found[1]["key"], found[2]["payload"]) == (None, None)
    assert cat("-Ct", "tea", "-eq", before=["--json"])[1] == out


def test_the_end_of_every_partition_is_said(cat):
    code, out, err = cat("-C", "-t", "two", "-e")
    assert (code, sorted(out.split())) == (0, [b"0", b"1"])
    said = sorted(each.removesuffix(": exiting") for each in err.splitlines())
    assert said == [f"% Reached end of topic two [{number}] at offset 1" for number in (0, 1)]
    assert err.count(": exiting\n") == 1


def test_p_reads_one_partition(cat):
    assert cat("-C", "-t", "two", "-p", "1", "-e") == (
        0,
        b"1\n",
        "% Reached end of topic two [1] at offset 1: exiting\n",
    )


def test_before_a_transaction_that_is_open_is_the_end(cat, broker):
    broker.create_topic("open", 1)
    servers = broker.bootstrap_server
    with Producer(bootstrap_servers=servers, transactional_id="open") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("open", b"tea")
        producer.flush()
        assert cat("-C", "-t", "open", "-e") == (
            0,
            b"",
            "% Reached end of topic open [0] at offset 0: exiting\n",
        )
        producer.abort_transaction()


def test_the_time_to_stop_is_said(cat):
    said = cat("-C", "-t", "tea", "-o", f"e@{TIME + 2000}")[2]
    assert said == "% Reached stop timestamp for topic tea [0] at offset 2: exiting\n"


def test_a_group_goes_on_where_it_was_unless_o_says_where(cat):
    group = ["-G", "readers", "tea", "-q", "-X", "auto.offset.reset=earliest"]
    assert cat(*group, "-c", "2") == (0, b"1\n2\n", "")
    assert cat(*group, "-e")[1] == b"\n\n\0\0\0\x05x\n"
    assert cat(*group, "-e")[1] == b""
    assert cat(*group, "-o", "beginning", "-c", "1")[1] == b"1\n"
    assert (
        cat("-C", "-t", "tea", "-eq", "-o", "stored", "-X", "group.id=readers")[1] == b"2\n\n\n\0\0\0\x05x\n"
    )


def test_a_group_says_what_it_has(cat):
    code, out, err = cat("-G", "talkers", "-t", "tea", "-e", "-X", "auto.offset.reset=earliest")
    assert code == 0
    assert out.startswith(b"1\n2\n")
    lines = err.splitlines()
    assert lines[0] == "% Waiting for group rebalance"
    assert lines[1].startswith("% Group talkers rebalanced (memberid ottla-cli-")
    assert lines[1].endswith(": assigned: tea [0]")
    assert lines[2] == "% Reached end of topic tea [0] at offset 5: exiting"


def test_topics_of_a_group_may_be_patterns(cat):
    words = ["-G", "patterns", "^t.o$", "-eq", "-X", "auto.offset.reset=earliest"]
    assert sorted(cat(*words)[1].split()) == [b"0", b"1"]


def test_what_cannot_be_unpacked_ends_it_behind_what_could(cat):
    code, out, err = cat("-Ct", "tea", "-eq", "-s", "value=h$", "-o", "3")
    assert (code, out) == (1, b"\n")
    assert err == (
        "ottla: Failed to format message in tea [0] at offset 4: "
        "expected value end-of-input, but 3 bytes remaining; -E leaves such records out\n"
    )


def test_with_E_it_is_left_out(cat):
    code, out, err = cat("-Ct", "tea", "-eqE", "-s", "value=h", "-o", "-5")
    assert (code, out) == (0, b"\n\n0\n")
    assert err.count("value truncated, expected 2 bytes to unpack h but only 1 bytes remaining") == 2


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["-C", "-t", "missing"], 4, "there is no topic 'missing'"),
        (["-C", "-t", "tea", "-p", "7"], 4, "tea has no partition 7"),
        (["-C", "-t", "tea", "-f", "%y"], 2, "%y is no token of a format"),
        (["-C", "-t", "tea", "-o", "t"], 2, "-o t is no place to begin"),
        (["-C", "-t", "tea", "-o", "stored"], 2, "-X group.id=GROUP"),
        (["-C", "-t", "tea", "-s", "z"], 2, "'z' is no token"),
        (["-C", "-t", "tea", "-s", "avro"], 2, "-r URL"),
        (["-C", "-t", "tea", "file"], 2, "file: files are for -P"),
        (["-G", "g"], 2, "-t TOPIC is missing"),
        (["-G", "g", "missing"], 4, "there is no topic 'missing'"),
        (["-G", "g", "^(", "-e"], 2, "no regular expression"),
        (["-G", "g", "tea", "-o", "s@1"], 2, "-o s@ and e@ are not for groups"),
        (["-C"], 2, "-t TOPIC is missing"),
        (["-C", "-t", "tea", "-b", "127.0.0.1:1"], 6, "127.0.0.1:1"),
    ],
)
def test_what_goes_wrong_is_one_sentence(cat, words, code, reason):
    found, out, err = cat(*words, "-q")
    assert (found, out) == (code, b"")
    assert reason in err
    assert err.count("\n") == 1
