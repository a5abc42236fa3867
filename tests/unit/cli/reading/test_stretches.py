"""Where partitions are begun, and where they are done."""

import pytest

from ottla.cli.reading.stretches import Stretches
from ottla.cli.targets import Span, Target, span_of
from ottla.client import Consumer, Producer
from ottla.core.ids import TopicPartition
from ottla.testing import Broker

PLACE = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def server():
    with Broker() as broker:
        with Producer(bootstrap_servers=broker.bootstrap_server) as producer:
            for number in range(10):
                producer.send("orders", b"%d" % number)
        yield broker.bootstrap_server


@pytest.fixture
def consumer(server):
    with Consumer(bootstrap_servers=server) as consumer:
        consumer.assign([PLACE])
        yield consumer


def test_what_has_no_end_and_begins_at_the_start_asks_nobody(consumer):
    stretches = Stretches(consumer, span_of("start"), ends=False, has_group=False)
    stretches.begin([PLACE])
    assert consumer.positions() == {} and stretches.stops == {} and not stretches.is_bounded


@pytest.mark.parametrize(("text", "start", "stop"), [("-3:-1", 7, 9), ("2:400", 2, 10), ("400:", 10, 10)])
def test_places_become_offsets_within_the_log(consumer, text, start, stop):
    stretches = Stretches(consumer, span_of(text), ends=True, has_group=False)
    stretches.begin([PLACE])
    assert consumer.positions() == {PLACE: start} and stretches.stops == {PLACE: stop}
    assert stretches.left([PLACE], {PLACE: start}) == stop - start
    assert stretches.is_done(PLACE, {PLACE: stop}) and not stretches.is_done(PLACE, {})


def test_an_end_that_was_found_stays_when_a_partition_comes_again(consumer):
    stretches = Stretches(consumer, span_of(":4"), ends=False, has_group=False)
    stretches.stops[PLACE] = 2
    stretches.begin([PLACE])
    assert stretches.stops == {PLACE: 2}


def test_a_log_that_became_shorter_is_not_waited_for(consumer):
    stretches = Stretches(consumer, Span(Target(offset=0), None), ends=True, has_group=False)
    stretches.stops[PLACE] = 50
    stretches.look_again()
    assert stretches.stops == {PLACE: 10}


def test_a_position_that_is_not_known_yet_is_something_left(consumer):
    stretches = Stretches(consumer, span_of(":4"), ends=False, has_group=False)
    stretches.stops[PLACE] = 0
    assert stretches.left([PLACE], {}) == 1
    assert stretches.left([PLACE], {PLACE: 0}) == 0
