import itertools

import pytest

from tests.unit.cli.cat.running import broker, cat, no_files_of_the_user

__all__ = ["broker", "cat", "no_files_of_the_user"]

_numbers = itertools.count()


@pytest.fixture
def topic(broker):
    name = f"sent-{next(_numbers)}"
    broker.create_topic(name, 3)
    return name


def found(broker, topic):
    return [(each.partition, each.key, each.value) for each in broker.records(topic)]


def test_every_line_of_stdin_is_a_record(cat, broker, topic):
    assert cat("-P", "-t", topic, "-p", "1", stdin=b"a\n\nb\nc") == (0, b"", "")
    assert found(broker, topic) == [(1, None, b"a"), (1, None, b"b"), (1, None, b"c")]


def test_words_may_be_written_together_as_getopt_has_them(cat, broker, topic):
    assert cat(f"-Pt{topic}", "-K:", "-D;", "-p0", stdin=b"a:1;b:2")[0] == 0
    assert found(broker, topic) == [(0, b"a", b"1"), (0, b"b", b"2")]


def test_where_stdin_is_no_terminal_it_is_sent(cat, broker, topic):
    code, out, err = cat("-t", topic, "-p", "0", stdin=b"a\n")
    assert (code, out) == (0, b"")
    assert err == "% Auto-selecting Producer mode (use -P or -C to override)\n"
    assert found(broker, topic) == [(0, None, b"a")]


def test_headers_and_a_fixed_key_are_those_of_all_records(cat, broker, topic):
    assert (
        cat("-P", "-t", topic, "-p0", "-k", "k", "-H", "a=1", "-H", "b", "-z", "gzip", stdin=b"x\ny\n")[0]
        == 0
    )
    records = broker.records(topic)
    assert [(each.key, each.value) for each in records] == [(b"k", b"x"), (b"k", b"y")]
    assert all(tuple(each.headers) == (("a", b"1"), ("b", None)) for each in records)


def test_Z_sends_nulls(cat, broker, topic):
    assert cat("-P", "-t", topic, "-p0", "-K:", "-Z", stdin=b"a:\n:b\n")[0] == 0
    assert found(broker, topic) == [(0, b"a", None), (0, None, b"b")]


def test_T_prints_what_is_sent(cat, broker, topic):
    assert cat("-P", "-t", topic, "-p0", "-T", "-K:", stdin=b"a:1\nb:2\n") == (0, b"a:1b:2", "")


def test_c_sends_so_many(cat, broker, topic):
    assert cat("-P", "-t", topic, "-p0", "-c", "2", stdin=b"\na\n\nb\nc\n")[0] == 0
    assert found(broker, topic) == [(0, None, b"a"), (0, None, b"b")]


def test_a_file_is_one_record_and_with_l_every_line_of_it(cat, broker, topic, tmp_path):
    (tmp_path / "one").write_bytes(b"a\nb\n")
    (tmp_path / "two").write_bytes(b"c")
    assert cat("-P", "-t", topic, "-p0", str(tmp_path / "one"), str(tmp_path / "two"))[0] == 0
    assert cat("-P", "-t", topic, "-p1", "-l", str(tmp_path / "one"))[0] == 0
    assert found(broker, topic) == [(0, None, b"a\nb\n"), (0, None, b"c"), (1, None, b"a"), (1, None, b"b")]


def test_a_file_that_is_missing_makes_it_a_part(cat, broker, topic, tmp_path):
    (tmp_path / "one").write_bytes(b"a")
    missing = str(tmp_path / "nothing")
    code, _, err = cat("-P", "-t", topic, "-p0", str(tmp_path / "one"), missing)
    assert code == 3
    assert f"% Failed to open {missing}: No such file or directory\n" in err
    assert found(broker, topic) == [(0, None, b"a")]
    assert cat("-P", "-t", topic, missing)[0] == 1


def test_with_v_it_says_what_was_acknowledged(cat, topic):
    assert (
        cat("-P", "-v", "-t", topic, "-p0", stdin=b"a\nb\n")[2]
        == "ottla: 2 records acknowledged in 1 partition\n"
    )


def test_a_transaction_is_committed_in_the_end(cat, broker, topic):
    code, _, err = cat("-P", "-t", topic, "-p0", "-X", "transactional.id=one", stdin=b"a\n")
    assert code == 0
    assert err == "% Using transactional producer\n% Transaction successfully committed\n"
    assert cat("-C", "-t", topic, "-eq", "-p0") == (0, b"a\n", "")


def test_a_topic_comes_into_being_if_brokers_create_them(cat, broker):
    assert cat("-P", "-t", "brand-new", stdin=b"a\n")[0] == 0
    assert found(broker, "brand-new") == [(0, None, b"a")]


def test_a_topic_that_nobody_creates_is_missing(cat):
    code, _, err = cat("-P", "-t", "missing", "-X", "allow.auto.create.topics=false", stdin=b"a\n")
    assert code == 4
    assert (
        err
        == "ottla: there is no topic 'missing', and the brokers create none: ottla topic create makes it\n"
    )


def test_a_partition_that_is_not_there_is_said(cat, topic):
    code, _, err = cat("-P", "-t", topic, "-p", "9", stdin=b"a\n")
    assert code == 4
    assert "has no partition 9" in err


def test_nobody_there_is_said_at_once(cat):
    code, _, err = cat("-P", "-t", "t", "-b", "127.0.0.1:1", stdin=b"a\n")
    assert code == 6
    assert "127.0.0.1:1" in err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["-P"], "-t TOPIC is missing"),
        (["-P", "-t", "t", "-D", ""], "-D must not be empty"),
        (["-P", "-t", "t", "-K", ""], "-K must not be empty"),
        (["-P", "-t", "t", "-l", "a", "b"], "-l takes one file"),
        (["-P", "-t", "t", "-s", "i"], "-s is only for reading"),
        (["-P", "-t", "t", "-z", "brotli"], "compression.type"),
        (["-P", "-t", "t", "-X", "partitioner=fnv1a"], "partitioner is 'fnv1a'"),
        (["-P", "-t", "t", "-X", "nonsense=1"], "no client has such a setting"),
        (["-P", "-C", "-t", "t"], "do not mix modes: -P and -C"),
    ],
)
def test_what_makes_no_sense_is_refused(cat, words, reason):
    code, out, err = cat(*words, stdin=b"a\n")
    assert (code, out) == (2, b"")
    assert reason in err
