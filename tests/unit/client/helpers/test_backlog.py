"""Who is next: one record of a key at a time, in order, whatever happens in between."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.helpers.backlog import Backlog
from ottla.client.records import ConsumerRecord
from ottla.core.ids import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def records(partition: TopicPartition, *keys: bytes | None, first: int = 0) -> list[ConsumerRecord]:
    return [ConsumerRecord(*partition, first + index, 0, key, b"") for index, key in enumerate(keys)]


def backlog() -> Backlog:
    return Backlog(lambda record: record.key)


def test_a_key_is_worked_on_by_one_at_a_time():
    work = backlog()
    work.add(ZERO, records(ZERO, b"a", b"a", b"b"))
    first, other = work.take(), work.take()
    assert (first.record.offset, other.record.offset) == (0, 2)
    assert work.take() is None
    work.finish(first)
    assert work.take().record.offset == 1


def test_the_same_key_of_another_partition_is_another_one():
    work = backlog()
    work.add(ZERO, records(ZERO, b"a"))
    work.add(ONE, records(ONE, b"a"))
    assert work.take() and work.take()


def test_records_without_a_key_do_not_wait_for_each_other():
    work = backlog()
    work.add(ZERO, records(ZERO, None, None))
    assert work.take() and work.take()


def test_offsets_are_committed_up_to_the_first_that_is_not_done():
    work = backlog()
    work.add(ZERO, records(ZERO, b"a", b"b", first=5))
    first, second = work.take(), work.take()
    work.finish(second)
    assert work.commits() == {ZERO: 5}
    work.committed({ZERO: 5})
    assert work.commits() == {}
    work.finish(first)
    assert work.commits() == {ZERO: 7} and work.commits([ONE]) == {}


def test_what_was_given_up_holds_its_key_and_the_watermark():
    work = backlog()
    work.add(ZERO, records(ZERO, b"a", b"a"))
    work.abandon(work.take())
    assert work.take() is None and work.watermarks() == {ZERO: 0} and work.running_count() == 0


def test_what_finishes_after_its_partition_has_moved_counts_for_nothing():
    work = backlog()
    work.add(ZERO, records(ZERO, b"a", b"a"))
    late = work.take()
    work.forget([ZERO])
    work.add(ZERO, records(ZERO, b"a", b"b"))
    work.finish(late)
    work.abandon(late)
    assert work.done_count == 0 and work.watermarks() == {ZERO: 0}
    assert work.take() and work.take() and work.running_count([ZERO]) == 2


def test_what_waits_can_be_dropped_while_the_rest_is_finished():
    work = backlog()
    work.add(ZERO, records(ZERO, b"a", b"a", b"b"))
    work.add(ONE, records(ONE, b"a"))
    running = work.take()
    work.drop_waiting([ZERO])
    work.finish(running)
    assert work.watermarks() == {ZERO: 1, ONE: 0}
    assert work.take().record.partition == 1 and work.take() is None


def test_a_record_that_is_skipped_is_done():
    work = backlog()
    work.skip(ZERO, 3)
    assert work.commits() == {ZERO: 4} and work.done_count == 1


@given(st.data())
def test_every_key_is_handed_out_in_order_and_everything_is_done_in_the_end(data):
    keys = data.draw(st.lists(st.sampled_from([b"a", b"b", b"c", None]), max_size=30))
    work, running, seen = backlog(), [], []
    todo = records(ZERO, *keys)
    while todo or running or work.unfinished_count:
        step = data.draw(st.integers(0, 2))
        if step == 0 and todo:
            count = data.draw(st.integers(1, 5))
            work.add(ZERO, todo[:count])
            del todo[:count]
        elif step == 1 and running:
            item = running.pop(data.draw(st.integers(0, len(running) - 1)))
            work.finish(item)
        elif (item := work.take()) is not None:
            busy = [each.record.key for each in running if each.record.key is not None]
            assert item.record.key not in busy
            running.append(item)
            seen.append(item.record)
    for key in (b"a", b"b", b"c"):
        offsets = [record.offset for record in seen if record.key == key]
        assert offsets == [index for index, each in enumerate(keys) if each == key]
    assert work.watermarks() == ({ZERO: len(keys)} if keys else {})
