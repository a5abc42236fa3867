"""`kafka-log-dirs`: on a broker of ours, and on directories that have failed."""

import json

import pytest

from ottla.cli.classic.log_dirs import _directory
from ottla.cli.main import main
from ottla.client.admin.log_dirs import LogDirDescription, ReplicaInfo
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.testing import Broker


@pytest.fixture(scope="module")
def server():
    with Broker() as broker:
        where = ["--bootstrap-server", broker.bootstrap_server]
        assert main(["kafka-topics", *where, "--create", "--topic", "a", "--partitions", "2"]) == 0
        assert main(["kafka-topics", *where, "--create", "--topic", "b"]) == 0
        yield broker.bootstrap_server


def test_directories_are_one_line_of_json(server, capsys):
    words = [
        "kafka-log-dirs",
        "--bootstrap-server",
        server,
        "--describe",
        "--topic-list",
        "a",
        "--broker-list",
        "1",
    ]
    assert main(words) == 0
    first, second, document = capsys.readouterr().out.splitlines()
    assert first == "Querying brokers for log directories information"
    assert second == "Received log directory information from brokers 1"
    found = json.loads(document)
    assert document.startswith('{"brokers":[{"broker":1,"logDirs":[{"partitions":[{"partition":"a-')
    ((directory,),) = [each["logDirs"] for each in found["brokers"]]
    assert {each["partition"] for each in directory["partitions"]} == {"a-0", "a-1"}
    assert (directory["error"], found["version"]) == (None, 1)


def test_brokers_that_do_not_live_are_named(server, capsys):
    assert main(["kafka-log-dirs", "--bootstrap-server", server, "--describe", "--broker-list", "1,9,8"]) == 1
    assert capsys.readouterr().err == (
        "ERROR: The given brokers do not exist from --broker-list: 8,9. Current existent brokers: 1\n"
    )


def test_a_directory_that_failed_has_javas_name_of_the_error():
    replicas = {TopicPartition("t1", number): ReplicaInfo(number, 0, False) for number in range(2)}
    error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)
    assert _directory(LogDirDescription("/data", replicas, error), set()) == {
        "partitions": [
            {"partition": "t1-1", "size": 1, "offsetLag": 0, "isFuture": False},
            {"partition": "t1-0", "size": 0, "offsetLag": 0, "isFuture": False},
        ],
        "error": "org.apache.kafka.common.errors.KafkaStorageException",
        "logDir": "/data",
    }
