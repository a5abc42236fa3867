"""`kafka-reassign-partitions` and Apache's own print the same, and do the same, on Ottla and on Apache Kafka 4.3.

What `--generate` proposes is drawn by lot: with one broker there is nothing to draw, with four only the shape counts.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client import Admin
from tests.interop.classic.compare import Did, compare, lines, ours, running
from tests.oracles.apache_tools import ApacheTools
from tests.unit.cli.several import several_brokers
from tests.unit.cli.states import Asked

_FOO = {"topic": "foo", "partition": 0}


def _plan(*rows):
    return json.dumps({"version": 1, "partitions": list(rows)})


FILES = {
    "topics.json": '{"version": 1, "topics": [{"topic": "foo"}, {"topic": "bar"}]}',
    "topics-nope.json": '{"topics": [{"topic": "nope"}]}',
    "topics-twice.json": '{"version": 1, "topics": [{"topic": "foo"}, {"topic": "foo"}]}',
    "topics-none.json": '{"version": 1, "topics": []}',
    "topics-bad.json": '{"version": 1, "topics": [{"name": "foo"}]}',
    "same.json": _plan(
        {**_FOO, "replicas": [1], "log_dirs": ["any"]},
        {"topic": "foo", "partition": 1, "replicas": [1]},
        {"topic": "bar", "partition": 0, "replicas": [1]},
    ),
    "two.json": _plan({**_FOO, "replicas": [2]}),
    "unknown.json": _plan(
        {"topic": "nope", "partition": 0, "replicas": [1]}, {"topic": "foo", "partition": 9, "replicas": [1]}
    ),
    "unknown-partition.json": _plan({"topic": "foo", "partition": 9, "replicas": [1]}),
    "unknown-both.json": _plan({"topic": "nope", "partition": 0, "replicas": [9]}),
    "bad.json": "{",
    "list.json": "[1]",
    "nothing.json": "",
    "empty.json": "{}",
    "v2.json": '{"version": 2}',
    "none.json": _plan(),
    "no-replicas.json": _plan({**_FOO, "replicas": []}),
    "no-number.json": _plan({**_FOO, "replicas": ["a"]}),
    "no-partition.json": _plan({"topic": "foo"}),
    "duplicate.json": _plan({**_FOO, "replicas": [1, 1]}),
    "twice.json": _plan({**_FOO, "replicas": [1]}, {**_FOO, "replicas": [1]}),
    "dirs.json": _plan({**_FOO, "replicas": [1], "log_dirs": ["any", "any"]}),
    "nowhere.json": _plan({**_FOO, "replicas": [1], "log_dirs": ["/nowhere"]}),
    "nowhere-either.json": _plan(
        {"topic": "foo", "partition": 9, "replicas": [1], "log_dirs": ["/x"]},
        {**_FOO, "replicas": [1], "log_dirs": ["/x"]},
    ),
}
NOBODY = "127.0.0.1:1"
NO_BROKER = """
    kafka-reassign-partitions
    kafka-reassign-partitions --help
    kafka-reassign-partitions --version
    kafka-reassign-partitions --bogus
    kafka-reassign-partitions --list
    kafka-reassign-partitions --generate
    kafka-reassign-partitions --throttle 1
    kafka-reassign-partitions -B
    kafka-reassign-partitions -B --generate
    kafka-reassign-partitions -B --generate --throttle 5
    kafka-reassign-partitions -B --generate -T x --throttle 5
    kafka-reassign-partitions -B --generate -T x --broker-list 1 --timeout 5 --additional --throttle 5
    kafka-reassign-partitions -B --execute
    kafka-reassign-partitions -B --execute -T x
    kafka-reassign-partitions -B --execute -R
    kafka-reassign-partitions -B --execute -R a -R b
    kafka-reassign-partitions -B --execute -R x --broker-list 1 -T x
    kafka-reassign-partitions -B --execute -R x --preserve-throttles
    kafka-reassign-partitions -B --execute -R x --throttle x
    kafka-reassign-partitions -B --execute -R x --timeout x
    kafka-reassign-partitions -B --verify
    kafka-reassign-partitions -B --verify -R x --timeout 5 --additional
    kafka-reassign-partitions -B --verify -R x --disable-rack-aware
    kafka-reassign-partitions -B --cancel
    kafka-reassign-partitions -B --cancel -R x --additional
    kafka-reassign-partitions -B --cancel -R x --timeout 5 --throttle 4
    kafka-reassign-partitions -B --list --verify
    kafka-reassign-partitions -B --list --throttle
    kafka-reassign-partitions -B --list -R x
    kafka-reassign-partitions -B --lis
    kafka-reassign-partitions -B --bootstrap-controller 127.0.0.1:1 --list
    kafka-reassign-partitions --bootstrap-controller 127.0.0.1:1 --verify -R x
"""
ONE_BROKER = """
    kafka-reassign-partitions -B --list
    kafka-reassign-partitions -B --list some words
    kafka-reassign-partitions -B --generate -T @D/topics.json --broker-list 1
    kafka-reassign-partitions -B --generate -T @D/topics.json --broker-list 1 --disable-rack-aware
    kafka-reassign-partitions -B --generate -T @D/topics.json --broker-list a
    kafka-reassign-partitions -B --generate -T @D/topics.json --broker-list 1,1
    kafka-reassign-partitions -B --generate -T @D/topics.json --broker-list 7
    kafka-reassign-partitions -B --generate -T @D/none-such.json --broker-list 1
    kafka-reassign-partitions -B --generate -T @D/bad.json --broker-list 1
    kafka-reassign-partitions -B --generate -T @D/list.json --broker-list 1
    kafka-reassign-partitions -B --generate -T @D/nothing.json --broker-list 1
    kafka-reassign-partitions -B --generate -T @D/empty.json --broker-list 1
    kafka-reassign-partitions -B --generate -T @D/v2.json --broker-list 1
    kafka-reassign-partitions -B --generate -T @D/topics-nope.json --broker-list 1
    kafka-reassign-partitions -B --generate -T @D/topics-twice.json --broker-list 1
    kafka-reassign-partitions -B --generate -T @D/topics-none.json --broker-list 1
    kafka-reassign-partitions -B --generate -T @D/topics-bad.json --broker-list 1
    kafka-reassign-partitions -B --execute -R @D/same.json
    kafka-reassign-partitions -B --verify -R @D/same.json
    kafka-reassign-partitions -B --execute -R @D/same.json --throttle 1000000
    kafka-configs -B --describe --topic foo
    kafka-configs -B --describe --broker 1
    kafka-reassign-partitions -B --verify -R @D/same.json --preserve-throttles
    kafka-configs -B --describe --broker 1
    kafka-reassign-partitions -B --verify -R @D/same.json
    kafka-configs -B --describe --topic foo
    kafka-configs -B --describe --broker 1
    kafka-reassign-partitions -B --execute -R @D/same.json --timeout 5000 --additional
    kafka-reassign-partitions -B --execute -R @D/two.json
    kafka-reassign-partitions -B --execute -R @D/unknown.json
    kafka-reassign-partitions -B --execute -R @D/unknown-partition.json
    kafka-reassign-partitions -B --execute -R @D/unknown-both.json
    kafka-reassign-partitions -B --verify -R @D/unknown.json
    kafka-reassign-partitions -B --verify -R @D/twice.json
    kafka-reassign-partitions -B --verify -R @D/duplicate.json
    kafka-reassign-partitions -B --cancel -R @D/unknown.json
    kafka-reassign-partitions -B --cancel -R @D/same.json
    kafka-reassign-partitions -B --cancel -R @D/same.json --preserve-throttles
    kafka-reassign-partitions -B --execute -R @D/list.json
    kafka-reassign-partitions -B --execute -R @D/empty.json
    kafka-reassign-partitions -B --execute -R @D/v2.json
    kafka-reassign-partitions -B --execute -R @D/none.json
    kafka-reassign-partitions -B --execute -R @D/no-replicas.json
    kafka-reassign-partitions -B --execute -R @D/no-number.json
    kafka-reassign-partitions -B --execute -R @D/no-partition.json
    kafka-reassign-partitions -B --execute -R @D/duplicate.json
    kafka-reassign-partitions -B --execute -R @D/twice.json
    kafka-reassign-partitions -B --execute -R @D/dirs.json
    kafka-reassign-partitions -B --execute -R @D/none-such.json
    kafka-reassign-partitions -B --execute -R @D/nowhere.json --replica-alter-log-dirs-throttle 7
    kafka-configs -B --describe --broker 1
    kafka-reassign-partitions -B --verify -R @D/nowhere.json
    kafka-reassign-partitions -B --verify -R @D/nowhere-either.json
    kafka-reassign-partitions -B --cancel -R @D/nowhere.json
    kafka-configs -B --describe --broker 1
    kafka-reassign-partitions -B --verify -R @D/empty.json
    kafka-reassign-partitions -B --verify -R @D/none.json
    kafka-reassign-partitions -B --cancel -R @D/none.json
"""
BEGIN = """
    kafka-reassign-partitions -B --execute -R @D/first.json --throttle 1 --replica-alter-log-dirs-throttle 77
    kafka-reassign-partitions -B --list
    kafka-reassign-partitions -B --execute -R @D/second.json --additional --throttle 2
"""
END = """
    kafka-reassign-partitions -B --cancel -R @D/second.json --preserve-throttles
    kafka-configs -B --describe --broker 3
    kafka-reassign-partitions -B --cancel -R @D/second.json
    kafka-reassign-partitions -B --verify -R @D/second.json
    kafka-configs -B --describe --broker 3
    kafka-configs -B --describe --topic foo
"""
HELD = """
    kafka-reassign-partitions -B --list
    kafka-reassign-partitions -B --verify -R @D/first.json
    kafka-reassign-partitions -B --execute -R @D/second.json --throttle 1
    kafka-configs -B --describe --topic foo
    kafka-configs -B --describe --topic bar
    kafka-configs -B --describe --broker 3
    kafka-reassign-partitions -B --list
    kafka-reassign-partitions -B --execute -R @D/second.json --additional
    kafka-reassign-partitions -B --execute -R @D/more.json --additional --disallow-replication-factor-change
    kafka-reassign-partitions -B --generate -T @D/topics.json --broker-list 0,1
    kafka-reassign-partitions -B --verify -R @D/second.json
    kafka-reassign-partitions -B --verify -R @D/second.json --preserve-throttles
"""


def _full(text: str) -> str:
    """In the lines above, the long names of files are short."""
    return text.replace(" -R", " --reassignment-json-file").replace(" -T", " --topics-to-move-json-file")


@pytest.fixture(scope="module")
def several() -> Iterator[object]:
    """Followers fetch little at a time, so that a throttle can hold them."""
    with several_brokers(4, auto_leader_rebalance_enable=False, replica_fetch_max_bytes=1000) as running:
        running.create("foo", (0, 1), (1, 2))
        running.create("bar", (2, 0))
        for topic, partition in (("foo", 0), ("bar", 0)):
            leader = running.state(topic, partition).leader
            asked = Asked(f"127.0.0.1:{running.cluster.nodes[leader].port}")
            for _ in range(50):
                asked.produce(topic, 50, partition=partition)
        yield running


def test_command_lines_that_reach_no_broker_are_refused_alike(tools, capfd):
    compare(_full(NO_BROKER), tools, capfd, NOBODY)


@pytest.mark.parametrize("kind", ["ottla", "apache"])
def test_one_broker_is_told_and_asked_alike(tools: ApacheTools, files, capfd, kind):
    with running(kind) as server:
        with Admin(bootstrap_servers=server) as admin:
            admin.create_topic("foo", 3, 1)
            admin.create_topic("bar", 1, 1)
        compare(_full(ONE_BROKER), tools, capfd, server, files)


@pytest.mark.parametrize("kind", ["ottla", "apache"])
def test_replicas_move_between_directories_alike(tools: ApacheTools, tmp_path, capfd, kind):
    """Apache's tool, then ours, on a topic of its own each: what they print differs in its name only."""
    first, second = tmp_path / "1", tmp_path / "2"
    with running(kind, {"log.dirs": f"{first},{second}"}) as server:
        told = []
        for letter, run in (
            ("a", lambda words: Did(*tools.run(*words))),
            ("o", lambda words: ours(words, capfd)),
        ):
            told.append(_moved_between(f"dirs-{letter}", run, server, (str(first), str(second)), tmp_path))
        assert told[0] == told[1]


def _until(is_so):
    assert any(is_so() for _ in range(5000)), "it never came"


def _moved_between(topic, run, server, dirs, tmp_path):
    with Admin(bootstrap_servers=server) as admin:
        admin.create_topic(topic, 1, 1)
        asked = Asked(server)
        for _ in range(3):
            asked.produce(topic, 500)

        def where(is_future=False):
            found = admin.describe_log_dirs()[1]
            return next(
                (
                    path
                    for path, each in found.items()
                    for place, info in each.replicas.items()
                    if place.topic == topic and info.is_future == is_future
                ),
                None,
            )

        begun = where()
        other = dirs[0] if begun == dirs[1] else dirs[1]
        (tmp_path / "there").write_text(
            _plan({"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [other]})
        )
        (tmp_path / "back").write_text(
            _plan({"topic": topic, "partition": 0, "replicas": [1], "log_dirs": [begun]})
        )
        told = []

        def tell(line):
            (words,) = lines(f"kafka-reassign-partitions -B {line}", server, str(tmp_path))
            did = run(words)
            told.append(
                (did.code, did.out.replace(topic, "TOPIC").replace(begun, "HERE").replace(other, "THERE"))
            )

        tell("--execute --reassignment-json-file @D/there --replica-alter-log-dirs-throttle 1")
        tell("--verify --reassignment-json-file @D/there")
        tell("--verify --reassignment-json-file @D/back")
        tell("--cancel --reassignment-json-file @D/there")
        _until(lambda: not where(is_future=True))
        tell("--verify --reassignment-json-file @D/there")
        tell("--execute --reassignment-json-file @D/there")
        _until(lambda: where() == other and not where(is_future=True))
        tell("--verify --reassignment-json-file @D/there")
        tell("--verify --reassignment-json-file @D/back")
        return told


def test_partitions_move_between_brokers_alike(tools: ApacheTools, several, files, capfd):
    Path(files, "first.json").write_text(
        _plan({**_FOO, "replicas": [3, 2]}, {"topic": "foo", "partition": 1, "replicas": [1, 2]})
    )
    bar = {"topic": "bar", "partition": 0}
    Path(files, "second.json").write_text(_plan({**bar, "replicas": [3, 0]}, {**_FOO, "replicas": [3, 2]}))
    Path(files, "more.json").write_text(_plan({**bar, "replicas": [3, 0, 1]}))
    server = several.address
    dids = []
    for run in (lambda words: Did(*tools.run(*words)), lambda words: ours(words, capfd)):
        told = [run(words) for words in lines(_full(BEGIN), server, files)]
        if not dids:
            compare(_full(HELD), tools, capfd, server, files)  # both tools see the same while it is held
        told += [run(words) for words in lines(_full(END), server, files)]
        # A move that was called off leaves the replicas in another order.
        words = [re.sub(r"\[2,0\]|\[0,2\]|/2\",\"/0|/0\",\"/2", "?", each.out) for each in told]
        dids.append([(each.code, text) for each, text in zip(told, words, strict=True)])
    assert dids[0] == dids[1]


def test_what_is_generated_has_the_same_shape(tools: ApacheTools, several, files, capfd):
    (words,) = lines(
        "kafka-reassign-partitions -B --generate --topics-to-move-json-file @D/topics.json --broker-list 0,1,2,3",
        several.address,
        files,
    )
    shapes = []
    for did in (Did(*tools.run(*words)), ours(words, capfd)):
        head, current, _, name, proposed = did.out.splitlines()
        rows = json.loads(proposed)["partitions"]
        assert all(len(set(row["replicas"])) == 2 and set(row["replicas"]) <= {0, 1, 2, 3} for row in rows)
        shapes.append((did.code, head, current, name, re.sub(r'"replicas":\[\d,\d\]', "", proposed)))
    assert shapes[0] == shapes[1]
