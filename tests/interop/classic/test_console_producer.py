"""The console producer and Apache's own: what they say, how they end, and which records arrive."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client import Consumer
from ottla.core.ids import TopicPartition
from tests.interop.classic.compare import Did, alike, compare, running
from tests.oracles.apache_tools import ApacheTools, run_alone

HEADERS = "--reader-property parse.headers=true"
KEYS = "--reader-property parse.key=true"
NO_BROKER = """
    kafka-console-producer
    kafka-console-producer --help
    kafka-console-producer --version
    kafka-console-producer --bogus
    kafka-console-producer --sync
    kafka-console-producer --topic t
    kafka-console-producer --bootstrap-server localhost:1
    kafka-console-producer --bootstrap-server nonsense --topic t
    kafka-console-producer --bootstrap-server a:1,b --topic t
    kafka-console-producer --bootstrap-server localhost:1 --topic
    kafka-console-producer --bootstrap-server localhost:1 --topic t --topic u
    kafka-console-producer --bootstrap-server localhost:1 --topic t --to 5
    kafka-console-producer --bootstrap-server localhost:1 --topic t --batch-size x
    kafka-console-producer --bootstrap-server localhost:1 --topic t --batch-size
    kafka-console-producer --bootstrap-server localhost:1 --topic t --timeout x
    kafka-console-producer --bootstrap-server localhost:1 --topic t --property a=b --reader-property a=b
    kafka-console-producer --bootstrap-server localhost:1 --topic t --command-property a=b --producer-property c=d
    kafka-console-producer --bootstrap-server localhost:1 --topic t --command-config /nope --producer.config /nope
    kafka-console-producer --bootstrap-server localhost:1 --topic t --command-config /nope
    kafka-console-producer --bootstrap-server localhost:1 --topic t --producer.config /nope
    kafka-console-producer --bootstrap-server localhost:1 --topic t --reader-config /nope
    kafka-console-producer --bootstrap-server localhost:1 --topic t --line-reader no.Such
    kafka-console-producer --bootstrap-server localhost:1 --topic t --compression-codec bogus
    kafka-console-producer --bootstrap-server localhost:1 --topic t --request-required-acks 9
    kafka-console-producer --bootstrap-server localhost:1 --topic t --command-property acks=7
    kafka-console-producer --bootstrap-server localhost:1 --topic t --reader-property headers.delimiter=,
    kafka-console-producer --bootstrap-server localhost:1 --topic t --reader-property headers.key.separator=,
    kafka-console-producer --bootstrap-server localhost:1 --topic t --reader-property null.marker=:
"""
CASES = [
    ("", "a\nb\r\n\nlone\rlast\u00e9"),
    ("--sync --compression-codec", "a\nb\n"),
    ("--property parse.key=true", "k\tv\nnokey\nk2\tv2\n"),
    (
        f"{KEYS} --reader-property key.separator=: --reader-property ignore.error=true",
        "k:v\nnokey\nk2:v2:x\n",
    ),
    (
        f"{KEYS} {HEADERS} --reader-property null.marker=NULL",
        "h:v,h2:v2\tk\tv\nNULL\tNULL\tNULL\nh:NULL\tk\tNULL\n",
    ),
    (f"{HEADERS} --reader-property ignore.error=true", "nothing\na:b,,c:d,\tv\nbad\tv2\n"),
    (HEADERS, "a:b:c,d:\tv\n\tz\n"),
    ("--producer-property linger.ms=5 --max-partition-memory-bytes 100 some words", "a\n"),
]


@pytest.fixture(params=["ottla", "apache"], scope="module")
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    with running(request.param) as address:
        yield address


def arrived(server: str, topic: str) -> list[object]:
    place = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=server, group_id=None) as consumer:
        consumer.assign([place])
        consumer.seek_to_beginning(place)
        end, found = consumer.end_offsets([place])[place], list[object]()
        while consumer.position(place) < end:
            for records in consumer.poll(1000).values():
                found += [(each.key, each.value, list(each.headers)) for each in records]
    return found


def test_command_lines_that_reach_nobody(tools: ApacheTools, capfd: pytest.CaptureFixture[str]) -> None:
    compare(NO_BROKER, tools, capfd)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_the_same_lines_become_the_same_records(
    server: str,
    number: int,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    from ottla.cli.main import main

    words, text = CASES[number]
    path = tmp_path_factory.mktemp("stdin") / "lines"
    path.write_bytes(text.encode())
    to = ["--bootstrap-server", server, "--topic"]
    theirs = Did(*run_alone("kafka-console-producer", *to, f"c{number}-a", *words.split(), stdin=text))
    capfd.readouterr()
    with path.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        code = main(["kafka-console-producer", *to, f"c{number}-o", *words.split()])
    mine = Did(code, *capfd.readouterr())
    assert alike(mine, "o") == alike(theirs, "a")
    assert arrived(server, f"c{number}-o") == arrived(server, f"c{number}-a")


def test_a_record_that_is_lost_makes_ours_end_with_1(
    server: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from ottla.cli.main import main

    large = 1_100_000
    text = f"{'x' * large}\nb\n"
    words = ["kafka-console-producer", "--bootstrap-server", server, "--topic"]
    theirs = run_alone(*words, "lost-a", stdin=text)
    (tmp_path / "lines").write_text(text)
    capfd.readouterr()
    with (tmp_path / "lines").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        code = main([*words, "lost-o"])
    assert (theirs[0], code) == (0, 1)
    said = capfd.readouterr().err
    assert f"Error when sending message to topic lost-o with key: null, value: {large} bytes" in said
    assert arrived(server, "lost-o") == arrived(server, "lost-a") == [(None, b"b", [])]
