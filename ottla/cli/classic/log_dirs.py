"""`kafka-log-dirs`: the log directories of brokers, and the sizes of what lies in them, as JSON."""

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from ottla.cli.classic.admin_parser import AdminParser, require, servers_in
from ottla.cli.classic.java import Illegal, class_of, hash_ordered, integer, message_of
from ottla.cli.classic.running import Tool, with_admin

if TYPE_CHECKING:
    from ottla.client.admin.log_dirs import LogDirDescription


def _parser() -> AdminParser:
    parser = AdminParser(
        "kafka-log-dirs", "This tool helps to query log directory usage on the specified brokers."
    )
    parser.option("--bootstrap-server", help="The server(s) to use for bootstrapping.")
    parser.option("--zookeeper", help="The ZooKeeper that knows the brokers, as host:port[/chroot].")
    parser.option("--command-config", help="Property file with settings of the Admin Client.")
    parser.flag("--describe", help="Describe the log directories of brokers.")
    parser.option("--topic-list", help="Topics, with commas; by default all.")
    parser.option("--broker-list", help="Ids of brokers, with commas; by default all.")
    return parser


def run(options: argparse.Namespace) -> None:
    if not options.zookeeper:
        require(options, "bootstrap-server")
    require(options, "describe")
    topics = {each for each in (options.topic_list or "").split(",") if each}
    brokers = [integer(each) for each in (options.broker_list or "").split(",") if each]
    options.broker_list = None  # here it names brokers, and not where they are
    servers = servers_in(options)
    with_admin(servers, options.command_config, lambda admin: _describe(admin, topics, brokers))


async def _describe(admin: Any, topics: set[str], brokers: list[int]) -> None:
    from ottla.client.admin import log_dirs

    living = hash_ordered(await admin._routes.brokers())
    wanted = hash_ordered(dict.fromkeys(brokers)) or living
    if missing := [each for each in wanted if each not in living]:
        raise Illegal(
            f"ERROR: The given brokers do not exist from --broker-list: {','.join(map(str, missing))}."
            f" Current existent brokers: {','.join(map(str, living))}"
        )
    print("Querying brokers for log directories information")
    found = await log_dirs.describe_log_dirs(admin, wanted)
    print(f"Received log directory information from brokers {','.join(map(str, wanted))}")
    rows = [
        {
            "broker": broker,
            "logDirs": [_directory(found[broker][path], topics) for path in hash_ordered(found[broker])],
        }
        for broker in hash_ordered(found)
    ]
    document = {"brokers": rows, "version": 1}
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    print(text if text.isprintable() else json.dumps(document, separators=(",", ":")))


def _directory(directory: "LogDirDescription", topics: set[str]) -> dict[str, Any]:
    """In the order in which Java prints the fields, and the partitions."""
    wanted = [each for each in hash_ordered(directory.replicas) if not topics or each.topic in topics]
    return {
        "partitions": [
            {
                "partition": str(each),
                "size": directory.replicas[each].size,
                "offsetLag": directory.replicas[each].offset_lag,
                "isFuture": directory.replicas[each].is_future,
            }
            for each in hash_ordered(wanted)
        ],
        "error": None if directory.error is None else class_of(directory.error),
        "logDir": directory.path,
    }


def _report(error: Exception) -> None:
    print(message_of(error), file=sys.stderr)


TOOL = Tool(_parser, run, _report)
