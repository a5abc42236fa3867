"""Apache Kafka and Ottla are asked the same, in every version that both speak, and answer the same.

Where they differ on purpose, `dialogues/deliberate.py` says why; a reason that nothing needs any more must go.
"""

import asyncio
import os

import pytest

from ottla.testing.broker import AsyncBroker
from tests.interop.dialogues.comparison import DIALOGUES, compare, spoken_by_both
from tests.interop.dialogues.deliberate import MEANT
from tests.interop.dialogues.talk import idle, unmeant
from tests.oracles import apache_kafka

NODE = {"node.id": "1"}
QUICK_TO_START = ("-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


@pytest.fixture(scope="module")
def differences(tmp_path_factory):
    if os.environ.get("OTTLA_INTEROP_BOOTSTRAP"):
        pytest.skip("this broker is not ours to compare")
    try:
        data_dir = tmp_path_factory.mktemp("apache")
        with apache_kafka.apache_kafka(data_dir=data_dir, java=QUICK_TO_START) as kafka:
            return asyncio.run(_compared(kafka.bootstrap_server))
    except apache_kafka.Unavailable as error:
        pytest.skip(str(error))


async def _compared(theirs):
    async with AsyncBroker(config=NODE) as broker:
        spoken = await spoken_by_both(theirs, broker.bootstrap_server, {})
        return await compare(theirs, broker.bootstrap_server, spoken)


@pytest.mark.parametrize("dialogue", DIALOGUES)
def test_apache_kafka_and_ottla_answer_alike(differences, dialogue):
    assert not unmeant(differences[dialogue], MEANT)


def test_every_difference_that_is_meant_is_there(differences):
    assert not idle(differences.values(), MEANT), "they have become alike"
