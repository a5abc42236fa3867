"""Which transactions a cleaning passes, and what that means for their records and markers.

Records of an aborted transaction go at once: nobody who reads committed records sees them. A marker goes when nothing
of its transaction is left in the log, but not in the same cleaning: a reader that is in the midst of the transaction
still needs it, so it gets a delete horizon first.
"""

from collections.abc import Iterable

from ottla.records.batch import BatchHeader
from ottla.records.control import ControlType
from ottla.storage.txn_index import AbortedTxn


class PassedTxns:
    """Follows one pass over a log, batch by batch, in the order of offsets."""

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._coming = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)  # the next one last
        self._aborted: dict[int, AbortedTxn] = {}  # those that are under way, by producer
        self._seen: set[int] = set()  # producers of aborted ones of which a batch was passed
        self._committed: set[int] = set()  # producers of others of which a batch was passed

    def is_aborted(self, batch: BatchHeader) -> bool:
        """Pass a batch of data: do its records belong to a transaction that was aborted?"""
        if self._coming:
            self._begin_up_to(batch.last_offset)
        if not batch.is_transactional:
            return False
        if batch.producer_id in self._aborted:
            self._seen.add(batch.producer_id)
            return True
        self._committed.add(batch.producer_id)
        return False

    def end(self, batch: BatchHeader, kind: ControlType | None) -> tuple[bool, AbortedTxn | None]:
        """Pass a control batch: is it a marker of which nothing is left, and if not, was its transaction aborted?"""
        self._begin_up_to(batch.last_offset)
        producer = batch.producer_id
        if kind is ControlType.ABORT:
            aborted = self._aborted.pop(producer, None)
            if aborted is None or producer not in self._seen:
                return True, None
            self._seen.discard(producer)
            return False, aborted
        if kind is ControlType.COMMIT:
            if producer in self._committed:
                self._committed.discard(producer)
                return False, None
            return True, None
        return False, None

    def _begin_up_to(self, offset: int) -> None:
        while self._coming and self._coming[-1].first_offset <= offset:
            aborted = self._coming.pop()
            self._aborted.setdefault(aborted.producer_id, aborted)
