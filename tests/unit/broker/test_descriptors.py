"""Who gets how many descriptors."""

import resource

import pytest

from ottla.broker import descriptors
from ottla.broker.descriptors import LIMIT_MAX, RESERVED, Shares, limit, raise_limit, shares
from ottla.storage.files import HANDLES_MAX


@pytest.mark.parametrize(
    "limit", [pytest.param(number, id=str(number)) for number in (256, 1024, 4096, 65_536, LIMIT_MAX)]
)
def test_files_and_connections_together_leave_some_for_the_rest(limit):
    files, connections = shares(limit)
    assert files + connections + RESERVED == limit
    assert 0 < files <= HANDLES_MAX
    assert connections >= files


def test_with_next_to_none_there_are_a_few_for_both():
    assert shares(20) == Shares(16, 16)


class Limits:
    """The limits of a process, without those of this one."""

    def __init__(self, monkeypatch, soft, hard):
        self.now = soft, hard
        monkeypatch.setattr(resource, "getrlimit", lambda _: self.now)
        monkeypatch.setattr(resource, "setrlimit", self.set)

    def set(self, _, limits):
        self.now = limits


def test_the_limit_is_raised_as_far_as_it_goes(monkeypatch):
    limits = Limits(monkeypatch, 1024, 524_288)
    raise_limit()
    assert limits.now == (524_288, 524_288)
    assert limit() == 524_288


def test_no_limit_is_a_large_one(monkeypatch):
    limits = Limits(monkeypatch, 1024, resource.RLIM_INFINITY)
    raise_limit()
    assert limits.now == (LIMIT_MAX, resource.RLIM_INFINITY)
    limits.now = resource.RLIM_INFINITY, resource.RLIM_INFINITY
    raise_limit()
    assert limits.now == (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    assert limit() == LIMIT_MAX


def test_a_limit_that_cannot_be_raised_stays(monkeypatch):
    limits = Limits(monkeypatch, 256, 1024)

    def refuse(*_):
        raise ValueError("not permitted")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    raise_limit()
    assert limits.now == (256, 1024)
    assert descriptors.limit() == 256
