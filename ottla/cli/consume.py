"""`ottla consume`: the records of topics on stdout, as they are or as they are wanted.

Exit codes: 0 done, 1 failed or nobody reads the output any more, 2 usage, 4 no such topic or partition, 5 not allowed,
6 no broker answers, 130 interrupted.
"""

import re
from typing import TYPE_CHECKING

import click

from ottla.cli.completing import groups, topics
from ottla.cli.session import DEFAULT_TIMEOUT, json_option, reach_options, session

if TYPE_CHECKING:
    from ottla.cli.reading.encoders import Encode
    from ottla.cli.reading.reading import Wish
    from ottla.cli.targets import Span

_MS = 1000
_CLOSE_SECONDS_MAX = 5.0


def _grep(_: click.Context, __: click.Parameter, text: str | None) -> re.Pattern[bytes] | None:
    try:
        return None if text is None else re.compile(text.encode("utf-8", "surrogateescape"))
    except re.error as error:
        raise click.BadParameter(f"{text!r} is no regular expression: {error}") from None


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="TOPIC[:N,N]...", shell_complete=topics)
@click.option(
    "-o",
    "--offset",
    default="start",
    metavar="FROM[:TO]",
    help="Where to begin, and where to end: start, end, an offset, -10 for the last ten of each partition, "
    "@2026-11-15T07:00 or @-1h.  [default: start]",
)
@click.option("-n", "--count", type=click.IntRange(1), metavar="N", help="End after so many records.")
@click.option(
    "-e",
    "--exit",
    "ends",
    is_flag=True,
    help="End where the partitions end now, instead of waiting for more.",
)
@click.option("-f", "--format", "layout", metavar="FMT", help=r"How to print a record, as in '%t %k %v\n'.")
@click.option(
    "-g",
    "--group",
    metavar="GROUP",
    shell_complete=groups,
    help="Read as a member of this group, and commit.",
)
@click.option(
    "--grep", "pattern", callback=_grep, metavar="RE", help="Only records whose value matches, wherever."
)
@click.option(
    "-p",
    "--partition",
    "partitions",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Only this partition of each topic; repeatable.",
)
@click.option("--regex", "is_regex", is_flag=True, help="The names are regular expressions.")
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    help="Whether records of open and aborted transactions are left out.  [default: read_committed]",
)
@json_option
@reach_options
def consume(
    names: tuple[str, ...],
    offset: str,
    count: int | None,
    ends: bool,
    layout: str | None,
    group: str | None,
    pattern: re.Pattern[bytes] | None,
    partitions: tuple[int, ...],
    is_regex: bool,
    isolation: str | None,
    as_json: bool,
) -> None:
    """Print the records of topics: the value of each and a newline, as the bytes that they are.

    Without -e, -n or a place to end, it waits for more. With TO, it reads up to there, without it, and no further than
    the partitions reach now. In FMT, %t %p %o are topic, partition and offset, %k and %v key and value, %T and
    %d the time, %h the headers; nothing is added, so it should end in \\n.

    With -g, partitions are shared with the other members of the group; reading goes on where the group has committed,
    and begins at FROM where it has not. What was printed is committed, and nothing else.

    On a terminal, control characters are shown as \\x1b and the like.

    --json: a line {"topic", "partition", "offset", "timestamp", "key", "value", "headers"} for each record. Keys and
    values are strings if they are UTF-8, else {"base64": TEXT}; headers are [NAME, VALUE]. `ottla produce --file -`
    reads it.
    """
    from ottla.cli.reading.reading import Wish
    from ottla.cli.targets import span_of

    if as_json and layout is not None:
        raise click.UsageError("-f and --json are two ways to print a record: say one of them")
    if group == "":
        raise click.UsageError("-g names a group: it must not be empty")
    wish = Wish(_encoder(layout, as_json), count, pattern)
    _read(
        names,
        partitions,
        span_of(offset),
        wish,
        ends=ends,
        group=group,
        is_regex=is_regex,
        isolation=isolation,
    )


def _encoder(layout: str | None, as_json: bool) -> "Encode":
    from ottla.cli.reading import encoders

    if as_json:
        return encoders.json_lines
    if layout is None:
        return encoders.value_lines
    from ottla.cli.formats import compile_format

    return encoders.formatted(compile_format(layout))


def _read(
    names: tuple[str, ...],
    partitions: tuple[int, ...],
    span: "Span",
    wish: "Wish",
    *,
    ends: bool,
    group: str | None,
    is_regex: bool,
    isolation: str | None,
) -> None:
    from ottla.cli.reading.choice import chosen, consumer_of
    from ottla.cli.reading.encoders import for_terminal
    from ottla.cli.reading.output import Output
    from ottla.cli.reading.progress import ReadProgress
    from ottla.cli.reading.reading import Interrupts, Reading
    from ottla.cli.reading.remarks import remarks
    from ottla.cli.reading.stretches import Stretches
    from ottla.cli.remote import failed
    from ottla.core.errors import KafkaError, ProtocolError

    quiet, timeout = session().is_quiet, session().timeout or DEFAULT_TIMEOUT
    is_bounded = ends or span.stop is not None
    choice = chosen(names, partitions, is_regex=is_regex, by_hand=is_bounded and group is None)
    output = Output()
    if output.is_terminal:
        wish = wish._replace(encode=for_terminal(wish.encode))
    progress = ReadProgress(is_quiet=quiet)
    try:
        with remarks("consume", is_quiet=quiet) as said:
            consumer = consumer_of(group, span, isolation)
            try:
                stretches = Stretches(consumer, span, ends=ends, has_group=group is not None)
                reading = Reading(
                    consumer, stretches, wish, output, has_group=group is not None, patience=timeout
                )
                with Interrupts(consumer.wakeup).noted():
                    if choice.by_hand:
                        reading.assign(choice.places)
                    else:
                        topics = () if choice.pattern is not None else choice.topics
                        consumer.subscribe(topics, choice.pattern, reading)
                    reading.run(progress, said)
            finally:
                progress.close()
                consumer.close(min(timeout, _CLOSE_SECONDS_MAX) * _MS)
    except (KafkaError, ProtocolError) as error:
        raise failed(error) from error
