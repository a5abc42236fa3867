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
    "kafka-topics": Classic(f"{_AT}.topics:TOOL", "Create, list, describe, alter and delete topics."),
    "kafka-configs": Classic(
        f"{_AT}.configs:TOOL", "Describe and alter settings of topics, brokers, clients."
    ),
    "kafka-get-offsets": Classic(f"{_AT}.get_offsets:TOOL", "Print offsets of partitions."),
    "kafka-delete-records": Classic(f"{_AT}.delete_records:TOOL", "Delete records up to given offsets."),
    "kafka-log-dirs": Classic(f"{_AT}.log_dirs:TOOL", "Describe the log directories of brokers."),
    "kafka-broker-api-versions": Classic(f"{_AT}.broker_api_versions:TOOL", "Say what brokers speak."),
}


def name_of(word: str) -> str | None:
    """The tool that a first word means, with or without `.sh`."""
    name = word.removesuffix(".sh")
    return name if name in CLASSIC else None


def tool_of(name: str) -> "Tool":
    module, _, attribute = CLASSIC[name].target.partition(":")
    tool: Tool = getattr(import_module(module), attribute)
    return tool
