"""Groups whose coordinator is killed: members find it again, and go on from where they had committed at the latest."""

import os

import pytest

from tests.interop.brokers import Ottla, eventually
from tests.interop.clients.client import Unavailable
from tests.interop.clients.members import TIMEOUTS, members_of
from tests.interop.clients.table import connect
from tests.interop.group_life import PARTITIONS, GroupLife

CLASSIC = {key.replace(".", "_"): value for key, value in TIMEOUTS.items()}
CONSUMER = {"group_protocol": "consumer"}

pytestmark = [
    pytest.mark.usefixtures("coordinators"),
    pytest.mark.skipif("OTTLA_INTEROP_BOOTSTRAP" in os.environ, reason="this broker is not ours to kill"),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    broker = Ottla(tmp_path_factory.mktemp("killed"))
    yield broker
    broker.stop()


@pytest.mark.parametrize(
    ("name", "how"),
    [
        pytest.param("confluent-kafka", CLASSIC, id="confluent-kafka"),
        pytest.param("kafka-python", CLASSIC, id="kafka-python"),
        pytest.param("aiokafka", CLASSIC, id="aiokafka"),
        pytest.param("kafkajs", CLASSIC, id="kafkajs"),
        pytest.param("java", CLASSIC, id="java"),
        pytest.param("confluent-kafka", CONSUMER, id="confluent-kafka-consumer"),
        pytest.param("java", CONSUMER, id="java-consumer"),
        pytest.param("ottla", CLASSIC, id="ottla"),
        pytest.param("ottla", CONSUMER, id="ottla-consumer"),
    ],
)
def test_a_group_goes_on_when_its_coordinator_was_killed(broker, name, how):
    control, topic = connect("confluent-kafka", broker.address), f"killed-{name}-{len(how)}"
    try:
        connect(name, broker.address).close()  # which fetches and compiles what is missing
    except Unavailable as error:
        pytest.skip(str(error))
    control.create_topic(topic, PARTITIONS, {})
    assert eventually(lambda: control.is_led(topic, PARTITIONS))
    with members_of(broker.address) as join:
        group = GroupLife(control, join, topic, f"group-of-{topic}")
        first, _ = group.join(name, **how), group.join(name, **how)
        group.has_settled(3, 3)
        group.reads()
        broker.kill_and_start_again()
        group.may_repeat = True  # some clients join again, whenever they notice
        group.has_settled(3, 3)
        group.reads(commit=())
        group.close(first)
        group.has_settled(6)
        group.reads(commit=())
    control.close()
