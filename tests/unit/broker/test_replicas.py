"""Partitions as the controller wants them, on simulated disks that fail."""

import asyncio
import errno
import functools
import threading
import uuid

import pytest

from ottla.broker.replicas import Replicas
from ottla.core.errors import ConfigError, ErrorCode, KafkaError
from ottla.core.ids import TopicPartition
from ottla.replication.state import PartitionState
from ottla.storage.config import TINY, TopicConfig
from ottla.storage.log_directory import LogDirectory
from ottla.storage.scan import BrokenChain
from ottla.storage.segment import LOG_SUFFIX, file_name
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import NOW, batch, values_of

ORDERS, VISITS = uuid.UUID(int=1), uuid.UUID(int=2)


def scenario(test):
    """Run a test that waits."""

    @functools.wraps(test)
    def inner(*args, **how):
        asyncio.run(test(*args, **how))

    return inner


def state(
    index=0, topic="orders", topic_id=ORDERS, *, leader=1, is_new=False, partition_epoch=0, replicas=(1,)
):
    return PartitionState(
        topic, topic_id, index, leader, 3, partition_epoch, replicas, replicas, is_new=is_new
    )


def new(*indexes, **how):
    return [state(index, is_new=True, **how) for index in indexes]


class Here(Replicas):
    """The replicas of broker 1 on a simulated disk; of the cluster, `known` is known."""

    def __init__(self, *paths, disk=None, topics=None, lost=None):
        self.disk = disk or SimDisk()
        self.known = set()
        super().__init__(1, self.disk, lambda topic: TopicConfig(TINY), self.known.__contains__)
        self.lost, self.is_all_lost = [], False
        self.on_failed = self.lost.extend
        self.on_all_failed = lambda: setattr(self, "is_all_lost", True)
        self.open(paths or ("a",))
        self.strays = self.forget_strays({"orders": ORDERS} if topics is None else topics, lost)

    async def add(self, *states, epoch=1):
        results = await self.leader_and_isr(epoch, states)
        return [results[each.topic_partition] for each in states]

    async def delete(self, *partitions, epoch=1):
        results = await self.stop_replicas(epoch, dict.fromkeys(partitions, True))
        return list(results.values())

    def put(self, index, *values, topic="orders"):
        return self.get(topic, index).append(batch(*values), 1, NOW)

    def where(self, topic="orders"):
        """Which partitions lie where."""
        return {d.path: sorted(tp.partition for tp in d.logs if tp.topic == topic) for d in self.directories}

    def code(self, index, topic="orders"):
        with pytest.raises(KafkaError) as caught:
            self.get(topic, index)
        return caught.value.code


# --- coming and going ---------------------------------------------------------------------------------------------


@scenario
async def test_a_new_partition_goes_to_the_directory_with_the_fewest():
    here = Here("a", "b", "c")
    assert await here.add(*new(*range(7))) == [ErrorCode.NONE] * 7
    assert {path: len(found) for path, found in here.where().items()} == {"a": 3, "b": 2, "c": 2}
    await here.delete(*(TopicPartition("orders", index) for index in here.where()["c"]))
    await here.add(*new(7, 8))
    assert here.where()["c"] == [7, 8]


@scenario
async def test_partitions_are_led_or_followed_as_the_controller_says():
    here = Here()
    await here.add(*new(0), *new(1, leader=2, replicas=(1, 2)))
    assert (here.get("orders", 0).is_leader, here.get("orders", 1).is_leader) == (True, False)
    assert await here.add(state(1, partition_epoch=1)) == [ErrorCode.NONE]
    assert here.get("orders", 1).is_leader


@scenario
async def test_old_orders_and_replaced_controllers_are_refused():
    here = Here()
    await here.add(state(0, partition_epoch=5), epoch=4)
    assert await here.add(state(0, partition_epoch=4), epoch=4) == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert await here.add(state(0, leader=2, partition_epoch=9), epoch=3) == [
        ErrorCode.STALE_CONTROLLER_EPOCH
    ]
    assert await here.delete(TopicPartition("orders", 0), epoch=3) == [ErrorCode.STALE_CONTROLLER_EPOCH]
    assert here.get("orders", 0).is_leader


@scenario
async def test_what_is_not_here_is_elsewhere_or_nowhere():
    here = Here()
    here.known.add(TopicPartition("orders", 5))
    assert here.code(5) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert here.code(6) is here.code(0, "visits") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@scenario
async def test_logs_are_found_again_wherever_they_lie():
    disk = SimDisk()
    before = Here("a", "b", disk=disk)
    await before.add(*new(0, 1, 2))
    before.put(1, b"tea")
    before.close(7)
    after = Here("b", "a", disk=disk)
    assert after.was_clean
    await after.add(state(0), state(1), state(2))
    assert after.where() == {"b": before.where()["b"], "a": before.where()["a"]}
    assert values_of(after.get("orders", 1).log) == {0: b"tea"}


@scenario
async def test_what_is_abandoned_was_not_closed_cleanly():
    disk = SimDisk()
    before = Here(disk=disk)
    await before.add(*new(0))
    before.put(0, b"tea")
    await before.abandon()
    after = Here(disk=disk)
    await after.add(state(0))
    assert not after.was_clean
    assert values_of(after.get("orders", 0).log) == {0: b"tea"}


@scenario
async def test_a_partition_that_stops_is_kept_and_one_that_is_deleted_is_not():
    here = Here()
    await here.add(*new(0, 1))
    here.put(0, b"tea")
    kept = here.get("orders", 0)
    await here.stop_replicas(1, {TopicPartition("orders", 0): False, TopicPartition("orders", 1): True})
    assert not here.partitions
    assert not kept.is_leader
    assert here.where() == {"a": [0]}
    await here.add(state(0), state(1))
    assert values_of(here.get("orders", 0).log) == {0: b"tea"}
    assert await here.delete(TopicPartition("orders", 9)) == [ErrorCode.NONE], "it is gone already"


@scenario
async def test_a_start_that_was_noted_is_the_start_after_a_crash():
    here = Here("a", "b")
    await here.add(*new(0, 1))
    here.put(0, b"x", b"y", b"z")
    partition = here.get("orders", 0)
    partition.log.advance_log_start(2)
    await here.note_log_start(partition)
    await here.abandon()
    again = Here("a", "b", disk=here.disk)
    await again.add(state(0))
    assert values_of(again.get("orders", 0).log) == {2: b"z"}


@scenario
async def test_a_start_that_has_no_room_to_be_noted_holds_until_the_end():
    here = Here()
    await here.add(*new(0))
    here.put(0, b"x", b"y")
    partition = here.get("orders", 0)
    partition.log.advance_log_start(1)
    here.disk.capacity = here.disk.used
    await here.note_log_start(partition)
    assert not here.offline
    here.disk.capacity = None
    here.disk.fail_next("write")
    with pytest.raises(KafkaError) as caught:
        await here.note_log_start(partition)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert list(here.offline) == ["a"]


class Watched(SimDisk):
    """Notes which threads wait for it."""

    def __init__(self):
        super().__init__()
        self.waited = set()

    def sync_directory(self, path):
        self.waited.add(threading.current_thread())
        super().sync_directory(path)

    def rename(self, source, target):
        self.waited.add(threading.current_thread())
        super().rename(source, target)


@scenario
async def test_who_is_served_meanwhile_does_not_wait_for_the_disk_on_which_partitions_are_made_and_deleted():
    here = Here(disk=Watched())
    here.disk.waited.clear()
    assert await here.add(*new(0, 1)) == [ErrorCode.NONE] * 2
    assert await here.delete(TopicPartition("orders", 0)) == [ErrorCode.NONE]
    assert here.disk.waited
    assert threading.current_thread() not in here.disk.waited


@scenario
async def test_a_directory_that_fails_while_a_partition_is_made_in_it_gets_none():
    here = Here("a", "b")
    here.directories[0].end_create = None  # not to be called
    adding = asyncio.ensure_future(here.add(*new(0)))
    while not here._steps:
        await asyncio.sleep(0)
    here.directory_failed("a", OSError(errno.EIO, "broken"))
    assert await adding == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert here.code(0) is ErrorCode.KAFKA_STORAGE_ERROR


@scenario
async def test_after_it_was_abandoned_no_thread_touches_the_disk():
    here = Here()
    adding = asyncio.ensure_future(here.add(*new(*range(50))))
    while not here._steps:
        await asyncio.sleep(0)
    await here.abandon()
    found = here.disk.names("a")
    assert ErrorCode.KAFKA_STORAGE_ERROR in await adding
    assert here.disk.names("a") == found


@scenario
async def test_a_log_that_should_be_here_and_is_not_is_worth_a_line(caplog):
    here = Here()
    assert await here.add(state(0)) == [ErrorCode.NONE]
    assert "orders-0 should be here and is not: it starts empty" in caplog.text


@scenario
async def test_deleting_wakes_who_waits():
    here = Here()
    await here.add(*new(0))
    waiting = asyncio.ensure_future(here.get("orders", 0).log_end.reach(1))
    await asyncio.sleep(0)
    await here.delete(TopicPartition("orders", 0))
    with pytest.raises(KafkaError) as caught:
        await waiting
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


# --- names that come twice ----------------------------------------------------------------------------------------


@scenario
async def test_a_topic_that_is_created_again_is_empty():
    here = Here()
    await here.add(*new(0))
    here.put(0, b"old")
    assert await here.add(*new(0, topic_id=VISITS)) == [ErrorCode.INCONSISTENT_TOPIC_ID]
    await here.delete(TopicPartition("orders", 0))
    await here.add(*new(0, topic_id=VISITS))
    assert values_of(here.get("orders", 0).log) == {}
    here.put(0, b"new")
    here.close(1)
    again = Here(disk=here.disk, topics={"orders": VISITS})
    await again.add(state(0, topic_id=VISITS))
    assert values_of(again.get("orders", 0).log) == {0: b"new"}


@pytest.mark.parametrize("topics", [{}, {"orders": VISITS}])
def test_strays_are_left_alone_and_never_show_up_in_a_topic_of_their_name(topics):
    disk = SimDisk()

    @scenario
    async def run():
        before = Here(disk=disk)
        await before.add(*new(0))
        before.put(0, b"old")
        before.close(1)
        here = Here(disk=disk, topics=topics)
        assert here.strays == [TopicPartition("orders", 0)]
        assert here.code(0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert disk.exists("a/orders-0/" + file_name(0, LOG_SUFFIX)), "it lies as it lay"
        await here.add(*new(0, topic_id=VISITS))
        assert values_of(here.get("orders", 0).log) == {}
        assert [name for name in disk.names("a") if name.endswith("-stray")]

    run()


@pytest.mark.parametrize("topics", [{}, {"orders": VISITS}, {"orders": ORDERS}])
def test_what_was_taken_from_this_broker_while_it_was_away_is_deleted(topics):
    disk = SimDisk()

    @scenario
    async def run():
        before = Here(disk=disk)
        await before.add(*new(0, 1))
        before.close(1)
        here = Here(disk=disk, topics=topics, lost={(1, ORDERS): {0}, (2, ORDERS): {1}, (1, VISITS): {1}})
        assert not disk.exists("a/orders-0")
        assert len([name for name in disk.names("a") if name.endswith("-delete")]) == 1
        assert disk.exists("a/orders-1"), "that one is another broker's, or another topic's"
        assert here.strays == ([] if topics == {"orders": ORDERS} else [TopicPartition("orders", 1)])

    run()


@scenario
async def test_a_topic_that_took_the_name_while_we_started_does_not_get_the_old_ones_log():
    before = Here()
    await before.add(*new(0))
    before.put(0, b"old")
    before.close(1)
    here = Here(disk=before.disk)
    assert await here.add(*new(0, topic_id=VISITS)) == [ErrorCode.NONE]
    assert values_of(here.get("orders", 0).log) == {}
    assert [name for name in here.disk.names("a") if name.endswith("-delete")]


def test_a_replica_that_cannot_be_deleted_at_the_start_is_in_nobodys_way():
    disk = SimDisk()

    @scenario
    async def run():
        before = Here(disk=disk)
        await before.add(*new(0))
        before.close(1)

        def refuse(self, partition, state):
            raise OSError("no")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LogDirectory, "_rename", refuse)
            here = Here(disk=disk, lost={(1, ORDERS): {0}})
        assert here.where() == {"a": []}

    run()


def test_a_directory_without_a_topic_id_belongs_to_the_topic_of_its_name():
    disk = SimDisk()

    @scenario
    async def run():
        before = Here(disk=disk)
        await before.add(*new(0))
        before.put(0, b"tea")
        before.close(1)
        disk.remove("a/orders-0/partition.metadata")
        here = Here(disk=disk)
        await here.add(state(0))
        assert values_of(here.get("orders", 0).log) == {0: b"tea"}

    run()


# --- damage -------------------------------------------------------------------------------------------------------


async def damaged():
    """A disk on which the log of orders-0 is damaged where it was safe, and that of orders-1 is not."""
    disk = SimDisk()
    here = Here(disk=disk)
    await here.add(*new(0, 1))
    for index in (0, 1):
        here.put(index, b"tea" * 50)
        here.put(index, b"milk")
        here.get("orders", index).log.flush()
    here.directories[0].checkpoint()
    await here.abandon()
    disk.open("a/orders-0/" + file_name(0, LOG_SUFFIX)).write_at(8, b"\x7f\xff\xff\xff")
    return disk


@scenario
async def test_a_damaged_log_is_reported_and_the_others_are_served():
    here = Here(disk=await damaged())
    assert await here.add(state(0), state(1)) == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert here.code(0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(values_of(here.get("orders", 1).log)) == 2
    assert not here.offline


@scenario
async def test_a_damaged_log_can_be_deleted_and_its_topic_created_again():
    here = Here(disk=await damaged())
    await here.add(state(0), state(1))
    assert await here.delete(TopicPartition("orders", 0)) == [ErrorCode.NONE]
    assert await here.add(*new(0, topic_id=VISITS)) == [ErrorCode.NONE]


@scenario
async def test_a_damaged_stray_is_in_nobodys_way():
    here = Here(disk=await damaged(), topics={})
    assert len(here.strays) == 2
    assert await here.add(*new(0, topic_id=VISITS)) == [ErrorCode.NONE]
    assert values_of(here.get("orders", 0).log) == {}


@scenario
async def test_a_log_that_does_not_say_whose_it_is_is_set_aside_and_the_others_are_served():
    disk = SimDisk()
    before = Here(disk=disk)
    await before.add(*new(0, 1))
    before.put(0, b"tea")
    before.close(1)
    disk.open("a/orders-0/partition.metadata").write_at(0, b"nonsense")
    here = Here(disk=disk)
    assert await here.add(state(0), state(1)) == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert here.code(0) is ErrorCode.KAFKA_STORAGE_ERROR


@scenario
async def test_damage_that_is_met_later_is_not_blamed_on_the_disk():
    here = Here()
    await here.add(*new(0, 1))
    partition = here.get("orders", 0)
    partition.log.failure = BrokenChain("x", 0, "nothing fits")
    here.note_failure(partition)
    assert not here.offline
    with pytest.raises(KafkaError) as caught:
        here.put(0, b"tea")
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


# --- disks that fail ----------------------------------------------------------------------------------------------


@scenario
async def test_a_directory_that_fails_takes_its_partitions_with_it_and_no_others():
    here = Here("a", "b")
    await here.add(*new(0, 1, 2, 3))
    lost, kept = here.where()["a"], here.where()["b"]
    waiting = asyncio.ensure_future(here.get("orders", lost[0]).log_end.reach(1))
    await asyncio.sleep(0)
    here.directory_failed("a", OSError(errno.EIO, "broken"))
    here.directory_failed("a", OSError(errno.EIO, "broken"))
    assert [tp.partition for tp in here.lost] == lost
    assert {here.code(index) for index in lost} == {ErrorCode.KAFKA_STORAGE_ERROR}
    for index in kept:
        here.put(index, b"tea")
    with pytest.raises(KafkaError):
        await waiting
    assert (list(here.offline), here.is_all_lost) == (["a"], False)


@scenario
async def test_a_log_whose_disk_cannot_be_synced_takes_the_directory_offline():
    here = Here("a", "b")
    await here.add(*new(0, 1))
    partition = here.get("orders", 0)
    here.put(0, b"tea")
    here.note_failure(partition)
    assert not here.offline, "nothing has failed yet"
    here.disk.fail_next("sync")
    with pytest.raises(KafkaError):
        await here.commit_of(partition.log).reach(1)
    here.note_failure(partition)
    assert list(here.offline) == ["a"]


@scenario
async def test_with_the_last_directory_there_is_nothing_left():
    here = Here("a", "b")
    await here.add(*new(0, 1))
    for path in ("a", "b"):
        here.directory_failed(path, OSError(errno.EIO, "broken"))
    assert here.is_all_lost
    assert len(here.lost) == 1, "there is no point in telling who is left"
    assert await here.add(*new(2)) == [ErrorCode.KAFKA_STORAGE_ERROR]


@scenario
async def test_no_empty_log_takes_the_place_of_one_whose_disk_is_away():
    disk = SimDisk()
    before = Here("a", "b", disk=disk)
    await before.add(*new(0, 1))
    missing = before.where()["b"][0]
    before.close(1)
    here = Here("a", disk=disk)
    here.offline["b"] = "not mounted"
    assert await here.add(state(missing)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert here.code(missing) is ErrorCode.KAFKA_STORAGE_ERROR
    assert await here.add(*new(7)) == [ErrorCode.NONE], "what is new cannot be there"
    assert here.where()["a"] == [1 - missing, 7]


@scenario
async def test_a_topic_deleted_while_its_disk_is_away_can_be_created_again():
    here = Here("a", "b")
    await here.add(*new(0, 1))
    lost = here.where()["a"][0]
    here.directory_failed("a", OSError(errno.EIO, "broken"))
    await here.delete(TopicPartition("orders", lost))
    assert here.code(lost) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await here.add(*new(lost, topic_id=VISITS)) == [ErrorCode.NONE]
    here.put(lost, b"new")
    here.close(1)
    again = Here("a", "b", disk=here.disk, topics={"orders": VISITS})
    await again.add(state(lost, topic_id=VISITS))
    assert values_of(again.get("orders", lost).log) == {0: b"new"}, "the disk is back, with what is gone"


@scenario
async def test_a_log_that_cannot_be_created_is_reported():
    here = Here()
    here.disk.fail_next("create", errno.ENOSPC)
    assert await here.add(*new(0, 1)) == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NONE]
    assert here.code(0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert not here.offline, "a full disk can still be read"
    assert await here.add(*new(0)) == [ErrorCode.NONE], "there is room again"


@scenario
async def test_a_disk_that_fails_while_deleting_goes_offline():
    here = Here("a", "b")
    await here.add(*new(0, 1))
    here.disk.fail_next("rename")
    assert await here.delete(TopicPartition("orders", 0)) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert list(here.offline) == ["a"]
    here.put(1, b"tea")


@scenario
async def test_on_a_full_disk_partitions_can_be_deleted_to_make_room():
    here = Here()
    await here.add(*new(0, 1))
    here.put(0, b"x" * 500)
    here.disk.capacity = here.disk.used
    with pytest.raises(KafkaError):
        here.put(1, b"y" * 400)
    assert await here.delete(TopicPartition("orders", 0)) == [ErrorCode.NONE]
    assert not here.offline
    here.directories[0].remove_deleted()
    here.put(1, b"y" * 400)
    assert values_of(here.get("orders", 1).log) == {0: b"y" * 400}


class Unreadable(SimDisk):
    """The names in some directories cannot be read."""

    bad = ()

    def names(self, directory):
        if directory in self.bad:
            raise OSError(errno.EIO, "broken")
        return super().names(directory)


def test_a_directory_that_cannot_be_opened_is_offline_from_the_start():
    disk = Unreadable()
    disk.bad = ("b",)
    here = Here("a", "b", disk=disk)
    assert list(here.offline) == ["b"]
    disk.bad = ("a", "b")
    with pytest.raises(ConfigError, match=r"no log directory can be used: a: .*; b: "):
        Here("a", "b", disk=disk)


def test_closing_goes_on_past_a_disk_that_fails():
    disk = SimDisk()

    @scenario
    async def run():
        here = Here("a", "b", disk=disk)
        await here.add(*new(0, 1))
        here.put(0, b"tea")
        disk.fail_next("sync")
        here.close(1)

    run()
    again = Here("a", "b", disk=disk)
    assert [directory.was_clean for directory in again.directories] == [False, True]


# --- syncing ------------------------------------------------------------------------------------------------------


@scenario
async def test_everybody_shares_one_group_commit_per_log():
    here = Here()
    await here.add(*new(0, 1))
    logs = [here.get("orders", index).log for index in (0, 1)]
    commits = [here.commit_of(log) for log in logs]
    assert commits == [here.commit_of(log) for log in logs]
    assert commits[0] is not commits[1]


@scenario
async def test_a_new_topic_of_an_old_name_is_synced_by_itself():
    here = Here()
    await here.add(*new(0))
    old = here.commit_of(here.get("orders", 0).log)
    await here.delete(TopicPartition("orders", 0))
    await here.add(*new(0, topic_id=VISITS))
    log = here.get("orders", 0).log
    assert here.commit_of(log) is not old
    here.put(0, b"tea")
    await here.commit_of(log).reach(1)
    assert log.recovery_point == 1


@scenario
async def test_every_sync_can_be_waited_for():
    here = Here()
    await here.add(*new(0, 1))
    syncing = []
    for index in (0, 1):
        here.put(index, b"tea")
        syncing.append(asyncio.ensure_future(here.commit_of(here.get("orders", index).log).reach(1)))
    await asyncio.sleep(0)
    await here.end_syncs()
    assert [here.get("orders", index).log.recovery_point for index in (0, 1)] == [1, 1]
    await asyncio.gather(*syncing)


@scenario
async def test_deleting_lets_a_sync_end_first_and_no_other_begin():
    here = Here()
    await here.add(*new(0))
    here.put(0, b"tea")
    log = here.get("orders", 0).log
    syncing = [asyncio.ensure_future(here.commit_of(log).reach(1))]
    for _ in range(3):
        await asyncio.sleep(0)
    here.put(0, b"milk")
    syncing.append(asyncio.ensure_future(here.commit_of(log).reach(2)))
    await here.delete(TopicPartition("orders", 0))
    await asyncio.wait(syncing)
    assert (log.failure, log.recovery_point) == (None, 1)
    assert (syncing[0].exception(), type(syncing[1].exception())) == (None, KafkaError)
