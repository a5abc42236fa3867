"""`ottla config explain` says who set what."""

import pytest

from ottla.cli.main import main
from tests.unit.cli.nouns import asked, broker, ottla, topic
from tests.unit.cli.states import Ran

__all__ = ["asked", "broker", "ottla", "topic"]


@pytest.fixture
def explain(tmp_path, monkeypatch, capsys):
    """Without any broker: nobody is asked."""
    for name in ("OTTLA_PROFILE", "OTTLA_BOOTSTRAP_SERVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTTLA_CONFIG_DIR", str(tmp_path))

    def run(*args):
        code = main(list(args))
        return Ran(code, *capsys.readouterr())

    return run


def test_what_nobody_has_said_is_the_default(explain):
    assert explain("config", "explain").rows == [
        {"key": "bootstrap.servers", "value": "localhost:9092", "source": "default"},
        {"key": "client.id", "value": "ottla-cli", "source": "default"},
        {"key": "timeout", "value": "10s", "source": "default"},
    ]


def test_whoever_said_it_is_named(explain, tmp_path, monkeypatch):
    (tmp_path / "client.properties").write_text("client.rack=here\nsecurity.protocol=SSL\n")
    monkeypatch.setenv("OTTLA_SECURITY_PROTOCOL", "SASL_SSL")
    words = ("-b", "a:1", "-X", "sasl.plain.password=secret", "--timeout", "3")
    told = explain("config", "explain", *words, "--json").json
    assert told["profile"] is None
    rows = {row["key"]: (row["value"], row["source"]) for row in told["settings"]}
    assert rows["bootstrap.servers"] == ("a:1", "-b")
    assert rows["security.protocol"] == ("SASL_SSL", "the environment")
    assert rows["sasl.plain.password"] == ("[hidden]", "-X")
    assert rows["client.rack"] == ("here", str(tmp_path / "client.properties"))
    assert rows["timeout"] == ("3s", "--timeout")


def test_a_profile_is_named(explain):
    assert explain("profile", "add", "prod", "-b", "kafka:9093").code == 0
    told = explain("config", "explain", "--profile", "prod", "--json").json
    assert told["profile"] == "prod"
    assert {"key": "bootstrap.servers", "value": "kafka:9093", "source": "profile prod"} in told["settings"]


def test_all_settings_of_a_client_are_more(explain):
    rows = {row["key"]: row["source"] for row in explain("config", "explain", "--all").rows}
    assert rows["security.protocol"] == "default"
    assert len(rows) > 15


def test_a_chain_of_values_shows_what_would_hold(ottla, topic):
    ottla("config", "set", "topic", topic, "retention.ms=1d")
    first, second = ottla("config", "explain", "topic", topic).rows
    assert (first["key"], first["value"], first["source"], first["holds"]) == (
        "retention.ms",
        "86400000",
        "topic",
        "yes",
    )
    assert (second["key"], second["source"], second["holds"]) == ("log.retention.ms", "default", "no")
    (told,) = ottla("config", "explain", "topic", topic, "retention.ms", "--json").json["settings"]
    assert told["documentation"]
    assert [row["source"] for row in told["values"]] == ["topic", "default"]


def test_an_unknown_setting_is_not_found(ottla, topic):
    assert ottla("config", "explain", "topic", topic, "nonsense.key").code == 4
