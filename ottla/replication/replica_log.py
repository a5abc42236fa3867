"""What a partition needs of its log. The log on the disk has it, and so has the one that the simulator keeps in a list.

Offsets, epochs and truncation are all that replication is about; what a record is, only the log knows.
"""

from typing import Any, Protocol

from ottla.storage.epochs import EpochEnd


class ReplicaEpochs(Protocol):
    """Which leaders wrote the log: each epoch, and the offset at which it began."""

    @property
    def latest(self) -> int | None: ...

    def epoch_at(self, offset: int) -> int | None: ...

    def end_of(self, epoch: int, log_end_offset: int) -> EpochEnd | None:
        """Where `epoch` ends, or the largest smaller one that ruled here; None if it is newer than all."""


class ReplicaLog(Protocol):
    """The log of one replica."""

    log_start_offset: int
    end_offset: int
    high_watermark: int

    @property
    def epochs(self) -> ReplicaEpochs: ...

    @property
    def last_stable_offset(self) -> int: ...

    def append(self, data: Any, leader_epoch: int, now_ms: int, *, client: bool = True) -> Any: ...

    def append_fetched(self, data: Any, now_ms: int, epoch_max: int) -> Any: ...

    def advance_high_watermark(self, offset: int) -> None: ...

    def advance_log_start(self, offset: int) -> None: ...

    def truncate_to(self, offset: int) -> None: ...

    def restart_at(self, offset: int) -> None: ...
