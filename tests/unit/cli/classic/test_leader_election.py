"""`kafka-leader-election` on brokers of ours. What it prints is compared with Apache's own in tests/interop."""

import json

import pytest

from ottla.cli.classic.java import Illegal
from ottla.cli.classic.leader_election import read_partitions
from ottla.cli.main import main
from ottla.core.ids import TopicPartition
from tests.unit.cli.several import several_brokers
from tests.unit.cli.states import Ran


def test_partitions_are_read_from_json():
    assert read_partitions('{"partitions": [{"topic": "t", "partition": 3}]}') == [TopicPartition("t", 3)]
    assert read_partitions('{"partitions": []}') == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "Replica election data is empty"),
        ("{}", 'Replica election data is missing "partitions" field'),
        ('{"partitions": [{"topic": "t"}]}', "No such field exists: `partition`"),
        (
            '{"partitions": [{"topic": "t", "partition": 0}, {"topic": "t", "partition": 0}]}',
            "contains duplicate partitions: [t-0]",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(text, sentence):
    with pytest.raises(Illegal) as refused:
        read_partitions(text)
    assert sentence in str(refused.value)


def test_a_preferred_leader_leads_again(capsys):
    with several_brokers(2, auto_leader_rebalance_enable=False) as several:
        several.create("foo", (0, 1), (1, 0))
        several.stop(0)
        several.led_by("foo", 1)
        several.start(0)
        several.until_in_sync("foo")

        def run(*words):
            code = main(["kafka-leader-election", "--bootstrap-server", several.address, *words])
            return Ran(code, *capsys.readouterr())

        ran = run("--election-type", "preferred", "--all-topic-partitions")
        assert ran.out == "Successfully completed leader election (PREFERRED) for partitions foo-0\n"
        several.led_by("foo", 0)
        ran = run("--election-type", "preferred", "--topic", "foo", "--partition", "0")
        assert ran.out == "Valid replica already elected for partitions foo-0\n"
        ran = run("--election-type", "preferred", "--topic", "foo", "--partition", "9")
        assert ran.code == 1
        assert ran.out.startswith(
            "Error completing leader election (PREFERRED) for partition: foo-9: org.apache"
        )
        assert ran.err == "1 replica(s) could not be elected\n"


def test_options_are_checked_before_anybody_is_asked(capsys):
    assert main(["kafka-leader-election", "--topic", "t"]) == 1
    assert capsys.readouterr().err == "Missing required option(s): bootstrap-server, election-type\n"


def test_a_file_of_many_partitions_is_read_at_once():
    rows = [{"topic": "t", "partition": number} for number in range(50_000)]
    assert len(read_partitions(json.dumps({"partitions": rows}))) == 50_000
