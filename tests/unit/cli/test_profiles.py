"""The files of profiles."""

import stat

import pytest

from ottla.cli import profiles
from ottla.core.errors import ConfigError, OttlaError


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("OTTLA_CONFIG_DIR", str(tmp_path / "own"))
    return tmp_path / "own"


def test_what_was_saved_is_read_whatever_it_is():
    settings = {"bootstrap.servers": "a:9092,b:9093", "sasl.plain.password": " #!=\\ \t\u00fc\U0001f600"}
    profiles.save("prod", settings)
    assert profiles.read("prod") == settings
    assert profiles.names() == ["prod"]


def test_nobody_else_can_read_what_is_written(directory):
    path = profiles.save("prod", {"sasl.plain.password": "tea"})
    path.chmod(0o644)
    profiles.save("prod", {"sasl.plain.password": "coffee"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["prod.properties"]


def test_one_profile_is_in_use_until_it_is_removed():
    assert profiles.current() is None
    profiles.save("prod", {})
    profiles.use("prod")
    assert profiles.current() == "prod"
    profiles.remove("prod")
    assert profiles.current() is None
    assert profiles.names() == []


def test_to_use_none_any_more_is_possible_twice():
    profiles.use(None)
    profiles.use(None)
    assert profiles.current() is None


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "-x", "a b", "x" * 65, "a\nb"])
def test_a_name_cannot_leave_the_directory(name):
    with pytest.raises(ConfigError, match="cannot be the name of a profile"):
        profiles.save(name, {})


def test_a_profile_that_is_missing_gets_a_sentence():
    with pytest.raises(OttlaError, match="`ottla profile add prod -b HOST:PORT` makes it"):
        profiles.read("prod")
    profiles.save("dev", {})
    with pytest.raises(OttlaError, match="there is no profile 'prod'; there are: dev"):
        profiles.read("prod")


def test_a_file_that_is_no_text_gets_a_sentence(directory):
    profiles.save("prod", {}).write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"prod\.properties is not a text in UTF-8"):
        profiles.read("prod")


def test_the_directory_follows_the_usual_variables(monkeypatch, tmp_path):
    monkeypatch.delenv("OTTLA_CONFIG_DIR")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert profiles.config_dir() == tmp_path / "ottla"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/home/anna")
    assert str(profiles.config_dir()) == "/home/anna/.config/ottla"


def test_settings_for_everybody_need_not_be_there(directory):
    assert profiles.common() == {}
    directory.mkdir()
    (directory / "client.properties").write_text("client.id=me\n")
    assert profiles.common() == {"client.id": "me"}
