"""What a repair would do, as a list of steps that follows from an inspection. Nothing here touches a file."""

import enum
from typing import NamedTuple

from ottla.storage import checkpoints, epochs, snapshots
from ottla.storage.inspection.directory import Inspection
from ottla.storage.inspection.partition import Diagnosis, SegmentState
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TXN_INDEX_SUFFIX, file_name


class Kind(enum.Enum):
    SWAPS = "swaps"
    CUT = "cut"
    REWRITE = "rewrite"
    INDEXES = "indexes"
    TXNS = "txns"
    SNAPSHOT = "snapshot"
    EPOCHS = "epochs"
    TOPIC_ID = "topic id"
    CHECKPOINT = "checkpoint"
    SET_ASIDE = "set aside"
    BY_HAND = "by hand"


class Step(NamedTuple):
    """One thing to do: to which file, and what in words."""

    kind: Kind
    path: str
    what: str
    segment: SegmentState | None = None
    offset: int = 0

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


def plan(found: Inspection) -> list[Step]:
    """All that is to be done about a directory."""
    steps: list[Step] = []
    for name, diagnosis in found.partitions.items():
        steps += plan_partition(diagnosis)
        if name in found.bad_ids:
            path = f"{diagnosis.directory}/{checkpoints.PARTITION_METADATA}"
            steps.append(
                Step(Kind.TOPIC_ID, path, "set it aside; take the id from another partition, if there is one")
            )
    steps += plan_checkpoints(found)
    return steps + [
        Step(Kind.BY_HAND, path, f"{reason}; left to you") for path, reason in found.by_hand.items()
    ]


def plan_partition(diagnosis: Diagnosis) -> list[Step]:
    """What is to be done about one partition. If a file of it is past repair, nothing is."""
    if diagnosis.by_hand:
        return [
            Step(Kind.BY_HAND, path, f"{reason}; the partition is left alone until that is put right")
            for path, reason in diagnosis.by_hand.items()
        ]
    directory = diagnosis.directory
    steps = [
        Step(Kind.SET_ASIDE, f"{directory}/{n}", "set it aside: no offset has this number")
        for n in diagnosis.unnumbered
    ]
    for segment in diagnosis.segments:
        steps += _segment(directory, segment)
    for offset in diagnosis.bad_snapshots:
        path = f"{directory}/{file_name(offset, snapshots.SUFFIX)}"
        steps.append(Step(Kind.SNAPSHOT, path, "set it aside, and write it anew from the log", offset=offset))
    if diagnosis.bad_epochs:
        path = f"{directory}/{epochs.FILE_NAME}"
        steps.append(Step(Kind.EPOCHS, path, "set it aside, and write it anew from the batches"))
    if diagnosis.bad_swaps or (steps and diagnosis.has_swaps):
        steps.insert(0, Step(Kind.SWAPS, directory, _swaps(diagnosis)))
    return steps


def _swaps(diagnosis: Diagnosis) -> str:
    bad = ", ".join(diagnosis.bad_swaps)
    return "finish or undo the replacements that were begun" + (f"; {bad} is damaged" if bad else "")


def _segment(directory: str, segment: SegmentState) -> list[Step]:
    def step(kind: Kind, suffix: str, what: str) -> Step:
        return Step(kind, f"{directory}/{file_name(segment.base_offset, suffix)}", what, segment)

    if segment.is_only_torn:
        size = segment.size - (segment.tail or 0)
        return [
            step(
                Kind.CUT,
                LOG_SUFFIX,
                f"cut {size} bytes from byte {segment.tail} on, and keep them in quarantine",
            )
        ]
    if segment.damage or segment.lying_epochs:
        return [step(Kind.REWRITE, LOG_SUFFIX, _rewriting(segment))]
    steps = []
    if segment.stale_indexes:
        steps.append(step(Kind.INDEXES, INDEX_SUFFIX, "rebuild it and the time index from the segment"))
    if segment.stale_txns:
        steps.append(step(Kind.TXNS, TXN_INDEX_SUFFIX, "rebuild it from the markers in the segment"))
    return steps


def _rewriting(segment: SegmentState) -> str:
    lost = [stretch for stretch in segment.damage if not stretch.is_mendable]
    said = []
    if lost:
        places = ", ".join(f"{s.start}-{s.end}" for s in lost[:10]) + (", ..." if len(lost) > 10 else "")
        said.append(
            f"without {sum(s.end - s.start for s in lost)} damaged bytes ({places}), which go to quarantine"
        )
    if len(lost) < len(segment.damage):
        said.append(f"with {len(segment.damage) - len(lost)} offsets put right")
    if segment.lying_epochs:
        said.append("with leader epochs put right")
    return f"rewrite it {' and '.join(said)}"


def plan_checkpoints(found: Inspection) -> list[Step]:
    """Checkpoints that make no sense, or that speak of what no log has."""
    known = found.checkpoints
    names = dict.fromkeys([*known.broken, *(name for name, _ in known.beyond)])
    harmless = checkpoints.HIGH_WATERMARK if checkpoints.HIGH_WATERMARK not in known.broken else None
    return [
        Step(Kind.CHECKPOINT, f"{found.directory}/{name}", "set it aside, and write what is safe")
        for name in names
        if name != harmless
    ]
