"""The commands in the texts that this project grew from do what the texts say, run as they are written there."""

import re

import pytest

from ottla.client import Admin, Consumer, Producer, TopicPartition
from ottla.client.admin.partitions import OffsetSpec
from ottla.testing.zookeeper import Unavailable, ZooKeeper
from tests.cli import seed_lines as lines
from tests.cli.installation import Installation, installed, interrupt

RECORDS = 1_000_000


@pytest.fixture(scope="module")
def kafka(tmp_path_factory):
    try:
        zookeeper = ZooKeeper(syncs=False)
    except Unavailable as error:
        pytest.skip(str(error))
    with zookeeper, installed(tmp_path_factory.mktemp("kafka"), zookeeper.connect_string) as found:
        yield found


def admin_of(kafka: Installation, path: str = "") -> Admin:
    return Admin(bootstrap_servers=kafka.clusters[path])


def create(kafka: Installation, topic: str, partitions: int = 1, path: str = "") -> None:
    with admin_of(kafka, path) as admin:
        admin.create_topic(topic, partitions=partitions, replication_factor=1)


def produce(kafka: Installation, topic: str, *values: bytes) -> None:
    with Producer(bootstrap_servers=kafka.clusters[""]) as producer:
        for value in values:
            producer.send(topic, value)


def shape(kafka: Installation, topic: str, path: str = "") -> tuple[int, set[int]]:
    """The number of its partitions, and of the replicas that they have."""
    with admin_of(kafka, path) as admin:
        found = admin.describe_topics([topic])[topic]
    return len(found.partitions), {len(each.replicas) for each in found.partitions}


def values_in(kafka: Installation, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(bootstrap_servers=kafka.clusters[""], auto_offset_reset="earliest")
    try:
        consumer.assign([TopicPartition(topic, 0)])
        found: list[bytes] = []
        while len(found) < count:
            found += [each.value for batch in consumer.poll(timeout_ms=30_000).values() for each in batch]
        return found
    finally:
        consumer.close()


# --- the table --------------------------------------------------------------------------------------------------------


def test_the_table_has_every_command_line_of_the_texts():
    if not lines.SHARED.is_dir():
        pytest.skip("the texts are not here")
    there = {
        lines.Line(path.name[:3], number, text)
        for path in lines.SHARED.glob("*.txt")
        for number, text in lines.written(path.read_text(encoding="utf-8"))
    }
    assert there == set(lines.ALL)


# --- topics -----------------------------------------------------------------------------------------------------------


def test_a_topic_with_four_partitions_and_two_replicas_is_created(kafka):
    done = kafka.run(lines.CREATE)
    assert (done.returncode, done.stdout) == (0, "Created topic topic-test1.\n"), done.stderr
    assert shape(kafka, "topic-test1", "/kafka100") == (4, {2})


def test_a_topic_with_one_partition_gets_three(kafka):
    create(kafka, "topic-config", path="/kafka")
    done = kafka.run(lines.ALTER)
    assert done.returncode == 0, done.stderr
    assert "WARNING: If partitions are increased for a topic that has a key" in done.stdout
    assert "Adding partitions succeeded!" in done.stdout
    assert shape(kafka, "topic-config", "/kafka") == (3, {1})


def test_topics_are_created_listed_described_and_deleted(kafka):
    create(kafka, "test", 2)
    done = kafka.run(lines.CREATE_FIRST)
    assert (done.returncode, done.stdout) == (0, "Created topic first.\n"), done.stderr
    assert shape(kafka, "first") == (3, {1})

    listed = kafka.run(lines.LIST)
    assert listed.returncode == 0, listed.stderr
    assert {"first", "test"} <= set(listed.stdout.split())
    assert "topic-test1" not in listed.stdout, "it is of another cluster"

    described = kafka.run(lines.DESCRIBE)
    assert described.returncode == 0, described.stderr
    assert described.stdout.splitlines()[0].startswith("Topic: test\t")
    for partition in (0, 1):
        assert f"\tTopic: test\tPartition: {partition}\tLeader: 0\tReplicas: 0\tIsr: 0" in described.stdout

    deleted = kafka.run(lines.DELETE)
    assert deleted.returncode == 0, deleted.stderr
    assert "Topic test is marked for deletion." in deleted.stdout
    assert "test" not in kafka.run(lines.LIST).stdout.split()


# --- records ----------------------------------------------------------------------------------------------------------


def test_what_is_typed_becomes_records(kafka):
    done = kafka.run(lines.PRODUCE, says="one\ntwo\nthree\n")
    assert done.returncode == 0, done.stderr
    assert values_in(kafka, "itheima", 3) == [b"one", b"two", b"three"]


def test_records_come_out_from_the_beginning(kafka):
    create(kafka, "test1")
    produce(kafka, "test1", b"tea", b"coffee")
    with kafka.going_on(lines.CONSUME) as consumer:
        assert consumer.stdout is not None
        assert [consumer.stdout.readline() for _ in range(2)] == ["tea\n", "coffee\n"]
        produce(kafka, "test1", b"milk")
        assert consumer.stdout.readline() == "milk\n", "it waits for more"
        assert "Processed a total of 3 messages" in "".join(interrupt(consumer))


def test_how_far_a_group_has_read_is_shown(kafka):
    create(kafka, "read")
    produce(kafka, "read", *(b"%d" % number for number in range(5)))
    consumer = Consumer("read", bootstrap_servers=kafka.clusters[""], group_id="testGroup")
    try:
        partition = TopicPartition("read", 0)
        while partition not in consumer.assignment():
            consumer.poll(timeout_ms=100)
        consumer.commit({partition: 3})
        done = kafka.run(lines.CHECK_OFFSETS)
    finally:
        consumer.close()
    assert done.returncode == 0, done.stderr
    head, row = (line.split() for line in done.stdout.splitlines()[:2])
    assert head == ["Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner"]
    assert row[:6] == ["testGroup", "read", "0", "3", "5", "2"]


def test_many_records_are_written_and_read(kafka):
    create(kafka, "topic-xxx", 4)
    done = kafka.run(lines.PRODUCE_MUCH)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    numbers = r"[\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, [\d.]+ ms max latency"
    assert re.match(rf"{RECORDS} records sent, {numbers}, \d+ ms 50th, .* 99.9th.", last), last
    with admin_of(kafka) as admin:
        ends = admin.list_offsets({TopicPartition("topic-xxx", each): OffsetSpec.LATEST for each in range(4)})
    assert sum(each.offset for each in ends.values()) == RECORDS

    done = kafka.run(lines.CONSUME_MUCH)
    assert done.returncode == 0, done.stderr
    head, row = (line.split(", ") for line in done.stdout.splitlines()[-2:])
    assert head[:6] == [
        "start.time",
        "end.time",
        "data.consumed.in.MB",
        "MB.sec",
        "data.consumed.in.nMsg",
        "nMsg.sec",
    ]
    found = dict(zip(head, row, strict=True))
    assert int(found["data.consumed.in.nMsg"]) >= RECORDS
    assert float(found["data.consumed.in.MB"]) == pytest.approx(RECORDS * 1024 / 2**20, rel=0.01)


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def segment(kafka):
    """The path of a segment that is full, without its suffix: the index of the last one is still in memory."""
    with admin_of(kafka) as admin:
        admin.create_topic("dumped", partitions=1, configs={"segment.bytes": "1000"})
    for number in range(20):
        produce(kafka, "dumped", b"record %d" % number)
    return str(kafka.home / "data" / "dumped-0" / ("0" * 20))


def test_a_segment_is_shown_record_by_record(kafka, segment):
    alone = kafka.run(lines.DUMP)
    assert (alone.returncode, alone.stdout) == (1, "")
    assert "--deep-iteration" in alone.stderr, "it says which options there are"
    done = kafka.run(lines.DUMP, "--deep-iteration", "--print-data-log", "--files", f"{segment}.log")
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^\| offset: (\d+) .* payload: (.*)$", done.stdout, re.MULTILINE)
    assert len(found) > 5
    assert found == [(str(number), f"record {number}") for number in range(len(found))]


def test_an_index_is_shown_entry_by_entry(kafka, segment):
    done = kafka.run(lines.DUMP_INDEX, index=f"{segment}.index")
    assert (done.returncode, done.stderr) == (0, "")
    head, *entries = done.stdout.splitlines()
    assert head == f"Dumping {segment}.index"
    assert len(entries) > 3
    assert all(re.fullmatch(r"offset: \d+ position: \d+", each) for each in entries)
