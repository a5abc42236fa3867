"""One partition as its leaders see it: append, a high watermark that follows, and failover.

The replicas themselves are not simulated, their promise is: whoever is elected has everything below the high watermark,
and of what lies above it some part, whole batches, that the seed decides. A leader that was deposed need not know. It
goes on appending to a log that nobody else has, and its high watermark stays where it was.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from ottla.core.errors import ErrorCode, KafkaError
from ottla.testing.simulation.world import World

_DETECTED_MS = (50, 400)  # how long it takes until a dead leader is missed


class Record(NamedTuple):
    """What was appended, in which leader epoch, and whether its batch ends with it."""

    epoch: int
    item: Any
    ends_batch: bool


class Follower(Protocol):
    """Whoever wants to lead the partition on one node."""

    name: str

    def lead(self, leadership: "Leadership") -> None: ...

    def resign(self, epoch: int) -> None:
        """Somebody leads in a later epoch than this one."""


class Leadership:
    """The log of one leader in one epoch."""

    def __init__(
        self, log: "ReplicatedLog", name: str, epoch: int, records: list[Record], high_watermark: int
    ) -> None:
        self.name = name
        self.epoch = epoch
        self.records = records
        self.high_watermark = high_watermark
        self._log = log
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()

    @property
    def end_offset(self) -> int:
        return len(self.records)

    def append(self, items: Sequence[Any]) -> int:
        """Write one batch; returns the offset behind it. Raises KafkaError when the partition takes no writes now."""
        self._log.check_writable()
        self.records += [Record(self.epoch, item, False) for item in items[:-1]]
        self.records.append(Record(self.epoch, items[-1], True))
        self._log.replicate(self)
        return len(self.records)

    def when_committed(self, end_offset: int, call: Callable[[], None]) -> None:
        """Call when the high watermark has come to `end_offset`: at once, if it is there already."""
        if self.high_watermark >= end_offset:
            call()
        else:
            self._waiting.append((end_offset, call))

    def advance(self, high_watermark: int) -> None:
        self.high_watermark = max(self.high_watermark, high_watermark)
        while self._waiting and self._waiting[0][0] <= self.high_watermark:
            self._waiting.popleft()[1]()


class ReplicatedLog:
    """A partition. `committed` is the truth: it only grows. `watchers` are told of each record that joins it."""

    def __init__(
        self, world: World, name: str, *, replication_ms: tuple[int, int] = (1, 25), refusal: float = 0.0
    ) -> None:
        self.world = world
        self.name = name
        self.epoch = -1
        self.committed: list[Any] = []
        self.watchers: list[Callable[[int, Any], None]] = []
        self.refusal = refusal
        """How likely an append is refused: too few replicas in sync."""
        self.current: Leadership | None = None
        self._followers: dict[str, Follower] = {}
        self._replication_ms = replication_ms
        self._chance = world.stream(f"log {name}")

    @property
    def leader(self) -> str | None:
        return None if self.current is None else self.current.name

    def join(self, follower: Follower) -> None:
        """One more node that may lead."""
        self._followers[follower.name] = follower

    def check_writable(self) -> None:
        if self.refusal and self._chance.random() < self.refusal:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{self.name} takes no writes at the moment")

    def replicate(self, leadership: Leadership) -> None:
        """The followers fetch what was appended; some time later the high watermark shows it."""
        delay_ms = self._chance.randint(*self._replication_ms)
        self.world.after(delay_ms, self._replicated, leadership, leadership.end_offset, node=leadership.name)

    def _replicated(self, leadership: Leadership, end_offset: int) -> None:
        if leadership is not self.current:
            return  # nobody follows a leader of the past
        for offset in range(len(self.committed), end_offset):
            item = leadership.records[offset].item
            self.committed.append(item)
            for watch in self.watchers:
                watch(offset, item)
        leadership.advance(end_offset)

    # --- failover

    def crashed(self, name: str) -> None:
        """A node died. If it led, that is noticed after a while."""
        if name == self.leader:
            self.world.after(self._chance.randint(*_DETECTED_MS), self._replace, self.epoch)

    def _replace(self, epoch: int) -> None:
        if epoch == self.epoch:
            self.elect()

    def elect(self, name: str | None = None) -> None:
        """Let somebody lead, `name` or whoever the seed picks among those alive. The old leader may hear of it late."""
        alive = [each for each in self._followers if self.world.is_up(each)]
        if name is None and not alive:
            self.world.after(self._chance.randint(*_DETECTED_MS), self._replace, self.epoch)
            return
        name = self._chance.choice(alive) if name is None else name
        old, self.epoch = self.current, self.epoch + 1
        records = [] if old is None else old.records[: self._survivors(old)]
        self.current = leadership = Leadership(self, name, self.epoch, records, len(self.committed))
        self.world.note(f"{name} leads {self.name} in epoch {self.epoch}, {len(records)} records are left")
        follower = self._followers[name]
        self.world.after(self._chance.randint(1, 20), follower.lead, leadership, node=name)
        self.replicate(leadership)
        if old is not None and old.name != name:
            self._depose(old)

    def _survivors(self, old: Leadership) -> int:
        """Everything committed, and whole batches of the rest."""
        ends = [
            offset + 1
            for offset in range(len(self.committed), old.end_offset)
            if old.records[offset].ends_batch
        ]
        return self._chance.choice([len(self.committed), *ends])

    def _depose(self, old: Leadership) -> None:
        delay_ms = self._chance.choice((1, 10, 100, 1_000))
        if self.world.is_up(old.name):
            self.world.after(delay_ms, self._followers[old.name].resign, self.epoch, node=old.name)
