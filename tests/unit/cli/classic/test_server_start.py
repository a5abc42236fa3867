"""`kafka-server-start`: brokers by a server.properties, here and in the background."""

import os
import signal

import pytest

from ottla.cli.classic.server_registry import servers
from ottla.cli.main import main
from ottla.client import Admin
from tests.unit.cli.classic.servers import PATIENCE_S, home

__all__ = ["home"]

KRAFT = """
process.roles=broker,controller
node.id=5
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0
advertised.listeners=PLAINTEXT://127.0.0.1:0
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
share.coordinator.state.topic.replication.factor=1
"""


def address_in(line):
    assert " listens on " in line
    return line.partition(" listens on ")[2].partition(";")[0]


def test_a_broker_serves_until_it_is_told_to_stop(home):
    process = home.start("--override", "num.partitions=3", "--override", "nobody.knows=1")
    with Admin(bootstrap_servers=address_in(process.stdout.readline())) as admin:
        admin.create_topic("orders")
        assert len(admin.describe_topics(["orders"])["orders"].partitions) == 3
    assert [each[:1] + each[2:] for each in servers()] == [
        (process.pid, 7, ("broker", "controller"), str(home.properties))
    ]
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "unknown.to.everybody is not a known setting; it is ignored" in err
    assert "nobody.knows is not a known setting; it is ignored" in err
    assert servers() == []


def test_in_the_background_it_says_where_it_listens_and_goes_on(home):
    done = home.run("kafka-server-start.sh", "-daemon", str(home.properties))
    assert done.returncode == 0, done.stderr
    (broker,) = servers()
    assert f"process {broker.pid} writes to {home.path}/logs/kafkaServer.out" in done.stdout
    assert os.getsid(broker.pid) == broker.pid, "it does not end with the terminal"
    with Admin(bootstrap_servers=address_in(done.stdout)) as admin:
        assert not admin.list_topics()
    assert home.run("kafka-server-stop").returncode == 0
    while home.run("kafka-server-stop").returncode == 0:
        pass
    assert servers() == []


def test_what_fails_in_the_background_is_told(home):
    done = home.run("kafka-server-start", "-daemon", str(home.properties), "--override", "num.partitions=x")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"The broker did not start; {home.path}/logs/kafkaServer.out says:" in done.stderr
    assert "num.partitions" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_node_that_is_its_own_quorum_runs_as_one_node(home):
    home.properties.write_text(KRAFT.format(voters="5@localhost:9093", data=home.path / "data"))
    process = home.start()
    assert address_in(process.stdout.readline())
    assert servers()[0].node_id == 5


def run(capsys, *words):
    code = main(["kafka-server-start", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_quorum_of_several_is_refused(home, capsys):
    home.properties.write_text(KRAFT.format(voters="5@a:9093,6@b:9093", data=home.path / "data"))
    code, _, err = run(capsys, home.properties)
    assert code == 1
    assert "controller.quorum.voters names several nodes" in err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["/no/such.properties"], "java.nio.file.NoSuchFileException: /no/such.properties"),
        (["FILE", "more", "words"], "Found non argument parameters: more,words"),
        (["FILE", "--bogus"], "bogus is not a recognized option"),
        (["FILE", "--override"], "Option override requires an argument"),
        (["FILE", "--override", "log.dirs"], "Invalid command line properties: log.dirs"),
        (["FILE", "--override", "port=many"], "port"),
    ],
)
def test_what_makes_no_sense_fails_with_a_sentence(home, capsys, words, sentence):
    code, out, err = run(capsys, *(home.properties if each == "FILE" else each for each in words))
    assert (code, out) == (1, "")
    assert err.startswith(sentence)


def test_without_a_file_it_says_how_it_is_used(capsys):
    usage = "USAGE: kafka-server-start [-daemon] server.properties [--override property=value]*\n"
    assert run(capsys) == (1, usage, "")
