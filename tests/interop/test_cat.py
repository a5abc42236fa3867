"""`ottla cat` and kcat: the same words, the same bytes on stdout, the same records in the log, the same remarks.

In a command line {topic} is a topic that each of the two tools has for itself, {tea} one that was written before:
twelve records in one partition, a second apart, with nulls, empty fields and headers. {spread} has three partitions.
"""

import contextlib
import functools
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from ottla.client import Admin, Consumer, Producer, TopicPartition
from ottla.client.admin.topic_values import NewTopic
from tests.interop.brokers import Ottla, eventually
from tests.interop.clients import kcat
from tests.interop.clients.client import Unavailable
from tests.oracles import apache_kafka

CAT = [sys.executable, "-c", "import sys; from ottla.cli.main import main; sys.exit(main())", "cat"]
TIME = 1_700_000_000_000
FIELDS = r"%t [%p] %o: %k=%s (%K %S) %T %h %R;\n"
TOOLS = ("kcat", "ottla")


class Line(NamedTuple):
    """A command line, and what is typed into it."""

    words: str
    stdin: bytes = b""
    sorted: bool = False
    """The order in which partitions come is not the tool's to choose."""
    asks: bool = False
    """What comes out depends on the broker's answers, and not on the tools alone: it is run on Apache Kafka too."""


SENT = [
    Line("-P -t {topic} -p 0", b"one\ntwo\n\nthree"),
    Line("-t {topic} -p 0", b"one\n"),
    Line("-Pt{topic} -p2 -D;", b"a;b;;c;"),
    Line(r"-P -t {topic} -p 0 -D \x41\x42", b"oneABtwoABthree"),
    Line("-P -t {topic} -K:", b"".join(b"k%d:%d\n" % (number, number) for number in range(40)), asks=True),
    Line("-P -t {topic} -p 1 -K:", b"a:1\nb:2:3\nc\n:d\ne:\n:\n"),
    Line("-P -t {topic} -p 1 -K: -Z", b"a:1\nb:\n:c\n:\n", asks=True),
    Line("-P -t {topic} -p 1 -K: -Z -k fixed", b"a:1\nb:\n:c\nd\n"),
    Line(r"-P -t {topic} -p 1 -K \t -k fixed", b"a\t1\nb\n"),
    Line("-P -t {topic} -k fixed", b"a\nb\n"),
    Line("-P -t {topic} -p 0 -H a=1 -H b -H c= -H d=x=y -H a=2", b"x\n", asks=True),
    Line("-P -t {topic} -p 0 -T", b"a\nb\nc\n"),
    Line("-P -t {topic} -p 0 -T -K:", b"a:1\nb:2\n"),
    Line("-P -t {topic} -p 0 -c 2", b"a\nb\nc\n"),
    Line("-P -t {topic} -p 0 -z gzip", b"a\n" * 500, asks=True),
    Line("-P -t {topic} -p 0 -z lz4 -X acks=1", b"a\n" * 500, asks=True),
    Line("-P -t {topic} -p 0 -X topic.acks=all", b"a\n"),
    Line("-P -t {topic} -p 0 -X message.max.bytes=2000000", b"x" * 1_500_000 + b"\nshort\n", asks=True),
    Line("-P -t {topic} -p 0 {file} {file}", asks=True),
    Line("-P -t {topic} -p 0 -l {file}"),
    Line("-P -t {topic} -p 0 -l {file} -K = -c 2"),
    Line("-P -t {topic} -K: -X partitioner=murmur2", b"".join(b"k%d:\n" % number for number in range(40))),
    Line(
        "-P -t {topic} -K: -X partitioner=consistent", b"".join(b"%d:x\nx\n" % number for number in range(40))
    ),
    Line("-P -t {topic} -p 0", bytes(each for each in range(256) if each != 10)),
]

READ = [
    Line("-C -t {tea} -e", asks=True),
    Line("-Ct {tea} -e -D ;"),
    Line("-C -t {tea} -e -K:"),
    Line("-C -t {tea} -e -K: -Z"),
    Line("-C -t {tea} -eq -f FIELDS"),
    Line("-C -t {tea} -eqZ -f FIELDS", asks=True),
    Line(r"-C -t {tea} -eq -f %s\t%k\x0a%%\n"),
    Line("-C -t {tea} -e -J", asks=True),
    Line("-C -t {tea} -eqJ -D ;"),
    Line("-C -t {tea} -eqJ -o -3"),
    Line("-C -t {tea} -c 3"),
    Line("-C -t {tea} -e -o 4"),
    Line("-C -t {tea} -e -o -2", asks=True),
    Line("-C -t {tea} -eo end", asks=True),
    Line("-C -t {tea} -p 0 -e -o beginning -c 2"),
    Line(f"-C -t {{tea}} -e -o s@{TIME + 3500}", asks=True),
    Line(f"-C -t {{tea}} -o e@{TIME + 3500}", asks=True),
    Line(f"-C -t {{tea}} -e -o s@{TIME + 3000} -o e@{TIME + 5000}", asks=True),
    Line("-C -t {tea} -eq -o 11 -s value=is"),
    Line("-C -t {tea} -eq -o 11 -s key=c -s value=>ibc$ -K|"),
    Line("-C -t {tea} -eq -o 11 -s value=>iB"),
    Line("-C -t {spread} -eq -f %p:%o:%k:%s\\n", sorted=True),
    Line("-C -t {spread} -e", sorted=True, asks=True),
    Line("-C -t {spread} -p 2 -e -K:"),
    Line("-C -t {spread} -eqJ", sorted=True),
    Line("-G {group} {tea} -e -X auto.offset.reset=earliest", asks=True),
    Line("-G {group} {tea} -q -c 4 -o beginning -f %o\\n", asks=True),
    Line(
        "-G {group} {spread} ^te.$ -eq -X auto.offset.reset=smallest -f %t:%p:%o\\n", sorted=True, asks=True
    ),
    Line("-L -t {spread}", asks=True),
    Line("-L -t {spread} -J", asks=True),
    Line("-Q -t {spread}:1:-1 -t {tea}:0:-2", asks=True),
    Line(f"-Q -t {{tea}}:0:{TIME + 2500} -t {{spread}}:0:0", asks=True),
    Line(f"-Q -J -t {{tea}}:0:{TIME + 99_000} -t {{spread}}:2:-1 -t {{spread}}:0:-1", asks=True),
]

REFUSED = [
    Line("-C -t {tea} -e -p 7", asks=True),
    Line("-C -t {tea} -f %y"),
    Line("-C -t {tea} -s value=z"),
    Line("-C -t {tea} -eq -s value=q -o 11"),
    Line("-P -t {tea} /no/such/file"),
    Line("-P -t {tea} -l /no/such/file"),
    Line("-P -t {tea} -p 7", b"x\n", asks=True),
    Line("-P -t {tea} -z brotli", b"x\n"),
    Line("-P -t {tea} -X no.such.thing=1", b"x\n"),
    Line("-L -Z -t {tea} -b 127.0.0.1:1 -m 1"),
    Line("-Q -t {tea}:9:-1", asks=True),
    Line("-Q -t {tea}"),
]


def cases(lines: list[Line]) -> pytest.MarkDecorator:
    """All lines on an Ottla broker, and on Apache Kafka those that ask it something."""
    found = [
        pytest.param(kind, number, id=f"{kind}-{line.words}")
        for kind in ("ottla", "apache")
        for number, line in enumerate(lines)
        if kind == "ottla" or line.asks
    ]
    return pytest.mark.parametrize(("servers", "number"), found, indirect=["servers"])


@pytest.fixture(scope="module")
def broker_of(tmp_path_factory) -> Iterator[Callable[[str], str]]:
    """Where a broker of a kind is, with the topics that are read. Each is started once, and stays to the end."""
    settings = {"group.initial.rebalance.delay.ms": "0"}
    with contextlib.ExitStack() as running:

        @functools.cache
        def broker_of(kind: str) -> str:
            if kind == "ottla":
                broker = Ottla(tmp_path_factory.mktemp("ottla"), settings)
                running.callback(broker.stop)
                address = broker.address
            else:
                address = running.enter_context(apache_kafka.apache_kafka(settings)).bootstrap_server
            fill(address)
            return address

        yield broker_of


@pytest.fixture
def servers(request, broker_of) -> str:
    try:
        kcat.prepare()
        return broker_of(request.param)
    except (Unavailable, apache_kafka.Unavailable) as error:
        pytest.skip(str(error))


def fill(servers: str) -> None:
    kept = {"retention.ms": "-1", "max.message.bytes": "3000000"}
    topics = [NewTopic("tea", 1, 1, None, kept), NewTopic("spread", 3, 1, None, kept)]
    topics += [
        NewTopic(f"{tool}-{number}", 3, 1, None, kept) for tool in TOOLS for number in range(len(SENT))
    ]
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics(topics)
        names = [each.name for each in topics]
        assert eventually(
            lambda: all(
                part.leader is not None and part.leader >= 0
                for each in admin.describe_topics(names).values()
                for part in each.partitions
            )
        )
    fields = [(b"k", b"v"), (None, b"no key"), (b"gone", None), (b"", b""), ("ä".encode(), b'"\x01\x1f\\\t/')]
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(11):
            key, value = fields[number % len(fields)]
            headers = [("h", b"%d" % number), ("null", None), ("empty", b"")] if number % 3 == 0 else []
            producer.send("tea", value, key=key, headers=headers, timestamp_ms=TIME + number * 1000)
        producer.send("tea", b"\0\0\0\x05\x7ex", key=b"c", timestamp_ms=TIME + 11_000)
        for number in range(30):
            producer.send(
                "spread", b"%d" % number, key=b"k", partition=number % 3, timestamp_ms=TIME + number
            )
        producer.flush()


def run(tool: str, servers: str, line: Line, **names: str) -> tuple[int, bytes, list[str]]:
    command = ["kcat"] if tool == "kcat" else CAT
    words = [each.replace("FIELDS", FIELDS) for each in line.words.format(**names).split(" ")]
    done = subprocess.run(
        [*command, "-F", "none", "-b", servers, *words], input=line.stdin, capture_output=True, timeout=60
    )
    out = b"\n".join(sorted(done.stdout.split(b"\n"))) if line.sorted else done.stdout
    said = [re.sub(r"memberid [^)]*", "memberid", each) for each in done.stderr.decode().splitlines()]
    said = [each.replace(names["topic"], "TOPIC").replace(names["group"], "GROUP") for each in said]
    if line.sorted:
        said = sorted(each.removesuffix(": exiting") for each in said)
    return done.returncode, out, said


def names_of(tool: str, number: int, file: str = "") -> dict[str, str]:
    return {
        "topic": f"{tool}-{number}",
        "tea": "tea",
        "spread": "spread",
        "group": f"{tool}-group-{number}",
        "file": file,
    }


def records(servers: str, topic: str) -> list[tuple[object, ...]]:
    """What lies in a topic, but for the times."""
    places = [TopicPartition(topic, number) for number in range(3)]
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        found: list[tuple[object, ...]] = []
        while len(found) < sum(ends.values()):
            for each in consumer.poll(1000).values():
                found += [(one.partition, one.offset, one.key, one.value, one.headers) for one in each]
    return sorted(found, key=lambda row: row[:2])


@cases(SENT)
def test_the_same_records_arrive(servers, number, tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"a=1\nb=2\n\nc=3")
    done = [run(tool, servers, SENT[number], **names_of(tool, number, str(file))) for tool in TOOLS]
    assert done[0] == done[1]
    assert done[1][0] == 0
    sent = [records(servers, f"{tool}-{number}") for tool in TOOLS]
    assert sent[0] == sent[1]
    assert sent[1]


@cases(READ)
def test_the_same_bytes_are_printed(servers, number):
    done = [run(tool, servers, READ[number], **names_of(tool, number)) for tool in TOOLS]
    assert done[0] == done[1]
    assert done[1][0] == 0


@cases(REFUSED)
def test_what_kcat_refuses_is_refused_in_one_sentence(servers, number):
    line = REFUSED[number]
    theirs, ours = (run(tool, servers, line, **names_of(tool, number)) for tool in TOOLS)
    assert theirs[0] == 1
    assert ours[0] in (1, 2, 4, 6)
    assert ours[1] == b""
    assert len([each for each in ours[2] if not each.startswith("%")]) == 1
