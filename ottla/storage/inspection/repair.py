"""Putting a log right, with nobody else at it. Each step leaves a directory on which a repair can run again.

Before a segment changes, everything in the log is synced and the recovery point says so: whoever opens a log that was
left half-way must not take the hole that a repair makes for the end of the log.
"""

from collections.abc import Callable, Iterator

from ottla.core.ids import TopicPartition
from ottla.records.batch import BatchHeader, read_header
from ottla.storage import checkpoints, snapshots, txn_index
from ottla.storage.files import Files, write_whole
from ottla.storage.inspection.cursors import entries
from ottla.storage.inspection.directory import NAMES, Inspection, live_partition, log_directory_of
from ottla.storage.inspection.findings import Findings
from ottla.storage.inspection.layout import Layout, read_small
from ottla.storage.inspection.partition import Diagnosis, Scope, diagnose
from ottla.storage.inspection.pieces import Pieces
from ottla.storage.inspection.plan import Kind, Step, plan_checkpoints, plan_partition
from ottla.storage.inspection.quarantine import Quarantine
from ottla.storage.inspection.rewriting import Rewriting, cut_tail, rebuild_indexes
from ottla.storage.lock import LOCK_NAME, DirectoryLock
from ottla.storage.producers import Producer, Producers
from ottla.storage.replay import apply
from ottla.storage.segment import LOG_SUFFIX, TXN_INDEX_SUFFIX, file_name
from ottla.storage.swap import SWAP_SUFFIX, finish_swaps
from ottla.storage.txn_index import AbortedTxn

SEGMENTS = (Kind.CUT, Kind.REWRITE, Kind.SET_ASIDE)
Tell = Callable[[Step], None]
ROUNDS_MAX = 4  # replacements first, then segments, then what follows from them; the last one finds nothing


def lock_of(files: Files, directory: str) -> DirectoryLock:
    """The lock that a broker would hold: of the log directory, or of a partition that stands alone."""
    above = log_directory_of(files, directory)
    return DirectoryLock(files, above if _is_log_directory(files, above) else directory)


def _is_log_directory(files: Files, directory: str) -> bool:
    marks = (*NAMES, checkpoints.META_PROPERTIES, LOCK_NAME)
    return any(files.exists(f"{directory}/{name}") for name in marks)


def repair_all(files: Files, found: Inspection, tell: Tell = lambda step: None) -> None:
    """Do what the inspection calls for, and say each step when it is done. The caller holds the lock."""
    _Repair(files, found, tell).run()


class _Repair:
    def __init__(self, files: Files, found: Inspection, tell: Tell) -> None:
        self._files, self._found, self._tell = files, found, tell
        self._quarantine = Quarantine(files, found.directory)
        self._kept: set[str] = set()
        """Checkpoints that are in quarantine already."""

    def run(self) -> None:
        for name, diagnosis in self._found.partitions.items():
            for _ in range(ROUNDS_MAX):
                steps = plan_partition(diagnosis)
                if not self._do_all(steps, diagnosis, name):
                    break
                diagnosis = diagnose(self._files, diagnosis.directory, Scope(Findings()))
            self._found.partitions[name] = diagnosis
            if name in self._found.bad_ids:
                self._put_topic_id(name, diagnosis.directory)
        self._write_checkpoints()

    def _settle_swaps(self, diagnosis: Diagnosis, name: str) -> None:
        """Finish what a compaction or a repair has left. A replacement that is damaged itself is set aside, as long as
        what it was to replace is there: that goes from its first segment on."""
        directory = diagnosis.directory
        for swap in diagnosis.bad_swaps:
            if self._files.exists(f"{directory}/{swap.removesuffix(SWAP_SUFFIX)}"):
                stem = swap.removesuffix(LOG_SUFFIX + SWAP_SUFFIX)
                for part in self._files.names(directory):
                    if part.startswith(stem) and part.endswith(SWAP_SUFFIX):
                        self._set_aside(f"{directory}/{part}", name)
                self._files.sync_directory(directory)
        for offset in diagnosis.bad_snapshots:  # with its segment a snapshot goes too
            self._quarantine.keep(f"{directory}/{file_name(offset, snapshots.SUFFIX)}", name)
        finish_swaps(self._files, directory)

    def _do_all(self, steps: list[Step], diagnosis: Diagnosis, name: str) -> bool:
        """False if there was nothing that can be done."""
        steps = [step for step in steps if step.kind is not Kind.BY_HAND]
        if not steps:
            return False
        if steps[0].kind is Kind.SWAPS:
            del steps[1:]  # it decides which segments there are
        elif any(step.kind in SEGMENTS for step in steps):
            # What follows from the segments is made when they are whole.
            steps = [step for step in steps if step.kind in SEGMENTS]
            self._secure(diagnosis, name)
        layout = Layout.of(self._files, diagnosis.directory)
        self._follow_up(steps, layout, diagnosis, name)
        for step in steps:
            self._do(step, layout, diagnosis, name)
            self._tell(step)
        return True

    def _do(self, step: Step, layout: Layout, diagnosis: Diagnosis, name: str) -> None:
        base = step.segment.base_offset if step.segment else 0
        if step.kind is Kind.SWAPS:
            self._settle_swaps(diagnosis, name)
        elif step.kind is Kind.CUT:
            assert step.segment is not None and step.segment.tail is not None
            cut_tail(self._files, layout, base, step.segment.tail, self._quarantine, name)
        elif step.kind is Kind.REWRITE:
            expected = max((s.end_offset for s in diagnosis.segments if s.base_offset < base), default=0)
            Rewriting(self._files, layout, base, expected, diagnosis.epochs, self._quarantine, name).run()
        elif step.kind is Kind.INDEXES:
            rebuild_indexes(self._files, layout, base)
        elif step.kind is Kind.SET_ASIDE:
            self._set_aside(step.path, name)
            self._files.sync_directory(diagnosis.directory)
        elif step.kind is Kind.EPOCHS:
            self._write_epochs(step.path, diagnosis, name)

    def _set_aside(self, path: str, name: str) -> None:
        if self._files.exists(path):
            self._quarantine.keep(path, name)
            self._files.remove(path)

    def _write_epochs(self, path: str, diagnosis: Diagnosis, name: str) -> None:
        if self._files.exists(path):
            self._quarantine.keep(path, name)
        rows = [f"{entry.epoch} {entry.start_offset}" for entry in diagnosis.epochs]
        write_whole(self._files, path, checkpoints.render_lines(rows))

    # --- what follows from the batches --------------------------------------------------------------------------

    def _follow_up(self, steps: list[Step], layout: Layout, diagnosis: Diagnosis, name: str) -> None:
        """Transaction indexes and snapshots, in one pass over the log from its start."""
        txns = {step.segment.base_offset for step in steps if step.kind is Kind.TXNS and step.segment}
        wanted = sorted(step.offset for step in steps if step.kind is Kind.SNAPSHOT)
        if not txns and not wanted:
            return
        for offset in wanted:
            self._set_aside(layout.path(offset, snapshots.SUFFIX), name)
        producers = Producers()
        good = [o for o in layout.snapshots if o not in wanted and o >= diagnosis.start_offset]
        # At the first segment nothing can be replayed, and beyond the end there is nothing to replay.
        wanted = [o for o in wanted if diagnosis.start_offset < o <= diagnosis.end_offset]
        for segment in diagnosis.segments:
            base = segment.base_offset
            aborted: list[AbortedTxn] | None = [] if base in txns else None
            for header, data in self._numbered(layout, base):
                while wanted and wanted[0] <= header.base_offset:
                    self._write_snapshot(layout, wanted.pop(0), producers)
                while good and good[0] <= header.base_offset:  # it knows what may be gone from the log by now
                    producers.restore(self._known_at(layout, good.pop(0)))
                apply(producers, aborted, header, data)
            if aborted is not None:
                self._write_txns(layout, base, aborted, name, diagnosis.exact_until)
        for offset in wanted:
            self._write_snapshot(layout, offset, producers)
        self._files.sync_directory(diagnosis.directory)

    def _known_at(self, layout: Layout, offset: int) -> list[Producer]:
        path = layout.path(offset, snapshots.SUFFIX)
        return snapshots.decode(read_small(self._files, path), path)

    def _numbered(self, layout: Layout, base: int) -> Iterator[tuple[BatchHeader, memoryview]]:
        """The batches of a segment that have a producer."""
        log = self._files.open(layout.path(base, LOG_SUFFIX))
        try:
            for piece in Pieces(log, log.size(), base, base, layout.limit_of(base)):
                batch = piece.batch
                if batch is None or piece.data is None or batch.magic < 2 or batch.producer_id < 0:
                    continue
                yield read_header(piece.data), piece.data
        finally:
            log.close()

    def _write_snapshot(self, layout: Layout, offset: int, producers: Producers) -> None:
        write_whole(self._files, layout.path(offset, snapshots.SUFFIX), snapshots.encode(producers.all()))

    def _write_txns(
        self, layout: Layout, base: int, aborted: list[AbortedTxn], name: str, exact_until: int | None
    ) -> None:
        """What the markers say; and what the file knew of others, if those may be gone from the log."""
        path = layout.path(base, TXN_INDEX_SUFFIX)
        known = {each.last_offset: each for each in aborted}
        if self._files.exists(path):
            self._quarantine.keep(path, name)
            if exact_until is not None:
                # A marker that is lost lets the transaction behind it seem longer than it was.
                old = self._believable(path, max(base, exact_until), layout.limit_of(base))
                known |= {at: t for at, t in old.items() if known.get(at, t).producer_id == t.producer_id}
        rows = (txn_index.ENTRY.pack(txn_index.VERSION, *known[last]) for last in sorted(known))
        write_whole(self._files, path, b"".join(rows))

    def _believable(self, path: str, start: int, limit: int) -> dict[int, AbortedTxn]:
        file = self._files.open(path)
        try:
            found = [
                AbortedTxn(*fields)
                for _, (version, *fields) in entries(file, txn_index.ENTRY, padded=False)
                if version == txn_index.VERSION
            ]
        finally:
            file.close()
        return {
            t.last_offset: t
            for t in found
            if 0 <= t.first_offset <= t.last_offset and start <= t.last_offset < limit
        }

    # --- what speaks of all logs ----------------------------------------------------------------------------------

    def _secure(self, diagnosis: Diagnosis, name: str) -> None:
        """All of the log is on the disk, and the recovery point says so."""
        self._sync(diagnosis)
        partition = live_partition(name)
        if partition is None or not _is_log_directory(self._files, self._found.directory):
            return
        points = dict(self._found.checkpoints.offsets.get(checkpoints.RECOVERY_POINT, {}))
        points[partition] = diagnosis.end_offset
        self._replace(checkpoints.RECOVERY_POINT, points)

    def _sync(self, diagnosis: Diagnosis) -> None:
        for base in Layout.of(self._files, diagnosis.directory).bases:
            log = self._files.open(f"{diagnosis.directory}/{file_name(base, LOG_SUFFIX)}")
            try:
                log.sync()
            finally:
                log.close()
        self._files.sync_directory(diagnosis.directory)

    def _replace(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        path, known = f"{self._found.directory}/{name}", self._found.checkpoints
        if name not in self._kept and self._files.exists(path):
            self._kept.add(name)  # as it was found, and not as this repair writes it on the way
            self._quarantine.keep(path)
        checkpoints.write_offsets(self._files, path, offsets)
        known.offsets[name] = offsets

    def _write_checkpoints(self) -> None:
        """What is safe: nothing that a log does not bear out, and of a file that made no sense what the logs say."""
        ends = self._ends()
        known = self._found.checkpoints
        known.beyond = [
            (name, partition)
            for name, offsets in known.offsets.items()
            for partition, offset in offsets.items()
            if partition in ends and offset > ends[partition]
        ]
        for step in plan_checkpoints(self._found):
            name = step.path.rpartition("/")[2]
            offsets = known.offsets.get(name, {})
            if name == checkpoints.RECOVERY_POINT:
                offsets = self._safe_points(offsets, ends)
            else:
                offsets = {p: o for p, o in offsets.items() if p not in ends or o <= ends[p]}
            self._replace(name, offsets)
            self._tell(step)

    def _ends(self) -> dict[TopicPartition, int]:
        return {
            partition: diagnosis.end_offset
            for name, diagnosis in self._found.partitions.items()
            if (partition := live_partition(name)) is not None and not diagnosis.by_hand
        }

    def _safe_points(
        self, offsets: dict[TopicPartition, int], ends: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        if checkpoints.RECOVERY_POINT not in self._found.checkpoints.broken:
            return {p: min(o, ends.get(p, o)) for p, o in offsets.items()}
        for diagnosis in self._found.partitions.values():
            if not diagnosis.by_hand:
                self._sync(diagnosis)
        return ends

    def _put_topic_id(self, name: str, directory: str) -> None:
        """The id that the other partitions of the topic have; without one, none: whoever opens it will say so."""
        path = f"{directory}/{checkpoints.PARTITION_METADATA}"
        topic = name.rpartition("-")[0]
        others = [
            topic_id
            for other, topic_id in self._found.topic_ids.items()
            if other.rpartition("-")[0] == topic and other not in self._found.bad_ids
        ]
        self._quarantine.keep(path, name)
        if others:
            checkpoints.write_partition_metadata(self._files, directory, others[0])
        else:
            self._files.remove(path)
            self._files.sync_directory(directory)
        self._tell(
            Step(Kind.TOPIC_ID, path, "set aside" if not others else "replaced by that of another partition")
        )
