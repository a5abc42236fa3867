"""Deleted segments, while somebody may still be reading them."""

from ottla.storage.doomed import Doomed
from ottla.storage.segment import Segment
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import config


def segment(base_offset: int) -> Segment:
    return Segment(SimDisk(), "d", base_offset, config())


def test_each_waits_for_the_delay_as_it_is_when_somebody_asks():
    doomed, first, second = Doomed(), segment(0), segment(1)
    doomed.add(first, 1000)
    doomed.add(second, 1500)
    assert (len(doomed), list(doomed)) == (2, [first, second])
    assert doomed.take(1999, 1000) == []
    assert doomed.take(2000, 1000) == [first]
    assert doomed.take(2000, 500) == [second], "the delay was made shorter"
    assert len(doomed) == 0


def test_it_says_how_long_the_first_has_yet_to_wait():
    doomed = Doomed()
    assert doomed.wait_ms(0, 1000) is None
    doomed.add(segment(0), 1000)
    doomed.add(segment(1), 1500)
    assert [doomed.wait_ms(now, 1000) for now in (1200, 2000, 9000)] == [800, 0, 0]


def test_a_clock_that_goes_back_makes_nobody_wait_for_longer_than_the_delay():
    doomed, first = Doomed(), segment(0)
    doomed.add(first, 10**12)
    assert doomed.take(50, 1000) == []
    assert doomed.take(1049, 1000) == []
    assert doomed.take(1050, 1000) == [first]
