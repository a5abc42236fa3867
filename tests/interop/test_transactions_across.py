"""Transactions from one client to another: our own client on one side, everybody else's on the other."""

import pytest

from tests.interop.brokers import eventually
from tests.interop.clients.client import Record, Refused
from tests.interop.clients.table import CLIENTS
from tests.interop.test_transactions import FENCED, everywhere, values

pytestmark = pytest.mark.usefixtures("coordinators")
OTHERS = [
    name for name, entry in CLIENTS.items() if name != "ottla" and "Zombies are fenced" not in entry.lacks
]
PAIRS = [("ottla", name) for name in CLIENTS] + [(name, "ottla") for name in OTHERS]
STARTS = dict.fromkeys(range(3), 0)


@pytest.fixture(scope="module")
def written():
    """Producer to the topic that it filled; each writes once."""
    return {}


@pytest.mark.parametrize(("producer_name", "consumer_name"), PAIRS)
def test_a_transaction_is_to_others_what_it_is_to_its_own(
    connected, new_topic, written, producer_name, consumer_name
):
    consumer = connected(consumer_name)
    if producer_name not in written:
        topic = written[producer_name] = new_topic(partitions=3)
        producer = connected(producer_name).transactional(f"across-{topic}")
        for outcome in ("committed", "aborted", "committed too"):
            producer.begin()
            producer.send(topic, everywhere(outcome))
            (producer.abort if outcome == "aborted" else producer.commit)()
        producer.close()
    topic = written[producer_name]
    found = consumer.consume(topic, STARTS, 6, isolation="read_committed")
    for partition in STARTS:
        rows = [(each.offset, each.value.decode()) for each in found if each.partition == partition]
        # Behind each of them lies the marker that says how the transaction ended.
        assert rows == [(0, f"committed {partition}"), (4, f"committed too {partition}")]
    assert len(consumer.consume(topic, STARTS, 9)) == 9


@pytest.mark.parametrize("name", OTHERS)
def test_an_id_goes_from_one_client_to_another_and_back(connected, new_topic, name):
    topic, ours, theirs = new_topic(partitions=3), connected("ottla"), connected(name)
    made = []

    def takes_over(client, value):
        made.append(client.transactional(f"passed-{topic}"))
        made[-1].begin()
        made[-1].send(topic, everywhere(value))
        return made[-1]

    def is_fenced(zombie):
        with pytest.raises(Refused) as refusal:
            zombie.commit()
        assert refusal.value.code in FENCED, refusal.value

    first = takes_over(theirs, "theirs, and left open")
    second = takes_over(ours, "ours")
    is_fenced(first)
    second.commit()
    second.begin()
    second.send(topic, everywhere("ours, and left open"))
    third = takes_over(theirs, "theirs")
    is_fenced(second)
    third.commit()
    takes_over(ours, "ours again").commit()
    for reader in (ours, theirs):
        found = reader.consume(topic, STARTS, 9, isolation="read_committed")
        assert values(found) == values(everywhere("ours") + everywhere("theirs") + everywhere("ours again"))
    for each in made:
        each.close()


def test_a_producer_of_ours_that_lost_its_id_writes_nothing_any_more(connected, new_topic):
    topic, client, heir_client = new_topic(partitions=3), connected("ottla"), connected("confluent-kafka")
    zombie = client.transactional(f"lost-{topic}")
    zombie.begin()
    zombie.send(topic, everywhere("zombie"))
    heir = heir_client.transactional(f"lost-{topic}")
    heir.begin()
    heir.send(topic, everywhere("heir"))
    with pytest.raises(Refused) as refusal:
        zombie.send(topic, everywhere("zombie again"))
    assert refusal.value.code in FENCED, refusal.value
    heir.commit()
    found = client.consume(topic, STARTS, 6)
    assert values(found) == values(everywhere("zombie") + everywhere("heir"))
    zombie.close()
    heir.close()


@pytest.mark.parametrize("name", ["confluent-kafka", "java"])
def test_offsets_that_we_commit_in_a_transaction_are_where_another_client_goes_on(connected, new_topic, name):
    source, target = new_topic(), new_topic()
    ours, theirs, control = connected("ottla"), connected(name), connected("confluent-kafka")
    group = f"goes-on-{source}"
    control.produce(source, [Record(0, None, b"%d" % number) for number in range(10)])
    read = ours.consume(source, {0: 0}, 4)
    producer = ours.transactional(f"copies-{source}")
    producer.begin()
    producer.send(target, [Record(0, None, each.value) for each in read])
    producer.send_offsets(group, source, {0: read[-1].offset + 1})
    producer.commit()
    producer.close()
    assert eventually(lambda: control.committed(group, source, 0) == 4)
    assert values(theirs.group_consume(source, group, 6)) == [str(number) for number in range(4, 10)]
    assert values(theirs.consume(target, {0: 0}, 4, isolation="read_committed")) == ["0", "1", "2", "3"]
