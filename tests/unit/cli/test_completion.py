"""TAB in real shells: commands, options, and the topics and groups of the cluster that the line names."""

import os
import shutil
import subprocess
import sys

import pytest

from ottla.cli.completion import MARK, SHELLS, source
from ottla.cli.main import main
from ottla.testing import Broker
from tests.unit.cli.states import Asked

COMPLETE_IN_BASH = """
eval "$(ottla completion show bash)"
until
    COMP_LINE=$LINE COMP_POINT=${#LINE} COMPREPLY=()
    _ottla_completion ottla
    [ -z "$PATIENTLY" ] || [ ${#COMPREPLY[@]} -gt 0 ]
do :; done
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        made = Asked(running.bootstrap_server)
        for name in ("orders", "orders-eu", "payments"):
            made.create(name)
        made.commit("billing", "orders", 0)
        made.commit("$(touch owned)", "orders", 0)
        yield running


@pytest.fixture
def environment(broker, tmp_path):
    """With an `ottla` on the PATH, and a home of its own."""
    tool = tmp_path / "bin" / "ottla"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla.cli.main "$@"\n')
    tool.chmod(0o755)
    return {
        "PATH": f"{tool.parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "OTTLA_BOOTSTRAP_SERVER": broker.bootstrap_server,
    }


@pytest.fixture
def offered(environment, tmp_path):
    """What bash offers behind a line. `patiently` presses TAB until something is there."""

    def offered(line, *, patiently=False):
        done = subprocess.run(
            ["bash", "--norc", "-c", COMPLETE_IN_BASH],
            env={**environment, "LINE": line, "PATIENTLY": "1" if patiently else ""},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.split()

    return offered


def test_bash_completes_commands_and_options(offered):
    assert offered("ottla topic de") == ["describe", "delete", "delete-records"]
    assert offered("ottla topic create --dr") == ["--dry-run"]
    assert offered("ottla kafka-conf") == ["kafka-configs"]
    assert offered("ottla kafka-topics --under-rep") == ["--under-replicated-partitions"]
    assert offered("ottla completion show ") == list(SHELLS)


def test_bash_completes_topics_of_the_cluster_that_the_line_names(offered, broker):
    assert offered("ottla topic describe ord", patiently=True) == ["orders", "orders-eu"]
    host, port = broker.bootstrap_server.split(":")
    line = f"ottla topic describe -b {host}:{port} pay"
    assert offered(line, patiently=True) == ["payments"]
    assert offered("ottla kafka-topics --topic pay", patiently=True) == ["payments"]
    assert offered("ottla topic describe -b 127.0.0.1:1 ") == []


def test_groups_are_completed_but_not_names_that_a_shell_would_run(offered, tmp_path):
    assert offered("ottla group describe ", patiently=True) == ["billing"]
    assert not (tmp_path / "owned").exists()


def test_behind_a_colon_bash_replaces_only_what_follows_it(offered, environment, tmp_path):
    profiles = tmp_path / ".config" / "ottla" / "profiles"
    profiles.mkdir(parents=True)
    (profiles / "prod.properties").write_text("client.id=x\n")
    assert offered("ottla --profile pr") == ["prod"]
    assert offered("ottla profile use p") == ["prod"]


def test_a_broken_home_offers_nothing_and_says_nothing(offered, tmp_path):
    (tmp_path / ".config" / "ottla").mkdir(parents=True)
    (tmp_path / ".config" / "ottla" / "client.properties").write_text("a=\\uZZZZ\n")
    assert offered("ottla topic describe ") == []


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
def test_fish_shows_whole_descriptions(environment):
    script = 'ottla completion show fish | source; complete -C "ottla topic desc"'
    done = subprocess.run(
        ["fish", "-c", script], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "describe\tShow partitions, offsets and settings of topics.\n"


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_zsh_reads_its_script(environment):
    done = subprocess.run(
        ["zsh", "-f", "-n"],
        input=source("zsh"),
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")


# --- install ----------------------------------------------------------------------------------------------------------

PLACES = {
    "bash": ".local/share/bash-completion/completions/ottla",
    "zsh": ".local/share/zsh/site-functions/_ottla",
    "fish": ".config/fish/completions/ottla.fish",
}


@pytest.fixture
def home(monkeypatch, tmp_path):
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "BASH_COMPLETION_USER_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("shell", SHELLS)
def test_it_is_put_where_the_shell_looks(home, capsys, monkeypatch, shell):
    monkeypatch.setenv("SHELL", f"/usr/bin/{shell}")
    place = home / PLACES[shell]
    assert main(["completion", "install"]) == 0
    assert capsys.readouterr().out == f"{place} is new\n"
    assert place.read_text() == f"{source(shell).rstrip()}\n{MARK}\n"
    assert main(["completion", "install", "--quiet"]) == 0
    assert capsys.readouterr() == (f"{place} is up to date\n", "")
    place.write_text(f"old\n{MARK}\n")
    assert main(["completion", "install", "--quiet"]) == 0
    assert capsys.readouterr().out == f"{place} was replaced\n"


def test_what_somebody_else_has_written_stays(home, capsys):
    place = home / PLACES["fish"]
    place.parent.mkdir(parents=True)
    place.write_text("mine\n")
    assert main(["completion", "install", "--shell", "fish"]) == 2
    assert f"{place} is not ours; --force overwrites it" in capsys.readouterr().err
    assert place.read_text() == "mine\n"
    assert main(["completion", "install", "--shell", "fish", "--force"]) == 0
    assert MARK in place.read_text()


def test_another_shell_is_told_to_name_one(home, capsys, monkeypatch):
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    assert main(["completion", "install"]) == 2
    assert "SHELL says 'tcsh'; say --shell bash, --shell zsh, --shell fish" in capsys.readouterr().err


def test_the_installed_file_works_when_bash_reads_it(environment, tmp_path):
    subprocess.run(
        ["ottla", "completion", "install", "--shell", "bash", "--quiet"],
        env=environment,
        check=True,
        capture_output=True,
        timeout=120,
    )
    script = COMPLETE_IN_BASH.replace(
        'eval "$(ottla completion show bash)"', f". {tmp_path / PLACES['bash']}"
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        env={**environment, "LINE": "ottla shims rem", "PATIENTLY": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.stdout, done.stderr) == ("remove\n", "")
