"""A log directory of Apache Kafka, damaged and repaired: its own broker opens it again, with all that was whole."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.cli.main import cli
from ottla.storage.files import OsFiles
from ottla.storage.scan import walk
from tests.oracles import apache_kafka

ORDERS = "orders"
COUNT = 20


def _log(*args: object) -> Result:
    return CliRunner().invoke(cli, ["log", *map(str, args)])


def _write(bootstrap_server: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_server})
    admin.create_topics([NewTopic(ORDERS, 1, 1)])[ORDERS].result()
    producer = Producer({"bootstrap.servers": bootstrap_server, "enable.idempotence": True})
    for number in range(COUNT):
        producer.produce(ORDERS, b"value %d" % number)
        producer.flush()  # a batch each


def _offsets(bootstrap_server: str) -> list[int]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_server, "group.id": "any", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(ORDERS, 0, 0)])
    found: list[int] = []
    while not found or found[-1] < COUNT - 1:
        message = consumer.poll(30)
        assert message is not None and message.error() is None
        found.append(message.offset())
    consumer.close()
    return found


def _spoil_batch(path: Path, number: int) -> None:
    file = OsFiles().open(str(path))
    batch = list(walk(file, 0, file.size()))[number]
    file.write_at(batch.end - 3, b"\xff\xff")
    file.close()


def test_apache_kafka_opens_a_directory_that_was_repaired(tmp_path: Path) -> None:
    data = tmp_path / "data"
    try:
        with apache_kafka.apache_kafka(data_dir=tmp_path) as broker:
            _write(broker.bootstrap_server)
            apache_kafka.stop(broker)
    except apache_kafka.Unavailable as error:
        pytest.skip(str(error))
    assert _log("verify", data).exit_code == 0
    _spoil_batch(data / f"{ORDERS}-0" / f"{0:020d}.log", 7)
    assert _log("verify", data).exit_code == 1
    assert _log("repair", data, "--apply").exit_code == 0
    assert list(data.glob(f"{ORDERS}-0.*.quarantine"))
    with apache_kafka.apache_kafka(data_dir=tmp_path) as broker:
        assert _offsets(broker.bootstrap_server) == [n for n in range(COUNT) if n != 7]
        apache_kafka.stop(broker)
    assert _log("verify", data).exit_code == 0
