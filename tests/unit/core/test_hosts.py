import pytest

from ottla.core.hosts import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost", "LocalHost"])
def test_a_loopback_is_known_however_it_is_spelled(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "localhost.example", "kafka01"])
def test_everything_else_may_lead_elsewhere(host):
    assert not is_loopback(host)
