"""`kafka-delete-records`: delete the records of partitions up to offsets that a JSON file names."""

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

from ottla.cli.classic.admin_parser import AdminParser, require, servers_in
from ottla.cli.classic.java import Illegal, exception_text, hash_ordered, message_of
from ottla.cli.classic.running import Tool, with_admin
from ottla.core.errors import KafkaError
from ottla.core.ids import TopicPartition

_VERSION = 1


def _parser() -> AdminParser:
    parser = AdminParser(
        "kafka-delete-records",
        "This tool helps to delete records of the given partitions down to the specified offset.",
    )
    parser.connection()
    parser.option(
        "--offset-json-file",
        help='The offsets: {"partitions": [{"topic": "foo", "partition": 1, "offset": 1}], "version": 1}',
    )
    return parser


def run(options: argparse.Namespace) -> None:
    if not options.zookeeper and not options.broker_list:
        require(options, "bootstrap-server")
    require(options, "offset-json-file")
    try:
        with open(options.offset_json_file, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        raise Illegal(f"Unable to read file {options.offset_json_file}") from None
    offsets = read_offsets(text)
    with_admin(servers_in(options), options.command_config, lambda admin: _delete(admin, offsets))


def read_offsets(text: str) -> dict[TopicPartition, int]:
    """The offset up to which each partition is to be emptied. Raises Illegal."""
    try:
        document = json.loads(text)
    except ValueError:
        raise Illegal("The input string is not a valid JSON") from None
    if not isinstance(document, dict):
        raise Illegal(f"Expected JSON object, received {json.dumps(document)}")
    version = _field(document, "version", int, _VERSION)
    if version != _VERSION:
        raise Illegal(f"Not supported version field value {version}")
    if "partitions" not in document:
        raise Illegal("Missing partitions field")
    rows = document["partitions"]
    if not isinstance(rows, list):
        raise Illegal(f"Expected JSON array, received {json.dumps(rows)}")
    found: dict[TopicPartition, int] = {}
    twice: dict[TopicPartition, None] = {}
    for row in rows:
        if not isinstance(row, dict):
            raise Illegal(f"Expected JSON object, received {json.dumps(row)}")
        partition = TopicPartition(_field(row, "topic", str), _field(row, "partition", int))
        offset = _field(row, "offset", int, kind_name="Long")
        if partition in found:
            twice[partition] = None
        found[partition] = offset
    if twice:
        names = ",".join(map(str, hash_ordered(twice)))
        raise Illegal(f"Offset json file contains duplicate topic partitions: {names}")
    return found


def _field(row: Mapping[str, Any], name: str, kind: type, default: Any = None, kind_name: str = "") -> Any:
    if name not in row:
        if default is not None:
            return default
        raise Illegal(f"No such field exists: `{name}`")
    value = row[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        told = kind_name or {int: "Integer", str: "String"}[kind]
        raise Illegal(f"Expected `{told}` value, received {json.dumps(value, separators=(',', ':'))}")
    return value


async def _delete(admin: Any, offsets: dict[TopicPartition, int]) -> None:
    from ottla.client.admin import partitions
    from ottla.client.errors import PartialFailure

    print("Executing records delete operation")
    found: Mapping[TopicPartition, Any]
    try:
        found = await partitions.delete_records(admin, offsets) if offsets else {}
    except PartialFailure as failure:
        found = failure.results
    print("Records delete operation completed:")
    for each in sorted(found):  # Java has another order in every run
        answer = found[each]
        if isinstance(answer, KafkaError):  # brokers send no sentence with it: the detail is our own
            print(f"partition: {each}\terror: {exception_text(answer, answer.detail)}")
        else:
            print(f"partition: {each}\tlow_watermark: {answer}")


def _report(error: Exception) -> None:
    print(message_of(error), file=sys.stderr)


TOOL = Tool(_parser, run, _report)
