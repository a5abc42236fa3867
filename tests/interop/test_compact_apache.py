"""`ottla topic compact` asks for something that Apache Kafka does not know: it says so, and nothing breaks."""

import pytest

from tests.oracles.apache_kafka import Unavailable, apache_kafka
from tests.unit.cli.states import Asked, runner


def test_apache_kafka_is_said_not_to_know_it(capsys):
    try:
        with apache_kafka() as kafka:
            ottla, asked = runner(capsys, kafka.bootstrap_server), Asked(kafka.bootstrap_server)
            asked.create("orders", 2)
            ran = ottla("topic", "compact", "orders", "--wait")
            assert asked.produce("orders", 1) == 0, "it serves as before"
            missing = ottla("topic", "compact", "nowhere")
    except Unavailable as error:
        pytest.skip(str(error))
    assert (ran.code, ran.out) == (1, "")
    (sentence,) = ran.err.splitlines()
    assert sentence.startswith("ottla: orders:0,1: broker 1 at ")
    assert "cannot be asked to compact: it is not Ottla, or too old" in sentence
    assert missing.code == 4
