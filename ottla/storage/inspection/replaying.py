"""What the batches say of their producers, held against the snapshots on the way.

The comparison is exact as long as nothing is missing: from the start of the log, or from the snapshot at its first
segment, to the first gap or damaged batch. Behind that a snapshot is only asked whether it could be, and is believed.
"""

from ottla.core.errors import ProtocolError
from ottla.records.batch import read_header
from ottla.storage import snapshots
from ottla.storage.files import Files
from ottla.storage.inspection.findings import Findings
from ottla.storage.inspection.layout import Layout, read_small, said_of, why
from ottla.storage.inspection.pieces import Piece
from ottla.storage.producers import NO_OFFSET, Producer, Producers
from ottla.storage.replay import apply
from ottla.storage.segment import file_name
from ottla.storage.txn_index import AbortedTxn

PRODUCERS_MAX = 1_000_000


class Replay:
    """Follows the batches of a log from its first one."""

    def __init__(self, files: Files, layout: Layout, findings: Findings, *, in_use: bool) -> None:
        self._in_use = in_use
        self._files = files
        self._layout = layout
        self._findings = findings
        self._waiting = list(layout.snapshots)
        self.producers = Producers()
        self.bad: list[int] = []
        """Offsets of the snapshots that are wrong."""
        self.by_hand: dict[str, str] = {}
        first = layout.bases[0] if layout.bases else 0
        self.exact_until: int | None = first or None
        """From this offset on, batches that matter may be missing; None if none is."""
        self._is_off = False
        self._writing: set[int] = set()  # producers of which a batch was seen since their last marker

    def start(self, first_base: int) -> None:
        """Begin at the first segment: with what the snapshot there knows, if there is one."""
        early = [offset for offset in self._waiting if offset < first_base]
        del self._waiting[: len(early)]
        names = [file_name(offset, snapshots.SUFFIX) for offset in early]
        self._findings.note_all(
            self._layout.directory, names, "lies before the first segment; removed by the next start"
        )
        if first_base and self._waiting and self._waiting[0] == first_base:
            known = self._read(self._waiting.pop(0))
            if known is not None:
                self.producers.restore(known)
                self.exact_until = None

    @property
    def is_exact(self) -> bool:
        return self.exact_until is None

    def lose_track(self, offset: int) -> None:
        """What was written from `offset` on is not all there."""
        if self.exact_until is None:
            self.exact_until = offset

    def take(self, piece: Piece) -> AbortedTxn | None:
        """A whole batch. Returns the transaction that it ends, if that was aborted and anything of it is left: of one
        that is compacted away up to its end only snapshots know, and an index that is made anew does not."""
        batch = piece.batch
        assert batch is not None
        self.reach(batch.base_offset)
        if batch.magic < 2 or batch.producer_id < 0 or self._is_off:
            return None
        if piece.data is None or len(self.producers) > PRODUCERS_MAX:
            self._is_off = True
            self.lose_track(batch.base_offset)
            return None
        ended: list[AbortedTxn] = []
        header = read_header(piece.data)
        apply(self.producers, ended, header, piece.data)
        is_left = self.is_exact or header.producer_id in self._writing
        if header.is_control:
            self._writing.discard(header.producer_id)
        else:
            self._writing.add(header.producer_id)
        return ended[0] if ended and is_left else None

    def reach(self, offset: int) -> None:
        """All batches below `offset` have gone by: the snapshots up to there can be judged."""
        while self._waiting and self._waiting[0] <= offset:
            at = self._waiting.pop(0)
            if (known := self._read(at)) is not None:
                self._compare(at, known)

    def finish(self, end_offset: int, *, growing: bool) -> None:
        self.reach(end_offset)
        for offset in self._waiting if not growing else ():
            path = self._layout.path(offset, snapshots.SUFFIX)
            self._findings.stale(path, None, f"speaks of offset {offset}, and the log ends at {end_offset}")
            self.bad.append(offset)

    def _read(self, offset: int) -> list[Producer] | None:
        path = self._layout.path(offset, snapshots.SUFFIX)
        try:
            return snapshots.decode(read_small(self._files, path), path)
        except ProtocolError as error:
            self._complain(offset, None, said_of(path, error).strip())
        except OSError as error:
            if self._in_use and isinstance(error, FileNotFoundError):
                return None  # the broker has just removed it
            self.by_hand[path] = why(error)
            self._findings.damage(path, None, why(error))
        return None

    def _compare(self, offset: int, known: list[Producer]) -> None:
        for number, producer in enumerate(known):
            position = snapshots.HEADER.size + number * snapshots.ENTRY.size
            if (fault := self._fault(offset, producer)) is not None:
                self._complain(offset, position, f"producer {producer.producer_id} {fault}")
                return
        if not self.is_exact:
            self.producers.restore(known)  # it knows what may be gone from the log by now
            return
        ids = {producer.producer_id for producer in known}
        for seen in self.producers.all():
            # One that was silent for long is forgotten, unless a transaction of it is open.
            if seen.producer_id not in ids and seen.txn_first_offset != NO_OFFSET:
                self._complain(
                    offset, None, f"lacks producer {seen.producer_id}, which has a transaction open"
                )
                return

    def _fault(self, offset: int, producer: Producer) -> str | None:
        last = producer.batches[-1].last_offset if producer.batches else NO_OFFSET
        if last >= offset or producer.txn_first_offset >= offset:
            return f"wrote at offset {max(last, producer.txn_first_offset)}, behind the snapshot"
        if not self.is_exact:
            return None
        seen = self.producers.get(producer.producer_id)
        if seen is None:
            return "wrote nothing that is in the log"
        # One that was forgotten, and then ended a transaction in which it wrote nothing here, has no batches.
        is_new = not producer.batches and producer.epoch == seen.epoch
        if _deciding(seen) != _deciding(producer) and not (is_new and seen.txn_first_offset == NO_OFFSET):
            return f"is {_said(producer)}, and the log says {_said(seen)}"
        return None

    def _complain(self, offset: int, position: int | None, reason: str) -> None:
        self._findings.stale(self._layout.path(offset, snapshots.SUFFIX), position, reason)
        self.bad.append(offset)


def _deciding(producer: Producer) -> tuple[int, int, int, int]:
    """What decides whether it may write, and what readers may see."""
    last = producer.batches[-1].last_offset if producer.batches else NO_OFFSET
    return producer.epoch, producer.last_sequence, last, producer.txn_first_offset


def _said(producer: Producer) -> str:
    epoch, sequence, last, first = _deciding(producer)
    return f"at epoch {epoch}, sequence {sequence}, offset {last}, transaction from {first}"
