"""Where a setting comes from: a flag before -X before the environment before the profile before the file."""

import os

import click
import pytest

from ottla.cli import profiles
from ottla.cli.lazy import LazyGroup
from ottla.cli.session import (
    DEFAULT_SERVER,
    Session,
    connection_options,
    from_assignments,
    from_environment,
    json_option,
    reach_options,
    root_options,
    session,
)
from ottla.client.config import AdminConfig
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.producer.config import ProducerConfig
from ottla.core.errors import ConfigError

PLACES = ["file", "profile", "environment", "-X", "flag"]


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    for name in ("OTTLA_PROFILE", "OTTLA_BOOTSTRAP_SERVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTTLA_CONFIG_DIR", str(tmp_path))
    return tmp_path


def say(place, made, directory, monkeypatch):
    """Let one of the places name a server of its own."""
    server = f"{place.strip('-').lower()}:9092"
    if place == "file":
        (directory / "client.properties").write_text(f"bootstrap.servers={server}\n")
    elif place == "profile":
        profiles.save("prod", {"metadata.broker.list": server})
        profiles.use("prod")
    elif place == "environment":
        monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", server)
    elif place == "-X":
        made.assignments.append(f"bootstrap.servers={server}")
    else:
        made.bootstrap_server = server


@pytest.mark.parametrize("count", range(1, len(PLACES) + 1))
def test_each_place_goes_before_those_below_it(directory, monkeypatch, count):
    made = Session()
    for place in PLACES[:count]:
        say(place, made, directory, monkeypatch)
    assert made.servers == f"{PLACES[count - 1].strip('-').lower()}:9092"


def test_without_anything_it_is_the_default():
    assert Session().servers == DEFAULT_SERVER
    assert Session().settings(AdminConfig) == {
        "bootstrap.servers": DEFAULT_SERVER,
        "client.id": "ottla-cli",
    }


def test_it_is_known_who_said_so(directory, monkeypatch):
    (directory / "client.properties").write_text("client.id=me\n")
    profiles.save("prod", {"sasl.mechanisms": "PLAIN"})
    monkeypatch.setenv("OTTLA_SECURITY_PROTOCOL", "SASL_SSL")
    made = Session()
    made.profile, made.assignments, made.bootstrap_server = "prod", ["acks=1"], "a:1"
    assert {key: found.source for key, found in made.found().items()} == {
        "client.id": str(directory / "client.properties"),
        "sasl.mechanism": "profile prod",
        "security.protocol": "the environment",
        "acks": "-X",
        "bootstrap.servers": "-b",
    }


def test_a_profile_is_named_by_flag_then_variable_then_use(monkeypatch):
    for name in ("used", "said", "flagged"):
        profiles.save(name, {"client.id": name})
    made = Session()
    profiles.use("used")
    assert made.profile_name == "used"
    monkeypatch.setenv("OTTLA_PROFILE", "said")
    assert made.profile_name == "said"
    made.profile = "flagged"
    assert made.settings(AdminConfig)["client.id"] == "flagged"


def test_one_profile_serves_all_kinds_of_clients():
    profiles.save("prod", {"acks": "1", "group.id": "billing"})
    made = Session()
    made.profile = "prod"
    assert "acks" in made.settings(ProducerConfig)
    assert "acks" not in made.settings(ConsumerConfig)
    assert "group.id" in made.settings(ConsumerConfig)
    assert made.settings(AdminConfig).keys() == {"bootstrap.servers", "client.id"}


def test_what_a_command_says_goes_before_everything():
    made = Session()
    made.assignments = ["acks=0"]
    assert made.settings(ProducerConfig, acks="all")["acks"] == "all"


def test_a_setting_that_nobody_has_is_a_mistake():
    made = Session()
    made.assignments = ["securty.protocol=SSL"]
    with pytest.raises(
        ConfigError, match=r"no client has such a setting; did you mean 'security\.protocol'\?"
    ):
        made.settings(AdminConfig)


def test_assignments_are_read_with_dots_or_underscores_and_the_last_counts():
    assert from_assignments(["security_protocol=SSL", "a.b=x=y", "a.b="]) == {
        "security.protocol": "SSL",
        "a.b": "",
    }
    for each in ("acks", "=1"):
        with pytest.raises(ConfigError, match="has no value: write -X key=value"):
            from_assignments([each])


def test_variables_that_are_no_settings_are_left_alone():
    environment = {"OTTLA_SASL_MECHANISM": "PLAIN", "OTTLA_LOG_DIRS": "x", "PATH": "y"}
    assert from_environment(environment) == {"sasl.mechanism": "PLAIN"}


def test_a_profile_that_is_missing_is_told_as_such():
    made = Session()
    made.profile = "nope"
    with pytest.raises(Exception, match="there is no profile 'nope'"):
        made.found()


def test_a_mistake_in_assignments_is_one_of_usage():
    made = Session()
    made.assignments = ["ssl.truststore.location=a.jks"]
    with pytest.raises(click.UsageError, match="Java keystore"):
        made.found()


def seen(*words):
    """What a command sees of these words."""
    found = {}

    @click.group(cls=LazyGroup)
    @root_options
    def root() -> None: ...

    @click.command()
    @json_option
    @reach_options
    def ask(as_json: bool) -> None:
        found.update(vars(session()), as_json=as_json, servers=session().servers)

    root.table = {"ask": None}
    root.get_command = lambda ctx, name: ask
    root.main(list(words), standalone_mode=False)
    return found


@pytest.mark.parametrize(
    "words",
    [
        ["-b", "a:1", "--json", "--timeout", "2s", "ask"],
        ["ask", "-b", "a:1", "--json", "--timeout", "2s"],
        ["-b", "other", "ask", "-b", "a:1", "--json", "--timeout", "2"],
    ],
)
def test_options_may_stand_before_a_command_or_behind_it(words):
    found = seen(*words)
    assert (found["servers"], found["as_json"], found["timeout"]) == ("a:1", True, 2.0)


def test_assignments_add_up():
    assert seen("-X", "a=1", "ask", "-X", "b=2")["assignments"] == ["a=1", "b=2"]


def test_the_older_commands_get_their_server_and_timeout_handed_over():
    found = {}

    @click.command()
    @connection_options
    def ask(bootstrap_server: str, timeout: float) -> None:
        found.update(server=bootstrap_server, timeout=timeout)

    ask.main(["-b", "a:1"], standalone_mode=False)
    assert found == {"server": "a:1", "timeout": 10.0}


@pytest.mark.parametrize("words", [["--quiet", "--no-color", "ask"], ["ask", "--quiet", "--no-color"]])
def test_quiet_and_no_color_may_stand_behind_a_command_too(monkeypatch, words):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("NO_COLOR", "")  # so that it is put back
    assert seen(*words)["is_quiet"]
    assert os.environ["NO_COLOR"] == "1"


def test_a_command_may_have_a_quiet_of_its_own():
    @click.command()
    @json_option
    @click.option("--quiet", is_flag=True, help="Means more.")
    def check(as_json: bool, quiet: bool) -> None: ...

    assert [each.help for each in check.params if "--quiet" in each.opts] == ["Means more."]
