"""`kafka-console-producer`: lines, keys, headers, and what it says of what makes no sense."""

import os
import pty
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.classic.console_producer_lines import LineCutter, LineReader
from ottla.cli.classic.java import Illegal
from ottla.cli.main import main
from tests.unit.cli.nouns import asked, broker, topic  # noqa: F401 - fixtures
from tests.unit.cli.states import Ran


@pytest.fixture
def produce(broker, topic, capfd, monkeypatch, tmp_path):  # noqa: F811 - the fixtures
    """Runs it with these bytes as stdin, for the topic."""

    def run(*words, stdin=b"", at=("--bootstrap-server",), to=topic):
        path = tmp_path / "stdin"
        path.write_bytes(stdin)
        with path.open() as file:
            monkeypatch.setattr("sys.stdin", file)
            code = main(["kafka-console-producer", *at, broker.bootstrap_server, "--topic", to, *words])
        return Ran(code, *capfd.readouterr())

    return run


def records(broker, topic):  # noqa: F811
    return [(each.key, each.value, list(each.headers)) for each in broker.records(topic, timeout=0)]


def test_lines_end_as_java_reads_them(produce, broker, topic):  # noqa: F811
    assert produce(stdin=b"a\r\nb\rc\n\nlast", at=("--broker-list",)).code == 0
    assert {value for _, value, _ in records(broker, topic)} == {b"a", b"b", b"c", b"", b"last"}


def test_keys_and_headers_are_parsed_as_the_properties_say(produce, broker, topic, tmp_path):  # noqa: F811
    path = tmp_path / "reader.properties"
    path.write_text("parse.key=false\nparse.headers=true\nnull.marker=NULL\n")
    words = ["--reader-config", str(path), "--reader-property", "parse.key=true"]
    assert produce(*words, stdin=b"h:v,h2:NULL\tk\tv\nNULL\tNULL\tNULL\n").code == 0
    assert sorted(records(broker, topic), key=repr) == sorted(
        [(b"k", b"v", [("h", b"v"), ("h2", None)]), (None, None, [])], key=repr
    )


def test_old_names_are_taken_with_a_warning(produce, tmp_path):
    path = tmp_path / "producer.properties"
    path.write_text("acks=1\n")
    ran = produce(
        "--property", "a=b", "--producer-property", "acks=1", "--producer.config", str(path), stdin=b"a\n"
    )
    assert (ran.code, ran.err) == (0, "")
    assert [line.split(" is deprecated")[0] for line in ran.out.splitlines()] == [
        "Warning: --property",
        "Warning: --producer-property",
        "Warning: --producer.config",
    ]


@pytest.mark.parametrize(
    "words", [["--sync"], ["--compression-codec"], ["--compression-codec", "zstd", "--sync"]]
)
def test_flags_of_the_producer_are_taken(produce, broker, topic, words):  # noqa: F811
    more = "--batch-size 100 --timeout 1 --request-required-acks all --message-send-max-retries 2 --retry-backoff-ms 5 "
    more += (
        "--max-block-ms 5000 --max-memory-bytes 100000 --metadata-expiry-ms 9000 --request-timeout-ms 9000 "
    )
    more += "--socket-buffer-size 1000"
    assert produce(*words, *more.split(), stdin=b"a\nb\n").code == 0
    assert len(records(broker, topic)) == 2


def test_what_cannot_be_delivered_is_told_and_the_rest_goes_on(produce, broker, topic):  # noqa: F811
    large = b"x" * 1_100_000
    ran = produce(stdin=large + b"\nb\n")
    assert ran.code == 1
    assert (
        f"ERROR Error when sending message to topic {topic} with key: null, value: 1100000 bytes" in ran.err
    )
    assert records(broker, topic) == [(None, b"b", [])]
    ran = produce("--sync", stdin=large + b"\nc\n")
    assert (ran.code, ran.err.startswith("java.util.concurrent.ExecutionException: ")) == (1, True)
    assert len(records(broker, topic)) == 1


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--bogus"], "bogus is not a recognized option"),
        (["--batch-size", "x"], "Cannot parse argument 'x' of option batch-size"),
        (["--batch-size"], "Option batch-size requires an argument"),
        (["--topic", "two"], "Found multiple arguments for option topic, but you asked for only one"),
        (
            ["--command-property", "a=b", "--producer-property", "c=d"],
            "Options --command-property and --producer-property cannot be specified together.",
        ),
        (["--line-reader", "no.Such"], "java.lang.ClassNotFoundException: no.Such"),
        (["--command-config", "/nope"], "java.nio.file.NoSuchFileException: /nope"),
        (
            ["--request-required-acks", "9"],
            "org.apache.kafka.common.config.ConfigException: Invalid value 9 for configuration acks: "
            "String must be one of: all, -1, 0, 1",
        ),
    ],
)
def test_a_command_line_that_makes_no_sense_ends_with_1(produce, words, line):
    ran = produce(*words, stdin=b"a\n")
    assert (ran.code, ran.err.splitlines()[0]) == (1, line)


def test_there_is_a_prompt_where_somebody_types(broker, topic):  # noqa: F811
    ours, theirs = pty.openpty()
    words = ["kafka-console-producer", "--bootstrap-server", broker.bootstrap_server, "--topic", topic]
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli.main", *words], stdin=theirs, stdout=theirs, stderr=subprocess.PIPE
    )
    try:
        os.close(theirs)
        seen = os.read(ours, 100)
        assert seen == b">"
        os.write(ours, b"one\n")
        assert broker.records(topic, at_least=1, timeout=30)[0].value == b"one"
        os.write(ours, b"\x04")
        process.wait(30)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()
        os.close(ours)


# --- lines ------------------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.binary(min_size=1, max_size=6).map(lambda data: data.replace(b"a", b"\r").replace(b"b", b"\n"))
    )
)
def test_lines_are_the_same_however_they_come_in(chunks):
    whole, pieces = LineCutter(), LineCutter()
    expected = [*whole.cut(b"".join(chunks)), *whole.last()]
    assert [*(line for chunk in chunks for line in pieces.cut(chunk)), *pieces.last()] == expected


def test_errors_may_be_ignored():
    reader = LineReader({"parse.key": "true", "parse.headers": "true", "ignore.error": "true"})
    assert reader.record_of(b"nothing") == (None, b"nothing", [])
    assert reader.record_of(b"bad\tv") == (None, b"v", [("bad", None)])


@pytest.mark.parametrize(
    ("properties", "names"),
    [
        ({"headers.delimiter": ","}, "headers.delimiter and headers.separator"),
        ({"headers.delimiter": ":"}, "headers.delimiter and headers.key.separator"),
        ({"headers.separator": ":"}, "headers.separator and headers.key.separator"),
        ({"null.marker": "\t"}, "null.marker and key.separator"),
        ({"null.marker": ","}, "null.marker and headers.separator"),
        ({"null.marker": ":"}, "null.marker and headers.key.separator"),
    ],
)
def test_separators_that_are_the_same_are_refused(properties, names):
    with pytest.raises(Illegal, match=names):
        LineReader(properties)
