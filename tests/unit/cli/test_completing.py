"""What is offered behind TAB: from the cache while it is fresh, never what would hurt on a command line."""

import json
import os
import socket
import subprocess
import sys
import threading

import click
import pytest

from ottla.cli import completing, profiles
from ottla.cli.classic.names import CLASSIC
from ottla.cli.session import Session


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("OTTLA_CONFIG_DIR", str(tmp_path / "config"))
    for name in ("OTTLA_PROFILE", "OTTLA_BOOTSTRAP_SERVER"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def ctx():
    return click.Context(click.Command("x"), obj=Session())


@pytest.fixture
def asked(monkeypatch):
    """Instead of a process that asks a cluster: what it is asked, and what it hears."""
    calls = []

    def fill(path, kind):
        calls.append(kind)
        completing._write(path, ["orders", "__consumer_offsets", "pay ments", "$(rm)", "a" * 300])

    monkeypatch.setattr(completing, "_fill", fill)
    return calls


def words(found):
    return [each.value for each in found]


PARAMETER = click.Argument(["x"])


def test_a_cluster_is_asked_once_in_half_a_minute(ctx, asked):
    for _ in range(3):
        assert words(completing.topics(ctx, PARAMETER, "")) == ["orders"]
    assert asked == ["topics"]
    (path,) = completing.cache_dir().iterdir()
    old = path.stat().st_mtime - completing.FRESH_SECONDS - 1
    os.utime(path, (old, old))
    assert words(completing.topics(ctx, PARAMETER, "o")) == ["orders"]
    assert asked == ["topics", "topics"]


def test_topics_and_groups_and_clusters_do_not_mix(ctx, asked):
    completing.topics(ctx, PARAMETER, "")
    completing.groups(ctx, PARAMETER, "")
    other = click.Context(click.Command("x"), obj=Session())
    other.obj.bootstrap_server = "elsewhere:9092"
    completing.topics(other, PARAMETER, "")
    assert asked == ["topics", "groups", "topics"]
    assert len(list(completing.cache_dir().iterdir())) == 3


def test_kafkas_own_topics_are_offered_to_who_begins_with_an_underscore(ctx, asked):
    assert words(completing.topics(ctx, PARAMETER, "_")) == ["__consumer_offsets"]


def test_nobody_else_can_read_the_cache(ctx, asked):
    completing.topics(ctx, PARAMETER, "")
    (path,) = completing.cache_dir().iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("text", ["", "{", "[1, null]", '{"a": 1}', "[" * 100_000])
def test_a_spoilt_cache_offers_nothing(ctx, asked, text):
    completing.topics(ctx, PARAMETER, "")
    (path,) = completing.cache_dir().iterdir()
    path.write_text(text)
    assert words(completing.topics(ctx, PARAMETER, "o")) == []


def test_settings_that_make_no_sense_offer_nothing(ctx, asked):
    ctx.obj.assignments = ["nonsense"]
    assert completing.topics(ctx, PARAMETER, "") == []


def test_profiles_are_offered(ctx):
    profiles.save("prod", {"client.id": "x"})
    profiles.save("test", {"client.id": "x"})
    assert words(completing.profiles(ctx, PARAMETER, "p")) == ["prod"]


def test_a_server_that_does_not_answer_does_not_hold_up_the_shell():
    """The process ends while the one that asks is still waiting for the mute server."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = []
        thread = threading.Thread(target=lambda: taken.append(server.accept()[0]))
        thread.start()
        done = subprocess.run(
            [sys.executable, "-m", "ottla.cli.main"],
            env={
                **os.environ,
                "_OTTLA_COMPLETE": "bash_complete",
                "COMP_LINE": "ottla topic describe ",
                "OTTLA_BOOTSTRAP_SERVER": f"127.0.0.1:{server.getsockname()[1]}",
            },
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
        thread.join(60)  # whoever asks comes in its own time
        for each in taken:
            each.close()


@pytest.mark.parametrize("name", CLASSIC)
def test_every_classic_tool_offers_its_options(name):
    command = completing.classic_command(name)
    assert {option for each in command.params for option in each.opts} >= {"--help"}


def test_the_cache_is_json(ctx, asked):
    completing.topics(ctx, PARAMETER, "")
    (path,) = completing.cache_dir().iterdir()
    assert "orders" in json.loads(path.read_text())
