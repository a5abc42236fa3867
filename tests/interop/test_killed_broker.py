"""A client that is connected when the broker is killed finds back by itself, and misses nothing."""

import gc
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.interop.brokers import Ottla, another_connection
from tests.interop.clients.client import Record, Unavailable
from tests.interop.clients.table import connect
from tests.interop.features import feature

# When its broker dies, kafka-python drops sockets that it has not closed; Python says so wherever it happens to be.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    if os.environ.get("OTTLA_INTEROP_BOOTSTRAP"):
        pytest.skip("this broker is not ours to kill")
    broker = Ottla(tmp_path_factory.mktemp("killed"))
    yield broker
    broker.stop()


@pytest.fixture
def client(client_name, broker):
    """Connected to this broker, not to the one that lives as long as all tests do."""
    try:
        client = connect(client_name, broker.address)
    except Unavailable as error:
        pytest.skip(str(error))
    yield client
    client.close()
    del client
    gc.collect()  # while nobody minds what it finds


@pytest.fixture(scope="module")
def another(broker):
    """Who produces while the client under test waits."""
    client = connect("confluent-kafka", broker.address)
    yield client
    client.close()


@feature("Goes on after the broker was killed")
def test_a_consumer_goes_on_after_the_broker_was_killed(client, client_name, broker, another):
    topic = f"killed-{client_name}"
    records = [Record(0, b"k", b"value %d" % number) for number in range(20)]
    client.produce(topic, records[:10], idempotent=True)
    with ThreadPoolExecutor(1) as pool:
        with another_connection(broker.address):
            waiting = pool.submit(client.consume, topic, {0: 0}, 20)
        broker.kill_and_start_again()
        another.produce(topic, records[10:], idempotent=True)
        assert [each.value for each in waiting.result()] == [each.value for each in records]
    assert topic in client.list_topics()
