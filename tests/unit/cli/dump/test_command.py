"""`ottla log dump` as a whole: hostile files, and memory that does not grow with them."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.cli.dump.files import expand
from ottla.cli.dump.indexes import Check
from ottla.cli.dump.readers import read
from ottla.cli.dump.segments import Options
from ottla.records.builder import build
from tests.unit.cli.dump.helpers import SEGMENT, batches, dump, record, write

NAMES = [f"{SEGMENT}{suffix}" for suffix in (".log", ".index", ".timeindex", ".txnindex", ".snapshot")]
NAMES += ["leader-epoch-checkpoint", "partition.metadata", "replication-offset-checkpoint"]


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("hostile")


@pytest.mark.parametrize("name", NAMES)
@given(data=st.binary(max_size=200))
@settings(max_examples=60, deadline=None)
def test_no_bytes_upset_a_reader(directory, name, data):
    path = write(directory, name, data)
    for check in Check:
        for target in expand([str(path)]):
            list(read(target, Options(deep=True, data=True), check))


@given(at=st.integers(0, 157), value=st.integers(0, 255))
@settings(max_examples=200, deadline=None)
def test_no_damaged_batch_upsets_a_reader(directory, at, value):
    data = bytearray(b"".join(batches(2)))
    data[at] = value
    path = write(directory, NAMES[0], bytes(data))
    list(read(next(expand([str(path)])), Options(deep=True, data=True), Check.SHOW))


def test_memory_does_not_grow_with_the_segment(tmp_path):
    batch = build([record(0, value=bytes(10_000))])
    path = write(tmp_path, NAMES[0], batch * 2000)
    target = next(expand([str(path)]))
    tracemalloc.start()
    try:
        for _ in read(target, Options(deep=True), Check.SHOW):
            pass
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000  # of 20 MB


@pytest.mark.parametrize(
    "options", [("--key-decoder", "avro"), ("--max-bytes", "-1"), ("--max-message-size", "0")]
)
def test_options_that_cannot_be_are_usage_errors(tmp_path, options):
    ran = dump(*options, write(tmp_path, NAMES[0], b""))
    assert ran.code == 2
    assert options[0] in ran.err
