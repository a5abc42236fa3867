"""What is counted, and what is said to have gone wrong."""

from ottla.cli.sending.inputs import Block
from ottla.cli.sending.tally import Tally
from ottla.client.errors import ClosedError
from ottla.client.producer.batch import Batch, Home, Landed, Stretch
from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition

BLOCK = Block("-", 11, [b"a", b"b", b"c"], 6)


def settled(tally, outcome):
    batch = Batch(TopicPartition("t", 0), (1,), 0.0, 9.0, Home())
    batch.rows = [(0, None, value, ()) for value in BLOCK.pieces]
    batch.in_stretches = 3
    tally.read += 3
    tally.watch(Stretch(batch, 0, 3, range(3)), BLOCK, range(3))
    batch.finish(outcome)


def test_what_was_under_way_when_we_closed_is_missing_and_no_trouble():
    told = []
    tally = Tally(lambda: told.append(1))
    settled(tally, Landed(40))
    settled(tally, ClosedError("the producer was closed before the record was acknowledged"))
    assert (tally.read, tally.acknowledged, tally.missing, tally.trouble, told) == (6, 3, 3, None, [])


def test_the_first_failure_is_kept_with_its_place():
    told = []
    tally = Tally(lambda: told.append(1))
    settled(tally, KafkaError.of(87, "one"))
    settled(tally, KafkaError.of(10, "other"))
    assert (tally.trouble.where, "one" in str(tally.trouble.error), told) == ("line 11", True, [1])
    assert (tally.acknowledged, tally.missing) == (0, 6)
