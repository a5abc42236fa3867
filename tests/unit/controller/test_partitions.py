"""States on their way into the store and out to the brokers."""

from ottla.controller.context import NO_STATE
from ottla.controller.partitions import newborn, orders, settled, skeleton, store
from ottla.metadata.paths import PartitionStateNode
from ottla.metadata.store import Create, Set
from ottla.replication.state import TopicImage
from tests.unit.controller.helpers import TOPIC_ID, state

ABOVE = "/brokers/topics/t/partitions"


def test_a_state_is_written_over_the_one_before():
    writes, after = store(state(0, "01", "0"), 9, set())
    assert writes == [Set(f"{ABOVE}/0/state", PartitionStateNode(0, 3, (0,), 9).encode(), 7)]
    assert after.partition_epoch == 8


def test_a_first_state_brings_the_nodes_above_it_unless_they_are_there():
    known: set[str] = set()
    image = newborn(TopicImage("t", TOPIC_ID, ()), [(0,), (0,)])
    paths = [write.path for s in image.partitions for write in store(s, 9, known)[0]]
    assert paths == [ABOVE, f"{ABOVE}/0", f"{ABOVE}/0/state", f"{ABOVE}/1", f"{ABOVE}/1/state"]
    writes, after = store(image.partitions[1], 9, {ABOVE, f"{ABOVE}/1"})
    assert [type(write) for write in writes] == [Create]
    assert after.partition_epoch == 0


def test_a_topic_with_any_state_has_the_node_above_all():
    image = newborn(TopicImage("t", TOPIC_ID, ()), [(0,)])
    assert skeleton(image) == set()
    assert skeleton(image._replace(partitions=(state(0, "0", "0"),))) == {ABOVE}


def test_more_partitions_are_numbered_on():
    image = newborn(TopicImage("t", TOPIC_ID, (state(0, "0", "0"),)), [(1,), (2,)])
    assert [(s.partition, s.replicas, s.partition_epoch) for s in image.partitions[1:]] == [
        (1, (1,), NO_STATE), (2, (2,), NO_STATE),
    ]  # fmt: skip


def test_what_was_new_is_remembered_as_told():
    image = TopicImage("t", TOPIC_ID, (state(0, "0", "0", is_new=True),))
    assert not settled(image).partitions[0].is_new
    assert settled(settled(image)) == settled(image)


def test_every_live_replica_gets_one_call():
    first, second = state(0, "01", "0"), state(1, "12", "1")
    calls = orders([first, second, state(0, "0", "", partition_epoch=NO_STATE)], live=[0, 1])
    assert [(call.broker, call.states) for call in calls] == [(0, (first,)), (1, (first, second))]
