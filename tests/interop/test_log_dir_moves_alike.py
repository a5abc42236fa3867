"""Moving replicas between directories: Apache Kafka answers as Ottla does, and its own tool moves Ottla's."""

import json
import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import Broker
from tests.oracles.apache_kafka import Unavailable, apache_kafka
from tests.oracles.java_storage import tools_class_path
from tests.scenarios.log_dirs import SECONDS_MAX, content, move, names, replicas, wait_until_in

TOPIC, COUNT = "orders", 500
_TOOL = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


def filled(address):
    admin = AdminClient({"bootstrap.servers": address})
    created = admin.create_topics([NewTopic(TOPIC, 1, 1)])
    created[TOPIC].result(SECONDS_MAX)
    producer = Producer({"bootstrap.servers": address})
    for number in range(COUNT):
        producer.produce(TOPIC, b"%d" % number + b"x" * 200, partition=0)
    assert producer.flush(SECONDS_MAX) == 0


def elsewhere(port, paths):
    here = replicas(port)[TOPIC, 0][0][0]
    return here, next(str(path) for path in paths if str(path) != here)


def wait_until_gone(path):
    """Kafka says where a replica is before the old log has its new name."""
    deadline = time.monotonic() + SECONDS_MAX
    while f"{TOPIC}-0" in names(path, "live"):
        assert time.monotonic() < deadline, f"a log is left behind in {path}"


def story(address, port, paths):
    """What is answered, in turn."""
    filled(address)
    for version in 1, 2:
        here, other = elsewhere(port, paths)
        before = content(here, TOPIC, 0)
        yield "to where it is", move(port, TOPIC, 0, here, version)
        yield "elsewhere", move(port, TOPIC, 0, other, version)
        wait_until_in(port, TOPIC, 0, other)
        yield "the same bytes", content(other, TOPIC, 0) == before
        wait_until_gone(here)
        yield "the old one waits", len(names(here, "delete")) > 0
        yield "to nowhere", move(port, TOPIC, 0, "/nowhere", version)
        yield "by another name", move(port, TOPIC, 0, f"{here}/", version)
        yield "no such topic", move(port, "nothing", 0, here, version)
        yield "no such partition", move(port, TOPIC, 9, here, version)
        yield "a negative partition", move(port, TOPIC, -1, here, version)
        yield "a long name", move(port, "x" * 230, 0, here, version)
        yield "no such topic, to nowhere", move(port, "nothing", 0, "/nowhere", version)


def test_apache_kafka_answers_the_same(tmp_path):
    theirs, ours = ([tmp_path / who / name for name in ("one", "two")] for who in ("theirs", "ours"))
    with Broker(data_dir=ours[0], config={"log.dirs": ",".join(map(str, ours))}) as broker:
        told = list(story(broker.bootstrap_server, broker.port, ours))
    try:
        with apache_kafka({"log.dirs": ",".join(map(str, theirs))}, data_dir=tmp_path / "base") as apache:
            assert list(story(apache.bootstrap_server, apache.port, theirs)) == told
    except Unavailable as reason:
        pytest.skip(str(reason))


def test_the_tool_of_apache_kafka_moves_a_replica(tmp_path):
    try:
        jars = tools_class_path()
    except Unavailable as reason:
        pytest.skip(str(reason))
    paths = [tmp_path / "one", tmp_path / "two"]
    with Broker(data_dir=paths[0], config={"log.dirs": ",".join(map(str, paths))}) as broker:
        filled(broker.bootstrap_server)
        _, other = elsewhere(broker.port, paths)
        wanted = {"topic": TOPIC, "partition": 0, "replicas": [1], "log_dirs": [other]}
        plan = tmp_path / "move.json"
        plan.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
        run(jars, broker, plan, "--execute")
        wait_until_in(broker.port, TOPIC, 0, other)
        deadline = time.monotonic() + SECONDS_MAX
        while "is completed" not in (said := run(jars, broker, plan, "--verify")):
            assert time.monotonic() < deadline, said
        assert len(broker.records(TOPIC)) == COUNT


def run(jars: str, broker: Broker, plan: Path, what: str) -> str:
    options = ["--bootstrap-server", broker.bootstrap_server, "--reassignment-json-file", str(plan), what]
    done = subprocess.run(
        ["java", "-cp", jars, _TOOL, *options], capture_output=True, text=True, timeout=SECONDS_MAX * 2
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
