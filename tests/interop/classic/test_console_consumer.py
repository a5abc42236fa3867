"""`kafka-console-consumer` and `kafka-consumer-perf-test` print what Apache's own print, on Ottla and on Apache Kafka.

Where several partitions are read, records come in an order that nobody promises: there, lines are compared in order.
Apache's tool advertises a protocol in the first line of stderr, and prints the stack where ours has a sentence.
"""

import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.client import Admin, Consumer, Producer
from tests.interop.classic.compare import Did, lines, running
from tests.oracles.apache_tools import ApacheTools

_ADVERT = "The consumer rebalance protocol (KIP-848)"
_DES = "org.apache.kafka.common.serialization"
_AT = "org.apache.kafka.tools.consumer"
FILES = {"format.properties": "print.offset=true\nkey.separator=|\n", "group.properties": "group.id=other\n"}
NO_BROKER = """
    kafka-console-consumer
    kafka-console-consumer --version
    kafka-console-consumer --topic one
    kafka-console-consumer -B
    kafka-console-consumer -B --topic one --include two
    kafka-console-consumer -B --bogus
    kafka-console-consumer -B --topic one --group
    kafka-console-consumer -B --topic one --partition 0 --offset -5
    kafka-console-consumer -B --topic one --partition 0 --offset abc
    kafka-console-consumer -B --topic one --offset 1
    kafka-console-consumer -B --include one --partition 0
    kafka-console-consumer -B --topic one --partition 0 --offset 1 --from-beginning
    kafka-console-consumer -B --topic one --group g --partition 0
    kafka-console-consumer -B --topic one --group g --consumer-property group.id=h
    kafka-console-consumer -B --topic one --group g --command-config @D/group.properties
    kafka-console-consumer -B --topic one --consumer-property auto.offset.reset=latest --from-beginning
    kafka-console-consumer -B --topic one --command-property a=b --consumer-property c=d
    kafka-console-consumer -B --topic one --formatter-property a=b --property a=d
    kafka-console-consumer -B --topic one --formatter no.such.Formatter
    kafka-console-consumer -B --topic one --formatter-config @D/none
    kafka-console-consumer -B --topic one --command-config @D/none
    kafka-consumer-perf-test
    kafka-consumer-perf-test --version
    kafka-consumer-perf-test --bogus
    kafka-consumer-perf-test -B
    kafka-consumer-perf-test -B --topic one
    kafka-consumer-perf-test -B --topic one --num-records 4 --messages 4
    kafka-consumer-perf-test -B --topic one --include two --num-records 4
    kafka-consumer-perf-test -B --topic one --num-records 4 --reporting-interval 0
"""
_ONE = "kafka-console-consumer -B --topic one --partition 0 --offset earliest --max-messages 3"
_KIND = "kafka-console-consumer -B --topic kinds --partition 0 --max-messages 1"
_INTERNAL = "--partition 0 --offset earliest --timeout-ms 1000 --formatter"
_PRINT = "print.key print.timestamp print.offset print.partition print.headers print.epoch print.delivery"
READ = f"""
    kafka-console-consumer -B --topic one --from-beginning --max-messages 4
    kafka-console-consumer -B --topic one --from-beginning --timeout-ms 1500
    kafka-console-consumer -B --topic one --partition 0 --from-beginning --max-messages 2
    kafka-console-consumer -B --topic one --partition 0 --offset 1 --max-messages 2
    kafka-console-consumer -B --topic one --partition 0 --offset latest --timeout-ms 500
    kafka-console-consumer -B --topic one --partition 0 --offset 50 --timeout-ms 500
    kafka-console-consumer -B --topic one --partition 0 --max-messages 0 --timeout-ms 500
    kafka-console-consumer -B --topic one --partition 0 --offset earliest --max-messages -1 --timeout-ms 1000
    {_ONE} {" ".join(f"--formatter-property {each}=true" for each in _PRINT.split())}
    {_ONE} --formatter-property print.key=true --formatter-property key.separator=: \
        --formatter-property null.literal=NUL --formatter-property "line.separator=;" \
        --formatter-property headers.separator=| --formatter-property print.headers=true
    {_ONE} --property print.key=true --property print.value=false
    {_ONE} --formatter-property print.headers=true --formatter-property headers.deserializer={_DES}.StringDeserializer
    {_ONE} --formatter-property print.key --formatter-property bogus=true
    {_ONE} --formatter-config @D/format.properties --formatter-property print.key=TRUE
    {_ONE} --formatter {_AT}.LoggingMessageFormatter
    {_ONE} --formatter {_AT}.NoOpMessageFormatter
    {_ONE} --value-deserializer no.such.Deserializer
    kafka-console-consumer -B --topic numbers --partition 0 --offset earliest --max-messages 3 \
        --value-deserializer {_DES}.IntegerDeserializer --key-deserializer {_DES}.LongDeserializer \
        --formatter-property print.key=true
    kafka-console-consumer -B --topic numbers --partition 0 --offset earliest --max-messages 3 \
        --skip-message-on-error --value-deserializer {_DES}.IntegerDeserializer --formatter-property print.key=true
    {_KIND} --offset 0 --value-deserializer {_DES}.DoubleDeserializer
    {_KIND} --offset 1 --value-deserializer {_DES}.FloatDeserializer
    {_KIND} --offset 2 --value-deserializer {_DES}.ShortDeserializer
    {_KIND} --offset 3 --value-deserializer {_DES}.UUIDDeserializer
    {_KIND} --offset 4 --value-deserializer {_DES}.BooleanDeserializer
    {_KIND} --offset 5 --value-deserializer {_DES}.BytesDeserializer
    {_KIND} --offset 5 --value-deserializer {_DES}.StringDeserializer
    {_KIND} --offset 5 --value-deserializer {_DES}.ByteBufferDeserializer
    {_KIND} --offset 6 --value-deserializer {_DES}.IntegerDeserializer
    kafka-console-consumer -B --topic txn --partition 0 --offset earliest --max-messages 2
    kafka-console-consumer -B --topic txn --partition 0 --offset earliest --timeout-ms 1000 \
        --isolation-level read_committed
    kafka-console-consumer -B --include on.* --from-beginning --max-messages 4
    kafka-console-consumer -B --topic __consumer_offsets {_INTERNAL} {_AT}.OffsetsMessageFormatter
    kafka-console-consumer -B --topic __consumer_offsets {_INTERNAL} {_AT}.GroupMetadataMessageFormatter
    kafka-console-consumer -B --topic __transaction_state {_INTERNAL} {_AT}.TransactionLogMessageFormatter
    kafka-console-consumer -B --topic one --group g-% --from-beginning --max-messages 2
    kafka-console-consumer -B --topic one --group g-% --max-messages 2
    kafka-consumer-perf-test -B --topic one --num-records 4
    kafka-consumer-perf-test -B --topic one --messages 2 --hide-header
    kafka-consumer-perf-test -B --topic one --num-records 40 --timeout 500
    kafka-consumer-perf-test -B --topic one --num-records 4 --show-detailed-stats --date-format yyyy-MM-dd
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory: Path = tmp_path_factory.mktemp("files")
    for name, text in FILES.items():
        (directory / name).write_text(text)
    return str(directory)


@pytest.fixture(scope="module", params=["ottla", "apache"])
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    config = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    with running(request.param, config) as address:
        _fill(address)
        yield address


def _fill(server: str) -> None:
    with Admin(bootstrap_servers=server) as admin:
        for topic, partitions in {"one": 2, "numbers": 1, "kinds": 1, "txn": 1}.items():
            admin.create_topic(topic, partitions=partitions)
    with Producer(bootstrap_servers=server) as producer:

        def send(topic: str, *args: object, **how: object) -> None:
            producer.send(topic, *args, **{"partition": 0, **how}).get()  # type: ignore[arg-type]  # of any kind

        send("one", b"v0", key=b"k0")
        send("one", b"v1", headers=[("a", b"1"), ("b", None), ("a", b"\xff")])
        send("one", None, key=b"gone")
        send("one", b"w0", key=b"", partition=1)
        for value in (struct.pack(">i", 7), b"abc", struct.pack(">i", 8)):
            send("numbers", value, key=struct.pack(">q", 9))
        kinds = (struct.pack(">d", 1e-5), struct.pack(">f", 3.4e38), struct.pack(">h", -3))
        for kind in (*kinds, b"123e4567-e89b-12d3-a456-426614174000", b"\x01", b"a\\\x00\x7f \xff", None):
            send("kinds", kind)
    with Producer(bootstrap_servers=server, transactional_id="tx") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("txn", b"good", partition=0)
        producer.begin_transaction()
        producer.send("txn", b"bad", partition=0).get()
        producer.abort_transaction()
    with Consumer("one", bootstrap_servers=server, group_id="read", auto_offset_reset="earliest") as consumer:
        while not consumer.poll(1000):
            pass
        consumer.commit()


def _alike(did: Did, words: list[str]) -> tuple[int, object, str]:
    out, err = did.out, "\n".join(each for each in did.err.splitlines() if _ADVERT not in each)
    if "kafka-consumer-perf-test" in words:
        out = re.sub(r"\d+", "0", out)
    is_mixed = "--partition" not in words
    return did.code, sorted(out.splitlines()) if is_mixed else out, err.partition("\n")[0]


def _ours(words: list[str], capfdbinary: pytest.CaptureFixture[bytes]) -> Did:
    capfdbinary.readouterr()
    code = main(words)
    return Did(code, *(each.decode(errors="surrogateescape") for each in capfdbinary.readouterr()))


def _compare(
    text: str, tools: ApacheTools, capfdbinary: pytest.CaptureFixture[bytes], server: str, files: str
) -> None:
    differing = []
    for words in lines(text.replace("\\\n", " "), server, files):
        apache, mine = ([word.replace("%", letter) for word in words] for letter in "ao")
        expected, found = Did(*tools.run(*apache)), _ours(mine, capfdbinary)
        if _alike(found, words) != _alike(expected, words):
            differing.append(f"{' '.join(words)}\n  Apache: {expected}\n  ours:   {found}")
    assert not differing, "\n".join(differing)


def test_what_makes_no_sense_is_said_alike(
    tools: ApacheTools, capfdbinary: pytest.CaptureFixture[bytes], files: str
) -> None:
    _compare(NO_BROKER, tools, capfdbinary, "localhost:9", files)


def test_records_are_printed_alike(
    tools: ApacheTools, capfdbinary: pytest.CaptureFixture[bytes], server: str, files: str
) -> None:
    _compare(READ, tools, capfdbinary, server, files)
