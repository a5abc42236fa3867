"""From parameters to settings: both spellings, hints for typos, old names with a warning."""

import pytest

from ottla.client.config import ClientConfig
from ottla.client.settings import Old, read_settings
from ottla.core.errors import ConfigError

OLD = {
    "metadata.broker.list": Old("bootstrap.servers", lambda value: {"bootstrap.servers": value}),
    "socket.timeout.ms": Old("request.timeout.ms", lambda value: {"request.timeout.ms": value}),
    "late.timeout.ms": Old("request.timeout.ms", lambda value: {"request.timeout.ms": int(value) + 1}),
}


def test_dots_and_underscores_are_the_same():
    for name in ("request_timeout_ms", "request.timeout.ms"):
        assert read_settings(ClientConfig, {name: "1234"}).request_timeout_ms == 1234
    with pytest.raises(ConfigError, match="written twice"):
        read_settings(ClientConfig, {"client_id": "a", "client.id": "b"})


@pytest.mark.parametrize("servers", ["a:1,b", "a:1, b", ["a:1", "b"], ("a:1", "b:9092")])
def test_servers_in_every_form(servers):
    config = read_settings(ClientConfig, {"bootstrap_servers": servers})
    assert [tuple(each) for each in config.servers] == [("a", 1), ("b", 9092)]


def test_a_typo_gets_a_hint_and_nonsense_none():
    with pytest.raises(ConfigError, match="no setting bootstrap_server; perhaps bootstrap_servers is meant"):
        read_settings(ClientConfig, {"bootstrap_server": "x"})
    with pytest.raises(ConfigError, match=r"no setting zzz$"):
        read_settings(ClientConfig, {"zzz": 1})
    with pytest.raises(ConfigError, match="perhaps metadata_broker_list is meant"):
        read_settings(ClientConfig, {"metadata_broker_lists": 1}, OLD)


def test_old_names_are_read_with_a_warning_and_the_later_one_in_the_table_wins():
    with pytest.warns(DeprecationWarning, match="metadata.broker.list is a setting of Kafka 0.8 and 0.9"):
        assert read_settings(ClientConfig, {"metadata_broker_list": "x:1"}, OLD).servers[0].host == "x"
    both = {"late.timeout.ms": 5, "socket.timeout.ms": 100}
    with pytest.warns(DeprecationWarning):
        assert read_settings(ClientConfig, both, OLD).request_timeout_ms == 6
    with pytest.warns(DeprecationWarning):
        found = read_settings(ClientConfig, {**both, "request_timeout_ms": 7}, OLD)
    assert found.request_timeout_ms == 7
    with pytest.raises(ConfigError, match="no setting"):
        read_settings(ClientConfig, {"metadata_broker_list": "x"})
