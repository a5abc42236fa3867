"""How often, and how long to wait in between."""

import pytest

from ottla.client.helpers.attempts import Attempts, attempted, drop, fail
from ottla.client.helpers.faces import drive
from ottla.client.records import ConsumerRecord
from ottla.core.errors import ConfigError

RECORD = ConsumerRecord("t", 0, 5, 0, None, b"")


def test_pauses_grow_up_to_a_limit_and_end_with_the_last_attempt():
    attempts = Attempts(count=6, first_pause_ms=10, pause_ms_max=50)
    assert [attempts.pause_ms(each, ValueError()) for each in range(1, 7)] == [10, 20, 40, 50, 50, None]
    assert Attempts(count=10**9).pause_ms(10**8, ValueError()) == 30_000


def test_an_error_that_will_come_again_is_not_waited_for():
    attempts = Attempts(is_worthwhile=lambda error: isinstance(error, OSError))
    assert attempts.pause_ms(1, ValueError()) is None
    assert attempts.pause_ms(1, OSError()) == 100


@pytest.mark.parametrize("wrong", [{"count": 0}, {"first_pause_ms": -1}, {"factor": 0.5}])
def test_numbers_that_cannot_be_are_refused(wrong):
    with pytest.raises(ConfigError):
        Attempts(**wrong)


def test_a_record_is_tried_until_it_succeeds():
    errors, pauses = [ValueError(), ValueError()], []

    def handle(record):
        if errors:
            raise errors.pop()

    drive(attempted(RECORD, handle, Attempts(first_pause_ms=10), fail, pauses.append))
    assert pauses == [10, 20]


def test_in_the_end_somebody_else_decides(caplog):
    def handle(record):
        raise ValueError("no")

    drive(attempted(RECORD, handle, Attempts(count=2), drop, lambda pause_ms: None))
    assert "the record at offset 5 of t-0 was dropped after 2 attempts" in caplog.text
    with pytest.raises(ValueError, match="no"):
        drive(attempted(RECORD, handle, Attempts(count=2), fail, lambda pause_ms: None))
