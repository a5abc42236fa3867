"""A key goes to the same partition whichever client writes it: Java's producer is the judge.

Records of one key are in order only if all programs that write them agree; who moves from one client to another must
not find the new records elsewhere.
"""

import random
import struct

import pytest

from tests.interop.clients.client import ANY, Record
from tests.interop.clients.confluent import ConfluentKafka

COUNTS = (1, 2, 3, 7, 12, 50)
ALIKE = ("ottla", "kafka-python", "aiokafka", "kafkajs", "java-3.9")
"""Those that place keys as Java does without being told to."""
WORDS = ("", "a", "tea", "user-4711", "schlüssel", "ключ", "鍵", "🔑🔑", "e\u0301", "\x00", "x" * 100)


def keys():
    """Random bytes of every length to 40, so with every remainder of four; and what serializers make of things."""
    chance = random.Random(2011)
    found = [chance.randbytes(length) for length in range(41) for _ in range(6)]
    found += [word.encode() for word in WORDS]
    found += [b"\xff" * length for length in range(1, 9)] + [b"\x80" * length for length in range(1, 9)]
    numbers = [0, 1, -1, 127, 128, 255, 65_536, 2**31 - 1, -(2**31)]
    numbers += [chance.randrange(2**31) for _ in range(20)]
    found += [struct.pack(form, number) for form in (">i", ">q") for number in numbers]
    return list(dict.fromkeys(found))


KEYS = keys()


@pytest.fixture(scope="module")
def topics():
    """For each number of partitions a topic, which every client writes to, and what Java's said."""
    return {}


@pytest.fixture
def places(connected, control, new_topic, topics):
    """Where a client's own partitioner puts the keys, by the number of partitions."""

    def find(client, name):
        found = {}
        for count in COUNTS:
            if count not in topics:
                topics[count] = new_topic(partitions=count), {}
            topic, begins = topics[count]
            client.produce(topic, [Record(ANY, key, name.encode()) for key in KEYS])
            starts = {number: begins.get(number, 0) for number in range(count)}
            records = control.consume(topic, starts, len(KEYS))
            assert {each.value for each in records} == {name.encode()}
            for each in records:
                begins[each.partition] = max(begins.get(each.partition, 0), each.offset + 1)
            found[count] = {each.key: each.partition for each in records}
        return found

    return find


@pytest.fixture
def javas(connected, places, topics):
    """Asked once."""
    if "java" not in topics:
        topics["java"] = places(connected("java"), "java")
    return topics["java"]


def test_the_keys_of_the_test_are_spread(javas):
    assert len(KEYS) > 300
    for count in COUNTS:
        assert set(javas[count].values()) == set(range(count))


@pytest.mark.parametrize("name", ALIKE)
def test_a_key_goes_where_javas_producer_puts_it(connected, places, javas, name):
    assert places(connected(name), name) == javas


def test_a_key_goes_where_librdkafka_puts_it_if_told_to_do_as_java(bootstrap_server, places, javas):
    client = ConfluentKafka(bootstrap_server, partitioner="murmur2_random")
    try:
        assert places(client, "librdkafka") == javas
    finally:
        client.close()
