"""One JVM with Apache's tools for all of these tests, and the files that a module's command lines name."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.oracles.apache_tools import ApacheTools, Unavailable, apache_tools


@pytest.fixture(scope="session")
def tools() -> Iterator[ApacheTools]:
    try:
        with apache_tools() as found:
            yield found
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def files(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A directory with the `FILES` of the module."""
    for name, text in request.module.FILES.items():
        (tmp_path / name).write_text(text)
    return str(tmp_path)
