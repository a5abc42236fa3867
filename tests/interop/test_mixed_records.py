"""50 MB of records from 0 B to 900 KB, in all codecs over four partitions, from one client to the next."""

import hashlib
import random

import pytest

from tests.interop.clients.client import NOW, Record
from tests.interop.clients.table import CLIENTS
from tests.interop.features import CODECS, MIXED, feature

TOTAL_BYTES = 50_000_000
PARTITIONS = 4
SIZES = {900_000: 4, 100_000: 31, 10_000: 300, 1_000: 1800, 100: 4000, 0: 20}
"""How many records of about each size, per codec."""


def mixed(timed):
    """The records of each codec. Half of the bytes are noise, half can be compressed."""
    chance = random.Random(50)
    noise, words = chance.randbytes(1_000_000), (b"It was a bright cold day in April. %d " % 13) * 30_000
    return {codec: list(_records(chance, noise, words, timed)) for codec in CODECS}


def _records(chance, noise, words, timed):
    sizes = [size for size, count in SIZES.items() for _ in range(count)]
    chance.shuffle(sizes)
    for number, size in enumerate(sizes):
        partition = number % PARTITIONS
        size = max(0, size - chance.randrange(max(1, size // 4)))
        start = chance.randrange(1_000_000 - size)
        value = (noise if chance.random() < 0.5 else words)[start : start + size]
        key = None if value and number % 7 == 0 else b"%d" % number
        headers = (("partition", b"%d" % partition),) if partition == 3 else ()
        yield Record(partition, key, value, headers, NOW + number if timed else None)
    for partition in range(PARTITIONS):
        yield from (Record(partition, b"%d" % i, None, (), NOW if timed else None) for i in range(5))


def digests(records, timed):
    """One hash per record, by partition in the order of offsets; a mismatch then names its place, not megabytes."""
    found = {partition: [] for partition in range(PARTITIONS)}
    for each in records:
        digest = hashlib.blake2b(repr((each.key, each.headers)).encode(), digest_size=8)
        digest.update(b"null" if each.value is None else b"value" + each.value)
        time = each.timestamp if timed else None
        found[each.partition].append((digest.hexdigest(), len(each.value or b""), time))
    return found


def consumer_of(name):
    """Whoever reads what this client wrote: the next one, so that each writes once and reads once."""
    names = list(CLIENTS)
    return names[(names.index(name) + 1) % len(names)]


PAIRS = [pytest.param(name, consumer_of(name), id=f"{name} to {consumer_of(name)}") for name in CLIENTS]


@feature(MIXED)
@pytest.mark.parametrize(("producer_name", "consumer_name"), PAIRS)
def test_fifty_megabytes_arrive_as_they_were_sent(producer_name, consumer_name, connected, new_topic):
    timed = "Timestamps" not in CLIENTS[producer_name].lacks
    producer, consumer = connected(producer_name), connected(consumer_name)
    topic, sent = new_topic(partitions=PARTITIONS), []
    for codec, records in mixed(timed).items():
        producer.produce(topic, records, codec=codec)
        sent += records
    assert sum(len(each.value or b"") for each in sent) > TOTAL_BYTES
    found = consumer.consume(topic, dict.fromkeys(range(PARTITIONS), 0), len(sent))
    assert len(found) == len(sent)
    assert digests(found, timed) == digests(sent, timed)
