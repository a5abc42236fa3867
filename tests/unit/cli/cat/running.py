"""One broker for a file of tests, and `ottla cat` run against it with bytes on both ends."""

import pytest

from ottla.cli.main import main
from ottla.testing import Broker


@pytest.fixture(scope="module")
def broker():
    with Broker() as running:
        yield running


@pytest.fixture(autouse=True)
def no_files_of_the_user(monkeypatch, tmp_path):
    """Neither kcat.conf nor profiles of whoever runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("KCAT_CONFIG", "KAFKACAT_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cat(broker, capsysbinary, monkeypatch, tmp_path):
    """Runs `ottla cat`; returns its exit code, what it wrote and what it said."""

    def cat(*words, stdin=b"", before=()):
        source = tmp_path / "stdin"
        source.write_bytes(stdin)
        with source.open() as file:
            monkeypatch.setattr("sys.stdin", file)
            code = main([*before, "cat", "-b", broker.bootstrap_server, *words])
        out, err = capsysbinary.readouterr()
        return code, out, err.decode()

    return cat
