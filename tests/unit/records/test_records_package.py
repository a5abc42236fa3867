"""Which build of the package the tests are looking at."""

import os

import ottla.records
from ottla.records import record, section, varint


def test_the_package_says_whether_it_is_compiled():
    suffixes = {module.__file__.rpartition(".")[2] for module in (record, section, varint)}
    assert len(suffixes) == 1, "either all of the loops are compiled, or none"
    assert ottla.records.is_compiled() == (suffixes != {"py"})


def test_the_build_under_test_is_the_one_that_was_asked_for():
    expected = os.environ.get("OTTLA_EXPECT_COMPILED")
    if expected is not None:
        assert ottla.records.is_compiled() == (expected == "1"), section.__file__
