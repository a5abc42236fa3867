"""Our compaction against Apache Kafka's: random histories, cleaned by both, must come out the same, batch for batch."""

import difflib
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ottla.storage.cleaning.cleaner import clean
from ottla.storage.cleaning.job import Done, Failed, Group, Job
from ottla.storage.cleaning.plan import cleanable
from ottla.storage.config import TopicConfig
from ottla.storage.files import OsFiles
from ottla.storage.log import Log
from ottla.storage.replacement import Replacement
from tests.oracles import apache_kafka
from tests.oracles.java_storage import KafkaStorage, kafka_storage
from tests.property.histories import History, write

HISTORIES = 60
EXPLORED = int(os.environ.get("OTTLA_EXPLORE", "0"))
FILES = OsFiles(syncs=False)
LOAD_FACTOR = 0.9
ENOUGH = 1 << 16
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


def opened(directory: Path, config: dict[str, str]) -> Log:
    log = Log.open(FILES, str(directory), TopicConfig(config), clean=True)
    log.advance_high_watermark(log.end_offset)
    return log


def random_config(pick: random.Random) -> dict[str, str]:
    return {
        "cleanup.policy": "compact",
        "delete.retention.ms": pick.choice(["0", "1000", "86400000"]),
        "index.interval.bytes": pick.choice(["0", "300", "4096"]),
        "min.compaction.lag.ms": pick.choice(["0", "0", "0", "1000", "3000"]),
        "max.compaction.lag.ms": pick.choice(["9223372036854775807", "4000", "20000"]),
    }


class Cleaning(NamedTuple):
    """One run over a log: where it starts and when, with how large a map."""

    checkpoint: int | None
    now_ms: int
    map_bytes: int = ENOUGH


class Outcome(NamedTuple):
    """What both say of a run. Of the records that were read Apache does not count those of aborted transactions, and
    bytes depend on compressors."""

    end_offset: int
    records_kept: int


def clean_ours(directory: Path, config: dict[str, str], cleaning: Cleaning) -> Outcome | Failed:
    log = opened(directory, config)
    found = cleanable(log, cleaning.checkpoint, cleaning.now_ms)
    job = Job.of(
        log,
        found,
        map_bytes=cleaning.map_bytes,
        load_factor=LOAD_FACTOR,
        io_buffer_bytes=1 << 16,
        now_ms=cleaning.now_ms,
        syncs=False,
    )
    result: Outcome | Failed | None = None
    for event in clean(FILES, Job.from_json(job.to_json()), lambda count: None):
        if isinstance(event, Group):
            replacement = Replacement(log, event.base_offsets)
            replacement.prepare()
            assert replacement.commit(cleaning.now_ms)
            replacement.finish()
        elif isinstance(event, Done):
            result = Outcome(event.end_offset, event.stats.records_kept)
        elif isinstance(event, Failed):
            result = event
    assert result is not None
    log.remove_doomed(cleaning.now_ms + 10**9)
    log.close()
    return result


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


def in_rounds(
    apache: KafkaStorage, root: Path, pick: random.Random, config: dict[str, str]
) -> Iterator[tuple[Segments, Segments, Cleaning]]:
    """Write the same to two logs, let Apache clean one and us the other; again and again."""
    ours, theirs, history, checkpoint = root / "ours" / "t-0", root / "theirs" / "t-0", History(pick), None
    for _ in range(pick.randint(1, 3)):
        written = list(history.go_on(pick.randint(5, 40)))
        if pick.random() < 0.7:
            written += history.end_transactions()
        for directory in (ours, theirs):
            log = opened(directory, {})
            write(log, written)
            log.close()
        history.now_ms += pick.choice([0, 1, 999, 1000, 100_000_000])
        if apache.cleanable(theirs, config, checkpoint, history.now_ms).cleanable_bytes == 0:
            continue  # nobody would ask for it
        cleaning = Cleaning(checkpoint, history.now_ms)
        expected = clean_theirs(apache, theirs, config, cleaning)
        outcome = clean_ours(ours, config, cleaning)
        yield apache.dump(ours), apache.dump(theirs), cleaning
        assert outcome == expected, (cleaning, config)
        checkpoint = expected.end_offset


def test_both_leave_the_same_batches_after_each_of_several_cleanings(apache, tmp_path):
    def judge(pick: random.Random) -> None:
        config = {**random_config(pick), "segment.bytes": "1000000"}
        for ours, theirs, cleaning in in_rounds(apache, tmp_path / str(pick.random()), pick, config):
            expect_same(ours, theirs, cleaning, config)

    for_each_seed(judge)


def test_both_leave_the_same_records_in_segments_that_stay_small(apache, tmp_path):
    def judge(pick: random.Random) -> None:
        config = {**random_config(pick), "segment.bytes": pick.choice(["600", "1500", "6000"])}
        for ours, theirs, cleaning in in_rounds(apache, tmp_path / str(pick.random()), pick, config):
            expect_alike(ours, theirs, cleaning, config)
            if cleaning.checkpoint is None:  # later on, sizes depend on compressors
                assert [s["base_offset"] for s in ours] == [s["base_offset"] for s in theirs], config

    for_each_seed(judge)
