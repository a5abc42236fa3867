"""Every client reads what every other client wrote, in every codec."""

import pytest

from tests.interop.clients.client import NOW, Record
from tests.interop.clients.table import CLIENTS
from tests.interop.features import CODECS, CROSSING, feature


def records_for(producer_name, codec):
    """Two partitions, with all that a producer of this name can send."""
    timed = "Timestamps" not in CLIENTS[producer_name].lacks
    headers = (("codec", codec.encode()), ("empty", b""), ("twice", b"1"), ("twice", b"2"))
    if "Null headers" not in CLIENTS[producer_name].lacks:
        headers += (("null", None),)
    contents = [
        (b"key", b"value" * 50),
        (b"key", None),
        (b"", b""),
        (None, b"no key"),
        (b"k", bytes(range(256)) * 8),
    ]
    return [
        Record(partition, key, value, headers, NOW + number if timed else None)
        for partition in range(2)
        for number, (key, value) in enumerate(contents)
    ]


@pytest.fixture(scope="module")
def written():
    """Producer to the topic that it filled, and what it put there; each writes once."""
    return {}


@feature(CROSSING)
@pytest.mark.parametrize("consumer_name", CLIENTS)
@pytest.mark.parametrize("producer_name", CLIENTS)
def test_every_client_reads_what_every_client_wrote(
    producer_name, consumer_name, connected, new_topic, written
):
    consumer = connected(consumer_name)
    if producer_name not in written:
        topic, sent = new_topic(partitions=2), []
        for codec in CODECS:
            records = records_for(producer_name, codec)
            connected(producer_name).produce(topic, records, codec=codec)
            sent += records
        written[producer_name] = topic, sent
    topic, sent = written[producer_name]
    found = consumer.consume(topic, {0: 0, 1: 0}, len(sent))
    for partition in range(2):
        expected = [each for each in sent if each.partition == partition]
        got = [each for each in found if each.partition == partition]
        assert [each.offset for each in got] == list(range(len(expected)))
        if expected[0].timestamp is None:
            got = [each._replace(timestamp=None) for each in got]
        assert [each._replace(offset=None) for each in got] == expected
