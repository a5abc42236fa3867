"""Our compaction against Apache Kafka's: random histories, cleaned by both, must come out the same, batch for batch."""

import difflib
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla.storage.cleaning.job import Failed
from ottla.storage.cleaning.offset_map import SLOT_BYTES
from ottla.storage.cleaning.plan import cleanable
from tests.oracles import apache_kafka
from tests.oracles.java_storage import KafkaStorage, kafka_storage
from tests.property.compaction import Cleaning, Outcome, compact, opened
from tests.property.histories import History, write

HISTORIES = 15
EXPLORED = int(os.environ.get("OTTLA_EXPLORE", "0"))
Segments = list[dict[str, Any]]


@pytest.fixture(scope="module")
def apache() -> Iterator[KafkaStorage]:
    try:
        with kafka_storage() as storage:
            yield storage
    except apache_kafka.Unavailable as reason:
        pytest.skip(str(reason))


def for_each_seed(judge: Callable[[random.Random], None]) -> None:
    """The same seeds for everybody, or as many new ones as OTTLA_EXPLORE says; a failure tells its own."""
    for seed in random.sample(range(10**9), EXPLORED) if EXPLORED else range(HISTORIES):
        try:
            judge(random.Random(seed))
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise


def random_config(pick: random.Random) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "message.timestamp.type": pick.choice(["CreateTime", "CreateTime", "LogAppendTime"]),
        "delete.retention.ms": pick.choice(["0", "1000", "86400000"]),
        "index.interval.bytes": pick.choice(["0", "300", "4096"]),
        "min.compaction.lag.ms": pick.choice(["0", "0", "0", "1000", "3000"]),
        "max.compaction.lag.ms": pick.choice(["9223372036854775807", "4000", "20000"]),
    }


def clean_theirs(
    apache: KafkaStorage, directory: Path, config: dict[str, str], cleaning: Cleaning
) -> Outcome:
    found = apache.cleanable(directory, config, cleaning.checkpoint, cleaning.now_ms)
    done = apache.clean(
        directory,
        config,
        first_dirty=found.first_dirty_offset,
        end=found.end_offset,
        now_ms=cleaning.now_ms,
        map_bytes=cleaning.map_bytes,
    )
    return Outcome(done["end_offset"], done["records_kept"])


def shown(segments: Segments) -> list[str]:
    """A line for every segment, aborted transaction, batch and record, so that a difference is easily seen."""
    lines = []
    for segment in segments:
        lines.append(f"segment {segment['base_offset']}")
        lines += [f"  aborted {entry}" for entry in segment["aborted"]]
        for batch in segment["batches"]:
            fields = {name: value for name, value in batch.items() if name != "records"}
            lines.append(f"  batch {fields}")
            lines += [f"    {record}" for record in batch["records"]]
    return lines


def expect_same(ours: Segments, theirs: Segments, *context: object) -> None:
    found = list(difflib.unified_diff(shown(theirs), shown(ours), "theirs", "ours", n=2, lineterm=""))
    assert not found, "\n".join([*map(str, context), *found])


def expect_alike(ours: Segments, theirs: Segments, *context: object) -> None:
    """The same records; what else there is of Apache's is there in ours as well.

    With several groups we keep more: the last batch of each, if need be empty, so that a segment that is missing can be
    told from one that was compacted away, and the markers of the transactions that these last batches belong to.
    """
    expect_same(*(_one_of_records(segments) for segments in (ours, theirs)), *context)
    missing = _others(theirs) - _others(ours)
    ends = {segment["batches"][-1]["base_offset"] for segment in ours if segment["batches"]}
    more = {offset for offset, is_control in _others(ours) - _others(theirs) if not is_control}
    assert not missing and more <= ends, (missing, more - ends, *context)


def _one_of_records(segments: Segments) -> Segments:
    """As one segment of the batches that have records which clients see."""
    batches = [batch for segment in segments for batch in segment["batches"]]
    kept = [batch for batch in batches if batch["records"] and not batch["is_control"]]
    return [{"base_offset": 0, "aborted": [], "batches": kept}]


def _others(segments: Segments) -> set[tuple[int, bool]]:
    """The batches that are markers, or empty."""
    batches = [batch for segment in segments for batch in segment["batches"]]
    return {
        (batch["base_offset"], batch["is_control"])
        for batch in batches
        if batch["is_control"] or not batch["records"]
    }


def test_both_find_the_same_part_of_a_log_to_be_dirty(apache, tmp_path):
    def judge(pick: random.Random) -> None:
        directory, config = tmp_path / f"t-{pick.randrange(10**9)}", random_config(pick)
        history = History(pick)
        log = opened(directory, {})
        write(log, list(history.go_on(pick.randint(0, 50))))
        bases = [segment.base_offset for segment in log.segments]
        log.close()
        now_ms = history.now_ms + pick.choice([0, 700, 2000, 50_000])
        for checkpoint in (None, pick.choice(bases), pick.randint(0, bases[-1])):
            log = opened(directory, config)
            ours = cleanable(log, checkpoint, now_ms)
            log.close()
            theirs = apache.cleanable(directory, config, checkpoint, now_ms)
            if theirs.first_dirty_offset > theirs.end_offset:  # a transaction holds up what is clean already
                assert ours.cleanable_bytes == theirs.cleanable_bytes == 0
                continue
            if (
                ours.end_offset < bases[-1]
            ):  # Apache's haste is also for records that no cleaning may touch yet
                assert theirs.is_overdue or not ours.is_overdue
                theirs = theirs._replace(is_overdue=ours.is_overdue)
            assert (*ours, ours.ratio) == theirs, (checkpoint, now_ms, config, bases)

    for_each_seed(judge)


class Round(NamedTuple):
    """Two logs of the same history after another cleaning: one by us, one by Apache."""

    cleaning: Cleaning
    ours: Segments
    theirs: Segments
    our_outcome: Outcome | Failed
    their_outcome: Outcome


def in_rounds(
    apache: KafkaStorage, root: Path, pick: random.Random, config: dict[str, str]
) -> Iterator[Round]:
    """Write the same to two logs, let Apache clean one and us the other; again and again."""
    ours, theirs, history, checkpoint = root / "ours" / "t-0", root / "theirs" / "t-0", History(pick), None
    for _ in range(pick.randint(1, 3)):
        written = list(history.go_on(pick.randint(5, 40)))
        if pick.random() < 0.7:
            written += history.end_transactions()
        for directory in (ours, theirs):
            log = opened(directory, {"message.timestamp.type": config["message.timestamp.type"]})
            write(log, written)
            log.close()
        history.now_ms += pick.choice([0, 1, 999, 1000, 100_000_000])
        if apache.cleanable(theirs, config, checkpoint, history.now_ms).cleanable_bytes == 0:
            continue  # nobody would ask for it
        cleaning = Cleaning(checkpoint, history.now_ms)
        expected = clean_theirs(apache, theirs, config, cleaning)
        outcome = compact(ours, config, cleaning)
        yield Round(cleaning, apache.dump(ours), apache.dump(theirs), outcome, expected)
        checkpoint = expected.end_offset


def test_both_leave_the_same_batches_after_each_of_several_cleanings(apache, tmp_path):
    def judge(pick: random.Random) -> None:
        config = {**random_config(pick), "segment.bytes": "1000000"}
        for each in in_rounds(apache, tmp_path / str(pick.random()), pick, config):
            expect_same(each.ours, each.theirs, each.cleaning, config)
            assert each.our_outcome == each.their_outcome, (each.cleaning, config)

    for_each_seed(judge)


def test_both_leave_the_same_records_in_segments_that_stay_small(apache, tmp_path):
    def judge(pick: random.Random) -> None:
        config = {**random_config(pick), "segment.bytes": pick.choice(["600", "1500", "6000"])}
        for each in in_rounds(apache, tmp_path / str(pick.random()), pick, config):
            expect_alike(each.ours, each.theirs, each.cleaning, config)
            assert isinstance(each.our_outcome, Outcome)
            assert each.our_outcome.end_offset == each.their_outcome.end_offset
            if each.cleaning.checkpoint is None:  # later on, sizes depend on compressors
                bases = [[segment["base_offset"] for segment in log] for log in (each.ours, each.theirs)]
                assert bases[0] == bases[1], config

    for_each_seed(judge)


def test_many_small_cleanings_come_to_what_a_large_one_leaves(apache, tmp_path):
    """Apache stops within a segment when its map is full, we before it: in the end that makes no difference."""

    def judge(pick: random.Random) -> None:
        root, config = tmp_path / str(pick.random()), {"cleanup.policy": "compact"}
        history = History(pick)
        history.writers, history.tombstones, history.key_count, history.rolls = [], 0.0, 40, 0.3
        log = opened(root / "ours" / "t-0", {})
        write(log, [*history.go_on(40), *history.end_transactions()])
        log.close()
        theirs = shutil.copytree(root / "ours", root / "theirs") / "t-0"
        expected = clean_theirs(apache, theirs, config, Cleaning(None, history.now_ms))
        checkpoint, map_bytes = 0, SLOT_BYTES * 11
        while checkpoint < expected.end_offset:
            outcome = compact(root / "ours" / "t-0", config, Cleaning(checkpoint, history.now_ms, map_bytes))
            if isinstance(outcome, Failed):
                assert "log.cleaner.dedupe.buffer.size" in outcome.reason
                map_bytes *= 2
            else:
                assert outcome.end_offset > checkpoint
                checkpoint = outcome.end_offset
        expect_same(apache.dump(root / "ours" / "t-0"), apache.dump(theirs))

    for_each_seed(judge)
