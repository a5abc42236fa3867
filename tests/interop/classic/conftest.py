"""One JVM with Apache's tools for all of these tests."""

from collections.abc import Iterator

import pytest

from tests.oracles.apache_tools import ApacheTools, Unavailable, apache_tools


@pytest.fixture(scope="session")
def tools() -> Iterator[ApacheTools]:
    try:
        with apache_tools() as found:
            yield found
    except Unavailable as error:
        pytest.skip(str(error))
