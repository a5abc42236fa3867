"""`kafka-producer-perf-test`: as many records as one can, and how fast that was.

The command line and what it says of it, and what it does with a transaction. The measuring is in `producer_perf_stats`.
"""

import argparse
import asyncio
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from ottla.cli.classic.argparse4j import Argparse4jParser, float_, integer, long
from ottla.cli.classic.argparse4j_text import help_text
from ottla.cli.classic.console_producer import SERVERS, check_choices, configuration_exception
from ottla.cli.classic.java import Illegal, exception_text
from ottla.cli.classic.producer_perf_stats import Stats, Throttle, steady_state
from ottla.cli.classic.running import Tool, client_settings, meet, print_metrics, settings_file
from ottla.core.errors import ConfigError

_ABOUT = (
    "This tool is used to verify the producer performance. To enable transactions, you can specify a transactional id "
    "or set a transaction duration using --transaction-duration-ms. There are three ways to specify the transactional "
    "id: set transactional.id=<id> via --command-property, set transactional.id=<id> in the config file via "
    "--command-config, or use --transactional-id <id>."
)
_DURATION_MS = 3000
_INTERVAL_MS = 5000
_LETTERS = bytes(range(ord("A"), ord("Z") + 1))
_AT_A_TIME = 100
"""Records that are handed in together, as far as the throughput allows."""
_TOO_LARGE = "org.apache.kafka.common.errors.RecordTooLargeException"
_NO_PRODUCER = "org.apache.kafka.common.KafkaException: Failed to construct kafka producer"
_ILLEGAL = "java.lang.IllegalArgumentException"
_DEPRECATED = {"--producer-props": "--command-property", "--producer.config": "--command-config"}


class _Parser(Argparse4jParser):
    """Without any words it shows its help, and that is no failure."""

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        if not words:
            return argparse.Namespace(
                help=False, version=help_text(self)
            )  # what is printed, instead of a number
        return super().read(words)


def _parser() -> Argparse4jParser:
    parser = _Parser("kafka-producer-perf-test", _ABOUT)
    say = parser.argument
    say("--bootstrap-server", metavar="BOOTSTRAP-SERVER", help=_HELP["bootstrap-server"])
    say("--topic", metavar="TOPIC", required=True, help="Produce records to this topic.")
    say(
        "--num-records", metavar="NUM-RECORDS", type=long, required=True, help="Number of records to produce."
    )
    say("--payload-delimiter", metavar="PAYLOAD-DELIMITER", default="\\n", help=_HELP["payload-delimiter"])
    say("--throughput", metavar="THROUGHPUT", type=float_, required=True, help=_HELP["throughput"])
    pair = "PROP-NAME=PROP-VALUE"
    say("--producer-props", metavar=pair, nargs="+", help=_HELP["producer-props"])
    say("--command-property", metavar=pair, nargs="+", help=_HELP["command-property"])
    say("--producer.config", metavar="CONFIG-FILE", help=_HELP["producer.config"])
    say("--command-config", metavar="CONFIG-FILE", help="Producer config properties file.")
    say("--print-metrics", nargs=0, help="Print out metrics at the end of the test. (default: false)")
    say("--transactional-id", metavar="TRANSACTIONAL-ID", help=_HELP["transactional-id"])
    say("--transaction-duration-ms", metavar="TRANSACTION-DURATION", type=long, help=_HELP["duration"])
    say("--warmup-records", metavar="WARMUP-RECORDS", type=long, default=0, help=_HELP["warmup-records"])
    say(
        "--reporting-interval", metavar="INTERVAL-MS", type=long, default=_INTERVAL_MS, help=_HELP["interval"]
    )
    one = "Note that you must provide exactly one of --record-size, --payload-file or --payload-monotonic."
    payload = parser.exclusive(one, required=True)
    payload.argument(
        "--record-size", metavar="RECORD-SIZE", type=integer, help=f"Record size in bytes. {one}"
    )
    payload.argument("--payload-file", metavar="PAYLOAD-FILE", help=f"{_HELP['payload-file']} {one}")
    payload.argument(
        "--payload-monotonic",
        nargs=0,
        help=f"Payload is a monotonically increasing integer. {one} (default: false)",
    )
    return parser


_GONE = "This option will be removed in a future version."
_EXAMPLE = "Example: --command-property linger.ms=10 batch.size=32768"
_OVER = "These configs take precedence over those passed via --command-config or --producer.config."
_HELP = {
    "bootstrap-server": "The server(s) to connect to. This config takes precedence over bootstrap.servers specified "
    "via --command-property or --command-config.",
    "payload-delimiter": "Provides the delimiter to be used when --payload-file is provided. Defaults to new line. "
    "Note that this parameter will be ignored if --payload-file is not provided. (default: \\n)",
    "throughput": "Throttle maximum record throughput to *approximately* THROUGHPUT records/sec. Set this to -1 to "
    "disable throttling.",
    "producer-props": "(DEPRECATED) Kafka producer related configuration properties like client.id. "
    f"{_OVER} {_GONE} Use --command-property instead. {_EXAMPLE}",
    "command-property": f"Kafka producer related configuration properties like client.id. {_OVER} {_EXAMPLE}",
    "producer.config": f"(DEPRECATED) Producer config properties file. {_GONE} Use --command-config instead.",
    "transactional-id": "The transactional id to use. This config takes precedence over the transactional.id specified "
    "via --command-property or --command-config. Note that if the transactional id is not specified while "
    "--transaction-duration-ms is provided, the default value for the transactional id will be performance-producer- "
    "followed by a random uuid.",
    "duration": "The maximum duration of each transaction. The commitTransaction will be called after this time has "
    "elapsed. The value should be greater than 0. If the transactional id is specified via --command-property, "
    "--command-config or --transactional-id but --transaction-duration-ms is not specified, the default value will be "
    "3000.",
    "warmup-records": "The number of records to treat as warmup. These initial records will not be included in "
    "steady-state statistics. An additional summary line will be printed describing the steady-state statistics. "
    "(default: 0)",
    "interval": "Interval in milliseconds at which to print progress info. (default: 5000)",
    "payload-file": "File to read the record payloads from. This works only for UTF-8 encoded text files. Payloads "
    "will be read from this file and a payload will be randomly selected when sending records.",
}


# --- the command line -------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> int:
    _check(options, _parser())
    payload = _payload(options)
    for name, new in _DEPRECATED.items():
        if getattr(options, name.lstrip("-").replace("-", "_").replace(".", "_")):
            print(
                f"Option {name} has been deprecated and will be removed in a future version. Use {new} instead.",
                flush=True,
            )
    settings = _settings(options)
    asyncio.run(_measure(options, settings, payload))
    return 0


def _check(options: argparse.Namespace, parser: Argparse4jParser) -> None:
    """Raises Refused."""
    if options.warmup_records >= options.num_records and options.warmup_records > 0:
        raise parser.fail(
            "The value for --warmup-records must be strictly fewer than the number of records in the test, "
            "--num-records."
        )
    sources = (
        options.bootstrap_server,
        options.command_property,
        options.producer_props,
        options.producer_config,
        options.command_config,
    )
    if not any(sources):
        raise parser.fail(
            "At least one of --bootstrap-server, --command-property, --producer-props, --producer.config or "
            "--command-config must be specified."
        )
    positive = {
        "--num-records": options.num_records,
        "--record-size": options.record_size,
        "--transaction-duration-ms": options.transaction_duration_ms,
        "--reporting-interval": options.reporting_interval,
    }
    for name, value in positive.items():
        if value is not None and value <= 0:
            raise parser.fail(f"{name} should be greater than zero.")
    for one, other in (("command-property", "producer-props"), ("command-config", "producer.config")):
        values = [getattr(options, each.replace("-", "_").replace(".", "_")) for each in (one, other)]
        if all(values):
            raise parser.fail(f"--{one} and --{other} cannot be specified together.")


def _payload(options: argparse.Namespace) -> Callable[[int], bytes]:
    """What makes the value of a record, by its number."""
    chance = random.Random(0)
    if options.payload_monotonic:
        return lambda number: str(number).encode()
    if options.payload_file is not None:
        payloads = _payloads(options.payload_file, options.payload_delimiter)
        return lambda number: payloads[chance.randrange(len(payloads))]
    value = bytes(chance.choices(_LETTERS, k=options.record_size))
    return lambda number: value


def _payloads(path: str, delimiter: str) -> list[bytes]:
    print(f"Reading payloads from: {path}", flush=True)
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        text = ""
    if not text:
        raise Illegal(f"{_ILLEGAL}: File does not exist or empty file provided.")
    parts = text.split("\n" if delimiter == "\\n" else delimiter)
    while parts and not parts[-1]:
        parts.pop()
    print(f"Number of records read: {len(parts)}", flush=True)
    return [each.encode() for each in parts]


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Properties go before the file, options before both. Raises ConfigError, Illegal."""
    import uuid

    from ottla.cli.synonyms import translated
    from ottla.client.producer.config import ProducerConfig, producer_config

    said = settings_file(options.command_config or options.producer_config)
    for word in options.command_property or options.producer_props or []:
        name, equals, value = word.partition("=")
        if not equals:
            raise Illegal(f"{_ILLEGAL}: Invalid property: {word}")
        said[name] = value
    if options.bootstrap_server:
        said["bootstrap.servers"] = options.bootstrap_server
    if options.transactional_id:
        said["transactional.id"] = options.transactional_id
    elif options.transaction_duration_ms is not None and not said.get("transactional.id"):
        said["transactional.id"] = f"performance-producer-{uuid.uuid4()}"
    if not said.get("bootstrap.servers"):
        raise ConfigError('Missing required configuration "bootstrap.servers" which has no default value.')
    if not SERVERS.fullmatch(said["bootstrap.servers"]):
        raise Illegal(f"{_NO_PRODUCER}\nInvalid url in bootstrap.servers: {said['bootstrap.servers']}")
    check_choices(said)
    settings = {"client.id": "perf-producer-client"} | client_settings(ProducerConfig, translated(said))
    settings |= {"key.serializer": None, "value.serializer": None, "interceptors": ()}
    producer_config(settings)
    return settings


# --- the measurement --------------------------------------------------------------------------------------------------


async def _measure(
    options: argparse.Namespace, settings: dict[str, Any], payload: Callable[[int], bytes]
) -> None:
    from ottla.client.producer.config import producer_config
    from ottla.client.producer.producer import AsyncProducer

    await meet(producer_config(settings))
    count, warmup = options.num_records, max(0, options.warmup_records)
    if warmup:
        print(
            f"Warmup first {warmup} records. Steady state results will print after the complete test summary.",
            flush=True,
        )
    stats = Stats(options.reporting_interval)
    steady = Stats(options.reporting_interval, is_quiet=True) if warmup else None
    async with AsyncProducer(**settings) as producer:
        transactions = _Transactions(producer, options.transaction_duration_ms or _DURATION_MS)
        await transactions.init()
        throttle = Throttle(options.throughput)
        stats.start()
        done = 0
        while done < count:
            if steady is not None and done == warmup:
                steady.start()
            left = (warmup if done < warmup else count) - done
            some = min(left, await throttle.allowed(done, _AT_A_TIME))
            await transactions.begin()
            values = [payload(number) for number in range(done, done + some)]
            watching = [stats] if steady is None or done < warmup else [stats, steady]
            await _send(producer, options.topic, values, watching)
            await transactions.maybe_end()
            done += some
        await transactions.end()
        await producer.flush()
        metrics = producer.metrics()
    print(stats.total(), flush=True)
    if steady is not None:
        print(steady_state(steady), flush=True)
    if options.print_metrics:
        print_metrics("producer", metrics, str(settings["client.id"]))


async def _send(producer: Any, topic: str, values: list[bytes], watching: list[Stats]) -> None:
    """Hand them in together; each batch of them is counted when it is acknowledged."""
    from ottla.client.errors import RecordTooLargeError

    sent = time.perf_counter()

    def done(stretch: Any) -> None:
        settled, now = stretch.settled(), time.perf_counter()
        if settled.error is not None:
            print(exception_text(settled.error), file=sys.stderr, flush=True)
        size = sum(len(values[place]) for place in stretch.origins) if settled.acknowledged else 0
        for each in watching:
            each.record(sent, now, settled.acknowledged, size)

    def placed(stretches: list[Any]) -> None:
        for each in stretches:
            each.when_done(done)

    try:
        await producer.send_many(topic, values, placed=placed)
    except RecordTooLargeError as error:
        for _ in values:
            print(f"{_TOO_LARGE}: {error}", file=sys.stderr, flush=True)


class _Transactions:
    """Each is as long as it may be; without a transactional id there are none."""

    def __init__(self, producer: Any, duration_ms: int) -> None:
        self._producer, self._duration_ms = producer, duration_ms
        self._is_wanted = producer.transactional_id is not None
        self._began: float | None = None

    async def init(self) -> None:
        if self._is_wanted:
            await self._producer.init_transactions()

    async def begin(self) -> None:
        if self._is_wanted and self._began is None:
            await self._producer.begin_transaction()
            self._began = time.monotonic()

    async def maybe_end(self) -> None:
        if self._began is not None and (time.monotonic() - self._began) * 1000 >= self._duration_ms:
            await self.end()

    async def end(self) -> None:
        if self._began is not None:
            await self._producer.commit_transaction()
            self._began = None


def _failure(error: Exception) -> None:
    text = configuration_exception(error) if isinstance(error, ConfigError) else exception_text(error)
    print(text, file=sys.stderr)


TOOL = Tool(_parser, run, _failure, needs_words=False)
