"""What a start makes of moves between directories that the last one did not end."""

import random

import pytest

from ottla.storage import leftovers
from ottla.testing.disk import SimDisk
from tests.unit.storage.helpers import NOW, put, values_of
from tests.unit.storage.moving import ORDERS, TOPIC_ID, begun, copy, opened, settle


@pytest.fixture
def disk():
    return SimDisk()


def filled(disk, count=10):
    one, two = opened(disk)
    log = one.create(ORDERS, TOPIC_ID)
    for number in range(count):
        put(log, b"%d" % number)
    log.flush()
    one.checkpoint()
    return one, two, log


def states(disk, path):
    return [name.rpartition("-")[2] for name in disk.names(path) if name.startswith("orders")]


def settled(disk, *, are_all_here=True):
    directories = opened(disk)
    return directories, leftovers.settle(directories, are_all_here=are_all_here)


def test_without_moves_there_is_nothing_to_settle(disk):
    filled(disk)
    (one, two), moves = settled(disk)
    assert moves == {} and list(one.logs) == [ORDERS] and not two.logs


def test_a_copy_that_was_not_put_in_place_goes_and_its_move_begins_anew(disk):
    one, two, _ = filled(disk)
    copy(begun(one, two))
    disk.kill()
    (one, two), moves = settled(disk)
    assert moves == {ORDERS: two}
    assert states(disk, "two") == [] and len(values_of(one.logs[ORDERS])) == 10


def test_a_copy_of_a_log_of_another_topic_goes_for_good(disk):
    one, two, _ = filled(disk)
    copy(begun(one, two))
    one.delete(ORDERS)
    one.create(ORDERS)
    disk.kill()
    _, moves = settled(disk)
    assert moves == {} and states(disk, "two") == []


def test_a_copy_whose_log_is_nowhere_is_kept_under_another_name(disk):
    one, two, _ = filled(disk)
    copy(begun(one, two))
    one.delete(ORDERS)
    disk.kill()
    _, moves = settled(disk)
    assert moves == {} and states(disk, "two") == ["stray"]


def test_a_copy_whose_log_may_be_on_a_disk_that_is_away_stays_as_it_is(disk):
    one, two, _ = filled(disk)
    copy(begun(one, two))
    disk.kill()
    _, two = opened(disk)
    assert leftovers.settle([two], are_all_here=False) == {}
    assert states(disk, "two") == ["future"]


def put_in_place(disk, count=10):
    """The log has just moved, and the broker ended: it has its name in both directories."""
    one, two, log = filled(disk, count)
    future = begun(one, two)
    settle(future)
    assert future.catches_up(NOW)
    future.take_place()
    return log


def test_of_two_that_are_equal_one_stays(disk):
    put_in_place(disk)
    disk.kill()
    directories, _ = settled(disk)
    (kept,) = [each for each in directories if each.logs]
    assert len(values_of(kept.logs[ORDERS])) == 10
    assert sorted(states(disk, "one") + states(disk, "two")) == ["0", "delete"]


def test_of_two_the_one_that_was_written_to_since_stays(disk):
    put(put_in_place(disk), b"later", epoch=1)
    disk.kill()
    (one, two), _ = settled(disk)
    assert not one.logs and values_of(two.logs[ORDERS])[10] == b"later"
    assert states(disk, "one") == ["delete"]


def test_the_old_one_stays_if_it_served_while_the_other_disk_was_away(disk):
    put_in_place(disk)
    disk.kill()
    one, _ = opened(disk)
    put(one.logs[ORDERS], b"meanwhile", epoch=1)
    disk.kill()
    (one, two), _ = settled(disk)
    assert not two.logs and values_of(one.logs[ORDERS])[10] == b"meanwhile"


def test_a_later_epoch_counts_more_than_a_larger_offset_and_what_parted_is_kept(disk):
    log = put_in_place(disk)
    log.truncate_to(5)
    put(log, b"another", epoch=3)
    disk.kill()
    (one, two), _ = settled(disk)
    assert not one.logs and values_of(two.logs[ORDERS])[5] == b"another"
    assert states(disk, "one") == ["stray"]


def test_if_one_of_two_is_damaged_neither_is_served(disk):
    put_in_place(disk)
    disk.kill()
    file = disk.open("one/orders-0/00000000000000000000.log")
    file.write_at(8, b"\xff\xff\xff\xff")
    file.sync()
    (one, two), _ = settled(disk)
    assert not one.logs and not two.logs
    assert ORDERS in one.damaged and ORDERS in two.damaged
    assert states(disk, "one") == states(disk, "two") == ["0"]


def test_logs_of_different_topics_are_left_to_those_who_know_the_topics(disk):
    one, two, _ = filled(disk)
    two.create(ORDERS)
    disk.kill()
    (one, two), moves = settled(disk)
    assert ORDERS in one.logs and ORDERS in two.logs and moves == {}


def test_a_log_that_is_empty_in_both_directories_stays_in_one(disk):
    put_in_place(disk, count=0)
    disk.crash(random.Random(0))
    directories, _ = settled(disk)
    assert [bool(each.logs) for each in directories].count(True) == 1


def test_a_disk_that_refuses_to_tidy_up_does_not_keep_the_broker_from_starting(disk):
    one, two, _ = filled(disk)
    future = begun(one, two)
    settle(future)
    disk.kill()
    directories = opened(disk)
    disk.fail_next("rename")
    assert leftovers.settle(directories, are_all_here=True) == {}
    assert states(disk, "two") == ["future"] and ORDERS in directories[0].logs


def test_of_two_logs_the_older_is_not_served_even_if_it_cannot_be_put_away(disk):
    put(put_in_place(disk), b"later", epoch=1)
    disk.kill()
    one, two = opened(disk)
    disk.fail_next("rename")
    leftovers.settle([one, two], are_all_here=True)
    assert not one.logs and ORDERS in two.logs
