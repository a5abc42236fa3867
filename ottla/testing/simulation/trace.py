"""What happened in a run, line by line: to be printed when it fails, and to be compared with another run."""

import hashlib
from collections import deque
from typing import NamedTuple


class Line(NamedTuple):
    """One event. `number` counts all events of the run, also those that are no longer kept."""

    number: int
    time_ms: int
    text: str

    def __str__(self) -> str:
        return f"{self.number:>6} {self.time_ms:>7} ms  {self.text}"


class Trace:
    """Keeps the last `lines_max` lines, and a digest over all of them: equal digests are equal runs."""

    def __init__(self, lines_max: int = 2_000) -> None:
        self.lines: deque[Line] = deque(maxlen=lines_max)
        self.count = 0
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, time_ms: int, text: str) -> None:
        self.lines.append(Line(self.count, time_ms, text))
        self.count += 1
        self._hash.update(f"{time_ms} {text}\n".encode())

    def digest(self) -> str:
        return self._hash.hexdigest()

    def tail(self, count: int = 40) -> str:
        """The last lines, as they are printed under a violation."""
        return "\n".join(str(line) for line in list(self.lines)[-count:])

    def __str__(self) -> str:
        return self.tail(len(self.lines))

    def first_difference(self, other: "Trace") -> str | None:
        """Where two runs part, as far as both still know; None if they are the same."""
        if self.digest() == other.digest():
            return None
        theirs = {line.number: line for line in other.lines}
        for line in self.lines:
            if line.number in theirs and theirs[line.number] != line:
                return f"{line}\n{theirs[line.number]}"
        return f"one run has {self.count} lines, the other {other.count}; what they still keep is the same"
