"""`ottla cat`: kcat's command line. Its options, which mode they mean, and who does it.

Exit codes: 0 done, 1 failed, 2 usage, 3 a part was delivered or read, 4 no such topic or partition, 5 not allowed, 6 no
broker answers, 130 interrupted.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ottla.cli import completing
from ottla.cli.session import Session, reach_options

if TYPE_CHECKING:
    from ottla.cli.cat.wanted import Wanted

Command = Callable[..., Any]

_MODES = [
    click.option(
        "-P", "modes", flag_value="P", multiple=True, help="Produce: send stdin, a record for each line."
    ),
    click.option("-C", "modes", flag_value="C", multiple=True, help="Consume: print the records of a topic."),
    click.option(
        "-G",
        "group",
        metavar="GROUP",
        shell_complete=completing.groups,
        help="Consume as a member of a group, the topics that follow.",
    ),
    click.option("-L", "modes", flag_value="L", multiple=True, help="List brokers, topics and partitions."),
    click.option(
        "-Q", "modes", flag_value="Q", multiple=True, help="Look up offsets by time: -t TOPIC:PARTITION:MS."
    ),
    click.option(
        "-M", "brokers", metavar="N", type=click.IntRange(1, 64), help="Run N brokers to try things on."
    ),
]
_GENERAL = [
    click.option(
        "-t", "topics", metavar="TOPIC", multiple=True, shell_complete=completing.topics, help="The topic."
    ),
    click.option("-p", "partition", metavar="N", type=int, help="The partition; -1 is any."),
    click.option(
        "-D", "delimiter", metavar="TEXT", default="\\n", show_default=True, help="Between records."
    ),
    click.option(
        "-K", "key_delimiter", metavar="TEXT", help="Between key and value; keys are read or printed."
    ),
    click.option(
        "-c", "count", metavar="N", type=click.IntRange(-1), help="End after N records; 0 and -1 are all."
    ),
    click.option("-m", "patience", metavar="SECONDS", type=click.FloatRange(0.1), help="As --timeout."),
    click.option(
        "-F", "files_of_settings", metavar="FILE", multiple=True, help="Settings of clients; - is no file."
    ),
    click.option("-d", "contexts", metavar="LIST", help="Show what the client does, on stderr."),
    click.option("-q", "is_quiet", is_flag=True, help="No remarks."),
    click.option("-v", "more", count=True, help="More remarks."),
    click.option("-E", "is_patient", is_flag=True, help="Go on after errors that can be survived."),
    click.option("-J", "is_json", is_flag=True, help="Print JSON."),
    click.option("-Z", "has_nulls", is_flag=True, help="Send what is empty as null; print null as NULL."),
]
_PRODUCING = [
    click.option("-z", "codec", metavar="CODEC", help="Compress: gzip, snappy, lz4 or zstd."),
    click.option(
        "-k", "fixed_key", metavar="KEY", help="The key of all records that have none of their own."
    ),
    click.option(
        "-H", "headers", metavar="NAME=VALUE", multiple=True, help="A header of all records; repeatable."
    ),
    click.option("-l", "is_by_line", is_flag=True, help="Send each line of the file, instead of the whole."),
    click.option("-T", "is_tee", is_flag=True, help="Print what was sent, too."),
]
_CONSUMING = [
    click.option(
        "-o",
        "offsets",
        metavar="PLACE",
        multiple=True,
        help="Begin at beginning, end, stored, N, -N (the last N) or s@MS (a time); e@MS ends before a time.",
    ),
    click.option("-e", "ends_at_end", is_flag=True, help="End at the end of the topic."),
    click.option(
        "-f", "format", metavar="FORMAT", help="How a record is printed, as in '%t %p %o %k %s\\n'."
    ),
    click.option("-O", "has_offsets", is_flag=True, help="Print the offset before the key."),
    click.option("-u", "is_unbuffered", is_flag=True, help="Write at once what is read; it always does."),
    click.option(
        "-s",
        "serdes",
        metavar="[key=|value=]SERDES",
        multiple=True,
        help="What keys and values are: avro, or numbers such as 'i' and 'q' (see above).",
    ),
    click.option("-r", "registry", metavar="URL", help="The schema registry of -s avro."),
]


def _with_options(command: Command) -> Command:
    for option in reversed([*_MODES, *_GENERAL, *_PRODUCING, *_CONSUMING]):
        command = option(command)
    return command


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("words", nargs=-1, metavar="[FILE|TOPIC]...")
@_with_options
@click.option("-V", "is_version", is_flag=True, help="Say which version.")
@reach_options
@click.pass_context
def cat(ctx: click.Context, /, **given: Any) -> int:
    """Send and read records with the options of kcat.

    Without a mode it reads a topic where stdin is a terminal, and else sends what stdin has. -X list shows the settings
    there are, -X dump those that hold; kcat.conf is read (see -F). Files behind -P are sent as one record each.

    \b
    Formats (-f):
      %s value, %k key, %S and %K their lengths, %R the value's length in binary
      %t topic, %p partition, %o offset, %T timestamp, %d time, %h headers
      %v{hex}, %k{base64}, %v{json} write them so; \\n \\t \\xNN are bytes

    \b
    Numbers (-s):
      < little endian, > big endian, b B h H i I q Q of 1, 2, 4 and 8 bytes
      c a character, s the rest, $ the end
    """
    if given["is_version"]:
        from ottla import __version__

        click.echo(f"ottla cat {__version__}, with the options of kcat 1.7")
        return 0
    session = ctx.ensure_object(Session)
    if (said := _about_settings(ctx, session, given)) is not None:
        click.echo(said, nl=False)
        return 0
    return run(_wanted(ctx, session, given))


# --- understanding it -------------------------------------------------------------------------------------------------


def _about_settings(ctx: click.Context, session: Session, given: dict[str, Any]) -> str | None:
    """Gather the settings. The text to print, if they are what is asked about."""
    from ottla.cli.cat import config

    asked = list(session.assignments)
    if config.is_asked(asked, config.LIST):
        return config.listed()
    path = config.path_of(given["files_of_settings"], session.profile is not None)
    file = None if path is None else config.read(path)
    found = config.apply(session, file)
    given["registry"] = given["registry"] or found
    given["is_quiet"] = given["is_quiet"] or session.is_quiet
    if given["patience"] is not None:
        session.timeout = given["patience"]
    if file is not None and not given["is_quiet"]:
        say(f"Reading configuration from file {file.path}")
        for name in file.unknown:
            say(f"{file.path}: {name} means nothing here")
    if given["contexts"] is not None:
        _show_what_happens()
    return config.dumped(session) if config.is_asked(asked, config.DUMP) else None


def _show_what_happens() -> None:
    """Also what commands keep to themselves otherwise: they silence the client as a whole, and not its parts."""
    import logging

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%%7|%(created).3f|%(name)s| %(message)s"))
    for name in ("ottla.client", "ottla.network"):
        logging.getLogger(name).addHandler(handler)
    for name in ("client.consumer", "client.producer", "client.cluster", "client.connections", "network"):
        logging.getLogger(f"ottla.{name}").setLevel(logging.DEBUG)


def _wanted(ctx: click.Context, session: Session, given: dict[str, Any]) -> "Wanted":
    from ottla.cli.cat import words
    from ottla.cli.cat.packing import serdes
    from ottla.cli.cat.wanted import GROUP, PRODUCE, QUERY, Input, Output, Wanted

    verbosity = 0 if given["is_quiet"] else 1 + given["more"]
    mode = _mode(given, verbosity)
    topics, files = _places(mode, given)
    end = words.delimiter(given["delimiter"], "-D")
    key_end = None if given["key_delimiter"] is None else words.delimiter(given["key_delimiter"], "-K")
    if mode == PRODUCE and not end:
        raise click.UsageError("-D must not be empty where records are sent")
    if mode == PRODUCE and key_end == b"":
        raise click.UsageError("-K must not be empty where records are sent")
    start = words.start(given["offsets"])
    if mode == GROUP and (start.time_ms is not None or start.end_ms is not None):
        raise click.UsageError("-o s@ and e@ are not for groups: use -C, or ottla group reset")
    fixed = given["fixed_key"]
    return Wanted(
        mode=mode,
        topics=topics,
        partition=None if given["partition"] in (None, -1) else given["partition"],
        group=given["group"],
        count=max(0, given["count"] or 0) or None,
        start=start,
        ends_at_end=given["ends_at_end"],
        is_patient=given["is_patient"],
        has_nulls=given["has_nulls"],
        is_json=given["is_json"] or session.is_json,
        verbosity=verbosity,
        questions=tuple(map(words.question, topics)) if mode == QUERY else (),
        brokers=given["brokers"] or 0,
        input=Input(
            end,
            key_end,
            None if fixed is None else fixed.encode("utf-8", "surrogateescape"),
            tuple(map(words.header, given["headers"])),
            files,
            given["is_by_line"],
            given["is_tee"],
            given["codec"],
        ),
        output=Output(
            given["format"],
            end,
            key_end,
            given["has_offsets"],
            serdes(given["serdes"]),
            given["registry"],
            given["is_unbuffered"],
        ),
    )


def _mode(given: dict[str, Any], verbosity: int) -> str:
    from ottla.cli.cat.wanted import BROKERS, CONSUME, GROUP, PRODUCE

    named = list(dict.fromkeys(given["modes"]))
    named += [GROUP] * (given["group"] is not None) + [BROKERS] * (given["brokers"] is not None)
    if len(named) > 1:
        raise click.UsageError(f"do not mix modes: -{named[0]} and -{named[1]}")
    if given["serdes"] and named and named[0] not in (CONSUME, GROUP):
        raise click.UsageError("-s is only for reading")
    if named:
        return str(named[0])
    mode = CONSUME if sys.stdin.isatty() else PRODUCE
    if verbosity:
        say(f"Auto-selecting {'Consumer' if mode == CONSUME else 'Producer'} mode (use -P or -C to override)")
    return mode


def _places(mode: str, given: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Topics, and files."""
    from ottla.cli.cat.wanted import BROKERS, GROUP, METADATA, PRODUCE, QUERY

    topics, others = given["topics"], given["words"]
    if mode == GROUP:
        topics, others = (*topics, *others), ()
    if others and mode != PRODUCE:
        raise click.UsageError(f"{others[0]}: files are for -P, and topics for -G; -t names the topic")
    if given["is_by_line"] and len(others) > 1:
        raise click.UsageError("-l takes one file")
    if not topics and mode not in (METADATA, BROKERS):
        raise click.UsageError("-t TOPIC:PARTITION:MS is missing" if mode == QUERY else "-t TOPIC is missing")
    return topics, others


# --- doing it ---------------------------------------------------------------------------------------------------------


def say(sentence: str) -> None:
    """A remark on stderr, as kcat marks them."""
    click.echo(f"% {sentence}", err=True)


def run(wanted: "Wanted") -> int:
    from ottla.cli.cat.wanted import BROKERS, METADATA, PRODUCE, QUERY

    if wanted.mode == BROKERS:
        from ottla.cli.cat.brokers import serve

        return serve(wanted.brokers, say if wanted.verbosity else lambda _: None)
    if wanted.mode == METADATA:
        return _list(wanted)
    if wanted.mode == QUERY:
        return _query(wanted)
    if wanted.mode == PRODUCE:
        from ottla.cli.cat.producing import produce

        return produce(wanted)
    from ottla.cli.cat.consuming import consume

    return consume(wanted)


def _list(wanted: "Wanted") -> int:
    from ottla.cli.cat import metadata
    from ottla.cli.remote import with_admin

    topic = wanted.topics[-1] if wanted.topics else None
    answer, origin = with_admin(lambda admin: metadata.ask(admin, topic))
    write = metadata.as_json if wanted.is_json else metadata.as_text
    click.echo(write(answer, origin, topic), nl=False)
    return metadata.exit_code(answer)


def _query(wanted: "Wanted") -> int:
    from ottla.cli.cat import query
    from ottla.cli.remote import with_admin

    query.check(wanted.questions)
    places = with_admin(lambda admin: query.ask(admin, wanted.questions))
    click.echo(query.as_json(places) if wanted.is_json else query.as_text(places), nl=False)
    return 0
