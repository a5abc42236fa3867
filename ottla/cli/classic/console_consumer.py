"""`kafka-console-consumer`: records of a topic on stdout.

Without --group it reads all partitions by itself, where Apache's makes up a group for the time being. With one, it
commits what was printed. In the end it says on stderr how many messages there were. A broker that cannot be reached is
said at once, and tried again for a minute; with --timeout-ms no longer than that, or five seconds.
"""

import argparse
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.cli.classic.admin_parser import AdminParser, servers_in
from ottla.cli.classic.java import Illegal, exception_text, hash_ordered
from ottla.cli.classic.parser import Refused
from ottla.cli.classic.running import Tool, client_settings, pairs_of, settings_file
from ottla.core.errors import ConfigError, KafkaError, OttlaError

if TYPE_CHECKING:
    from ottla.cli.classic.record_formatters import Format
    from ottla.client import Consumer
    from ottla.client.consumer.interceptors import Records
    from ottla.client.records import ConsumerRecord

_FORMATTER = "org.apache.kafka.tools.consumer.DefaultMessageFormatter"
_PLACES = {"earliest": "earliest", "latest": "latest"}
_GLANCE_MS = 500  # how often it looks whether somebody still reads what it prints
_AT_A_TIME = 500
_MS = 1000
_START_MS_MIN, _START_MS_MAX = 5000, 60_000  # how long to look for a broker, whatever --timeout-ms says
_DEPRECATED = {
    "property": "formatter-property",
    "consumer-property": "command-property",
    "consumer.config": "command-config",
}


class OptionsParser(AdminParser):
    """As strict as those of tools that administer, but what makes no sense is said in front of the options."""

    def read(self, words: Any) -> argparse.Namespace:
        try:
            return super().read(words)
        except Refused as refused:
            raise Refused(str(refused)) from None


def _parser() -> AdminParser:
    parser = OptionsParser(
        "kafka-console-consumer",
        "This tool helps to read data from Kafka topics and outputs it to standard output.",
    )
    parser.option(
        "--bootstrap-server", help="REQUIRED: Brokers, as host:port,host:port.", metavar="String: server"
    )
    parser.option("--topic", help="The topic to read.")
    parser.option(
        "--include", help="A regular expression: all topics that it matches.", metavar="String: regex"
    )
    parser.option(
        "--partition", help="The partition to read; by default all.", metavar="Integer: partition", type=int
    )
    parser.option(
        "--offset", help="Where to begin in it: an offset, earliest or latest.", metavar="String: offset"
    )
    parser.flag("--from-beginning", help="Begin with the first record, where nothing is committed.")
    parser.option("--max-messages", help="End after so many.", metavar="Integer: number", type=int)
    parser.option(
        "--timeout-ms", help="End when nothing has come for so long.", metavar="Integer: ms", type=int
    )
    parser.option("--group", help="The group to read as a member of.", metavar="String: group id")
    parser.option("--formatter", help="The class that prints records.", metavar="String: class")
    printing = "A property of the formatter: print.key, print.timestamp, print.offset, print.partition, print.headers, "
    printing += "print.epoch, print.delivery, print.value, key.separator, line.separator, headers.separator, "
    printing += "null.literal, key.deserializer, value.deserializer, headers.deserializer."
    parser.options("--formatter-property", help=printing, metavar="String: prop")
    parser.options("--property", help="The same, as it was called.", metavar="String: prop")
    parser.option("--formatter-config", help="A file with such properties.", metavar="String: file")
    parser.option("--key-deserializer", help="The class that reads keys.", metavar="String: class")
    parser.option("--value-deserializer", help="The class that reads values.", metavar="String: class")
    parser.option("--isolation-level", help="read_committed or read_uncommitted, which is the default.")
    parser.flag("--skip-message-on-error", help="Go on behind a record that cannot be printed.")
    parser.flag("--enable-systest-events", help="Taken, and without effect.")
    parser.options("--command-property", help="A setting of the consumer.", metavar="String: key=value")
    parser.options("--consumer-property", help="The same, as it was called.", metavar="String: key=value")
    parser.option("--command-config", help="A file with settings of the consumer.", metavar="String: file")
    parser.option("--consumer.config", help="The same, as it was called.", metavar="String: file")
    parser.option("--broker-list", help="The same as --bootstrap-server, as it was once called.")
    parser.option("--zookeeper", help="The ZooKeeper that knows the brokers, as host:port[/chroot].")
    parser.option("--whitelist", help="As --include, with commas between names.", metavar="String: names")
    parser.option("--blacklist", help="All topics but those that it matches.", metavar="String: names")
    parser.flag("--new-consumer", help="Taken, and without effect: there is no other.")
    parser.flag("--delete-consumer-offsets", help="Taken, and without effect: ZooKeeper keeps none.")
    return parser


# --- the command line -------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> int:
    _check(options)
    settings = _settings(options)
    format = _format(options)
    return _consume(options, settings, format)


def _check(options: argparse.Namespace) -> None:
    """Raises Refused, in the order of Apache's tool."""
    for old, new in _DEPRECATED.items():
        if _said(options, old) and _said(options, new):
            raise Refused(f"Options --{old} and --{new} cannot be specified together.")
    for old, new in _DEPRECATED.items():
        if _said(options, old):
            print(
                f"Option --{old} is deprecated and will be removed in a future version. Use --{new} instead.",
                flush=True,
            )
    if not (options.bootstrap_server or options.broker_list or options.zookeeper):
        raise Refused('Missing required argument "[bootstrap-server]"')
    names = [options.topic, options.include, options.whitelist, options.blacklist]
    if sum(each is not None for each in names) != 1:
        raise Refused("Exactly one of the following arguments is required: [topic], [include]")
    if options.partition is not None:
        if options.topic is None:
            raise Refused("The topic is required when partition is specified.")
        if options.group is not None:
            raise Refused("Options group and partition cannot be specified together.")
    if options.offset is not None:
        if options.partition is None:
            raise Refused("The partition is required when offset is specified.")
        if options.from_beginning:
            raise Refused("Options from-beginning and offset cannot be specified together.")
        if options.offset.lower() not in _PLACES and not _is_offset(options.offset):
            raise Refused(
                f"The provided offset value '{options.offset}' is incorrect."
                " Valid values are 'earliest', 'latest', or a non-negative long."
            )


def _said(options: argparse.Namespace, name: str) -> Any:
    return getattr(options, name.replace("-", "_"))


def _is_offset(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 20 and int(text) < 2**63


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Those of the consumer: options go before properties, and those before the file."""
    from ottla.cli.synonyms import translated
    from ottla.client.consumer.config import ConsumerConfig

    from_file = settings_file(options.command_config or _said(options, "consumer.config"))
    from_words = pairs_of(options.command_property or options.consumer_property)
    said = translated({**from_file, **from_words})
    groups = [options.group, from_words.get("group.id"), from_file.get("group.id")]
    ids = hash_ordered({each for each in groups if each is not None})
    if len(ids) > 1:
        shown = ", ".join(f"'{each}'" for each in ids)
        raise Refused(
            "The group ids provided in different places (directly using '--group', via '--consumer-property', or via"
            f" '--consumer.config') do not match. Detected group ids: {shown}"
        )
    reset = said.get("auto.offset.reset")
    if options.from_beginning and reset not in (None, "earliest"):
        raise Refused(
            f"Can't simultaneously specify --from-beginning and 'auto.offset.reset={reset}', please remove one option",
            shows_help=False,
        )
    if options.from_beginning:
        said["auto.offset.reset"] = "earliest"
    if options.isolation_level is not None:
        said["isolation.level"] = options.isolation_level
    defaults: dict[str, Any] = {"client.id": "console-consumer"}
    if options.timeout_ms is not None and options.timeout_ms < _START_MS_MAX:
        defaults["default.api.timeout.ms"] = max(options.timeout_ms, _START_MS_MIN)
    more = {"group.id": ids[0] if ids else None, "key.deserializer": None, "value.deserializer": None}
    return (
        defaults | client_settings(ConsumerConfig, said, **more) | {"bootstrap.servers": servers_in(options)}
    )


def _format(options: argparse.Namespace) -> "Format":
    from ottla.cli.classic.record_formatters import UnknownFormatter, formatter_of

    try:
        properties = settings_file(options.formatter_config)
    except Illegal:
        raise Refused(options.formatter_config) from None
    properties |= pairs_of(options.formatter_property or options.property)
    for name in ("key", "value"):
        if (found := _said(options, f"{name}-deserializer")) is not None:
            properties[f"{name}.deserializer"] = found
    try:
        return formatter_of(options.formatter or _FORMATTER, properties)
    except UnknownFormatter as unknown:
        raise Refused(str(unknown)) from None


# --- reading ----------------------------------------------------------------------------------------------------------


def _consume(options: argparse.Namespace, settings: Mapping[str, Any], format: "Format") -> int:
    from ottla.cli.reading.reading import Interrupts
    from ottla.cli.reading.remarks import CONNECTIONS, remarks
    from ottla.client import Consumer

    with remarks("kafka-console-consumer", is_quiet=False, about=CONNECTIONS) as said:
        consumer = Consumer(**settings)
        printing = _Printing(consumer, format, options, said.relieve)
        try:
            with Interrupts(consumer.wakeup).noted():
                _choose(consumer, options)
                printing.run()
        finally:
            try:
                consumer.close()
            finally:
                print(f"Processed a total of {printing.count} messages", file=sys.stderr)
    return 0


def _choose(consumer: "Consumer", options: argparse.Namespace) -> None:
    from ottla.core.ids import TopicPartition

    if options.partition is not None:
        place = TopicPartition(options.topic, options.partition)
        consumer.assign([place])
        if options.offset is not None and _is_offset(options.offset):
            consumer.seek(place, int(options.offset))
        elif options.from_beginning or (options.offset or "").lower() == "earliest":
            consumer.seek_to_beginning(place)
        else:
            consumer.seek_to_end(place)
    elif options.topic is not None:
        consumer.subscribe([options.topic])
    else:
        consumer.subscribe(pattern=_pattern(options))


def _pattern(options: argparse.Namespace) -> "re.Pattern[str]":
    from ottla.cli.reading.choice import grouped

    text = options.include
    if text is None:
        text = (options.whitelist or options.blacklist).replace(",", "|").strip("\"' ")
    try:
        re.compile(text)
    except re.error as error:
        raise Illegal(f"{text} is no regular expression: {error}") from None
    part = grouped(text)
    return re.compile(f"(?!{part}\\Z).*\\Z" if options.blacklist is not None else f"{part}\\Z")


class _Printing:
    """Records, printed one by one until it is enough."""

    def __init__(
        self,
        consumer: "Consumer",
        format: "Format",
        options: argparse.Namespace,
        relieved: Callable[[], object],
    ) -> None:
        """`relieved` is called when records come."""
        from ottla.cli.reading.output import Output

        self._consumer, self._format, self._relieved = consumer, format, relieved
        self._output = Output()
        limit = options.max_messages
        self._limit = None if limit is None or limit < 0 else limit
        self._timeout_ms = options.timeout_ms
        self._skips = options.skip_message_on_error
        self.count = 0

    def run(self) -> None:
        """Raises what a record that cannot be printed raises, unless those are skipped."""
        heard = time.monotonic()
        while self._limit is None or self.count < self._limit:
            found = self._consumer.poll(
                _GLANCE_MS if self._timeout_ms is None else self._wait_ms(heard), self._room()
            )
            if found:
                self._relieved()
                self._print(found)
                heard = time.monotonic()
            else:
                self._output.check()
                if self._timeout_ms is not None and (time.monotonic() - heard) * _MS >= self._timeout_ms:
                    return

    def _wait_ms(self, heard: float) -> float:
        left = self._timeout_ms - (time.monotonic() - heard) * _MS
        return float(min(_GLANCE_MS, max(1.0, left)))

    def _room(self) -> int:
        return _AT_A_TIME if self._limit is None else min(_AT_A_TIME, self._limit - self.count)

    def _print(self, found: "Records") -> None:
        """All of these. What is not written is given back, so that no group commits it."""
        left = {place: records[0].offset for place, records in found.items()}
        try:
            for place, records in found.items():
                count, failure = self._write(records)
                self.count += count
                del left[place]
                if count < len(records):
                    left[place] = records[count].offset
                if failure is not None:
                    raise failure
        finally:
            if self._consumer.config.group_id is not None:
                for place, offset in left.items():
                    self._consumer.seek(place, offset)

    def _write(self, records: "Sequence[ConsumerRecord]") -> tuple[int, Exception | None]:
        """How many were written, the one that failed among them, and why it did."""
        pieces: list[bytes] = []
        count, failure = 0, None
        for record in records:
            count += 1
            try:
                self._format(record, pieces.append)
            except (OttlaError, ValueError) as error:
                if not self._skips:
                    failure = error
                    break
        self._output.write(b"".join(pieces))
        return count, failure


def _failure(error: Exception) -> None:
    if isinstance(error, KafkaError):
        text = exception_text(error)
    elif isinstance(error, ConfigError):
        text = f"org.apache.kafka.common.config.ConfigException: {error}"
    elif isinstance(error, OSError):
        text = f"java.io.IOException: {error.strerror or error}"
    else:
        text = str(error)
    print(text, file=sys.stderr)


TOOL = Tool(_parser, run, _failure)
