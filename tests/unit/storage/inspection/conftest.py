"""A directory of logs that is whole, and a copy of it for every test to spoil."""

import pytest

from ottla.testing.disk import SimDisk
from tests.unit.storage.inspection.logs import DATA, copy_of, everything, made


@pytest.fixture(scope="module")
def whole() -> dict[str, bytes]:
    disk = SimDisk()
    made(disk)
    return everything(disk, DATA)


@pytest.fixture
def disk(whole) -> SimDisk:
    return copy_of(whole)
