"""`ottla cluster reassign`: partitions to other brokers. Without `--execute` it only shows what it would do.

Exit codes: 0 done, or begun without --wait; 1 failed or refused, 2 usage or a file that is no plan, 3 some partitions
failed, or are not there (yet) when verified, 4 no such topic, partition or broker, 5 not allowed, 6 no broker answers,
130 interrupted. Whoever stops waiting does not stop the move.
"""

from collections.abc import Callable
from typing import IO, Any, NamedTuple

import click

from ottla.cli.cluster_plan import distinct
from ottla.cli.cluster_reassigning import Reassigning
from ottla.cli.remote import asking, connection_options, run, servers
from ottla.cli.session import json_option
from ottla.cli.tables import say
from ottla.core.ids import topic_name_fault

INTERRUPTED = 130
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Options(NamedTuple):
    """What the command line says."""

    file: IO[str] | None
    topics: tuple[str, ...]
    partition: int | None
    replicas: tuple[int, ...] | None
    drain: int | None
    to: tuple[int, ...] | None
    execute: bool
    cancel: bool
    list_moves: bool
    verify: bool
    wait: bool
    throttle: int | None
    preserve_throttles: bool
    additional: bool
    save: str | None
    as_json: bool
    bootstrap_server: str
    timeout: float

    @property
    def has_source(self) -> bool:
        return any(each is not None for each in (self.file, self.replicas, self.drain, self.to))


def _ids(ctx: click.Context, parameter: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    if value is None:
        return None
    words = [word.strip() for word in value.split(",")]
    if not all(word.isascii() and word.isdecimal() and int(word) < 2**31 for word in words):
        raise click.UsageError(f"{parameter.opts[0]} takes ids of brokers as in 1,2,3, not {value!r}", ctx)
    return distinct([int(word) for word in words], parameter.opts[0])


def _rate(ctx: click.Context, _: click.Parameter, value: str | None) -> int | None:
    """`1000000`, `50M`."""
    if value is None:
        return None
    number, unit = (value[:-1], value[-1].upper()) if value[-1:].isalpha() else (value, "")
    if not (number.isascii() and number.isdecimal() and unit in _UNITS and 0 < int(number) < 2**40):
        raise click.UsageError(f"--throttle takes bytes per second as in 1000000 or 50M, not {value!r}", ctx)
    return int(number) * _UNITS[unit]


_OPTIONS = (
    click.option(
        "--file",
        type=click.File(encoding="utf-8"),
        metavar="FILE",
        help="The plan, in the format of kafka-reassign-partitions; - is stdin.",
    ),
    click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic; repeatable."),
    click.option("--partition", metavar="N", type=click.IntRange(0, 2**31 - 1), help="Only this one of it."),
    click.option(
        "--replicas", metavar="IDS", callback=_ids, help="Its replicas, the preferred leader first."
    ),
    click.option(
        "--drain", metavar="ID", type=click.IntRange(0, 2**31 - 1), help="Take all replicas off a broker."
    ),
    click.option(
        "--to",
        metavar="IDS",
        callback=_ids,
        help="Spread evenly over these brokers; with --drain, only they take over.",
    ),
    click.option(
        "--execute/--plan",
        "--apply",
        "execute",
        help="Do it, or only show what would be done.  [default: plan]",
    ),
    click.option("--cancel", is_flag=True, help="Cancel moves: those that are named, or all."),
    click.option("--list", "list_moves", is_flag=True, help="List the moves that are under way."),
    click.option("--verify", is_flag=True, help="Is it over? If nothing moves any more, remove throttles."),
    click.option("--wait", is_flag=True, help="With --execute or --verify: wait until it is over."),
    click.option(
        "--throttle",
        metavar="BYTES",
        callback=_rate,
        help="With --execute: bytes a second for copying, as in 50M.",
    ),
    click.option("--preserve-throttles", is_flag=True, help="Do not remove throttles at the end."),
    click.option("--additional", is_flag=True, help="Execute although other moves are under way."),
    click.option(
        "--save",
        metavar="FILE",
        type=click.Path(dir_okay=False),
        help="Write what is now there, for --file to go back.",
    ),
    json_option,
    connection_options,
)


def _options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@_options
@click.pass_context
def reassign(ctx: click.Context, /, **given: Any) -> int:
    """Move partitions to other brokers: by a plan in a file, one partition by hand, away from a broker, or evenly over
    some.

    Without --execute the plan is shown, and nothing done. With --wait the end is waited for; whoever stops waiting,
    with Ctrl-C, does not stop the move. --verify looks whether it is over.

    With --throttle, brokers copy no more than so many bytes a second for these moves. The settings that do so are
    removed at the end by --wait, by --verify, or by --cancel, when nothing moves any more.

    --json: {"is_dry_run", "plan": {"version", "partitions": [{"topic", "partition", "replicas"}]}, "rollback":
    {"version", "partitions": [{"topic", "partition", "replicas"}]}, "throttle", "partitions": [{"topic", "partition",
    "now", "then", "adds", "removes"}]}. With --execute {"is_dry_run", "plan": {...}, "rollback": {...}, "throttle",
    "throttles_removed", "partitions": [{"topic", "partition", "now", "then", "adds", "removes", "state"}], "failures":
    [SENTENCE]}, with --list {"partitions": [{"topic", "partition", "replicas", "adding", "removing", "copied_bytes",
    "total_bytes"}]}, with --cancel {"partitions": [{"topic", "partition", "replicas", "state"}], "failures":
    [SENTENCE], "throttles_removed"}, with --verify {"is_over", "partitions": [{"topic", "partition", "replicas",
    "state"}], "throttles_removed"}.
    """
    options = Options(**given)
    if fault := _fault(options):
        raise click.UsageError(fault, ctx)
    work = Reassigning(options)
    address, timeout = options.bootstrap_server, options.timeout
    if options.cancel:
        return asking(address, timeout, work.cancel)
    if options.list_moves:
        return asking(address, timeout, work.list_moves)
    try:
        if options.verify and options.wait:
            return run(work.verify_at_the_end(servers(address)))
        if options.verify:
            return asking(address, timeout, work.verify)
        if not options.execute:
            return asking(address, timeout, work.show_plan)
        return run(work.execute(servers(address)))
    except KeyboardInterrupt:
        if work.has_begun:
            say("nobody waits any more, but the partitions go on moving: --verify tells when it is over")
        return INTERRUPTED


def _fault(options: Options) -> str | None:
    """Why these options make no sense together."""
    for name in options.topics:
        if fault := topic_name_fault(name):
            return f"{name!r} names no topic: the name {fault}"
    actions = [
        name
        for name, is_asked in (
            ("--execute", options.execute),
            ("--cancel", options.cancel),
            ("--list", options.list_moves),
            ("--verify", options.verify),
        )
        if is_asked
    ]
    if len(actions) > 1:
        return f"choose one of {' and '.join(actions)}"
    sources = [
        name
        for name, value in (
            ("--file", options.file),
            ("--replicas", options.replicas),
            ("--drain", options.drain),
        )
        if value is not None
    ] or (["--to"] if options.to is not None else [])
    return _source_fault(options, sources) or _action_fault(options, actions, sources)


def _source_fault(options: Options, sources: list[str]) -> str | None:
    if len(sources) > 1:
        return f"choose one of {' and '.join(sources)}"
    if options.to is not None and sources not in (["--to"], ["--drain"]):
        return f"--to does not go with {sources[0]}"
    if options.partition is not None and len(options.topics) != 1:
        return "--partition goes with one --topic"
    if options.replicas is not None and options.partition is None:
        return "--replicas goes with --topic and --partition"
    if options.file is not None and options.topics:
        return "a --file names its topics itself: leave out --topic"
    if options.partition is not None and sources in (["--to"], ["--drain"]):
        return f"{sources[0]} is for whole topics: leave out --partition"
    if options.drain is not None and options.to is not None and options.drain in options.to:
        return f"broker {options.drain} cannot be drained to itself"
    return None


def _action_fault(options: Options, actions: list[str], sources: list[str]) -> str | None:
    if options.wait and actions not in (["--execute"], ["--verify"]):
        return "--wait goes with --execute or --verify"
    if options.throttle is not None and actions not in ([], ["--execute"]):
        return "--throttle goes with --execute"
    if actions in ([], ["--execute"]) and not sources:
        return "say what to move: --file, --drain, --to, or --topic, --partition and --replicas"
    if actions in (["--cancel"], ["--list"]) and sources and sources != ["--file"]:
        return f"{actions[0]} takes moves by --file or --topic: leave out {sources[0]}"
    if options.verify and sources in (["--drain"], ["--to"]):
        return f"{sources[0]} would be worked out anew: say --verify alone, or with the plan in a --file"
    return None
