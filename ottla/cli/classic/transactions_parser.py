"""The command line of `kafka-transactions`: six commands, read and explained as argparse4j does."""

from ottla.cli.classic.argparse4j import Argparse4jParser, integer, long
from ottla.cli.classic.running import KAFKA_VERSION

_FILTER = (
    "Duration (in millis) to filter by: if < 0, all transactions will be returned; otherwise, only transactions "
    "running longer than this duration will be returned"
)


def parser() -> Argparse4jParser:
    made = Argparse4jParser(
        "kafka-transactions",
        "This tool is used to analyze the transactional state of producers in the cluster. It can be used to detect "
        "and recover from hanging transactions.",
        prog="kafka-transactions.sh",
        version=KAFKA_VERSION,
    )
    made.argument(
        "--command-config",
        metavar="FILE",
        help="property file containing configs to be passed to admin client",
    )
    made.argument(
        "--bootstrap-server",
        metavar="host:port",
        required=True,
        help="hostname and port for the broker to connect to, in the form `host:port`  (multiple comma-separated "
        "entries can be given)",
    )
    _looking(made)
    _ending(made)
    return made


def _looking(made: Argparse4jParser) -> None:
    listing = made.command("list", "list transactions")
    listing.argument("--duration-filter", type=long, help=_FILTER)
    listing.argument(
        "--transactional-id-pattern", help="Transactional id regular expression pattern to filter by"
    )
    describing = made.command(
        "describe",
        "describe the state of an active transactional-id",
        "Describe the state of an active transactional-id.",
    )
    describing.argument("--transactional-id", required=True, help="transactional id")
    producers = made.command(
        "describe-producers", "describe the states of active producers for a topic partition"
    )
    producers.argument(
        "--broker-id",
        type=integer,
        help="optional broker id to describe the producer state on a specific replica",
    )
    producers.argument("--topic", required=True, help="topic name")
    producers.argument("--partition", type=integer, required=True, help="partition number")


def _ending(made: Argparse4jParser) -> None:
    aborting = made.command("abort", "abort a hanging transaction (requires administrative privileges)")
    aborting.argument("--topic", required=True, help="topic name")
    aborting.argument("--partition", type=integer, required=True, help="partition number")
    new = aborting.group(
        "Brokers on versions 3.0 and above",
        "For newer brokers, only the start offset of the transaction to be aborted is required",
    )
    new.argument("--start-offset", type=long, help="start offset of the transaction to abort")
    old = aborting.group(
        "Brokers on versions older than 3.0", "For older brokers, you must provide all of these arguments"
    )
    old.argument("--producer-id", type=long, help="producer id")
    old.argument("--producer-epoch", type=integer, help="producer epoch")
    old.argument("--coordinator-epoch", type=integer, help="coordinator epoch")
    finding = made.command("find-hanging", "find hanging transactions")
    finding.argument("--broker-id", type=integer, help="broker id to search for hanging transactions")
    finding.argument(
        "--max-transaction-timeout",
        type=integer,
        default=15,
        help="maximum transaction timeout in minutes to limit the scope of the search (15 minutes by default)",
    )
    finding.argument("--topic", help="topic name to limit search to (required if --partition is specified)")
    finding.argument("--partition", type=integer, help="partition number")
    forcing = made.command(
        "forceTerminateTransaction",
        "Force abort an ongoing transaction on transactionalId (requires administrative privileges)",
        "Force abort an ongoing transaction on transactionalId",
    )
    forcing.argument("--transactionalId", required=True, help="transactional id")
