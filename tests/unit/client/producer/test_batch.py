"""Batches, and what the senders of their records hear: in threads, on loops, by callbacks, from halves."""

import asyncio
import itertools
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.errors import IllegalStateError, KafkaTimeoutError
from ottla.client.producer.batch import Batch, Delivery, Home, Identity, Landed, failed_delivery, size_of
from ottla.core.errors import ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.records.batch import HEADER_SIZE, check
from ottla.records.builder import build_rows
from ottla.records.compression import Codec

PLACE = TopicPartition("t", 3)


def batch_of(count: int, home: Home | None = None) -> Batch:
    batch = Batch(PLACE, (1,), 0.0, 1.0, home or Home())
    batch.rows = [(100 + number, b"k", b"%d" % number, ()) for number in range(count)]
    batch.size = sum(map(size_of, batch.rows))
    return batch


def test_a_thread_waits_and_is_told():
    batch = batch_of(3)
    heard: list[Any] = []
    waiting = threading.Thread(target=lambda: heard.append(Delivery(batch, 2).get()))
    waiting.start()
    batch.finish(Landed(10))
    waiting.join(10)
    assert heard[0][:4] == ("t", 3, 12, 102)
    assert heard[0].topic_partition == PLACE
    assert (heard[0].serialized_key_size, heard[0].serialized_value_size) == (1, 1)


def test_a_loop_in_another_thread_is_told_and_one_that_has_ended_harms_nobody():
    batch = batch_of(1)
    began = threading.Event()

    async def wait() -> int:
        began.set()
        return (await Delivery(batch, 0)).offset

    async def give_up() -> None:
        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        assert not task.done()

    asyncio.run(give_up())
    began.clear()
    found: list[int] = []
    waiting = threading.Thread(target=lambda: found.append(asyncio.run(wait())))
    waiting.start()
    began.wait(10)
    batch.finish(Landed(7))
    waiting.join(10)
    assert found == [7]


def test_whoever_stops_waiting_leaves_nothing_behind():
    batch = batch_of(1)
    delivery = Delivery(batch, 0)

    async def run() -> None:
        async def wait() -> None:
            await delivery

        task = asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        assert len(batch._waiting) == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    with pytest.raises(KafkaTimeoutError, match="t-3 has no answer after 0 s"):
        delivery.get(0)
    assert not batch._waiting


def test_waiting_in_the_thread_that_would_have_to_tell_is_refused():
    home = Home()
    home.loop_thread = threading.get_ident()
    batch = batch_of(1, home)
    with pytest.raises(IllegalStateError):
        Delivery(batch, 0).get()
    batch.finish(Landed(0))
    assert Delivery(batch, 0).get().offset == 0


def test_callbacks_hear_what_they_asked_for_and_a_bad_one_stops_nobody(caplog):
    batch = batch_of(1)
    heard: list[Any] = []
    delivery = Delivery(batch, 0)
    delivery.add_callback(lambda metadata: 1 / 0)
    delivery.add_both(heard.append).add_errback(heard.append)
    batch.finish(Landed(4))
    batch.finish(Landed(5))  # the first word counts
    assert [each.offset for each in heard] == [4]
    assert "a callback of the application failed" in caplog.text
    error = KafkaError(ErrorCode.INVALID_RECORD, "no")
    failed = failed_delivery(PLACE, error)
    failed.add_both(heard.append)
    assert heard[1:] == [error]
    assert failed.failed() and failed.done() and not failed.succeeded()
    assert failed.exception() is error


def test_the_time_is_the_brokers_where_it_says_so_and_an_unknown_offset_stays_unknown():
    batch = batch_of(2)
    batch.finish(Landed(-1, 999))
    assert (batch.metadata(1).offset, batch.metadata(1).timestamp) == (-1, 999)


def test_who_keeps_a_delivery_does_not_keep_the_record():
    batch = batch_of(2)
    delivery = Delivery(batch, 1)
    batch.finish(Landed(7))
    assert batch.rows == [] and delivery.get().offset == 8 and delivery.get().serialized_value_size == 1


@given(
    count=st.integers(2, 40), cuts=st.lists(st.booleans(), max_size=5), first=st.sampled_from([0, 2**31 - 7])
)
def test_halves_have_all_records_once_and_numbers_that_follow_each_other(count, cuts, first):
    whole = batch_of(count)
    whole.identity, whole.sequence = Identity(1, 2), first
    parts = [whole]
    for is_last in cuts:
        place = len(parts) - 1 if is_last else 0
        if len(parts[place].rows) > 1:
            parts[place : place + 1] = parts[place].halved()
    assert [row for part in parts for row in part.rows] == whole.rows
    assert sum(part.size for part in parts) == whole.size
    assert parts == sorted(parts, key=lambda part: part.order)
    for one, other in itertools.pairwise(parts):
        assert other.sequence == one.next_sequence
    offset = 100
    for part in parts:
        count_here = len(part.rows)
        part.finish(Landed(offset))
        offset += count_here
    assert [whole.metadata(index).offset for index in range(count)] == list(range(100, 100 + count))


def test_of_two_halves_one_may_fail():
    whole = batch_of(2)
    first, second = whole.halved()
    first.finish(KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "no"))
    second.finish(Landed(0))
    whole.finish(Landed(-1))
    assert Delivery(whole, 0).exception() is first.outcome
    assert Delivery(whole, 1).get().offset == 0


def test_bytes_are_made_once_and_renumbering_changes_only_whose_they_are():
    batch = batch_of(5)
    assert batch.bytes_of(Codec.GZIP, None, False) == build_rows(batch.rows, Codec.GZIP)
    batch.identity, batch.sequence = Identity(8, 1), 17
    data = batch.bytes_of(Codec.GZIP, None, True)
    header = check(data)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (8, 1, 17)
    assert header.is_transactional
    batch.renumber()
    assert not batch.has_sequence
    assert batch.bytes_of(Codec.GZIP, None, False) is data


@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 2**62),
            st.none() | st.binary(max_size=200),
            st.none() | st.binary(max_size=200),
            st.lists(st.tuples(st.text(max_size=20), st.none() | st.binary(max_size=20)), max_size=3),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_a_record_never_takes_more_than_it_was_reckoned_with(rows):
    assert len(build_rows(rows)) - HEADER_SIZE <= sum(map(size_of, rows))
