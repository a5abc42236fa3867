"""What a repair does to a log: what it keeps, mends, cuts, sets aside; and that a crash on the way does no harm."""

import random

import pytest

from ottla.core.ids import TopicPartition
from ottla.records.batch import iter_batches
from ottla.storage import checkpoints
from ottla.storage.inspection.pieces import Pieces
from ottla.storage.inspection.plan import Kind, plan
from ottla.storage.inspection.repair import lock_of, repair_all
from ottla.storage.lock import DirectoryInUseError, DirectoryLock
from ottla.storage.log_directory import LogDirectory
from ottla.storage.segment import file_name
from ottla.testing.disk import PowerLoss, SimDisk
from tests.unit.storage.inspection.logs import (
    DATA,
    HERE,
    ORDERS,
    PAYMENTS,
    SETTINGS,
    TOPIC_ID,
    complaints,
    copy_of,
    everything,
    flip,
    look,
    mended,
    quarantined,
    values,
    write,
)

FIRST, SECOND, LAST = (f"{HERE}/{file_name(base, '')}" for base in (0, 18, 36))


@pytest.fixture(scope="module")
def records(whole) -> dict[int, bytes | None]:
    return values(copy_of(whole))


def kinds(steps) -> list[Kind]:
    return [step.kind for step in steps]


def reopened(disk) -> LogDirectory:
    directory = LogDirectory.open(disk, DATA, lambda topic: SETTINGS)
    assert not directory.damaged
    assert [log.recovery.damage for log in directory.logs.values()] == [[], []]
    return directory


def test_a_clean_directory_is_left_exactly_as_it_is(disk):
    before = everything(disk, DATA)
    assert mended(disk) == []
    assert everything(disk, DATA) == before


def test_a_plan_changes_nothing_and_is_what_is_then_done(disk):
    flip(disk, f"{FIRST}.log", 100)
    flip(disk, f"{SECOND}.index", 7)
    before = everything(disk, DATA)
    planned = plan(look(disk)[0])
    assert everything(disk, DATA) == before
    assert kinds(planned) == [Kind.REWRITE, Kind.INDEXES]
    assert kinds(mended(disk)) == kinds(planned)


def test_a_damaged_batch_goes_to_quarantine_and_its_neighbours_stay(disk, records):
    flip(disk, f"{FIRST}.log", 100)
    damaged = disk.read(f"{FIRST}.log")[79:186]
    assert kinds(mended(disk)) == [Kind.REWRITE]
    assert quarantined(disk)[f"orders-0.{file_name(0, '.log')}.79-186"] == damaged
    assert complaints(disk) == []
    assert values(disk) == {offset: v for offset, v in records.items() if offset not in (2, 3, 4)}
    log = reopened(disk).logs[ORDERS]
    assert (log.end_offset, log.read(2, 1).offset) == (40, 5), "a reader goes on behind the gap"


def test_a_length_that_lies_costs_one_batch(disk, records):
    flip(disk, f"{FIRST}.log", 79 + 10, 0x01)
    mended(disk)
    assert records.keys() - values(disk).keys() == {2, 3, 4}
    assert complaints(disk) == []


@pytest.mark.parametrize("byte", range(8))
def test_a_base_offset_between_its_neighbours_is_put_right_and_nothing_is_lost(disk, records, byte):
    flip(disk, f"{SECOND}.log", 156 + byte)
    spoilt = disk.read(f"{SECOND}.log")[156:235]
    assert kinds(mended(disk)) == [Kind.REWRITE]
    assert values(disk) == records
    assert next(iter(quarantined(disk).values())) == spoilt, "what it said before is kept as well"
    assert complaints(disk) == []


def test_the_offset_of_the_last_batch_is_put_right_if_a_snapshot_knows_where_the_log_ended(disk, records):
    last = list(iter_batches(disk.read(f"{LAST}.log")))[-1][0]
    flip(disk, f"{LAST}.log", last + 6, 0x01)
    mended(disk)
    assert values(disk) == records and complaints(disk) == []


def test_a_leader_epoch_that_all_others_contradict_is_put_right(disk, whole, records):
    flip(disk, f"{FIRST}.log", 79 + 12, 0x40)
    mended(disk)
    assert disk.read(f"{FIRST}.log") == whole[f"{FIRST}.log"]
    assert values(disk) == records and complaints(disk) == []


@pytest.mark.parametrize(
    "content", [b"", b"0\n1\n0 0\n", b"0\n2\n0 0\n1 30\n", b"0\n2\n0 0\n7 14\n", b"\xff"]
)
def test_an_epoch_checkpoint_that_many_batches_contradict_is_written_anew(disk, whole, content):
    path = f"{HERE}/leader-epoch-checkpoint"
    right = whole[path]
    write(disk, path, content)
    assert kinds(mended(disk)) == [Kind.EPOCHS]
    assert disk.read(path) == right
    assert quarantined(disk)["orders-0.leader-epoch-checkpoint"] == content


def test_a_torn_tail_is_cut_and_kept(disk, records):
    write(disk, f"{LAST}.log", disk.read(f"{LAST}.log")[:-20])
    tail = disk.read(f"{LAST}.log")[226:]
    assert Kind.CUT in kinds(mended(disk))
    assert quarantined(disk)[f"orders-0.{file_name(36, '.log')}.226-284"] == tail
    assert complaints(disk) == []
    assert values(disk) == {offset: v for offset, v in records.items() if offset < 39}
    assert reopened(disk).logs[ORDERS].end_offset == 39


def test_zeros_at_the_end_are_cut_and_not_kept(disk, records):
    write(disk, f"{LAST}.log", disk.read(f"{LAST}.log") + bytes(5000))
    assert kinds(mended(disk)) == [Kind.CUT]
    assert values(disk) == records
    assert not [name for name in quarantined(disk) if ".log" in name]


def test_what_is_lost_at_the_end_of_a_segment_is_no_hole_to_a_start_without_a_recovery_point(disk, records):
    flip(disk, f"{FIRST}.log", 975)
    mended(disk)
    assert complaints(disk) == []
    disk.remove(f"{DATA}/{checkpoints.RECOVERY_POINT}")
    disk.remove(f"{DATA}/{checkpoints.CLEAN_SHUTDOWN}")
    assert reopened(disk).logs[ORDERS].end_offset == 40
    assert records.keys() - values(disk).keys() == {17}


def test_a_segment_with_nothing_whole_in_it_becomes_one_without_records(disk, records):
    write(disk, f"{SECOND}.log", b"\xff" * 984)
    mended(disk)
    assert complaints(disk) == []
    assert values(disk) == {offset: v for offset, v in records.items() if not 18 <= offset < 36}
    assert reopened(disk).logs[ORDERS].end_offset == 40


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_an_index_is_rebuilt_whatever_it_says(disk, whole, suffix):
    path = SECOND + suffix
    for content in (None, b"", b"x", bytes(340), b"\xff" * 340, whole[path][::-1]):
        write(disk, path, content or b"")
        if content is None:
            disk.remove(path)
        mended(disk)
        assert complaints(disk) == []
    if suffix == ".txnindex":
        assert disk.read(path) == whole[path]


def test_a_directory_is_not_listed_anew_for_every_index(disk, monkeypatch):
    """Ten thousand of them would take ten thousand times as long as one."""
    listed = []

    def names_of(directory: str, names=disk.names) -> list[str]:
        listed.append(directory)
        return names(directory)

    monkeypatch.setattr(disk, "names", names_of)
    counts = []
    for bases in ((0,), (0, 18, 36)):
        for base in bases:
            disk.remove(f"{HERE}/{file_name(base, '.index')}")
        listed.clear()
        mended(disk)
        counts.append(listed.count(HERE))
    assert counts[0] == counts[1]


def test_a_snapshot_is_written_anew_from_the_log(disk, whole):
    for base in (SECOND, LAST):
        flip(disk, f"{base}.snapshot", 20)
    assert kinds(mended(disk)) == [Kind.SNAPSHOT, Kind.SNAPSHOT]
    assert [disk.read(f"{base}.snapshot") for base in (SECOND, LAST)] == [
        whole[f"{base}.snapshot"] for base in (SECOND, LAST)
    ]


def test_a_rewritten_segment_keeps_its_snapshot_and_a_bad_one_is_set_aside(disk, whole):
    """It knows of producers whose batches may be gone."""
    flip(disk, f"{SECOND}.log", 100)
    assert kinds(mended(disk)) == [Kind.REWRITE]
    assert disk.read(f"{SECOND}.snapshot") == whole[f"{SECOND}.snapshot"]
    flip(disk, f"{SECOND}.log", 100)
    flip(disk, f"{SECOND}.snapshot", 12)
    mended(disk)
    assert f"orders-0.{file_name(18, '.snapshot')}" in quarantined(disk)
    assert disk.read(f"{SECOND}.snapshot") == whole[f"{SECOND}.snapshot"]


def test_a_lost_commit_does_not_abort_what_it_committed(disk):
    """Its marker is gone, so that to a replay the transaction seems to go on until the next one is aborted."""
    commits = [at for at, header in iter_batches(disk.read(f"{FIRST}.log")) if header.is_control]
    flip(disk, f"{FIRST}.log", commits[1] + 62)
    mended(disk)
    log = reopened(disk).logs[ORDERS]
    assert [(t.producer_id, t.first_offset) for t in log.aborted_txns(0, 40) if t.producer_id == 8] == [
        (8, 17),
        (8, 37),
    ]


def test_checkpoints_are_replaced_by_what_is_safe(disk):
    for name in checkpoints.OFFSETS:
        write(disk, f"{DATA}/{name}", b"spoilt " + name.encode())
    assert kinds(mended(disk)) == [Kind.CHECKPOINT] * 4
    read = {name: checkpoints.read_offsets(disk, f"{DATA}/{name}") for name in checkpoints.OFFSETS}
    assert read[checkpoints.RECOVERY_POINT] == {ORDERS: 40, PAYMENTS: 40}, "all of it is synced now"
    assert [read[n] for n in checkpoints.OFFSETS if n != checkpoints.RECOVERY_POINT] == [{}, {}, {}]
    assert quarantined(disk) == {name: b"spoilt " + name.encode() for name in checkpoints.OFFSETS}


def test_a_checkpoint_beyond_the_log_keeps_what_it_says_of_others(disk):
    gone = TopicPartition("gone", 1)
    for name in (checkpoints.RECOVERY_POINT, checkpoints.LOG_START, checkpoints.CLEANER):
        checkpoints.write_offsets(disk, f"{DATA}/{name}", {ORDERS: 41, PAYMENTS: 7, gone: 9})
    mended(disk)
    read = {name: checkpoints.read_offsets(disk, f"{DATA}/{name}") for name in checkpoints.OFFSETS}
    assert read[checkpoints.RECOVERY_POINT] == {ORDERS: 40, PAYMENTS: 7, gone: 9}
    assert read[checkpoints.LOG_START] == read[checkpoints.CLEANER] == {PAYMENTS: 7, gone: 9}
    assert complaints(disk) == []


def test_a_topic_id_comes_from_another_partition_of_the_topic(disk):
    disk.make_directory(f"{DATA}/orders-1")
    checkpoints.write_partition_metadata(disk, f"{DATA}/orders-1", TOPIC_ID)
    write(disk, f"{HERE}/partition.metadata", b"version: 0\ntopic_id: x")
    assert kinds(mended(disk)) == [Kind.TOPIC_ID]
    assert checkpoints.read_partition_metadata(disk, HERE) == TOPIC_ID
    write(disk, f"{DATA}/payments-3/partition.metadata", b"")
    mended(disk)
    assert checkpoints.read_partition_metadata(disk, f"{DATA}/payments-3") is None


def test_a_partition_that_was_copied_somewhere_else_can_be_repaired_alone(whole, records):
    moved = {p.replace(DATA, "/elsewhere"): d for p, d in whole.items() if p.startswith(HERE)}
    disk = copy_of(moved)
    path = f"/elsewhere/orders-0/{file_name(0, '.log')}"
    flip(disk, path, 100)
    done = mended(disk, "/elsewhere/orders-0")
    assert (kinds(done), complaints(disk, "/elsewhere/orders-0")) == ([Kind.REWRITE], [])
    kept = f"orders-0.{file_name(0, '.log')}.79-186.quarantine"
    assert disk.names("/elsewhere") == ["orders-0", kept], "no checkpoint is made up"


def test_the_repair_of_a_stray_partition_says_nothing_of_the_one_that_took_its_name(disk, whole):
    stray = f"{HERE}.{'a' * 32}-stray"
    disk.make_directory(stray)
    for path, data in whole.items():
        if path.startswith(HERE):
            write(disk, path.replace(HERE, stray), data)
    write(disk, f"{stray}/{file_name(36, '.log')}", b"spoilt")
    assert Kind.CUT in kinds(mended(disk, stray))
    points = f"{DATA}/{checkpoints.RECOVERY_POINT}"
    assert (disk.read(points), complaints(disk)) == (whole[points], [])


def test_a_replacement_that_a_compaction_left_is_put_in_place_if_it_is_whole(disk, whole, records):
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        write(disk, f"{FIRST}{suffix}.swap", whole[f"{FIRST}{suffix}"])
    flip(disk, f"{FIRST}.log", 100)
    mended(disk)
    assert (values(disk), complaints(disk)) == (records, [])


def test_a_replacement_that_is_damaged_itself_is_set_aside(disk, whole, records):
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        write(disk, f"{FIRST}{suffix}.swap", whole[f"{FIRST}{suffix}"])
    flip(disk, f"{FIRST}.log.swap", 100)
    mended(disk)
    assert (values(disk), complaints(disk)) == (records, [])
    assert f"orders-0.{file_name(0, '.log.swap')}" in quarantined(disk)


def test_a_damaged_replacement_is_damage_and_what_would_be_done_about_it_is_said(disk, whole):
    write(disk, f"{FIRST}.log.swap", whole[f"{FIRST}.log"])
    assert complaints(disk) == []
    assert plan(look(disk)[0]) == [], "the next start will put it in place"
    flip(disk, f"{FIRST}.log.swap", 100)
    found = complaints(disk)
    assert [(f.path, f.position, f.end) for f in found] == [(f"{FIRST}.log.swap", 79, 186)]
    assert kinds(plan(look(disk)[0])) == kinds(mended(disk)) == [Kind.SWAPS]
    assert complaints(disk) == []


def test_a_damaged_replacement_of_what_is_gone_already_is_repaired_itself(disk, whole, records):
    disk.rename(f"{FIRST}.log", f"{FIRST}.log.swap")
    flip(disk, f"{FIRST}.log.swap", 100)
    assert kinds(mended(disk)) == [Kind.SWAPS, Kind.REWRITE]
    assert records.keys() - values(disk).keys() == {2, 3, 4}
    assert complaints(disk) == []


def test_segments_that_overlap_are_left_to_whoever_knows_which_is_right(disk, records):
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
        disk.rename(f"{SECOND}{suffix}", f"{HERE}/{file_name(10, suffix)}")
    before = everything(disk, HERE)
    found = complaints(disk)
    assert f"{FIRST}.log" == found[0].path and "the next segment" in found[0].reason
    assert kinds(plan(look(disk)[0])) == [Kind.BY_HAND]
    assert mended(disk) == []
    assert (everything(disk, HERE), values(disk)) == (before, records)


def test_an_offset_that_is_put_right_never_reaches_into_the_next_segment(disk):
    """A segment that covers another one would replace it."""
    for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot"):
        disk.rename(f"{SECOND}{suffix}", f"{HERE}/{file_name(10, suffix)}")
    log = disk.open(f"{FIRST}.log")
    pieces = list(Pieces(log, log.size(), 0, 0, limit=10))
    assert all(piece.mended_offset is None for piece in pieces)
    assert all(piece.fault for piece in pieces if piece.batch and piece.batch.last_offset >= 10)


def test_the_lock_is_the_brokers(disk, whole):
    broker = DirectoryLock(disk, DATA)
    for directory in (DATA, HERE):
        with pytest.raises(DirectoryInUseError):
            lock_of(disk, directory)
    broker.close()
    lock_of(disk, HERE).close()
    disk.make_directory("/alone/orders-0")
    write(disk, f"/alone/orders-0/{file_name(0, '.log')}", whole[f"{FIRST}.log"])
    lock_of(disk, "/alone/orders-0").close()
    assert disk.exists("/alone/orders-0/.lock")


def wounded(whole) -> SimDisk:
    """Damage of every kind at once."""
    disk = copy_of(whole)
    flip(disk, f"{FIRST}.log", 100)
    flip(disk, f"{FIRST}.log", 975)
    flip(disk, f"{SECOND}.log", 11, 0x04)
    flip(disk, f"{SECOND}.log", 156 + 5)
    flip(disk, f"{SECOND}.index", 7)
    flip(disk, f"{SECOND}.snapshot", 12)
    write(disk, f"{LAST}.log", disk.read(f"{LAST}.log")[:-20])
    flip(disk, f"{HERE}/leader-epoch-checkpoint", 0, 0x40)
    flip(disk, f"{DATA}/{checkpoints.RECOVERY_POINT}", 0, 0x40)
    disk.remove(f"{DATA}/payments-3/{file_name(0, '.txnindex')}")
    return disk


def changes_of(disk: SimDisk) -> list[int]:
    """Repair it; which of the operations were more than reading."""
    found, operations, count = look(disk)[0], list[str](), disk.step

    def step(operation: str) -> None:
        operations.append(operation)
        count(operation)

    disk.step = step  # type: ignore[method-assign]  # listened to, not replaced
    repair_all(disk, found)
    del disk.step
    return [number for number, operation in enumerate(operations) if operation != "read"]


def test_a_crash_at_any_step_leaves_a_directory_on_which_a_repair_runs_again(whole):
    disk = wounded(whole)
    steps = changes_of(disk)
    expected, kept = values(disk), set(quarantined(disk).values())
    assert complaints(disk) == []
    for step in steps:
        disk = wounded(whole)
        found = look(disk)[0]
        disk.crash_after(step)
        with pytest.raises(PowerLoss):
            repair_all(disk, found)
        disk.crash(random.Random(step))
        mended(disk)
        assert complaints(disk) == [], f"after a crash at operation {step}"
        assert values(disk) == expected
        assert kept <= set(quarantined(disk).values()), "what was taken away is somewhere"


def test_a_broker_that_starts_on_a_half_repaired_directory_cuts_nothing_that_is_whole(whole):
    """The recovery point is raised before a segment changes: a hole is a hole and not the end of the log."""
    disk = wounded(whole)
    steps = changes_of(disk)
    expected = values(disk)
    for step in steps[::3]:
        disk = wounded(whole)
        checkpoints.write_offsets(disk, f"{DATA}/{checkpoints.RECOVERY_POINT}", {ORDERS: 39, PAYMENTS: 40})
        found = look(disk)[0]
        disk.crash_after(step)
        try:
            repair_all(disk, found)
            disk.crash_after(1 << 30)
        except PowerLoss:
            disk.crash(random.Random(step))
        directory = LogDirectory.open(disk, DATA, lambda topic: SETTINGS)
        for log in directory.logs.values():
            log.abandon()
        mended(disk)
        assert values(disk) == expected, f"after a crash at operation {step}"


def test_a_full_disk_stops_a_repair_and_leaves_the_log_as_it_was(disk, records):
    flip(disk, f"{FIRST}.log", 100)
    flip(disk, f"{FIRST}.log", 500)
    before = {path: data for path, data in everything(disk, HERE).items() if path.endswith(".log")}
    disk.capacity = disk.used + 300
    with pytest.raises(OSError, match="No space"):
        mended(disk)
    after = everything(disk, HERE)
    assert {path: after[path] for path in before} == before
    disk.capacity = None
    mended(disk)
    assert complaints(disk) == []
    assert values(disk).items() <= records.items()
