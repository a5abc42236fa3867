"""What a client that keeps trying has to say: its first warning, on stderr. The next when it has succeeded since."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.cli.tables import printable, say

CLIENT = "ottla.client"
CONNECTIONS = "ottla.client.connections"
"""Only what cannot be reached."""


class Remarks(logging.Handler):
    """Made by `remarks`. `relieve` is called when records come: a later failure is worth another line."""

    def __init__(self, who: str, *, is_quiet: bool) -> None:
        super().__init__(logging.WARNING)
        self._who, self._is_silent = who, is_quiet
        self._is_said = False

    def emit(self, record: logging.LogRecord) -> None:
        self.note(record.getMessage())

    def note(self, sentence: str) -> None:
        if not self._is_said and not self._is_silent:
            self._is_said = True
            say(f"{self._who}: {printable(sentence)}; it goes on as soon as that is over")

    def relieve(self) -> None:
        self._is_said = False


@contextmanager
def remarks(who: str, *, is_quiet: bool, about: str = CLIENT) -> Iterator[Remarks]:
    """While the block runs, the client's warnings come here and go nowhere else."""
    logger = logging.getLogger(about)
    level, propagates = logger.level, logger.propagate
    handler = Remarks(who, is_quiet=is_quiet)
    logger.addHandler(handler)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates
