"""`kafka-run-class`: a tool by the name of its class, as older instructions call it.

    kafka-run-class kafka.tools.DumpLogSegments --files 00000000000000000000.index

Classes have moved with the versions of Kafka; a tool is found under each of the names that it ever had.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module

from ottla.cli.classic.parser import ClassicParser
from ottla.cli.classic.running import Tool, main, run_tool

USAGE = "USAGE: kafka-run-class [-daemon] [-name servicename] [-loggc] classname [opts]"
_ADMIN, _TOOLS, _TODAY = "kafka.admin", "kafka.tools", "org.apache.kafka.tools"
CLASSES = {
    f"{_ADMIN}.TopicCommand": "kafka-topics",
    f"{_TODAY}.TopicCommand": "kafka-topics",
    f"{_ADMIN}.ConfigCommand": "kafka-configs",
    f"{_TODAY}.ConfigCommand": "kafka-configs",
    f"{_TOOLS}.ConsoleProducer": "kafka-console-producer",
    f"{_TODAY}.ConsoleProducer": "kafka-console-producer",
    f"{_TOOLS}.ConsoleConsumer": "kafka-console-consumer",
    f"{_TODAY}.consumer.ConsoleConsumer": "kafka-console-consumer",
    f"{_ADMIN}.ConsumerGroupCommand": "kafka-consumer-groups",
    f"{_TODAY}.consumer.group.ConsumerGroupCommand": "kafka-consumer-groups",
    "kafka.tool.DumpLogSegments": "kafka-dump-log",
    f"{_TOOLS}.DumpLogSegments": "kafka-dump-log",
    f"{_TODAY}.DumpLogSegments": "kafka-dump-log",
    f"{_TOOLS}.GetOffsetShell": "kafka-get-offsets",
    f"{_TODAY}.GetOffsetShell": "kafka-get-offsets",
    f"{_ADMIN}.ReassignPartitionsCommand": "kafka-reassign-partitions",
    f"{_TODAY}.reassign.ReassignPartitionsCommand": "kafka-reassign-partitions",
    f"{_ADMIN}.LeaderElectionCommand": "kafka-leader-election",
    f"{_TODAY}.LeaderElectionCommand": "kafka-leader-election",
    f"{_TOOLS}.ProducerPerformance": "kafka-producer-perf-test",
    f"{_TODAY}.ProducerPerformance": "kafka-producer-perf-test",
    f"{_TOOLS}.ConsumerPerformance": "kafka-consumer-perf-test",
    f"{_TODAY}.ConsumerPerformance": "kafka-consumer-perf-test",
    f"{_ADMIN}.DeleteRecordsCommand": "kafka-delete-records",
    f"{_TODAY}.DeleteRecordsCommand": "kafka-delete-records",
    f"{_ADMIN}.LogDirsCommand": "kafka-log-dirs",
    f"{_TODAY}.LogDirsCommand": "kafka-log-dirs",
    f"{_ADMIN}.BrokerApiVersionsCommand": "kafka-broker-api-versions",
    f"{_TODAY}.BrokerApiVersionsCommand": "kafka-broker-api-versions",
    f"{_TODAY}.TransactionsCommand": "kafka-transactions",
    "kafka.Kafka": "kafka-server-start",
}
"""The classic name that stands for a class."""
NAMELESS = {
    f"{_TOOLS}.ConsumerOffsetChecker": "ottla.cli.classic.offset_checker:TOOL",
}
"""Tools that never had a script of their own, as `module:attribute`."""


class _Parser(ClassicParser):
    """Every word belongs to the class, but for those in front of its name."""

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        rest = list(words)
        options: list[str] = []
        while rest and rest[0] in ("-daemon", "-loggc", "-name"):
            options.append(rest.pop(0))
            if options[-1] == "-name" and rest:
                options.append(rest.pop(0))
        return argparse.Namespace(help=False, version=False, options=options, words=rest)


def _parser() -> ClassicParser:
    return _Parser("kafka-run-class", "Run a tool by the name of its class.")


def run(options: argparse.Namespace) -> int:
    if not options.words:
        print(USAGE)
        return 1
    name, *words = options.words
    if tool := CLASSES.get(name):
        return main(tool, [*options.options, *words] if tool == "kafka-server-start" else words)
    if name in NAMELESS:
        module, _, attribute = NAMELESS[name].partition(":")
        nameless: Tool = getattr(import_module(module), attribute)
        return run_tool(nameless, name, words)
    print(f"Error: Could not find or load main class {name}", file=sys.stderr)
    print(f"Caused by: java.lang.ClassNotFoundException: {name}", file=sys.stderr)
    print(f"There are: {', '.join(sorted([*CLASSES, *NAMELESS]))}", file=sys.stderr)
    return 1


TOOL = Tool(_parser, run, needs_words=False)
