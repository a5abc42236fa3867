"""`kafka-console-producer`: lines of stdin as records.

A record that cannot be delivered is reported on stderr, and the rest goes on. The exit code is 1 then, where Apache's
says 0: nobody shall take what was lost for written. With --sync each record is waited for, and the first that fails
ends it.
"""

import argparse
import asyncio
import os
import re
import sys
from typing import TYPE_CHECKING, Any

from ottla.cli.classic.admin_parser import AdminParser
from ottla.cli.classic.console_producer_lines import LineCutter, LineReader, Parsed
from ottla.cli.classic.java import Illegal
from ottla.cli.classic.parser import Refused
from ottla.cli.classic.running import Tool, client_settings, meet, pairs_of, servers_of, settings_file
from ottla.core.errors import ConfigError, KafkaError, OttlaError

if TYPE_CHECKING:
    from ottla.client.producer.producer import AsyncProducer

_LINE_READERS = {"org.apache.kafka.tools.LineMessageReader", "kafka.tools.ConsoleProducer$LineMessageReader"}
_CONFIG_EXCEPTION = "org.apache.kafka.common.config.ConfigException"
SERVERS = re.compile(r"(?:[^,\s]+:\d+)(?:,[^,\s]+:\d+)*")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_ACKS = ("all", "-1", "0", "1")
_OPTIONS = {
    "--request-required-acks": ("acks", str, "Whose word counts: 0, 1 or all."),
    "--batch-size": ("batch.size", int, "How many bytes a batch of a partition gathers."),
    "--max-partition-memory-bytes": (
        "batch.size",
        int,
        "The same, as it was called; it goes before --batch-size.",
    ),
    "--max-memory-bytes": ("buffer.memory", int, "How many bytes may wait to be sent."),
    "--max-block-ms": ("max.block.ms", int, "How long a record may wait for room, or for the topic."),
    "--message-send-max-retries": ("retries", int, "How often a batch is sent again."),
    "--retry-backoff-ms": ("retry.backoff.ms", int, "The pause before it is."),
    "--metadata-expiry-ms": ("metadata.max.age.ms", int, "After so long metadata is asked for anew."),
    "--request-timeout-ms": ("request.timeout.ms", int, "How long a broker may take to answer."),
    "--socket-buffer-size": ("send.buffer.bytes", int, "The send buffer of sockets."),
    "--timeout": ("linger.ms", int, "How long a batch that is not full waits for more."),
}
"""What is a setting of the producer, and which."""
_DEPRECATED = {
    "--property": ("--reader-property", "a future version"),
    "--producer-property": ("--command-property", "a future version"),
    "--producer.config": ("--command-config", "a future version"),
    "--max-partition-memory-bytes": ("--batch-size", "Apache Kafka 5.0"),
}


def _parser() -> AdminParser:
    parser = AdminParser(
        "kafka-console-producer",
        "This tool helps to read data from standard input and publish it to Kafka.",
    )
    parser.option("--topic", help="REQUIRED: The topic to produce to.", metavar="String: topic")
    parser.option("--bootstrap-server", help="REQUIRED: Brokers, as host:port,host:port.")
    parser.option("--broker-list", help="The same as --bootstrap-server, as it was once called.")
    parser.flag("--sync", help="Wait for each record before the next is sent.")
    parser.add_argument(
        "--compression-codec",
        nargs="?",
        const="gzip",
        metavar="String: compression-codec",
        help="none, gzip, snappy, lz4 or zstd; without a value it is gzip.",
    )
    for name, (_, kind, text) in _OPTIONS.items():
        parser.option(name, help=text, metavar="String" if kind is str else "Integer", type=kind)
    parser.option("--line-reader", help="The class that reads lines: only Apache's own is known.")
    reader = "A property of the line reader: parse.key, parse.headers, ignore.error, key.separator, "
    reader += "headers.delimiter, headers.separator, headers.key.separator, null.marker."
    parser.options("--reader-property", help=reader, metavar="String: prop")
    parser.options("--property", help="The same, as it was called.", metavar="String: prop")
    parser.option("--reader-config", help="A file with such properties.", metavar="String: file")
    parser.options("--command-property", help="A setting of the producer.", metavar="String: key=value")
    parser.options("--producer-property", help="The same, as it was called.", metavar="String: key=value")
    parser.option("--command-config", help="A file with settings of the producer.", metavar="String: file")
    parser.option("--producer.config", help="The same, as it was called.", metavar="String: file")
    return parser


def run(options: argparse.Namespace) -> int:
    servers = _checked(options)
    reader = _reader(options)
    settings = _settings(options) | {"bootstrap.servers": servers}
    return asyncio.run(_produce(options, reader, settings))


# --- the command line -------------------------------------------------------------------------------------------------


def _checked(options: argparse.Namespace) -> str:
    """The servers. Raises Refused."""
    for new, old in (("reader-property", "property"), ("command-property", "producer-property")):
        if getattr(options, new.replace("-", "_")) and getattr(options, old.replace("-", "_")):
            raise Refused(f"Options --{new} and --{old} cannot be specified together.")
    if options.command_config and getattr(options, "producer.config"):
        raise Refused("Options --command-config and --producer.config cannot be specified together.")
    for name, (new, when) in _DEPRECATED.items():
        if getattr(options, name.lstrip("-").replace("-", "_")):
            print(f"Warning: {name} is deprecated and will be removed in {when}. Use {new} instead.")
    sys.stdout.flush()
    if not options.topic:
        raise Refused('Missing required argument "[topic]"')
    if not options.bootstrap_server and not options.broker_list:
        raise Refused("Error while validating the bootstrap address\n")
    servers = servers_of(options)
    if not SERVERS.fullmatch(servers):
        raise Refused("Please provide valid host:port like host1:9091,host2:9092\n")
    return servers


def _reader(options: argparse.Namespace) -> LineReader:
    name = options.line_reader
    if name is not None and name not in _LINE_READERS:
        raise Illegal(
            f"java.lang.ClassNotFoundException: {name}\nOnly Apache's own line reader is known here."
        )
    properties = settings_file(options.reader_config) | pairs_of(options.reader_property or options.property)
    return LineReader(properties)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Options go before properties, and those before the file."""
    from ottla.cli.synonyms import translated
    from ottla.client.producer.config import ProducerConfig, producer_config

    said = settings_file(options.command_config or getattr(options, "producer.config"))
    said |= pairs_of(options.command_property or options.producer_property)
    for name, (key, _, _) in _OPTIONS.items():
        if (value := getattr(options, name.lstrip("-").replace("-", "_"))) is not None:
            said[key] = str(value)
    if options.compression_codec is not None:
        said["compression.type"] = options.compression_codec
    check_choices(said)
    settings = {"client.id": "console-producer", "retries": "3"} | client_settings(
        ProducerConfig, translated(said)
    )
    settings |= {"transactional.id": None, "interceptors": ()}
    producer_config(settings)  # so that what is wrong with them is said before anything is read
    return settings


def check_choices(said: dict[str, str]) -> None:
    """Raises ConfigError, in Java's words."""
    for key, allowed in (("acks", _ACKS), ("compression.type", _CODECS)):
        if key in said and said[key] not in allowed:
            raise ConfigError(
                f"Invalid value {said[key]} for configuration {key}: String must be one of: {', '.join(allowed)}"
            )


# --- records ----------------------------------------------------------------------------------------------------------


async def _produce(options: argparse.Namespace, reader: LineReader, settings: dict[str, Any]) -> int:
    from ottla.cli.sending.inputs import Input
    from ottla.client.producer.config import producer_config
    from ottla.client.producer.producer import AsyncProducer

    await meet(producer_config(settings))
    source, cutter = Input(), LineCutter()
    prompts = source.is_terminal and sys.stdout.isatty()
    async with AsyncProducer(**settings) as producer:
        sending = _Sending(producer, options.topic, is_sync=options.sync)
        _prompt(prompts)
        while data := await source.read():
            for line in cutter.cut(data):
                await sending.send(reader.record_of(line))
                _prompt(prompts)
        for line in cutter.last():
            await sending.send(reader.record_of(line))
        await producer.flush()
    return 1 if sending.has_lost else 0


def _prompt(is_wanted: bool) -> None:
    if is_wanted:
        sys.stdout.write(">")
        sys.stdout.flush()


class _Sending:
    """Sends records, and says of each that cannot be delivered that it was not."""

    def __init__(self, producer: "AsyncProducer", topic: str, *, is_sync: bool) -> None:
        self._producer, self._topic, self._is_sync = producer, topic, is_sync
        self.has_lost = False

    async def send(self, record: Parsed) -> None:
        try:
            delivery = await self._producer.send(self._topic, record.value, record.key, record.headers)
            if self._is_sync:
                await delivery
            else:
                delivery.add_errback(self._undelivered, record)
        except KafkaError as error:
            if self._is_sync:
                raise
            self._undelivered(record, error)

    def _undelivered(self, record: Parsed, error: Exception) -> None:
        self.has_lost = True
        key = "null" if record.key is None else f"{len(record.key)} bytes"
        value = "null" if record.value is None else f"{len(record.value)} bytes"
        sys.stderr.write(
            f"ERROR Error when sending message to topic {self._topic} with key: {key}, value: {value} with error: "
            f"{error}\n"
        )
        sys.stderr.flush()


def configuration_exception(error: Exception) -> str:
    return f"{_CONFIG_EXCEPTION}: {error}"


def _failure(error: Exception) -> None:
    from ottla.cli.classic.java import exception_text

    if isinstance(error, ConfigError):
        text = configuration_exception(error)
    elif isinstance(error, KafkaError):
        text = f"java.util.concurrent.ExecutionException: {exception_text(error)}"
    elif isinstance(error, OttlaError):
        text = str(error)
    else:
        assert isinstance(error, OSError), "nothing else is handed over"
        text = f"java.io.IOException: {error.strerror or error}"
    print(text, file=sys.stderr)
    if os.environ.get("OTTLA_TRACEBACK") == "1":
        import traceback

        traceback.print_exception(error)


TOOL = Tool(_parser, run, _failure)
