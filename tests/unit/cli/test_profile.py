"""`ottla profile`."""

import io
import json
import stat

import pytest

from ottla.cli import profiles
from ottla.cli.main import main
from ottla.cli.profile import is_secret
from ottla.testing import Broker


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("OTTLA_CONFIG_DIR", str(tmp_path))
    monkeypatch.delenv("OTTLA_PROFILE", raising=False)
    return tmp_path


@pytest.fixture
def ottla(capsys):
    def run(*args):
        code = main(["profile", *args])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_a_profile_is_added_used_shown_and_removed(ottla, directory):
    code, out, err = ottla("add", "prod", "-b", "kafka:9093", "-X", "security.protocol=SSL", "--use")
    assert (code, out) == (0, "")
    assert err == f"profile prod is in {directory}/profiles/prod.properties, and in use\n"
    ottla("add", "dev", "-b", "localhost:9092")
    assert ottla("ls")[1] == (
        "name\tin_use\tbootstrap_servers\tsecurity_protocol\n"
        "dev\t\tlocalhost:9092\tPLAINTEXT\n"
        "prod\t*\tkafka:9093\tSSL\n"
    )
    assert ottla("show")[1].splitlines()[1:] == ["bootstrap.servers\tkafka:9093", "security.protocol\tSSL"]
    assert ottla("use", "dev") == (0, "", "profile dev is in use\n")
    assert profiles.current() == "dev"
    assert ottla("remove", "dev") == (0, "", "profile dev is gone\n")
    assert profiles.current() is None
    assert [row["name"] for row in json.loads(ottla("ls", "--json")[1])["profiles"]] == ["prod"]


def test_passwords_are_never_shown_and_nobody_else_can_read_them(ottla):
    jaas = 'x required username="anna" password="s3cret";'
    code, out, err = ottla(
        "add", "prod", "-b", "a", "-X", "sasl.password=s3cret", "-X", f"sasl.jaas.config={jaas}"
    )
    assert code == 0
    shown = out + err
    for args in (("show", "prod"), ("show", "prod", "--json"), ("ls",), ("ls", "--json")):
        shown += "".join(map(str, ottla(*args)))
    assert "s3cret" not in shown
    assert "[hidden]" in shown
    assert stat.S_IMODE(profiles.path_of("prod").stat().st_mode) == 0o600
    assert profiles.read("prod")["sasl.password"] == "s3cret"


def test_a_password_may_come_from_stdin(ottla, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("s3cret\n"))
    assert ottla("add", "prod", "-b", "a:1", "-X", "sasl.password=-")[0] == 0
    assert profiles.read("prod")["sasl.password"] == "s3cret"


@pytest.mark.parametrize("key", ["ssl.password", "sasl.plain.password", "sasl_password", "SASL.JAAS.CONFIG"])
def test_settings_that_hold_secrets_are_known(key):
    assert is_secret(key)


@pytest.mark.parametrize("key", ["bootstrap.servers", "ssl.keyfile", "sasl.plain.username"])
def test_settings_without_secrets_are_shown(key):
    assert not is_secret(key)


@pytest.mark.parametrize(
    ("args", "code", "sentence"),
    [
        (["add", "../x", "-b", "a"], 2, "'../x' cannot be the name of a profile"),
        (["add", "x"], 2, "a profile without any setting is of no use"),
        (["add", "x", "-X", "nope=1"], 2, "no client has such a setting"),
        (["add", "x", "-X", "acks"], 2, "-X acks has no value: write -X key=value"),
        (["add", "dev", "-b", "a"], 2, "there is a profile 'dev' already; --force replaces it"),
        (["use", "dve"], 4, "there is no profile 'dve'; did you mean 'dev'?"),
        (["use"], 2, "name a profile, or say --none"),
        (["use", "dev", "--none"], 2, "name a profile, or say --none"),
        (["remove", "nope"], 4, "there is no profile 'nope'"),
        (["show"], 4, "no profile is in use"),
        (["show", "nope"], 4, "there is no profile 'nope'"),
    ],
)
def test_what_makes_no_sense_gets_one_sentence(ottla, args, code, sentence):
    ottla("add", "dev", "-b", "localhost:9092")
    found, out, err = ottla(*args)
    assert (found, out) == (code, "")
    assert sentence in err
    assert err.count("\n") == 1


def test_a_profile_is_replaced_by_force_only(ottla):
    ottla("add", "dev", "-b", "a:1")
    assert ottla("add", "dev", "-b", "b:2", "--force")[0] == 0
    assert profiles.read("dev") == {"bootstrap.servers": "b:2"}


def test_commands_use_the_profile(ottla, capsys):
    with Broker() as broker:
        ottla("add", "here", "-b", broker.bootstrap_server)
        assert main(["--profile", "here", "group", "ls"]) == 0
        ottla("use", "here")
        assert main(["group", "ls"]) == 0
        assert main(["group", "ls", "-b", "localhost:1", "--timeout", "1"]) == 6
    capsys.readouterr()
