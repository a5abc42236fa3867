"""What all tests share: the same examples on every machine, unless somebody wants to explore.

A run that decides whether a change may land must not depend on luck. `make explore` draws new examples, many more of
them, and is where the rare ones are found; what it finds becomes a test of its own.
"""

import logging
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("same", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("explore" if os.environ.get("OTTLA_EXPLORE") else "same")


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell without job control starts what runs in the background like this, and children would inherit it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _logs_are_as_they_were() -> Iterator[None]:
    """Commands run in the process of a test: they silence the client, and log to a stderr that is gone later."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    logging.getLogger("ottla.client").setLevel(logging.NOTSET)
    for logger in map(logging.getLogger, (None, "ottla.client", "ottla.network")):
        for handler in [each for each in logger.handlers if type(each) is logging.StreamHandler]:
            logger.removeHandler(handler)
