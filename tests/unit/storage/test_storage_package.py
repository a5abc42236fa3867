"""Which build of the package the tests are looking at."""

import os

from ottla.storage import check, index, log, scan, segment, validation


def test_the_build_under_test_is_the_one_that_was_asked_for():
    kinds = {module.__file__.rpartition(".")[2] for module in (check, index, log, scan, segment, validation)}
    assert len(kinds) == 1, "either all of the hot path is compiled, or none"
    expected = os.environ.get("OTTLA_EXPECT_COMPILED")
    if expected is not None:
        assert (kinds != {"py"}) == (expected == "1"), log.__file__
