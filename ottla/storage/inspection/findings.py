"""What an inspection finds: a file, a byte in it, and a sentence.

damage   bytes are not what was written, or a file says what cannot be: records may be lost or misread
stale    something that follows from the records disagrees with them, and can be made again: indexes, snapshots
note     worth knowing, nothing to do: what a running broker is writing, what a crash left, what cannot be judged
"""

import enum
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

FINDINGS_PER_FILE_MAX = 100


class Severity(enum.Enum):
    DAMAGE = "damage"
    STALE = "stale"
    NOTE = "note"


class Finding(NamedTuple):
    severity: Severity
    path: str
    position: int | None
    """The byte where it begins; None if it is about the file as a whole."""
    reason: str
    end: int | None = None
    """The byte behind it, where that is known."""

    def __str__(self) -> str:
        at = "" if self.position is None else f": byte {self.position}"
        until = "" if self.position is None or self.end is None else f" to {self.end}"
        return f"{self.path}{at}{until}: {self.reason}"


class Findings:
    """Counts what is found and passes it on: of each file no more than a reader can take in."""

    def __init__(self, tell: Callable[[Finding], None] = lambda finding: None) -> None:
        self._tell = tell
        self._told: Counter[str] = Counter()
        self.counts: Counter[Severity] = Counter()

    def add(
        self, severity: Severity, path: str, position: int | None, reason: str, end: int | None = None
    ) -> None:
        self.counts[severity] += 1
        self._told[path] += 1
        if self._told[path] <= FINDINGS_PER_FILE_MAX:
            self._tell(Finding(severity, path, position, reason, end))
        elif self._told[path] == FINDINGS_PER_FILE_MAX + 1:
            self._tell(
                Finding(severity, path, position, f"{reason}; what follows in this file is only counted")
            )

    def damage(self, path: str, position: int | None, reason: str, end: int | None = None) -> None:
        self.add(Severity.DAMAGE, path, position, reason, end)

    def stale(self, path: str, position: int | None, reason: str) -> None:
        self.add(Severity.STALE, path, position, reason)

    def note(self, path: str, position: int | None, reason: str) -> None:
        self.add(Severity.NOTE, path, position, reason)

    def note_all(self, directory: str, names: Sequence[str], reason: str) -> None:
        """Files of one kind: one line for all of them."""
        if len(names) == 1:
            self.note(f"{directory}/{names[0]}", None, reason)
        elif names:
            self.note(directory, None, f"{names[0]} and {len(names) - 1} more: {reason}")

    @property
    def is_clean(self) -> bool:
        """Notes are no reproach."""
        return not self.counts[Severity.DAMAGE] and not self.counts[Severity.STALE]
