"""The classic names: one table, from which the command, the shims and the reference are made."""

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ottla.cli.classic.running import Tool


class Classic(NamedTuple):
    """Where a tool is, as `module:attribute`, and what it does in one line."""

    target: str
    help: str


_AT = "ottla.cli.classic"
CLASSIC = {
    "kafka-producer-perf-test": Classic(f"{_AT}.producer_perf:TOOL", "Measure how fast records are written."),
    "kafka-console-producer": Classic(f"{_AT}.console_producer:TOOL", "Write lines of stdin to a topic."),
    "kafka-console-consumer": Classic(f"{_AT}.console_consumer:TOOL", "Print the records of a topic."),
    "kafka-consumer-perf-test": Classic(f"{_AT}.consumer_perf:TOOL", "Measure how fast records are read."),
    "kafka-topics": Classic(f"{_AT}.topics:TOOL", "Create, list, describe, alter and delete topics."),
    "kafka-configs": Classic(
        f"{_AT}.configs:TOOL", "Describe and alter settings of topics, brokers, clients."
    ),
    "kafka-get-offsets": Classic(f"{_AT}.get_offsets:TOOL", "Print offsets of partitions."),
    "kafka-consumer-groups": Classic(
        f"{_AT}.consumer_groups:TOOL", "List, describe, reset and delete consumer groups."
    ),
    "kafka-delete-records": Classic(f"{_AT}.delete_records:TOOL", "Delete records up to given offsets."),
    "kafka-reassign-partitions": Classic(
        f"{_AT}.reassign_partitions:TOOL", "Move partitions between brokers and directories."
    ),
    "kafka-leader-election": Classic(f"{_AT}.leader_election:TOOL", "Elect leaders of partitions."),
    "kafka-transactions": Classic(
        f"{_AT}.transactions:TOOL", "Look at transactions, and end those that hang."
    ),
    "kafka-log-dirs": Classic(f"{_AT}.log_dirs:TOOL", "Describe the log directories of brokers."),
    "kafka-broker-api-versions": Classic(f"{_AT}.broker_api_versions:TOOL", "Say what brokers speak."),
    "kafka-dump-log": Classic(f"{_AT}.dump_log:TOOL", "Print the files of a log."),
    "kafka-run-class": Classic(f"{_AT}.run_class:TOOL", "Run a tool by the name of its class."),
    "kafka-server-start": Classic(f"{_AT}.server_start:TOOL", "Run a broker by a server.properties."),
    "kafka-server-stop": Classic(f"{_AT}.server_stop:TOOL", "Stop the brokers started like that."),
}


def name_of(word: str) -> str | None:
    """The tool that a first word means, with or without `.sh`."""
    name = word.removesuffix(".sh")
    return name if name in CLASSIC else None


def tool_of(name: str) -> "Tool":
    module, _, attribute = CLASSIC[name].target.partition(":")
    tool: Tool = getattr(import_module(module), attribute)
    return tool
