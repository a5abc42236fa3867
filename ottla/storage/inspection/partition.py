"""One partition, looked at whole: every batch, every index entry, every snapshot, the epochs.

The bytes of each segment pass by once. Sizes are taken at the start, so that what a running broker adds meanwhile is
not judged; if one runs, a tail that is not whole is on its way and no damage.
"""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.core.errors import ErrorCode, ProtocolError
from ottla.records import batch as batches
from ottla.records import legacy
from ottla.records.errors import RecordError, invalid
from ottla.storage import epochs
from ottla.storage.epochs import EpochStart, LeaderEpochs
from ottla.storage.files import File, Files
from ottla.storage.inspection.cursors import OffsetCursor, TimeCursor, TxnCursor
from ottla.storage.inspection.findings import Findings
from ottla.storage.inspection.layout import PASSING, Layout, read_small, said_of, why
from ottla.storage.inspection.pieces import BATCH_BYTES_MAX, Piece, Pieces
from ottla.storage.inspection.reigns import Reigns, believe, contradicting
from ottla.storage.inspection.replaying import Replay
from ottla.storage.segment import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX, offset_of
from ottla.storage.swap import CLEANED_SUFFIX, SWAP_SUFFIX

STRETCHES_MAX = 1000
OVERLAPPING = "overlaps with the next segment, and nobody can tell which of the two names is wrong"
Progress = Callable[[int], None]
"""Hears of bytes that have been looked at."""


class Stretch(NamedTuple):
    """Bytes of a segment that are not what was written."""

    start: int
    end: int
    is_mendable: bool


@dataclass(slots=True)
class SegmentState:
    """What one segment needs."""

    base_offset: int
    size: int
    damage: list[Stretch] = field(default_factory=list)
    """The first STRETCHES_MAX of them."""
    tail: int | None = None
    """From here on nothing whole follows, up to the end of the log."""
    lying_epochs: bool = False
    """Some batches carry another epoch than the one to go by."""
    stale_indexes: bool = False
    stale_txns: bool = False
    end_offset: int = 0

    @property
    def is_only_torn(self) -> bool:
        """Is a tail all that is wrong with its bytes?"""
        return self.tail is not None and len(self.damage) == 1 and not self.lying_epochs


@dataclass(slots=True)
class Diagnosis:
    """What is to be done about a partition, and what the directory's checkpoints can be held against."""

    directory: str
    segments: list[SegmentState] = field(default_factory=list)
    has_swaps: bool = False
    """Was the replacement of segments begun and not finished?"""
    bad_swaps: list[str] = field(default_factory=list)
    """Replacements that are damaged themselves."""
    bad_snapshots: list[int] = field(default_factory=list)
    epochs: list[EpochStart] = field(default_factory=list)
    """The ones to go by."""
    bad_epochs: bool = False
    by_hand: dict[str, str] = field(default_factory=dict)
    """Files that only whoever owns them can put right, and why."""
    unnumbered: list[str] = field(default_factory=list)
    exact_until: int | None = None
    """Up to here all is in the log that transactions and producers depend on; None if to its end."""
    start_offset: int = 0
    end_offset: int = 0
    batches: int = 0
    bytes: int = 0


class Scope(NamedTuple):
    """How to look, and whom to tell."""

    findings: Findings
    in_use: bool = False
    progress: Progress = lambda count: None


def diagnose(files: Files, directory: str, scope: Scope) -> Diagnosis:
    """Look at all of a partition. Findings go to `scope`; what repair needs to know comes back."""
    layout = Layout.of(files, directory)
    found = Diagnosis(directory, unnumbered=layout.unnumbered)
    _names(layout, scope.findings)
    if not scope.in_use:
        _swaps(files, layout, found, scope)
    sizes = {base: _size_of(files, layout, base, found, scope) for base in layout.bases}
    readable = [base for base in layout.bases if sizes[base] is not None]
    reigns, replay = Reigns(), Replay(files, layout, scope.findings, in_use=scope.in_use)
    found.start_offset = layout.bases[0] if layout.bases else 0
    found.end_offset = found.start_offset
    replay.start(found.start_offset)
    gaps: list[tuple[str, int, int]] = []
    for base in readable:
        if base > found.end_offset:
            gaps.append((layout.path(base, LOG_SUFFIX), found.end_offset, base))
            replay.lose_track(found.end_offset)
        _Segment(files, layout, base, sizes[base] or 0, found, scope, reigns, replay).run()
    replay.finish(found.end_offset, growing=scope.in_use)
    found.bad_snapshots, found.exact_until = replay.bad, replay.exact_until
    found.by_hand |= replay.by_hand
    _epochs(files, directory, found, reigns, scope)
    _gaps(directory, gaps, scope.findings)
    return found


def _gaps(directory: str, gaps: list[tuple[str, int, int]], findings: Findings) -> None:
    if gaps:
        path, start, end = gaps[0]
        where = f"offsets {start} to {end - 1} are in no segment"
        if len(gaps) > 1:
            path, where = (
                directory,
                f"{len(gaps)} stretches of offsets are in no segment, such as {start} to {end - 1}",
            )
        findings.note(path, None, f"{where}: compacted, repaired, or a segment is missing")


def _names(layout: Layout, findings: Findings) -> None:
    for ending, names in layout.passing.items():
        findings.note_all(layout.directory, names, PASSING[ending])
    findings.note_all(
        layout.directory, layout.orphans, "an index without a segment; removed by the next start"
    )
    for name in layout.unnumbered:
        findings.damage(f"{layout.directory}/{name}", None, "the number in its name is no offset")
    if not layout.bases:
        findings.note(layout.directory, None, "holds no segment; the next start begins an empty log")


def _swaps(files: Files, layout: Layout, found: Diagnosis, scope: Scope) -> None:
    """Replacements that the next start would put in place: are they whole?"""
    found.has_swaps = not layout.passing.keys().isdisjoint((SWAP_SUFFIX, CLEANED_SUFFIX))
    for name in layout.passing.get(SWAP_SUFFIX, ()):
        if (base := offset_of(name, LOG_SUFFIX + SWAP_SUFFIX)) is None:
            continue
        path = f"{layout.directory}/{name}"
        try:
            log = files.open(path)
        except OSError as error:
            found.by_hand[path] = why(error)
            scope.findings.damage(path, None, why(error))
            continue
        try:
            for piece in Pieces(log, log.size(), base, base, base + 2**31):
                if piece.fault is not None:
                    found.bad_swaps += [name] if name not in found.bad_swaps else []
                    scope.findings.damage(path, piece.start, piece.fault, piece.end)
        finally:
            log.close()


def _size_of(files: Files, layout: Layout, base: int, found: Diagnosis, scope: Scope) -> int | None:
    path = layout.path(base, LOG_SUFFIX)
    try:
        file = files.open(path)
        try:
            return file.size()
        finally:
            file.close()
    except FileNotFoundError as error:
        if scope.in_use:
            scope.findings.note(path, None, "went away while it was looked at: a broker runs here")
            return None
        reason = why(error)
    except OSError as error:
        reason = why(error)
    scope.findings.damage(path, None, reason)
    found.by_hand[path] = reason
    return None


class _Segment:
    """One pass over one segment."""

    def __init__(
        self,
        files: Files,
        layout: Layout,
        base: int,
        size: int,
        found: Diagnosis,
        scope: Scope,
        reigns: Reigns,
        replay: Replay,
    ) -> None:
        self._files, self._layout, self._scope = files, layout, scope
        self._found, self._reigns, self._replay = found, reigns, replay
        self._path = layout.path(base, LOG_SUFFIX)
        self._is_last = base == layout.bases[-1]
        self._growing = self._is_last and scope.in_use
        self._state = SegmentState(base, size)
        self._unread = 0

    def run(self) -> None:
        found, state = self._found, self._state
        found.segments.append(state)
        found.bytes += state.size
        with ExitStack() as stack:
            try:
                log = self._files.open(self._path)
                stack.callback(log.close)
                self._go_over(log, stack)
            except OSError as error:
                self._scope.findings.damage(self._path, None, why(error))
                found.by_hand[self._path] = why(error)
        state.end_offset = found.end_offset

    def _go_over(self, log: File, stack: ExitStack) -> None:
        state, base = self._state, self._state.base_offset
        limit = self._layout.limit_of(base)
        offsets, times = self._index(INDEX_SUFFIX, stack), self._index(TIME_INDEX_SUFFIX, stack)
        by_offset = None if offsets is None else OffsetCursor(offsets, base, self._scope.findings)
        by_time = None if times is None else TimeCursor(times, base, self._scope.findings)
        txns_path = self._layout.path(base, TXN_INDEX_SUFFIX)
        txns = TxnCursor(self._txn_file(stack), txns_path, base, limit, self._scope.findings)
        pieces = Pieces(log, state.size, base, self._found.end_offset, limit, self._layout.ends_of(base))
        for piece in pieces:
            if piece.fault is not None:
                self._take_fault(piece)
                if by_offset is not None:
                    by_offset.step_over(piece.end)
                if by_time is not None:
                    by_time.step_over(pieces.next_offset)
            else:
                self._take_batch(piece, by_offset, by_time, txns)
            if piece.start != state.tail:
                self._found.end_offset = max(self._found.end_offset, pieces.next_offset)
            self._scope.progress(piece.end - piece.start)
        growing = self._growing
        if not self._is_last and self._found.end_offset < limit:
            self._replay.lose_track(self._found.end_offset)  # a gap follows
        for cursor in (by_offset, by_time):
            if cursor is not None:
                cursor.finish(growing=growing or state.tail is not None)
                state.stale_indexes |= not cursor.is_good
        is_cut = growing or state.tail is not None
        txns.finish(self._found.end_offset, self._replay.exact_until, growing=is_cut)
        # Kafka makes the indexes of an empty segment when the first record comes.
        state.stale_indexes |= state.size > 0 and (by_offset is None or by_time is None)
        state.stale_txns = not txns.is_good
        if self._unread:
            self._scope.findings.note(
                self._path,
                None,
                f"{self._unread} batches hold more than {BATCH_BYTES_MAX} bytes each, unopened",
            )

    def _take_batch(
        self, piece: Piece, by_offset: OffsetCursor | None, by_time: TimeCursor | None, txns: TxnCursor
    ) -> None:
        batch = piece.batch
        assert batch is not None
        self._found.batches += 1
        is_filler = (
            batch.records == 0 and batch.producer_id < 0
        )  # of a repair: nobody knows what it stands for
        if batch.magic == 2 and (is_filler or batch.base_offset > self._found.end_offset):
            self._replay.lose_track(self._found.end_offset)
        for cursor in (by_offset, by_time):
            if cursor is not None:
                cursor.meet(batch)
        self._reigns.take(batch, self._path)
        if (aborted := self._replay.take(piece)) is not None:
            txns.meet(aborted, exact=self._replay.is_exact, growing=self._growing)
        if piece.data is None:
            self._unread += 1
        elif (fault := records_fault(piece)) is not None:
            self._scope.findings.note(self._path, piece.start, fault)

    def _take_fault(self, piece: Piece) -> None:
        """Damage; or, at the end of the last segment, a tail that was never finished."""
        state = self._state
        self._replay.lose_track(self._found.end_offset)
        is_end = self._is_last and piece.end == state.size
        if is_end and self._growing:
            self._scope.findings.note(self._path, piece.start, f"{piece.fault}: it is being written just now")
            return
        if piece.overlaps:
            self._found.by_hand[self._path] = OVERLAPPING
        if len(state.damage) < STRETCHES_MAX:
            state.damage.append(Stretch(piece.start, piece.end, piece.mended_offset is not None))
        if is_end and piece.mended_offset is None:
            state.tail = piece.start
        behind = "" if not is_end else "; the log ends here"
        self._scope.findings.damage(self._path, piece.start, f"{piece.fault}{behind}", piece.end)

    def _index(self, suffix: str, stack: ExitStack) -> File | None:
        return self._beside(suffix, stack, must_exist=True)

    def _txn_file(self, stack: ExitStack) -> File | None:
        base = self._state.base_offset
        if not self._layout.has(base, TXN_INDEX_SUFFIX) and not self._scope.in_use:
            return None
        return self._beside(TXN_INDEX_SUFFIX, stack, must_exist=False)

    def _beside(self, suffix: str, stack: ExitStack, *, must_exist: bool) -> File | None:
        path = self._layout.path(self._state.base_offset, suffix)
        try:
            file = self._files.open(path)
            stack.callback(file.close)
            return file
        except OSError as error:
            is_gone = isinstance(error, FileNotFoundError)
            if is_gone and (self._scope.in_use or not self._layout.has(self._state.base_offset, suffix)):
                if must_exist and not self._scope.in_use and self._state.size:
                    self._scope.findings.stale(path, None, "is missing")
                return None
            self._scope.findings.damage(path, None, why(error))
            self._found.by_hand[path] = why(error)
        return None


def records_fault(piece: Piece) -> str | None:
    """What is wrong with the records of a batch whose checksum is right: it was written so."""
    assert piece.batch is not None and piece.data is not None
    batch = piece.batch
    try:
        if batch.magic == 2:
            if batch.records > batch.next_offset - batch.base_offset:
                raise invalid(f"{batch.records} records do not fit its offsets")
            batches.walk(piece.data)
        else:
            for _ in legacy.records_of(piece.data):
                pass
        return None
    except RecordError as error:
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            return f"its records were not looked at: {error.detail}"
        return f"its checksum is right, but its records cannot be read; it was written so: {error.detail}"


def _epochs(files: Files, directory: str, found: Diagnosis, reigns: Reigns, scope: Scope) -> None:
    path = f"{directory}/{epochs.FILE_NAME}"
    checkpoint = _read_epochs(files, directory, path, found, scope, has_epochs=bool(reigns.runs))
    if not reigns.is_complete:
        scope.findings.note(path, None, "too many epochs to compare it with the batches")
        found.epochs = checkpoint or []
        return
    found.epochs = believe(reigns.runs, checkpoint)
    if checkpoint is not None and found.epochs != checkpoint:
        found.bad_epochs = True
        wrong = contradicting(reigns.runs, checkpoint)[0]
        scope.findings.damage(
            path,
            None,
            f"contradicts the batches: from offset {wrong.start_offset} on they have epoch {wrong.epoch}",
        )
    if checkpoint and not scope.in_use and checkpoint[-1].start_offset > found.end_offset:
        last = checkpoint[-1]
        found.bad_epochs = True
        found.epochs = [entry for entry in found.epochs if entry.start_offset <= found.end_offset]
        scope.findings.damage(
            path,
            None,
            f"epoch {last.epoch} starts at {last.start_offset}, and the log ends at {found.end_offset}",
        )
    for run in contradicting(reigns.runs, found.epochs):
        for state in found.segments:
            overlaps = state.base_offset <= run.last_offset and run.start_offset < state.end_offset
            state.lying_epochs |= overlaps
        scope.findings.damage(
            run.path,
            run.position,
            f"leader epoch {run.epoch} contradicts {epochs.FILE_NAME} and the other batches",
        )


def _read_epochs(
    files: Files, directory: str, path: str, found: Diagnosis, scope: Scope, *, has_epochs: bool
) -> list[EpochStart] | None:
    try:
        if not read_small(files, path):  # first: nothing that is no file, or far too large
            raise FileNotFoundError(path)  # Kafka makes it empty, before there is an epoch
        loaded = LeaderEpochs(files, directory)
        loaded.load()
        return loaded.entries
    except FileNotFoundError:
        if has_epochs and not scope.in_use:
            found.bad_epochs = True
            scope.findings.stale(path, None, "is missing")
    except ProtocolError as error:
        found.bad_epochs = True
        scope.findings.damage(path, None, said_of(path, error))
    except OSError as error:
        scope.findings.damage(path, None, why(error))
        found.by_hand[path] = why(error)
    return None
