"""The wall clock, for decisions that cannot be taken back: what is deleted by its age does not come back.

A machine that thinks for an hour that it is next year would delete everything. So when the wall clock is suddenly ahead
of what was believed before and the time that passed since, that is doubted, and believed only after it has stood for a
day. What is deleted a day late costs room, no more.

Nobody counts the time while a broker does not run. What it believed is noted in its log directory, and read at the next
start: a clock that is far ahead of the note may be wrong, or the broker was away for so long. Both are doubted in the
same way, and the day goes on over restarts. Otherwise a broker that crashes and restarts while the clock is wrong would
take it for right; and a laptop that is off every night would never come to the end of a day.

A clock that goes back is obeyed at once, because that only keeps more. What was believed before is remembered for a
day: to return there is no jump.
"""

import json
import logging
from collections.abc import Sequence
from typing import NamedTuple

from ottla.core.clock import Clock
from ottla.storage import checkpoints
from ottla.storage.files import Files, write_whole

logger = logging.getLogger(__name__)

CHECKPOINT = "ottla-clock-checkpoint"
JUMP_MS_MAX = 300_000
BELIEVED_AFTER_MS = 86_400_000
AWAY_MS_MAX = BELIEVED_AFTER_MS * 11 // 24
"""As much of the time in which nobody counted is counted at once: two more jumps must not pass for a day."""
NOTED_EVERY_MS = 240_000  # less than a jump, so that a restart after a crash is none

_SIGNS_OF_LIFE = (*checkpoints.OFFSETS, checkpoints.CLEANER, checkpoints.META_PROPERTIES)
_TIME_MAX = 2**63 - 1


class Noted(NamedTuple):
    """What outlives a restart."""

    believed_ms: int
    """The time that was believed."""
    wall_ms: int
    """What the wall clock said at that moment."""
    stood_ms: int = 0
    """For how long the two have been apart."""


class SoberClock:
    """One for everything in a broker that deletes by age."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._monotonic = clock.monotonic_ms()
        self._wall = self._believed = clock.now_ms()
        self._stood_ms = 0
        self._is_complained = False

    def now_ms(self) -> int:
        wall, monotonic = self._clock.now_ms(), self._clock.monotonic_ms()
        passed = monotonic - self._monotonic
        self._observe(wall, passed)
        self._monotonic = monotonic
        if not self._is_ahead:
            self._is_complained = False
        elif not self._is_complained:
            self._is_complained = True
            ahead = (wall - self._believed) // 1000
            logger.warning("the clock jumped ahead by %d s; nothing is deleted by that time for a day", ahead)
        return min(self._wall, self._believed)

    @property
    def noted(self) -> Noted:
        self.now_ms()
        return Noted(self._believed, self._wall, self._stood_ms)

    def resume(self, noted: Noted) -> None:
        """Go on from what was noted when the broker last ran."""
        self._believed, self._wall, self._stood_ms = noted
        self._monotonic = self._clock.monotonic_ms()
        self._observe(self._clock.now_ms(), 0)
        if self._is_ahead:
            self._is_complained = True
            away = self._wall - self._believed
            logger.log(
                logging.INFO if away < BELIEVED_AFTER_MS else logging.WARNING,
                "this broker was away for %d s, if the clock is right; nothing is deleted by that time for a day",
                away // 1000,
            )

    @property
    def _is_ahead(self) -> bool:
        return self._wall - self._believed > JUMP_MS_MAX

    def _observe(self, wall: int, passed: int) -> None:
        """Time has `passed`, as far as anybody counted, and the wall clock says this now."""
        was_off = _side(self._wall - self._believed)
        moved = wall - self._wall
        self._wall = wall
        self._believed += passed
        is_off = _side(wall - self._believed)
        if is_off == 0:
            self._believed = wall
        if is_off == 0 or is_off != was_off:
            self._stood_ms = 0
            return
        self._stood_ms += max(passed, min(moved, AWAY_MS_MAX))
        if self._stood_ms >= BELIEVED_AFTER_MS:
            self._believed, self._stood_ms = wall, 0


def _side(difference_ms: int) -> int:
    """1 for ahead, -1 for behind, 0 for about right."""
    return 0 if abs(difference_ms) <= JUMP_MS_MAX else 1 if difference_ms > 0 else -1


# --- the note ------------------------------------------------------------------------------------------------------


def read_note(files: Files, directories: Sequence[str]) -> Noted | None:
    """What was noted in these log directories, or when the last broker wrote there; None if all is new.

    To be read before anything is written there."""
    noted = [each for path in directories if (each := _read(files, f"{path}/{CHECKPOINT}")) is not None]
    if noted:
        return max(noted)
    written = max((_last_written_ms(files, path) for path in directories), default=0)
    return Noted(written, written) if written > 0 else None


def write_note(files: Files, directory: str, noted: Noted) -> None:
    data = {
        "version": 0,
        "believed_ms": noted.believed_ms,
        "wall_ms": noted.wall_ms,
        "stood_ms": noted.stood_ms,
    }
    write_whole(files, f"{directory}/{CHECKPOINT}", json.dumps(data).encode())


def _read(files: Files, path: str) -> Noted | None:
    """A note that cannot be read, or makes no sense, is as good as none."""
    try:
        data = json.loads(files.read(path))
        noted = Noted(*(data[name] for name in Noted._fields))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        logger.warning("%s is ignored: %s", path, error)
        return None
    is_possible = data.get("version") == 0 and all(
        type(each) is int and 0 <= each <= _TIME_MAX for each in noted
    )
    if not is_possible:
        logger.warning("%s is ignored: it makes no sense", path)
    return noted if is_possible else None


def _last_written_ms(files: Files, directory: str) -> int:
    times = [0]
    for name in _SIGNS_OF_LIFE:
        try:
            times.append(files.modified_ms(f"{directory}/{name}"))
        except OSError:
            continue
    return max(times)
