"""What all tests share: the same examples on every machine, unless somebody wants to explore.

A run that decides whether a change may land must not depend on luck. `make explore` draws new examples, many more of
them, and is where the rare ones are found; what it finds becomes a test of its own.
"""

import logging
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

settings.register_profile("same", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("explore" if os.environ.get("OTTLA_EXPLORE") else "same")


@pytest.fixture(autouse=True)
def _the_client_is_heard() -> Iterator[None]:
    """Commands run in the process of a test, and silence the client's log: they say themselves what went wrong."""
    logger = logging.getLogger("ottla.client")
    level = logger.level
    yield
    logger.setLevel(level)
