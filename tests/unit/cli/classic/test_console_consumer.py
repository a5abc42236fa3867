"""`kafka-console-consumer` on a broker of ours: what it prints, what it commits, and how it ends."""

import signal
import struct
import subprocess
import sys

import pytest

from ottla.cli.main import main
from ottla.client import Admin, Producer
from ottla.core.ids import TopicPartition
from ottla.testing import Broker

_SECONDS = 20
_DES = "org.apache.kafka.common.serialization"


@pytest.fixture(scope="module")
def server():
    with Broker() as broker:
        with Producer(bootstrap_servers=broker.bootstrap_server) as producer:
            for value, key in ((b"tea", b"anna"), (b"\xff", None), (None, b"ben"), (b"cake", b"")):
                producer.send("orders", value, key=key, headers=[("shop", b"Prague")] if key else None).get()
            for value in (struct.pack(">i", 5), b"no", struct.pack(">i", 6)):
                producer.send("numbers", value).get()
        yield broker.bootstrap_server


@pytest.fixture
def run(server, capfdbinary, monkeypatch):
    """The code, stdout and the lines of stderr of a command line, where zk01:2181 knows our broker."""
    monkeypatch.setattr("ottla.cli.classic.zookeeper.servers_from", {"zk01:2181": server}.__getitem__)

    def once(line, where=f"--bootstrap-server {server}"):
        code = main(["kafka-console-consumer", *where.split(), *line.split()])
        out, err = capfdbinary.readouterr()
        return code, out, err.decode().splitlines()

    return once


def committed(server, group, topic):
    with Admin(bootstrap_servers=server) as admin:
        return admin.list_group_offsets(group)[TopicPartition(topic, 0)].offset


def test_values_are_printed_as_they_are_and_nulls_by_name(run):
    code, out, err = run("--topic orders --from-beginning --max-messages 4")
    assert (code, out, err) == (0, b"tea\n\xff\nnull\ncake\n", ["Processed a total of 4 messages"])


def test_it_ends_when_nothing_comes_any_more(run):
    code, out, err = run("--topic orders --partition 0 --offset 3 --timeout-ms 100")
    assert (code, out, err) == (0, b"cake\n", ["Processed a total of 1 messages"])


def test_the_formatter_prints_what_its_properties_say(run):
    wanted = "--formatter-property print.key=true --formatter-property print.headers=true"
    _, out, _ = run(f"--topic orders --from-beginning --max-messages 2 {wanted}")
    assert out == b"shop:Prague\tanna\ttea\nNO_HEADERS\tnull\t\xff\n"


@pytest.mark.parametrize(
    "name", ["kafka.tools.DefaultMessageFormatter", "kafka.tools.LoggingMessageFormatter"]
)
def test_formatters_have_their_names_of_old_too(run, name):
    assert run(f"--topic orders --from-beginning --max-messages 1 --formatter {name}")[1] == b"tea\n"


def test_a_record_that_cannot_be_read_ends_it_or_is_skipped(run):
    line = (
        f"--topic numbers --from-beginning --max-messages 3 --value-deserializer {_DES}.IntegerDeserializer"
    )
    code, out, err = run(line)
    assert (code, out, err[0]) == (1, b"5\n", "Processed a total of 2 messages")
    assert "not 4" in err[1]
    code, out, err = run(f"{line} --skip-message-on-error")
    assert (code, out, err) == (0, b"5\n6\n", ["Processed a total of 3 messages"])


def test_a_group_commits_what_was_printed(run, server):
    assert run("--topic orders --group shop --from-beginning --max-messages 2")[1] == b"tea\n\xff\n"
    assert committed(server, "shop", "orders") == 2
    assert run("--topic orders --group shop --max-messages 1")[1] == b"null\n"
    line = f"--topic numbers --group bad --from-beginning --value-deserializer {_DES}.IntegerDeserializer"
    assert run(line)[0] == 1
    assert committed(server, "bad", "numbers") == 2


def test_topics_are_included_or_left_out_by_pattern(run):
    assert run("--include ord.* --from-beginning --max-messages 1")[1] == b"tea\n"
    assert run("--whitelist nothing,orders --from-beginning --max-messages 1")[1] == b"tea\n"
    assert run("--blacklist numbers --from-beginning --max-messages 1")[1] == b"tea\n"
    code, _, err = run("--include ( --max-messages 1")
    assert code == 1 and "no regular expression" in "".join(err)


def test_command_lines_of_old_work(run, server):
    for where in ("--zookeeper zk01:2181", f"--new-consumer --broker-list {server}"):
        assert run("--from-beginning --topic orders --max-messages 1", where)[1] == b"tea\n"


def test_what_makes_no_sense_is_said_before_the_options(run):
    code, out, err = run("--topic orders --isolation-level nonsense --max-messages 1")
    assert code == 1 and "isolation.level" in err[0]
    code, out, err = run("--bogus")
    assert (code, out, err[0]) == (1, b"", "bogus is not a recognized option")
    assert any("--skip-message-on-error" in each for each in err)


def start(server, *words):
    command = [
        sys.executable,
        "-m",
        "ottla.cli.main",
        "kafka-console-consumer",
        "--bootstrap-server",
        server,
        *words,
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_an_interrupt_ends_it_with_the_count(server):
    with start(server, "--topic", "orders", "--from-beginning") as process:
        assert [process.stdout.readline() for _ in range(4)] == [b"tea\n", b"\xff\n", b"null\n", b"cake\n"]
        process.send_signal(signal.SIGINT)
        assert process.wait(_SECONDS) == 130
        assert process.stderr.read() == b"Processed a total of 4 messages\n"


def test_a_reader_that_hangs_up_ends_it(server):
    with start(server, "--topic", "orders", "--from-beginning") as process:
        assert process.stdout.readline() == b"tea\n"
        process.stdout.close()
        assert process.wait(_SECONDS) == 1
        assert process.stderr.read() == b"Processed a total of 4 messages\n"


def test_a_broker_that_is_not_there_is_said_at_once():
    with start("127.0.0.1:1", "--topic", "orders") as process:
        assert process.stderr.readline().startswith(
            b"ottla: kafka-console-consumer: cannot connect to 127.0.0.1:1: "
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(_SECONDS) == 130


def test_flags_of_a_pattern_are_those_of_java(run):
    assert run("--include (?i)ORDERS --from-beginning --max-messages 1")[:2] == (0, b"tea\n")
