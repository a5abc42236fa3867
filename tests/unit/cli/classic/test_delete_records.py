"""`kafka-delete-records` on a broker of ours."""

import json

import pytest

from ottla.cli.classic.delete_records import read_offsets
from ottla.cli.classic.java import Illegal
from ottla.cli.main import main
from ottla.client import Producer
from ottla.core.ids import TopicPartition
from ottla.testing import Broker


def test_offsets_are_read_from_json():
    rows = [{"topic": "t", "partition": 0, "offset": 5}, {"topic": "t", "partition": 1, "offset": -1}]
    expected = {TopicPartition("t", 0): 5, TopicPartition("t", 1): -1}
    assert read_offsets(json.dumps({"partitions": rows})) == expected
    assert read_offsets(json.dumps({"partitions": rows, "version": 1})) == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "The input string is not a valid JSON"),
        ("[]", "Expected JSON object, received []"),
        ('{"version": 2}', "Not supported version field value 2"),
        ("{}", "Missing partitions field"),
        ('{"partitions": 1}', "Expected JSON array, received 1"),
        ('{"partitions": [1]}', "Expected JSON object, received 1"),
        ('{"partitions": [{"topic": "a"}]}', "No such field exists: `partition`"),
        ('{"partitions": [{"topic": "a", "partition": "x"}]}', 'Expected `Integer` value, received "x"'),
        ('{"partitions": [{"topic": "a", "partition": true}]}', "Expected `Integer` value, received true"),
        (
            '{"partitions": [{"topic": "a", "partition": 0, "offset": 1},'
            ' {"topic": "a", "partition": 0, "offset": 2}]}',
            "Offset json file contains duplicate topic partitions: a-0",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(text, sentence):
    with pytest.raises(Illegal) as refused:
        read_offsets(text)
    assert str(refused.value) == sentence


def test_each_partition_is_told_its_low_watermark_or_what_went_wrong(tmp_path, capsys):
    rows = [
        {"topic": "t", "partition": 0, "offset": 2},
        {"topic": "t", "partition": 1, "offset": 77},
        {"topic": "nope", "partition": 0, "offset": 1},
    ]
    path = tmp_path / "offsets.json"
    path.write_text(json.dumps({"partitions": rows}))
    with Broker() as broker:
        where = ["--bootstrap-server", broker.bootstrap_server]
        assert main(["kafka-topics", *where, "--create", "--topic", "t", "--partitions", "2"]) == 0
        with Producer(bootstrap_servers=broker.bootstrap_server) as producer:
            for _ in range(3):
                producer.send("t", b"x", partition=0)
        capsys.readouterr()
        assert main(["kafka-delete-records", *where, "--offset-json-file", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Executing records delete operation",
        "Records delete operation completed:",
        "partition: nope-0\terror: org.apache.kafka.common.errors.UnknownTopicOrPartitionException:"
        " This server does not host this topic-partition.",
        "partition: t-0\tlow_watermark: 2",
        "partition: t-1\terror: org.apache.kafka.common.errors.OffsetOutOfRangeException:"
        " The requested offset is not within the range of offsets maintained by the server.",
    ]
