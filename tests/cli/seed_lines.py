"""Every command line of Kafka's tools in the texts that this project grew from, to the letter, and where it stands.

What such a line names is somewhere else in a test: `placed` puts in the test's own. Nothing else of it is changed.
"""

import re
from pathlib import Path
from typing import NamedTuple

SHARED = Path(__file__).parents[3] / "shared" / "seeds"
COMMAND = re.compile(r"(?:sh +)?(?:\./|bin/)?kafka-[\w-]+\.sh +[-\w].*")
"""A command has words behind it. Where a sentence mentions a tool, the sentence goes on without a blank."""
MORE = re.compile(r"--|[\w.]+=")
"""The next line belongs to the command if it begins like this."""


class Line(NamedTuple):
    """Seed `seed`, from line `number` on."""

    seed: str
    number: int
    text: str


CREATE = Line(
    "000",
    348,
    "bin/kafka-topics.sh --create --zookeeper 192.168.0.2:2181/kafka100 --topic topic-test1"
    " --replication-factor 2 --partitions 4",
)
ALTER = Line(
    "000",
    429,
    "bin/kafka-topics.sh --zookeeper localhost:2181/kafka --alter --topic topic-config --partitions 3",
)
PRODUCE_MUCH = Line(
    "000",
    442,
    "bin/kafka-producer-perf-test.sh --topic topic-xxx --num-records 1000000 --record-size 1024"
    " --throughput 100000000 --producer-props bootstrap.servers=localhost:9092 acks=1",
)
CONSUME_MUCH = Line(
    "000",
    451,
    "bin/kafka-consumer-perf-test.sh --topic topic-xxx --messages 1000000 --broker-list localhost:9092",
)
DUMP = Line("001", 161, "bin/kafka-run-class.sh kafka.tool.DumpLogSegments")
START = Line("002", 138, "bin/kafka-server-start.sh  config/server.properties")
LIST = Line("002", 145, "bin/kafka-topics.sh --list --zookeeper  zk01:2181")
CREATE_FIRST = Line(
    "002",
    151,
    "./kafka-topics.sh --create --zookeeper mini1:2181 --replication-factor 1 --partitions 3 --topic first",
)
DELETE = Line("002", 157, "sh bin/kafka-topics.sh --delete --zookeeper zk01:2181 --topic test")
PRODUCE = Line("002", 165, "kafka-console-producer.sh --broker-list kafka01:9092 --topic itheima")
CONSUME = Line(
    "002", 171, "sh bin/kafka-console-consumer.sh --zookeeper zk01:2181 --from-beginning --topic test1"
)
CHECK_OFFSETS = Line(
    "002",
    177,
    "sh kafka-run-class.sh kafka.tools.ConsumerOffsetChecker --zookeeper zk01:2181 --group testGroup",
)
DESCRIBE = Line("002", 183, "sh kafka-topics.sh --topic test --describe --zookeeper zk01:2181")
DUMP_INDEX = Line("003", 26, "kafka-run-class.sh kafka.tools.DumpLogSegments --files 文件路径/xxxx.index")
ALL = [
    CREATE,
    ALTER,
    PRODUCE_MUCH,
    CONSUME_MUCH,
    DUMP,
    START,
    LIST,
    CREATE_FIRST,
    DELETE,
    PRODUCE,
    CONSUME,
    CHECK_OFFSETS,
    DESCRIBE,
    DUMP_INDEX,
]


class Places(NamedTuple):
    """Where a test has what the lines speak of."""

    zookeeper: str
    broker: str
    index: str = ""


def placed(line: Line, places: Places) -> str:
    """The command line with the test's own ZooKeeper, broker and file in it; paths in ZooKeeper stay."""
    text = line.text
    for there, here in (
        ("zk01:2181", places.zookeeper),
        ("mini1:2181", places.zookeeper),
        ("192.168.0.2:2181", places.zookeeper),
        ("localhost:2181", places.zookeeper),
        ("kafka01:9092", places.broker),
        ("localhost:9092", places.broker),
        ("文件路径/xxxx.index", places.index),
    ):
        text = text.replace(f" {there}", f" {here}").replace(f"={there}", f"={here}")
    return text


def written(text: str) -> list[tuple[int, str]]:
    """The command lines in a text, those that go on over several lines in one."""
    found: list[tuple[int, str]] = []
    lines = text.splitlines()
    for at, line in enumerate(lines):
        if (command := COMMAND.search(line)) is None:
            continue
        parts = [command[0].strip()]
        for more in lines[at + 1 :]:
            if line.strip() != command[0].strip() or MORE.match(more) is None:
                break
            parts.append(more.strip())
        found.append((at + 1, " ".join(parts)))
    return found
