"""A shard decides, appends, applies, and tells nobody before the high watermark allows it."""

import asyncio
import errno

import pytest

from ottla.broker.coordinators import FutureTicket
from ottla.core.errors import ErrorCode, KafkaError
from ottla.records.batch import iter_batches, records_of
from ottla.replication.machine import LATER, Decision, Entry, Producer
from ottla.replication.state import PartitionState
from tests.unit.broker.handlers.logs import copied, led_partition
from tests.unit.broker.handlers.serving import scenario
from tests.unit.broker.machines import coordinator_of, named


def shard_on(partition, **how):
    return coordinator_of(partition, **how).shards[0]


def batches_of(partition):
    data = partition.log.load(partition.log.read(0, 1 << 20))
    return [(header, list(records_of(data, at))) for at, header in iter_batches(data)]


def with_follower(**how):
    """Partition 0 with one more replica, on broker 2: what broker 1 appends waits for it."""
    return led_partition("names", replicas=(1, 2), **how)


def moved_to(partition, leader, epoch):
    state = partition.state
    replicas = state.replicas
    partition.follow_orders(
        PartitionState(state.topic, state.topic_id, 0, leader, epoch, epoch, replicas, replicas)
    )


@scenario
async def test_what_is_decided_lies_in_the_log_as_one_batch_and_is_known_at_once():
    partition = led_partition("names")
    shard = shard_on(partition)
    decision, waiting = shard.run(lambda names, now: names.decide_add("a", "b"))
    assert (decision.reply, waiting) == (0, None)
    assert list(shard.machine.names) == ["a", "b"]
    ((header, records),) = batches_of(partition)
    assert (header.count, header.producer_id, len(records)) == (2, -1, 2)


@scenario
async def test_entries_of_a_transaction_carry_its_producer():
    partition = led_partition("names")
    shard = shard_on(partition)
    shard.run(lambda names, now: names.decide_add("a", producer=Producer(7, 3)))
    shard.run(lambda names, now: names.decide_add("b", producer=Producer(7, 3)))
    headers = [header for header, _ in batches_of(partition)]
    assert all(header.is_transactional for header in headers)
    assert {(header.producer_id, header.producer_epoch) for header in headers} == {(7, 3)}
    assert shard.machine.names == {"a": Producer(7, 3), "b": Producer(7, 3)}


@scenario
async def test_a_producer_that_was_replaced_cannot_write_through_a_coordinator():
    shard = shard_on(led_partition("names"))
    shard.run(lambda names, now: names.decide_add("a", producer=Producer(7, 3)))
    with pytest.raises(KafkaError) as refused:
        shard.run(lambda names, now: names.decide_add("b", producer=Producer(7, 2)))
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


@scenario
async def test_the_reply_waits_for_the_replicas():
    partition = with_follower()
    coordinator = coordinator_of(partition)
    reply = asyncio.ensure_future(coordinator.run("k", lambda names, now: names.decide_add("a")))
    await asyncio.sleep(0)
    assert coordinator.shards[0].machine.names and not reply.done()
    copied(partition, 2, 1)
    assert await reply == 0


@scenario
async def test_replicas_that_fall_away_meanwhile_are_waited_for_and_nothing_is_loaded_anew():
    partition = with_follower(settings={"min.insync.replicas": "2"})
    coordinator = coordinator_of(partition)
    reply = asyncio.ensure_future(coordinator.run("k", lambda names, now: names.decide_add("a")))
    await asyncio.sleep(0)
    shard, state = coordinator.shards[0], partition.state
    partition.follow_orders(state._replace(isr=(1,), partition_epoch=state.partition_epoch + 1))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not reply.done() and coordinator.shards[0] is shard
    partition.follow_orders(state._replace(partition_epoch=state.partition_epoch + 2))
    copied(partition, 2, 1)
    assert await reply == 0 and coordinator.shards[0] is shard


@scenario
async def test_a_reader_waits_for_what_it_has_seen():
    partition = with_follower()
    coordinator = coordinator_of(partition)
    coordinator.shards[0].run(lambda names, now: names.decide_add("a"))
    reading = asyncio.ensure_future(coordinator.read("k", lambda names: list(names.names)))
    await asyncio.sleep(0)
    assert not reading.done()
    copied(partition, 2, 1)
    assert await reading == ["a"]


@scenario
async def test_who_waits_is_answered_when_the_decision_that_ends_it_is_committed():
    partition = with_follower()
    coordinator = coordinator_of(partition)
    waiting = asyncio.ensure_future(
        coordinator.run_with_ticket("k", lambda names, ticket, now: names.decide_wait(ticket))
    )
    await asyncio.sleep(0)
    coordinator.shards[0].run(lambda names, now: names.decide_add("a"))
    await asyncio.sleep(0)
    assert not waiting.done()
    copied(partition, 2, 1)
    assert await waiting == "a"


@scenario
async def test_an_effect_is_carried_out_when_its_decision_is_committed():
    partition = with_follower()
    coordinator = coordinator_of(partition)
    done = []
    coordinator.on_effect = done.append
    _, waiting = coordinator.shards[0].run(lambda names, now: names.decide_add("a", effects=["go"]))
    assert done == []
    copied(partition, 2, 1)
    await waiting
    assert done == ["go"]


@scenario
async def test_leadership_lost_on_the_way_is_told_to_everybody():
    partition = with_follower()
    coordinator = coordinator_of(partition)
    waiting = asyncio.ensure_future(
        coordinator.run_with_ticket("k", lambda names, ticket, now: names.decide_wait(ticket))
    )
    await asyncio.sleep(0)
    reply = asyncio.ensure_future(coordinator.run("k", lambda names, now: names.decide_add("a")))
    await asyncio.sleep(0)
    moved_to(partition, leader=2, epoch=8)
    coordinator.follow(partition)
    for asked in waiting, reply:
        with pytest.raises(KafkaError) as lost:
            await asked
        assert lost.value.code is ErrorCode.NOT_COORDINATOR


@scenario
async def test_a_shard_of_an_older_epoch_decides_nothing():
    partition = led_partition("names")
    shard = shard_on(partition)
    moved_to(partition, leader=1, epoch=8)
    with pytest.raises(KafkaError) as late:
        shard.run(lambda names, now: names.decide_add("a"))
    assert late.value.code is ErrorCode.NOT_COORDINATOR
    assert partition.log.end_offset == 0


@scenario
async def test_what_takes_too_long_to_replicate_is_not_waited_for():
    coordinator = coordinator_of(with_follower(), timeout_ms=1)
    with pytest.raises(KafkaError) as slow:
        await coordinator.run("k", lambda names, now: names.decide_add("a"))
    assert slow.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


@scenario
async def test_a_decision_that_is_too_large_is_refused_and_the_shard_goes_on():
    partition = led_partition("names", settings={"max.message.bytes": "300"})
    coordinator = coordinator_of(partition)
    shard = coordinator.shards[0]
    with pytest.raises(KafkaError) as large:
        shard.run(lambda names, now: names.decide_add("x" * 400))
    assert large.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert coordinator.shards[0] is shard and shard.machine.names == {}


@scenario
async def test_what_no_record_can_hold_is_refused_as_what_is_too_large_and_nobody_is_forgotten():
    partition = led_partition("names")
    coordinator = coordinator_of(partition)
    shard = coordinator.shards[0]
    ticket = FutureTicket()
    shard.run(lambda names, now: names.decide_wait(ticket))
    with pytest.raises(KafkaError) as long:
        shard.run(lambda names, now: names.decide_add("x" * 40_000))
    assert long.value.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert (await ticket.future).code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert coordinator.shards[0] is shard and partition.log.end_offset == 0


@scenario
async def test_a_decision_is_not_written_out_to_its_end_when_it_is_too_large_already():
    shard = shard_on(led_partition("names", settings={"max.message.bytes": "300"}))
    entries = [*(named(f"name-{number}") for number in range(20)), Entry("nobody can write this")]
    with pytest.raises(KafkaError) as large:
        shard.run(lambda names, now: Decision(None, entries))
    assert large.value.code is ErrorCode.UNKNOWN_SERVER_ERROR


@scenario
async def test_entries_that_need_not_stay_together_are_cut_into_batches():
    partition = led_partition("names", settings={"max.message.bytes": "300"})
    shard = shard_on(partition)
    names = [f"name-{number}" for number in range(20)]
    shard.run(lambda machine, now: machine.decide_add(*names, is_atomic=False))
    assert len(batches_of(partition)) > 1
    assert list(shard.machine.names) == names


@scenario
async def test_a_decision_that_knows_what_to_do_when_refused_does_that():
    partition = led_partition("names", settings={"max.message.bytes": "300"})
    shard = shard_on(partition)
    decision, _ = shard.run(
        lambda names, now: names.decide_add(
            "x" * 400, if_refused=lambda error: Decision(f"refused with {error.code.name}")
        )
    )
    assert decision.reply == "refused with UNKNOWN_SERVER_ERROR"


@scenario
async def test_a_machine_that_cannot_apply_what_it_decided_is_loaded_anew():
    partition = led_partition("names")
    coordinator = coordinator_of(partition)
    shard = coordinator.shards[0]
    waiting = asyncio.ensure_future(
        coordinator.run_with_ticket("k", lambda names, ticket, now: names.decide_wait(ticket))
    )
    await asyncio.sleep(0)
    shard.machine.fails_to_apply = True
    with pytest.raises(KafkaError):
        shard.run(lambda names, now: names.decide_add("a"))
    with pytest.raises(KafkaError):
        await waiting
    while coordinator.is_loading:
        await asyncio.sleep(0)
    assert coordinator.shards[0] is not shard
    assert list(coordinator.shards[0].machine.names) == ["a"], "the log has it, so it was decided"


@scenario
async def test_an_error_of_the_machine_reaches_the_caller_and_changes_nothing():
    shard = shard_on(led_partition("names"))
    with pytest.raises(KafkaError) as refused:
        shard.run(lambda names, now: names.decide_refuse())
    assert refused.value.code is ErrorCode.UNKNOWN_MEMBER_ID


@scenario
async def test_timers_ring_when_they_are_due_and_their_decisions_are_written():
    partition = led_partition("names")
    shard = shard_on(partition)
    rung = asyncio.Event()

    def alarm(now):
        rung.set()
        return Decision(None, [named("from a timer")])

    def decide(names, now):
        names.timers.add(now.monotonic_ms + 5, alarm)
        return Decision(None)

    shard.run(decide)
    await asyncio.wait_for(rung.wait(), 30)
    assert list(shard.machine.names) == ["from a timer"]


@scenario
async def test_a_timer_that_fails_does_not_take_the_others_along():
    shard = shard_on(led_partition("names"))
    rung = asyncio.Event()

    def broken(now):
        raise RuntimeError("planted")

    def alarm(now):
        rung.set()
        return Decision(None)

    def decide(names, now):
        names.timers.add(now.monotonic_ms, broken)
        names.timers.add(now.monotonic_ms, alarm)
        return Decision(None)

    shard.run(decide)
    await asyncio.wait_for(rung.wait(), 30)


@scenario
async def test_a_retired_shard_rings_no_more():
    partition = led_partition("names")
    coordinator = coordinator_of(partition)
    shard, rung = coordinator.shards[0], []

    def decide(names, now):
        names.timers.add(now.monotonic_ms, lambda now: rung.append(now) or Decision(None))
        return Decision(None)

    shard.run(decide)
    coordinator.close()
    shard.ring()
    assert rung == [] and coordinator.shards == {}


@scenario
async def test_a_topic_that_is_flushed_before_it_answers_is_flushed_here_as_well():
    partition = led_partition("names", settings={"flush.messages": "1"})
    shard = shard_on(partition)
    decision, waiting = shard.run(lambda names, now: names.decide_add("a"))
    assert waiting is not None and decision.reply is not LATER
    await waiting
    assert partition.log.recovery_point == 1


# --- a disk that fails --------------------------------------------------------------------------------------------


async def with_a_name(**how):
    """A partition that holds "a", and a coordinator in charge of it that tells which logs have failed."""
    partition, failed = led_partition("names", **how), []
    coordinator = coordinator_of(partition, note_failure=failed.append)
    await coordinator.run("k", lambda names, now: names.decide_add("a"))
    return partition, coordinator, failed


async def refusal(waiting):
    with pytest.raises(KafkaError) as refused:
        await waiting
    return refused.value.code


@scenario
async def test_a_log_that_has_failed_is_reported_so_that_its_directory_goes_out_of_service():
    partition, coordinator, failed = await with_a_name()
    for operation in ("write", "truncate"):
        partition.log.files.fail_next(operation)
    adding = coordinator.run("k", lambda names, now: names.decide_add("b"))
    assert await refusal(adding) is ErrorCode.NOT_COORDINATOR
    assert partition.log.failure is not None and set(failed) == {partition}
    coordinator.close()


@scenario
async def test_a_log_that_cannot_be_synced_is_reported():
    partition, coordinator, failed = await with_a_name(settings={"flush.messages": "1"})
    partition.log.files.fail_next("sync")
    adding = coordinator.run("k", lambda names, now: names.decide_add("b"))
    assert await refusal(adding) is ErrorCode.NOT_COORDINATOR
    assert partition.log.failure is not None and set(failed) == {partition}
    coordinator.close()


@scenario
async def test_a_log_that_cannot_be_read_when_it_is_loaded_is_reported():
    partition, _, failed = await with_a_name()
    partition.log.files.fail_next("read")
    coordinator = coordinator_of(partition, note_failure=failed.append)
    while not failed:
        await asyncio.sleep(0)
    assert failed == [partition]
    coordinator.close()


@scenario
async def test_where_a_flush_fails_and_the_log_does_not_the_machine_starts_anew_from_what_it_holds():
    """The reply tells nothing, but the decision stands: a machine that is loaded sees to its effects again."""
    settings = {"flush.messages": "1", "index.interval.bytes": "0"}
    partition, coordinator, _ = await with_a_name(settings=settings)
    shard = coordinator.shards[0]
    partition.log.files.fail_next(
        "write", errno.ENOSPC, after=1
    )  # the batch passes, its index entry does not
    adding = coordinator.run("k", lambda names, now: names.decide_add("b", effects=["go"]))
    assert await refusal(adding) is ErrorCode.NOT_COORDINATOR
    assert partition.log.failure is None
    while coordinator.is_loading:
        await asyncio.sleep(0)
    assert coordinator.shards[0] is not shard and list(coordinator.shards[0].machine.names) == ["a", "b"]
