"""`kafka-leader-election` and Apache's own print the same, on one broker of each kind, and on several of ours."""

from collections.abc import Iterator

import pytest

from ottla.client import Admin
from tests.interop.classic.compare import Did, alike, compare, lines, ours, running
from tests.oracles.apache_tools import ApacheTools
from tests.unit.cli.several import several_brokers

FILES = {
    "both.json": '{"partitions": [{"topic": "foo", "partition": 0}, {"topic": "bar", "partition": 0}]}',
    "unknown.json": '{"partitions": [{"topic": "foo", "partition": 0}, {"topic": "nope", "partition": 0}]}',
    "twice.json": '{"partitions": [{"topic": "foo", "partition": 0}, {"topic": "foo", "partition": 0}]}',
    "no-partition.json": '{"partitions": [{"topic": "foo"}]}',
    "no-number.json": '{"partitions": [{"topic": "foo", "partition": "x"}]}',
    "bad.json": "{",
    "nothing.json": "",
    "list.json": "[1]",
    "empty.json": "{}",
    "none.json": '{"partitions": []}',
    "client.properties": "request.timeout.ms=20000\n",
}
NOBODY = "127.0.0.1:1"
NO_BROKER = """
    kafka-leader-election
    kafka-leader-election --help
    kafka-leader-election --version
    kafka-leader-election --bogus
    kafka-leader-election --topic foo
    kafka-leader-election --topic foo --all-topic-partitions
    kafka-leader-election -B
    kafka-leader-election --election-type preferred
    kafka-leader-election -B --election-type preferred
    kafka-leader-election -B --election-type bogus --all-topic-partitions
    kafka-leader-election -B --election-type preferred --topic foo
    kafka-leader-election -B --election-type preferred --topic
    kafka-leader-election -B --election-type preferred --partition 0
    kafka-leader-election -B --election-type preferred --topic foo --partition x
    kafka-leader-election -B --election-type preferred --topic a --topic b --partition 1
    kafka-leader-election -B --election-type preferred --topic foo --partition 0 --all-topic-partitions
    kafka-leader-election -B --election-type preferred --all-topic-partitions --partition 1
    kafka-leader-election -B --elec preferred --all-topic-partitions
    kafka-leader-election --bootstrap-server nonsense --election-type preferred --all-topic-partitions
    kafka-leader-election -B --election-type preferred --all-topic-partitions --command-config /no/such
    kafka-leader-election -B --election-type preferred --all-topic-partitions --admin.config /no/such
    kafka-leader-election -B --election-type preferred --all-topic-partitions --command-config a --admin.config b
"""
ONE_BROKER = """
    kafka-leader-election -B --election-type preferred --topic foo --partition 0
    kafka-leader-election -B --election-type PREFERRED --topic foo --partition 0
    kafka-leader-election -B --election-type unclean --topic foo --partition 0
    kafka-leader-election -B --election-type preferred --all-topic-partitions
    kafka-leader-election -B --election-type preferred --all-topic-partitions some words
    kafka-leader-election -B --election-type unclean --all-topic-partitions
    kafka-leader-election -B --election-type preferred --all-topic-partitions --admin.config @D/client.properties
    kafka-leader-election -B --election-type preferred --path-to-json-file @D/both.json
    kafka-leader-election -B --election-type preferred --path-to-json-file @D/unknown.json
    kafka-leader-election -B --election-type preferred --path-to-json-file @D/twice.json
    kafka-leader-election -B --election-type preferred --path-to-json-file @D/no-partition.json
    kafka-leader-election -B --election-type preferred --path-to-json-file @D/no-number.json
    kafka-leader-election -B --election-type preferred --path-to-json-file @D/bad.json
    kafka-leader-election -B --election-type preferred --path-to-json-file @D/nothing.json
    kafka-leader-election -B --election-type preferred --path-to-json-file @D/list.json
    kafka-leader-election -B --election-type preferred --path-to-json-file @D/empty.json
    kafka-leader-election -B --election-type preferred --path-to-json-file @D/none.json
    kafka-leader-election -B --election-type preferred --path-to-json-file @D/none-such.json
    kafka-leader-election -B --election-type preferred --topic nope --partition 0
    kafka-leader-election -B --election-type preferred --topic foo --partition 77
    kafka-leader-election -B --election-type preferred --topic foo --partition -1
"""
GONE = """
    kafka-leader-election -B --election-type preferred --topic first --partition 0
    kafka-leader-election -B --election-type unclean --topic first --partition 0
    kafka-leader-election -B --election-type preferred --all-topic-partitions
"""
BACK = """
    kafka-leader-election -B --election-type preferred --topic first --partition 0
    kafka-leader-election -B --election-type preferred --all-topic-partitions
    kafka-leader-election -B --election-type preferred --all-topic-partitions
"""


@pytest.fixture(scope="module")
def several() -> Iterator[object]:
    with several_brokers(3, auto_leader_rebalance_enable=False) as running:
        running.create("first", (0, 1), (1, 2))
        running.create("second", (0, 2))
        running.create("third", (0, 1, 2))
        yield running


def test_command_lines_that_reach_no_broker_are_refused_alike(tools: ApacheTools, capfd):
    compare(NO_BROKER, tools, capfd, NOBODY)


@pytest.mark.parametrize("kind", ["ottla", "apache"])
def test_one_broker_is_asked_alike(tools: ApacheTools, files, capfd, kind):
    with running(kind) as server:
        with Admin(bootstrap_servers=server) as admin:
            admin.create_topic("foo", 3, 1)
            admin.create_topic("bar", 1, 1)
        compare(ONE_BROKER, tools, capfd, server, files)


def test_leaders_are_elected_alike_among_several(tools: ApacheTools, several, capfd):
    told = []
    for run in (lambda words: Did(*tools.run(*words)), lambda words: ours(words, capfd)):
        several.stop(0)
        for topic, leader in (("first", 1), ("second", 2), ("third", 1)):
            several.led_by(topic, leader)
        if not told:
            compare(GONE, tools, capfd, several.address)
        several.start(0)
        for topic in ("first", "second", "third"):
            several.until_in_sync(topic)
        told.append([alike(run(words), "") for words in lines(BACK, several.address, "")])
    assert told[0] == told[1]
