import json
import subprocess
import sys

import pytest

from ottla.cli.main import main
from tests.unit.cli.cat.running import broker, cat, no_files_of_the_user
from tests.unit.cli.nouns import Terminal

__all__ = ["broker", "cat", "no_files_of_the_user"]


@pytest.fixture(scope="module", autouse=True)
def topics(broker):
    broker.create_topic("tea", 2)


def test_its_help_imports_no_client():
    code = (
        "import sys; from ottla.cli.main import main; main(['cat', '-h']);"
        "print([m for m in sys.modules if m in ('asyncio', 'rich') or m.startswith('ottla.client')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "Send and read records with the options of kcat." in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_its_version_is_ours(cat):
    code, out, _ = cat("-V")
    assert code == 0
    assert out.startswith(b"ottla cat ")


def test_at_a_terminal_it_reads(broker, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", Terminal())
    assert main(["cat", "-b", broker.bootstrap_server, "-t", "tea", "-e"]) == 0
    assert "% Auto-selecting Consumer mode" in capsys.readouterr().err


# --- metadata --------------------------------------------------------------------------------------------------------


def test_L_lists_brokers_topics_and_partitions(cat, broker):
    server = broker.bootstrap_server
    code, out, err = cat("-L", "-t", "tea")
    assert (code, err) == (0, "")
    assert out.decode() == (
        f"Metadata for tea (from broker 1: {server}/1):\n"
        " 1 brokers:\n"
        f"  broker 1 at {server} (controller)\n"
        " 1 topics:\n"
        '  topic "tea" with 2 partitions:\n'
        "    partition 0, leader 1, replicas: 1, isrs: 1\n"
        "    partition 1, leader 1, replicas: 1, isrs: 1\n"
    )
    assert cat("-L")[1].decode().startswith("Metadata for all topics (from broker 1:")


def test_L_J_is_a_json_object(cat, broker):
    code, out, _ = cat("-LJ")
    found = json.loads(out)
    assert code == 0
    assert found["originating_broker"] == {"id": 1, "name": f"{broker.bootstrap_server}/1"}
    assert found["query"] == {"topic": "*"}
    assert found["topics"][0]["partitions"][1] == {
        "partition": 1,
        "leader": 1,
        "replicas": [{"id": 1}],
        "isrs": [{"id": 1}],
    }


def test_L_creates_no_topic(cat, broker):
    code, out, _ = cat("-L", "-t", "missing")
    assert code == 4
    assert b'topic "missing" with 0 partitions: Broker: Unknown topic or partition\n' in out
    assert json.loads(cat("-LJt", "a/b")[1])["topics"][0]["error"] == "Broker: Invalid topic"
    assert "missing" not in broker.topics()


# --- queries ---------------------------------------------------------------------------------------------------------


def test_Q_looks_up_offsets(cat):
    assert cat("-P", "-t", "tea", "-p0", stdin=b"a\nb\n")[0] == 0
    asked = ["-Q", "-t", "tea:1:0", "-t", "tea:0:-1"]
    assert cat(*asked) == (0, b"tea [0] offset 2\ntea [1] offset -1\n", "")
    assert cat(*asked, "-J")[1] == (
        b'{"tea":{"topic":"tea","0":{"partition":0,"offset":2},"1":{"partition":1,"offset":-1}}}'
    )
    assert cat("-Q", "-t", "tea:0:-2")[1] == b"tea [0] offset 0\n"


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["-Q"], 2, "-t TOPIC:PARTITION:MS is missing"),
        (["-Q", "-t", "tea"], 2, "topic:partition:milliseconds"),
        (["-Q", "-t", "tea:0:1", "-t", "tea:0:2"], 2, "ask for a partition once"),
        (["-Q", "-t", "tea:9:1"], 4, "tea-9"),
        (["-Q", "-t", "missing:0:1"], 4, "missing"),
        (["-L", "-b", "127.0.0.1:1"], 6, "127.0.0.1:1"),
        (["-L", "-M", "3"], 2, "do not mix modes: -L and -M"),
        (["-M", "0"], 2, "-M"),
    ],
)
def test_what_goes_wrong_is_one_sentence(cat, words, code, reason):
    found, out, err = cat(*words)
    assert (found, out) == (code, b"")
    assert reason in err
    assert err.count("\n") == 1


# --- settings --------------------------------------------------------------------------------------------------------


def test_X_list_shows_every_setting_and_what_others_call_it(cat):
    code, out, _ = cat("-X", "list")
    assert code == 0
    assert "linger.ms" in out.decode()
    assert "Also called queue.buffering.max.ms" in out.decode()


def test_X_dump_shows_what_holds_but_no_password(cat):
    code, out, _ = cat(
        "-X", "dump", "-X", "topic.acks=1", "-X", "sasl.password=secret", "-X", "metadata.broker.list=x:1"
    )
    assert code == 0
    lines = out.decode().splitlines()
    assert lines[0] == "# Global config"
    assert "acks = 1" in lines
    assert "sasl.plain.password = [hidden]" in lines
    assert "secret" not in out.decode()


def test_a_file_has_settings_and_X_goes_before_it(cat, tmp_path):
    file = tmp_path / "some.conf"
    file.write_text(
        "# mine\n\nacks=1\nlinger.ms = 7\nqueue.buffering.max.messages=5\nschema.registry.url=http\\://r\n"
    )
    code, out, err = cat("-F", str(file), "-X", "dump", "-X", "acks=0")
    assert code == 0
    assert {"acks = 0", "linger.ms = 7"} <= set(out.decode().splitlines())
    assert err == (
        f"% Reading configuration from file {file}\n"
        f"% {file}: queue.buffering.max.messages means nothing here\n"
    )


def test_the_file_may_be_named_by_the_environment_or_be_where_kcat_has_it(cat, tmp_path, monkeypatch):
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config" / "kcat.conf").write_text("linger.ms=11\n")
    assert "linger.ms = 11\n" in cat("-qX", "dump")[1].decode()
    assert "linger.ms = 0\n" in cat("-F", "-", "-qX", "dump")[1].decode()
    (tmp_path / "other").write_text("linger.ms=12\n")
    monkeypatch.setenv("KCAT_CONFIG", str(tmp_path / "other"))
    assert "linger.ms = 12\n" in cat("-qX", "dump")[1].decode()


def test_a_file_that_is_no_such_file_is_refused(cat, tmp_path):
    code, _, err = cat("-L", "-F", str(tmp_path / "none"))
    assert code == 1
    assert "No such file" in err
    (tmp_path / "bad").write_text("a=b\nnonsense\n")
    assert cat("-L", "-F", str(tmp_path / "bad"))[::2] == (
        2,
        f"ottla cat: {tmp_path}/bad:2: expected property=value\n",
    )


def test_options_before_the_command_count_as_well(broker, capsys):
    assert main(["-b", broker.bootstrap_server, "--json", "cat", "-L", "-F", "none"]) == 0
    assert json.loads(capsys.readouterr().out)["query"] == {"topic": "*"}


def test_a_profile_says_where_the_cluster_is_and_then_kcat_conf_is_not_read(
    broker, capsys, tmp_path, monkeypatch, no_files_of_the_user
):
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config" / "kcat.conf").write_text("metadata.broker.list=127.0.0.1:1\n")
    assert main(["profile", "add", "shop", "-b", broker.bootstrap_server]) == 0
    assert main(["cat", "-L", "-J"]) == 6
    capsys.readouterr()
    assert main(["cat", "--profile", "shop", "-L", "-J"]) == 0
    assert json.loads(capsys.readouterr().out)["originating_broker"]["id"] == 1
