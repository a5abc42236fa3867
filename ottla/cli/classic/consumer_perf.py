"""`kafka-consumer-perf-test`: how fast records are read, as a line of numbers that scripts know how to read.

A megabyte is 1024 * 1024 bytes of keys and values. All records that a poll brings are counted, also when fewer are
wanted. Time to join the group is counted by itself, and the rest is time to fetch.
"""

import argparse
import asyncio
import random
import re
import sys
import time
from collections.abc import Collection
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.cli.classic.admin_parser import AdminParser, servers_in
from ottla.cli.classic.console_consumer import OptionsParser
from ottla.cli.classic.java import Illegal, exception_text
from ottla.cli.classic.parser import Refused
from ottla.cli.classic.running import Tool, client_settings, meet, pairs_of, print_metrics, settings_file
from ottla.client.listener import RebalanceListener
from ottla.core.errors import ConfigError, KafkaError
from ottla.core.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client import Consumer

_MB, _MS = 1 << 20, 1000
_POLL_MS = 100
_DATE_FORMAT = "yyyy-MM-dd HH:mm:ss:SSS"
_RATES = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
_FETCHING = "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
_DATE_TOKEN = re.compile(r"'([^']*)'|([A-Za-z])\2*|[^A-Za-z']+")
_DATES = {
    "yyyy": "%Y", "y": "%Y", "yy": "%y", "MM": "%m", "MMM": "%b", "dd": "%d", "HH": "%H", "hh": "%I", "mm": "%M",
    "ss": "%S", "a": "%p", "EEE": "%a", "DDD": "%j", "z": "%Z", "Z": "%z",
}  # fmt: skip


def _parser() -> AdminParser:
    parser = OptionsParser(
        "kafka-consumer-perf-test", "This tool is used to verify the consumer performance."
    )
    parser.option(
        "--bootstrap-server", help="REQUIRED: Brokers, as host:port,host:port.", metavar="String: server"
    )
    parser.option("--topic", help="The topic to read.", metavar="String: topic")
    parser.option(
        "--include", help="A regular expression: all topics that it matches.", metavar="String: regex"
    )
    parser.option(
        "--num-records", help="REQUIRED: How many records to read.", metavar="Long: count", type=int
    )
    parser.option("--messages", help="The same, as it was called.", metavar="Long: count", type=int)
    parser.option(
        "--group", help="The group to read as a member of; by default a new one.", metavar="String: gid"
    )
    parser.option(
        "--fetch-size", help="How much one fetch brings of a partition.", metavar="Integer: size", type=int
    )
    parser.option(
        "--socket-buffer-size", help="The receive buffer of sockets.", metavar="Integer: size", type=int
    )
    parser.flag("--from-latest", help="Begin with what comes, where nothing is committed.")
    parser.option("--timeout", help="How long to wait for records.", metavar="Long: ms", type=int)
    parser.option("--reporting-interval", help="How often to print.", metavar="Integer: ms", type=int)
    parser.option(
        "--date-format", help="How times are written, as SimpleDateFormat has it.", metavar="String: format"
    )
    parser.flag("--show-detailed-stats", help="Print a line at every reporting interval.")
    parser.flag("--hide-header", help="No names of columns.")
    parser.flag("--print-metrics", help="Print what the client has counted.")
    parser.options("--command-property", help="A setting of the consumer.", metavar="String: key=value")
    parser.option("--command-config", help="A file with settings of the consumer.", metavar="String: file")
    parser.option("--consumer.config", help="The same, as it was called.", metavar="String: file")
    parser.option("--broker-list", help="The same as --bootstrap-server, as it was once called.")
    parser.option("--zookeeper", help="The ZooKeeper that knows the brokers, as host:port[/chroot].")
    parser.option("--threads", help="Taken, and without effect.", metavar="Integer: count", type=int)
    parser.option(
        "--num-fetch-threads", help="Taken, and without effect.", metavar="Integer: count", type=int
    )
    parser.flag("--new-consumer", help="Taken, and without effect: there is no other.")
    return parser


def run(options: argparse.Namespace) -> int:
    _check(options)
    head = f"time, threadId, {_RATES}" if options.show_detailed_stats else f"start.time, end.time, {_RATES}"
    if not options.hide_header:
        print(f"{head}, {_FETCHING}", flush=True)
    if options.reporting_interval is not None and options.reporting_interval <= 0:
        raise Illegal("Reporting interval must be greater than 0.")
    pattern = strftime_pattern(options.date_format or _DATE_FORMAT)
    _measure(options, _settings(options), pattern)
    return 0


def _check(options: argparse.Namespace) -> None:
    if not (options.bootstrap_server or options.broker_list or options.zookeeper):
        raise Refused('Missing required argument "[bootstrap-server]"')
    if (options.topic is None) == (options.include is None):
        raise Refused("Exactly one of the following arguments is required: [topic], [include]")
    if (options.messages is None) == (options.num_records is None):
        raise Refused("Exactly one of the following arguments is required: [messages], [num-records]")
    for old, new in (("messages", "num-records"), ("consumer.config", "command-config")):
        if getattr(options, old) is not None:
            print(f"Warning: --{old} is deprecated. Use --{new} instead.", flush=True)


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    from ottla.cli.synonyms import translated
    from ottla.client.consumer.config import ConsumerConfig

    said = settings_file(options.command_config or getattr(options, "consumer.config"))
    said = translated({**said, **pairs_of(options.command_property)})
    wanted: dict[str, Any] = {
        "group.id": options.group or said.get("group.id") or f"perf-consumer-{random.randrange(100_000)}",
        "max.partition.fetch.bytes": _MB if options.fetch_size is None else options.fetch_size,
        "auto.offset.reset": "latest" if options.from_latest else "earliest",
        "check.crcs": False,
        "key.deserializer": None,
        "value.deserializer": None,
    }
    if options.socket_buffer_size is not None:
        wanted["receive.buffer.bytes"] = options.socket_buffer_size
    defaults = {"client.id": "perf-consumer-client"}
    return (
        defaults
        | client_settings(ConsumerConfig, said, **client_settings(ConsumerConfig, wanted))
        | {"bootstrap.servers": servers_in(options)}
    )


def strftime_pattern(text: str) -> str:
    """A pattern of Java's SimpleDateFormat as one of strftime, where %f is for milliseconds. Raises Illegal."""
    found = []
    for token in _DATE_TOKEN.finditer(text):
        word, quoted, letter = token[0], token[1], token[2]
        if letter is None:
            found.append((quoted or "'" if quoted is not None else word).replace("%", "%%"))
        elif letter == "S":
            found.append("%f")
        elif (known := _DATES.get(word) or _DATES.get(letter * 2) or _DATES.get(letter)) is not None:
            found.append(known)
        else:
            raise Illegal(f"Illegal pattern character '{letter}'")
    return "".join(found)


def _date(moment: float, pattern: str) -> str:
    milliseconds = f"{int(moment * _MS) % _MS:03d}"
    return datetime.fromtimestamp(moment).strftime(pattern.replace("%f", milliseconds))


# --- measuring --------------------------------------------------------------------------------------------------------


class _Read(NamedTuple):
    """How much was read, and how long the group took to come together, up to some moment."""

    records: int
    size: int
    joining_ms: int


class _Joining(RebalanceListener):
    """How long it took to be given partitions."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self.ms = 0

    def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        self.ms += round((time.monotonic() - self._since) * _MS)

    def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        self._since = time.monotonic()


def _measure(options: argparse.Namespace, settings: dict[str, Any], pattern: str) -> None:
    from ottla.cli.reading.choice import grouped
    from ottla.client import Consumer
    from ottla.client.consumer.config import ConsumerConfig
    from ottla.client.settings import read_settings

    asyncio.run(meet(read_settings(ConsumerConfig, settings)))
    with Consumer(**settings) as consumer:
        joining = _Joining()
        if options.topic is not None:
            consumer.subscribe([options.topic], listener=joining)
        else:
            consumer.subscribe(pattern=f"{grouped(options.include)}\\Z", listener=joining)
        started = time.time()
        read = _read(consumer, joining, options, pattern)
        if not options.show_detailed_stats:
            now = time.time()
            print(
                f"{_date(started, pattern)}, {_date(now, pattern)}, {rates(_Read(0, 0, 0), read, now - started)}"
            )
        if options.print_metrics:
            print_metrics("consumer", consumer.metrics(), settings["client.id"])


def _read(consumer: "Consumer", joining: _Joining, options: argparse.Namespace, pattern: str) -> _Read:
    wanted = options.messages if options.num_records is None else options.num_records
    timeout = (10_000 if options.timeout is None else options.timeout) / _MS
    interval = (options.reporting_interval or 5000) / _MS
    count = size = 0
    reported, at = _Read(0, 0, 0), time.time()
    heard = time.monotonic()
    while count < wanted and time.monotonic() - heard <= timeout:
        for records in consumer.poll(_POLL_MS).values():
            count += len(records)
            size += sum(
                [max(0, each.serialized_key_size) + max(0, each.serialized_value_size) for each in records]
            )
            heard = time.monotonic()
        now = time.time()
        if options.show_detailed_stats and count and now - at >= interval:
            read = _Read(count, size, joining.ms)
            print(f"{_date(now, pattern)}, 0, {rates(reported, read, now - at)}", flush=True)
            reported, at = read, now
    if count < wanted:
        print(
            f"WARNING: Exiting before consuming the expected number of records: timeout ({round(timeout * _MS)} ms)"
            " exceeded. You can use the --timeout option to increase the timeout."
        )
    return _Read(count, size, joining.ms)


def rates(before: _Read, now: _Read, seconds: float) -> str:
    """The numbers of a line: how much there is by now, and how fast it came since `before`."""
    count, size = now.records - before.records, now.size - before.size
    joining_ms = now.joining_ms - before.joining_ms
    fetching_ms = max(0, round(seconds * _MS) - joining_ms)
    fetching = fetching_ms / _MS

    def per(amount: float, time: float) -> str:
        return f"{amount / time if time else 0.0:.4f}"

    return (
        f"{now.size / _MB:.4f}, {per(size / _MB, seconds)}, {now.records}, {per(count, seconds)}, "
        f"{joining_ms}, {fetching_ms}, {per(size / _MB, fetching)}, {per(count, fetching)}"
    )


def _failure(error: Exception) -> None:
    text = exception_text(error) if isinstance(error, KafkaError) else str(error)
    if isinstance(error, ConfigError):
        text = f"Invalid configuration: {error}"
    print(text, file=sys.stderr)


TOOL = Tool(_parser, run, _failure)
