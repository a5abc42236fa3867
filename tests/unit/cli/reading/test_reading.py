"""An interrupt is noted once, and taken seriously the second time."""

import signal

import pytest

from ottla.cli.reading.reading import Interrupts
from ottla.client.errors import WakeupError


def test_the_first_interrupt_wakes_and_is_raised_in_the_end():
    woken, done = [], []
    interrupts = Interrupts(lambda: woken.append(True))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interrupts.noted():
        signal.raise_signal(signal.SIGINT)
        done.append(True)
        raise WakeupError("wakeup() was called")
    assert woken and done and signal.getsignal(signal.SIGINT) is before


def test_the_second_interrupt_does_not_wait():
    with pytest.raises(KeyboardInterrupt), Interrupts(lambda: None).noted():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it went on")


def test_without_an_interrupt_nothing_is_raised():
    with Interrupts(lambda: None).noted():
        pass
