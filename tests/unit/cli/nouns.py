"""One broker for a file of tests, commands run against it, and a terminal where somebody answers."""

import io
import itertools

import pytest

from ottla.testing import Broker
from tests.unit.cli.states import Asked, runner

_numbers = itertools.count()


class Terminal(io.StringIO):
    """Stdin with somebody in front of it."""

    def isatty(self):
        return True


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def asked(broker):
    return Asked(broker.bootstrap_server)


@pytest.fixture
def topic(asked):
    """With two partitions, and a name that no other test has."""
    return asked.create(f"orders-{next(_numbers)}", 2)


@pytest.fixture
def ottla(asked, capsys, monkeypatch):
    """Runs `ottla ...`. `says` is what somebody types; without it there is no terminal."""
    run = runner(capsys, asked.address)

    def ottla(*args, says=None):
        monkeypatch.setattr("sys.stdin", io.StringIO() if says is None else Terminal(says))
        return run(*args)

    return ottla
