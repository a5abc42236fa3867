"""Those who read: consumers with a partition of their own choice, from leaders or followers."""

from ottla.core.errors import ErrorCode
from ottla.core.ids import TopicPartition
from ottla.storage.txn_index import AbortedTxn
from ottla.testing.history import HistoryClient, Poll
from ottla.testing.simulation.cluster.clients import Client, Cluster
from ottla.testing.simulation.cluster.messages import Read, ReadAnswer
from ottla.testing.simulation.cluster.object_log import Kind, Record
from ottla.testing.simulation.cluster.schedule import Work
from ottla.testing.simulation.cluster.settings import TOPIC

READ_MS = 45
_ANYBODY = 0.1


class Reader(Client):
    """Reads one partition from its start, and writes down what it saw."""

    def __init__(self, cluster: Cluster, name: str, work: Work, history: HistoryClient) -> None:
        super().__init__(cluster, name)
        self.where = TopicPartition(TOPIC, work.partition)
        self.offset = 0
        self.read = 0
        self._work = work
        self._history = history
        self._history.assign([str(self.where)]).ok()
        self.after(work.at_ms + READ_MS, self._next)

    def _next(self) -> None:
        place = self._place()
        if place is None:
            self.learn(lambda: self.later(self._next))
            return
        state, offset = self.states[self.where], self.offset
        epoch = state.leader_epoch if self.chance.random() < 0.5 else -1
        committed = self._work.read_committed
        self.ask(place, lambda number: Read(number, self.where, offset, epoch, committed), self._answered)

    def _place(self) -> str | None:
        state = self.states.get(self.where)
        if state is None:
            return None
        if self._work.from_follower or self.chance.random() < _ANYBODY:
            return f"b{self.chance.choice(state.replicas)}"
        return self.leader_of(self.where)

    def _answered(self, answer: ReadAnswer | None) -> None:
        if answer is None or answer.error is not ErrorCode.NONE:
            self.learn(lambda: self.later(self._next))
            return
        values = visible(answer.records, answer.aborted, self._work.read_committed)
        if answer.records:
            self.offset = answer.records[-1].offset + 1
        if values:
            self.read += len(values)
            self._history.poll().ok([Poll({str(self.where): values})])
        self.after(READ_MS, self._next)


def visible(
    records: tuple[Record, ...], aborted: tuple[AbortedTxn, ...], read_committed: bool
) -> list[tuple[int, str]]:
    """What a consumer hands to its application: no markers, and nothing of aborted transactions."""
    return [
        (record.offset, record.value)
        for record in records
        if not record.is_marker and not (read_committed and _is_aborted(record, aborted))
    ]


def _is_aborted(record: Record, aborted: tuple[AbortedTxn, ...]) -> bool:
    return record.kind is Kind.IN_TRANSACTION and any(
        each.producer_id == record.producer_id and each.first_offset <= record.offset <= each.last_offset
        for each in aborted
    )
