"""The versions that Kafka 4 gave up, and old clients still speak: Kafka 3.9 and Ottla answer them alike."""

import asyncio
import os

import pytest

from ottla.protocol.wiretypes import Versions
from ottla.testing.broker import AsyncBroker
from tests.interop.dialogues.comparison import DIALOGUES, compare, spoken_by_both
from tests.interop.dialogues.deliberate import MEANT, MEANT_OF_OLD
from tests.interop.dialogues.talk import idle, unmeant
from tests.oracles import apache_kafka

KAFKA = "3.9.2"
QUICK_TO_START = ("-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
UNTIL = {0: 2, 1: 3, 2: 0, 8: 1, 9: 0, 19: 1, 20: 0, 23: 1, 27: 0, 32: 0, 35: 0}
"""The last version of an API that Kafka 4 does not speak."""
GIVEN_UP = {key: Versions(0, UNTIL.get(key, -1)) for key in range(128)}


@pytest.fixture(scope="module")
def differences(tmp_path_factory):
    if os.environ.get("OTTLA_INTEROP_BOOTSTRAP"):
        pytest.skip("this broker is not ours to compare")
    try:
        data_dir = tmp_path_factory.mktemp("apache")
        with apache_kafka.apache_kafka(data_dir=data_dir, version=KAFKA, java=QUICK_TO_START) as kafka:
            return asyncio.run(_compared(kafka.bootstrap_server))
    except apache_kafka.Unavailable as error:
        pytest.skip(str(error))


async def _compared(theirs):
    async with AsyncBroker(config={"node.id": "1"}) as broker:
        spoken = await spoken_by_both(theirs, broker.bootstrap_server, GIVEN_UP)
        return await compare(theirs, broker.bootstrap_server, spoken)


@pytest.mark.parametrize("dialogue", DIALOGUES)
def test_apache_kafka_and_ottla_answer_alike(differences, dialogue):
    assert not unmeant(differences[dialogue], {**MEANT, **MEANT_OF_OLD})


def test_every_difference_that_is_meant_is_there(differences):
    assert not idle(differences.values(), MEANT_OF_OLD), "they have become alike"
