"""Transactions of real clients, step by step: what others see of them, and what becomes of those who lost their id."""

import pytest

from ottla.core.errors import ErrorCode
from tests.interop.brokers import eventually
from tests.interop.clients.client import Record, Refused
from tests.interop.clients.members import TIMEOUTS, members_of
from tests.interop.features import feature

LIBRDKAFKA_FENCED, LIBRDKAFKA_FATAL = -144, -150
FENCED = {
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
    LIBRDKAFKA_FENCED,
    LIBRDKAFKA_FATAL,
}
"""The words of the clients for one thing: the id belongs to another producer, or to another epoch."""


@pytest.fixture
def transactional(client, client_name, new_topic):
    """Makes producers of one transactional id, and closes them."""
    made = []

    def make(**how):
        made.append(client.transactional(f"id-{client_name}", **how))
        return made[-1]

    yield make
    for each in made:
        each.close()


def values(records):
    return sorted(each.value.decode() for each in records)


def everywhere(value, partitions=3):
    return [Record(number, None, f"{value} {number}".encode()) for number in range(partitions)]


@feature("Several partitions in a transaction")
def test_a_transaction_is_seen_as_a_whole_or_not_at_all(client, transactional, new_topic):
    topic, starts = new_topic(partitions=3), dict.fromkeys(range(3), 0)
    producer = transactional()
    for outcome in ("committed", "aborted", "committed too"):
        producer.begin()
        producer.send(topic, everywhere(outcome))
        (producer.abort if outcome == "aborted" else producer.commit)()
    committed = values(everywhere("committed") + everywhere("committed too"))
    assert values(client.consume(topic, starts, 6, isolation="read_committed")) == committed
    everything = values(everywhere("committed") + everywhere("aborted") + everywhere("committed too"))
    assert values(client.consume(topic, starts, 9)) == everything


@feature("Offsets in a transaction")
def test_offsets_are_committed_with_their_transaction_or_not_at_all(control, transactional, new_topic):
    source, target = new_topic(), new_topic()
    group, producer = f"reads-{source}", transactional()
    committed = []
    for offset, is_kept in ((5, True), (7, False), (9, True)):
        producer.begin()
        producer.send(target, [Record(0, None, b"done")])
        producer.send_offsets(group, source, {0: offset})
        committed.append(control.committed(group, source, 0))
        (producer.commit if is_kept else producer.abort)()
        assert eventually(lambda: control.committed(group, source, 0) == (offset if is_kept else 5))  # noqa: B023 called here
    assert committed == [None, 5, 5]


@feature("Zombies are fenced")
def test_who_takes_over_an_id_fences_who_had_it(client, transactional, new_topic):
    topic = new_topic(partitions=3)
    zombie = transactional()
    zombie.begin()
    zombie.send(topic, everywhere("zombie"))
    heir = transactional()
    heir.begin()
    heir.send(topic, everywhere("heir"))
    with pytest.raises(Refused) as refusal:
        zombie.commit()
    assert refusal.value.code in FENCED, refusal.value
    heir.commit()
    found = client.consume(topic, dict.fromkeys(range(3), 0), 3, isolation="read_committed")
    assert values(found) == values(everywhere("heir"))


@pytest.mark.usefixtures("coordinators")
@pytest.mark.parametrize("name", ["confluent-kafka", "java", "java-3.9", "ottla"])
def test_a_zombie_writes_nothing_any_more(connected, new_topic, name):
    """Those of the other clients take the id back."""
    client, topic = connected(name), new_topic(partitions=3)
    zombie = client.transactional(f"writes-{name}")
    zombie.begin()
    zombie.send(topic, everywhere("zombie"))
    heir = client.transactional(f"writes-{name}")
    heir.begin()
    heir.send(topic, everywhere("heir"))
    with pytest.raises(Refused) as refusal:
        zombie.send(topic, everywhere("zombie again"))
    assert refusal.value.code in FENCED, refusal.value
    heir.commit()
    heir.begin()
    heir.send(topic, everywhere("heir again"))
    heir.commit()
    found = client.consume(topic, dict.fromkeys(range(3), 0), 9)
    assert values(found) == values(everywhere("zombie") + everywhere("heir") + everywhere("heir again"))
    zombie.close()
    heir.close()


@feature("Transactions time out")
def test_a_transaction_that_takes_too_long_is_aborted(client, control, transactional, new_topic):
    topic = new_topic()
    slow = transactional(timeout_ms=1000)
    slow.begin()
    slow.send(topic, [Record(0, None, b"slow")])
    control.produce(topic, [Record(0, None, b"behind it")])
    found = client.consume(topic, {0: 0}, 1, isolation="read_committed")
    assert values(found) == ["behind it"]
    with pytest.raises(Refused) as refusal:
        slow.commit()
    assert refusal.value.code in FENCED | {ErrorCode.INVALID_TXN_STATE}, refusal.value
    another = transactional()
    another.begin()
    another.send(topic, [Record(0, None, b"in time")])
    another.commit()
    assert values(client.consume(topic, {0: 0}, 2, isolation="read_committed")) == ["behind it", "in time"]


@feature("read_committed waits for open transactions")
def test_read_committed_stops_where_a_transaction_is_open(
    client_name, control, transactional, new_topic, bootstrap_server
):
    """A partition without transactions shows that the consumer went on reading meanwhile."""
    topic = new_topic(partitions=2)
    held, free = 0, 1
    settings = {key.replace(".", "_"): value for key, value in TIMEOUTS.items()}
    with members_of(bootstrap_server) as join:
        member = join(client_name, f"reads-{topic}", [topic], isolation_level="read_committed", **settings)
        assert eventually(lambda: len(member.assignment) == 2), member
        producer = transactional()

        def read(partition):
            return [each.value for each in member.seen if each.partition == partition]

        def passes(value):
            control.produce(topic, [Record(free, None, value.encode())])
            assert eventually(lambda: value in read(free)), member

        producer.begin()
        producer.send(topic, [Record(held, None, b"open")])
        control.produce(topic, [Record(held, None, b"behind")])
        passes("first")
        assert read(held) == []
        producer.commit()
        assert eventually(lambda: read(held) == ["open", "behind"]), member
        producer.begin()
        producer.send(topic, [Record(held, None, b"never")])
        control.produce(topic, [Record(held, None, b"last")])
        passes("second")
        assert read(held) == ["open", "behind"]
        producer.abort()
        assert eventually(lambda: read(held) == ["open", "behind", "last"]), member
