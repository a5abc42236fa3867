r"""`ottla produce`: records from stdin, from files or from the command line, written to a topic.

Exit codes: 0 all were acknowledged, 1 failed, 2 usage, 3 some were acknowledged and some refused, 4 there is no such
topic, 5 not allowed, 6 no broker answers, 130 interrupted.
"""

import os
from typing import TYPE_CHECKING, Any

import click

from ottla.cli import completing
from ottla.cli.session import json_option, reach_options, session

if TYPE_CHECKING:
    from ottla.cli.sending.inputs import Input
    from ottla.cli.sending.parcels import Parser
    from ottla.cli.sending.running import Plan

_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_PIECES_PER_RECORD = 8  # a record in JSON is longer than the record: base64, escapes, names
_END_OF_LINE = b"\n"


@click.command()
@click.argument("topic", required=False, shell_complete=completing.topics)
@click.option("-k", "--key", metavar="KEY", help="The key of all records.")
@click.option("-K", "--key-sep", metavar="SEP", help="Each line is key, SEP and value; \\t is a tab.")
@click.option(
    "-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="Of all records; repeatable."
)
@click.option("-p", "--partition", type=click.IntRange(0), metavar="N", help="Write to this partition.")
@click.option("-v", "--value", "values", multiple=True, metavar="TEXT", help="A record; repeatable.")
@click.option("--tombstone", is_flag=True, help="A record without a value: -k says what is deleted.")
@click.option("-f", "--format", "form", metavar="FMT", help="How records look, as in '%k\\t%s\\n'.")
@click.option(
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="Read this file, - is stdin; repeatable. JSON in lines, unless -K, -f or --lines says otherwise.",
)
@click.option("--lines", is_flag=True, help="Each line is a value, in files and with --json, too.")
@click.option(
    "-Z", "--null-marker", metavar="TEXT", help="A key or a value that is exactly this text is null."
)
@click.option("--repartition", is_flag=True, help="Choose partitions anew, whatever records in JSON say.")
@click.option("-z", "--compression", type=click.Choice(_CODECS), help="How batches are compressed.")
@click.option("--acks", type=click.Choice(["0", "1", "all"]), help="Whose word counts.  [default: all]")
@click.option("--txn", is_flag=True, help="All in one transaction: everything or nothing.")
@click.option("--transactional-id", metavar="ID", help="The same, as this producer.")
@click.option("--create", is_flag=True, help="Create the topic if it is missing.")
@json_option
@reach_options
def produce(as_json: bool, **words: Any) -> int:
    r"""Write records to a topic: a line of stdin is one, unless options say otherwise.

    A line is written as it is, without its \n; a \r stays. An empty line is an empty value, and the last line needs no
    \n. With -K a line is a key and a value. With --file, and with --json, records are JSON as `ottla consume --json`
    prints them: {"topic", "partition", "timestamp", "key", "value", "headers"}, where key and value are text, null or
    {"base64": "..."} and headers are [NAME, VALUE] pairs. A TOPIC goes before the topics that records name.

    -f reads what `ottla consume -f` prints: %s or %v is the value, %k the key, %h headers (a=b,c=d), %p the partition,
    %T the timestamp in milliseconds, %t the topic; %o, %S and %K are skipped, %v{base64}, %k{hex} and %v{json} decoded.
    The text behind the last token ends a record, \n if there is none; a token ends where the text behind it begins.

    Ctrl-C ends it, and says what was acknowledged. The topic must exist, or --create makes it.

    --json: {"acknowledged", "not_acknowledged", "bytes", "seconds", "transaction": null | "committed" | "aborted" |
    "unknown", "partitions": [{"topic", "partition", "records", "last_offset"}], "error": null | SENTENCE}.
    """
    from ottla.cli.sending.running import carry_out
    from ottla.core.errors import ConfigError

    _check(as_json, **words)
    try:
        return carry_out(_plan(as_json, **words))
    except ConfigError as error:
        raise click.UsageError(str(error)) from None


# --- what the words mean ----------------------------------------------------------------------------------------------


def _check(as_json: bool, **words: Any) -> None:
    """Raises UsageError for what cannot go together."""
    given = {name for name, value in words.items() if value not in (None, False, ())}
    given |= {"key"} if words["key"] is not None else set()
    for one, other in (
        ("key_sep", "form"),
        ("key_sep", "lines"),
        ("key_sep", "key"),
        ("form", "lines"),
        ("values", "files"),
        ("values", "key_sep"),
        ("values", "form"),
        ("values", "lines"),
        ("values", "tombstone"),
        ("tombstone", "files"),
        ("tombstone", "key_sep"),
        ("tombstone", "form"),
        ("tombstone", "lines"),
        ("partition", "repartition"),
    ):
        if {one, other} <= given:
            raise click.UsageError(f"{_spelled(one)} and {_spelled(other)} contradict each other")
    if words["tombstone"] and words["key"] is None:
        raise click.UsageError("--tombstone deletes a key: say which, with -k")
    if words["key_sep"] == "":
        raise click.UsageError("-K is what stands between key and value: it cannot be empty")
    if (words["txn"] or words["transactional_id"]) and words["acks"] in ("0", "1"):
        raise click.UsageError("a transaction needs --acks all")
    if words["transactional_id"] == "":
        raise click.UsageError("--transactional-id cannot be empty")
    if words["topic"] is None and not _is_json(as_json, **words) and "%t" not in (words["form"] or ""):
        raise click.UsageError("which topic? Only records in JSON, or with %t in -f, name theirs")


def _spelled(name: str) -> str:
    return {
        "key_sep": "-K",
        "form": "-f",
        "lines": "--lines",
        "key": "-k",
        "values": "-v",
        "files": "--file",
        "tombstone": "--tombstone",
        "partition": "-p",
        "repartition": "--repartition",
    }[name]


def _is_json(as_json: bool, **words: Any) -> bool:
    is_said = words["key_sep"] is not None or words["form"] is not None or words["lines"]
    is_given = bool(words["values"]) or words["tombstone"]
    return not is_said and not is_given and (as_json or bool(words["files"]))


def _plan(as_json: bool, **words: Any) -> "Plan":
    from ottla.cli.formats import unescape
    from ottla.cli.sending.formats import Format
    from ottla.cli.sending.json_records import JsonRecords
    from ottla.cli.sending.parcels import KeyedLines, Lines
    from ottla.cli.sending.pump import Target
    from ottla.cli.sending.running import Plan

    key = None if words["key"] is None else os.fsencode(words["key"])
    null = None if words["null_marker"] is None else os.fsencode(words["null_marker"])
    parser: Parser
    end = _END_OF_LINE
    if words["form"] is not None:
        parser = Format(words["form"], null)
        end = parser.end
        if parser.has_key and key is not None:
            raise click.UsageError("-k and %k in -f contradict each other")
    elif words["key_sep"] is not None:
        parser = KeyedLines(unescape(words["key_sep"]), null)
    elif _is_json(as_json, **words):
        parser = JsonRecords()
    else:
        parser = Lines(key, null)
    target = Target(words["topic"], words["partition"], key, _headers(words["headers"]), words["repartition"])
    settings = _settings(**words)
    inputs, bar = _inputs(words, end, settings, is_json=isinstance(parser, JsonRecords))
    return Plan(inputs, parser, target, settings, words["create"], as_json, bar)


def _headers(given: tuple[str, ...]) -> tuple[tuple[str, bytes | None], ...]:
    found = []
    for each in given:
        name, equals, content = each.partition("=")
        if not equals or not name:
            raise click.UsageError(f"-H {each}: write -H name=value")
        found.append((name, os.fsencode(content)))
    return tuple(found)


def _settings(**words: Any) -> dict[str, Any]:
    """Of the producer; flags have the last word. Raises ConfigError."""
    from ottla.cli.sending.settings import producer_settings

    settings = producer_settings(creates_topics=False, compression=words["compression"])
    settings["transactional.id"] = None
    if words["acks"] is not None:
        settings["acks"] = words["acks"]
    if words["txn"] or words["transactional_id"]:
        import uuid

        settings["transactional.id"] = words["transactional_id"] or f"ottla-produce-{uuid.uuid4()}"
    return settings


def _inputs(words: dict[str, Any], end: bytes, settings: dict[str, Any], *, is_json: bool) -> tuple[Any, Any]:
    """What is read, and how far that is shown. Files are opened now, so that one that is missing is no surprise."""
    from functools import partial

    from ottla.cli.sending.inputs import Input, blocks, given
    from ottla.cli.sending.progress import SendingProgress
    from ottla.client.producer.config import producer_config

    if words["values"] or words["tombstone"]:
        values: list[bytes | None] = [os.fsencode(each) for each in words["values"]] or [None]
        return [partial(given, values)], SendingProgress(None, is_typed=True)
    size_max = producer_config(settings).buffer_memory * (_PIECES_PER_RECORD if is_json else 1)
    sources = [Input(path) for path in words["files"] or ("-",)]
    is_typed = any(each.is_terminal for each in sources)
    if is_typed and not session().is_quiet:
        _tell(sources, words["topic"])
    sizes = [each.size for each in sources]
    total = None if None in sizes else sum(filter(None, sizes))
    return [partial(blocks, each, end, size_max) for each in sources], SendingProgress(
        total, is_typed=is_typed
    )


def _tell(sources: "list[Input]", topic: str | None) -> None:
    from ottla.cli.tables import say

    say(f"type records{f' for {topic}' if topic else ''}, one in each line; Ctrl-D ends, Ctrl-C stops")
