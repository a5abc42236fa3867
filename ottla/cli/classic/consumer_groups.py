"""`kafka-consumer-groups`: list, describe and delete consumer groups, and reset or delete their offsets.

As Apache's tool has it, what goes wrong with a cluster is said on stdout and the exit code is 0; the exit code is 1 for
a command line that makes no sense. Which of the groups it is about comes from `--group`, repeatable, or `--all-groups`.
"""

import argparse
import sys
from typing import Any

from ottla.cli.classic.admin_parser import AdminParser, forbid, has, require, servers_in
from ottla.cli.classic.consumer_groups_output import print_error
from ottla.cli.classic.consumer_groups_targets import SCENARIOS, number_of, one
from ottla.cli.classic.java import Illegal, message_of
from ottla.cli.classic.parser import Refused
from ottla.cli.classic.running import Tool, with_admin
from ottla.core.errors import KafkaError, OttlaError

_ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
_VIEWS = ("members", "offsets", "state")
_ONLY_WITH = {
    "members": ("describe",),
    "offsets": ("describe",),
    "state": ("describe", "list"),
    "type": ("list",),
    "verbose": ("describe",),
}
_TIMEOUT_MS = 30_000
_NO_ACTION = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require"
    " either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are"
    " scripting this command and want to keep the current default behavior without prompting."
)


def _parser() -> AdminParser:
    parser = AdminParser(
        "kafka-consumer-groups",
        "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info,"
        " or reset consumer group offsets.",
    )
    parser.options("--bootstrap-server", help="The servers to connect to.", metavar="String: server")
    parser.options("--broker-list", help="The same, as it was once called.")
    parser.options("--zookeeper", help="The ZooKeeper that knows the brokers.", metavar="String: urls")
    parser.flag("--new-consumer", help="Does nothing; older tools knew groups in ZooKeeper without it.")
    parser.options("--command-config", help="Property file with settings.", metavar="String: file")
    parser.options("--timeout", help="How long to wait for answers (default: 30000).", metavar="Long: ms")
    _actions(parser)
    parser.options(
        "--group", help="A consumer group to act on; repeatable.", metavar="String: consumer group"
    )
    parser.flag("--all-groups", help="Apply to all consumer groups.")
    parser.options(
        "--topic",
        help="A topic to reset or delete offsets of, or some of its partitions: topic1:0,1,2; repeatable.",
        metavar="String: topic",
    )
    parser.flag("--all-topics", help="Reset the offsets of all topics that the group has offsets of.")
    _views(parser)
    _scenarios(parser)
    return parser


def _actions(parser: AdminParser) -> None:
    parser.flag("--list", help="List all consumer groups.")
    parser.flag("--describe", help="Describe consumer groups, and list how far they lag behind.")
    parser.flag("--delete", help="Delete consumer groups, with their offsets.")
    parser.flag("--delete-offsets", help="Delete offsets of topics that a consumer group has.")
    parser.flag("--reset-offsets", help="Reset the offsets of consumer groups that nobody is active in.")
    parser.options(
        "--validate-regex",
        help="Say whether a regular expression is one of RE2, as Kafka 4 takes them.",
        metavar="String: regex",
    )


def _views(parser: AdminParser) -> None:
    parser.flag("--members", help="Describe the members of the group.")
    parser.flag("--offsets", help="Describe the offsets of the group; so it is by default.")
    parser.flag("--verbose", help="Describe more.")
    for name, what in (("--state", "state"), ("--type", "type")):
        parser.add_argument(
            name,
            nargs="?",
            action="append",
            default=[],
            metavar="String",
            help=f"With --list: show the {what} of groups, and only those of the given ones.",
        )


def _scenarios(parser: AdminParser) -> None:
    parser.flag("--dry-run", help="Only show what offsets would become.")
    parser.flag("--execute", help="Reset the offsets.")
    parser.flag("--export", help="Print the offsets as CSV, for --from-file.")
    parser.flag("--to-earliest", help="Reset offsets to the earliest.")
    parser.flag("--to-latest", help="Reset offsets to the latest.")
    parser.flag("--to-current", help="Reset offsets to what they are.")
    parser.options("--to-offset", help="Reset offsets to this one.", metavar="Long: offset")
    parser.options("--to-datetime", help="Reset offsets to a time: YYYY-MM-DDThh:mm:ss.sss.")
    parser.options("--by-duration", help="Reset offsets to so long ago: PnDTnHnMnS.")
    parser.options("--shift-by", help="Reset offsets by so many, also backwards.", metavar="Long")
    parser.options("--from-file", help="Reset offsets to those in a CSV file.", metavar="String: path")


# --- the command line -------------------------------------------------------------------------------------------------


def _check(options: argparse.Namespace) -> str:
    """The action. Raises Refused for what makes no sense together."""
    unavailable = [
        name
        for name, actions in _ONLY_WITH.items()
        if has(options, name) and not any(has(options, each) for each in actions)
    ]
    if unavailable:
        names = ", ".join(sorted(unavailable))
        sentence = f"Option(s) [{names}] are unavailable given other options on the command line"
        raise Refused(sentence, shows_help=False)
    if not (options.validate_regex or options.broker_list or options.zookeeper):
        require(options, "bootstrap-server")
    if options.describe:
        _check_describing(options)
    if options.delete:
        _need_groups(options, "delete")
        if options.topic:
            raise Refused(
                "The consumer does not support topic-specific offset deletion from a consumer group."
            )
    if options.delete_offsets and not (options.group and options.topic):
        raise Refused("Option [delete-offsets] takes the following options: [group], [topic]")
    if options.reset_offsets:
        _check_resetting(options)
    forbid(options, "group", "all-groups", "list")
    forbid(options, "topic", "describe", "list")
    chosen = [each for each in _ACTIONS if has(options, each)]
    if len(chosen) != 1:
        raise Refused(
            f"Command must include exactly one action: {', '.join(f'--{each}' for each in _ACTIONS)}"
        )
    return chosen[0]


def _need_groups(options: argparse.Namespace, action: str) -> None:
    if not options.group and not options.all_groups:
        raise Refused(f"Option [{action}] takes one of these options: [group], [all-groups]")


def _check_describing(options: argparse.Namespace) -> None:
    _need_groups(options, "describe")
    if sum(has(options, each) for each in _VIEWS) > 1:
        names = ", ".join(f"[{each}]" for each in _VIEWS)
        raise Refused(f"Option [describe] takes at most one of these options: {names}")
    if any(value is not None for value in options.state):
        raise Refused("Option [describe] does not take a value for [state]")


def _check_resetting(options: argparse.Namespace) -> None:
    if options.dry_run and options.execute:
        raise Refused("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not options.dry_run and not options.execute:
        print(_NO_ACTION, file=sys.stderr)
    _need_groups(options, "reset-offsets")
    for name in SCENARIOS:
        forbid(options, name, *(each for each in SCENARIOS if each != name))


# --- running it -------------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace) -> int:
    action = _check(options)
    try:
        if action == "validate-regex":
            _validate(one(options, "validate-regex"))
            return 0
        for name in ("bootstrap-server", "broker-list", "zookeeper", "command-config"):
            setattr(options, name.replace("-", "_"), one(options, name))
        timeout_ms = number_of(options, "timeout")
        with_admin(
            servers_in(options),
            options.command_config,
            lambda admin: _act(admin, action, options),
            _TIMEOUT_MS if timeout_ms is None else max(1, timeout_ms),
        )
    except (OttlaError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        reason, _, more = _reason(error).partition("\n")
        print_error(f"Executing consumer group command failed due to {reason}")
        if more:
            print(more, file=sys.stderr)
    return 0


async def _act(admin: Any, action: str, options: argparse.Namespace) -> None:
    if action in ("list", "describe"):
        from ottla.cli.classic import consumer_groups_describe as looking

        await (looking.list_groups if action == "list" else looking.describe)(admin, options)
    elif action == "reset-offsets":
        from ottla.cli.classic.consumer_groups_reset import reset

        await reset(admin, options)
    else:
        from ottla.cli.classic import consumer_groups_delete as deleting

        await (deleting.delete if action == "delete" else deleting.delete_offsets)(admin, options)


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return f"java.nio.file.NoSuchFileException: {error.filename}"
    return message_of(error)


def _validate(pattern: str | None) -> None:
    """RE2's own words are other ones in Java."""
    from ottla.core.patterns import compile_pattern

    assert pattern is not None
    try:
        compile_pattern(pattern)
    except KafkaError as error:
        if "pip install" in error.detail:
            raise Illegal("this needs `pip install ottla[regex]`") from None
        reason = error.detail.removeprefix(f"pattern {pattern!r:.200}: ")
        print(f"The regular expression `{pattern}` is invalid: {_java_words(reason)}.")
    else:
        print(f"The regular expression `{pattern}` is valid.")


_REASONS = {
    "missing ]: ": "missing closing ]",
    "missing ): ": "missing closing )",
    "unexpected ): ": "regexp/syntax: internal error",
    "no argument for repetition": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "trailing \\": "trailing backslash at end of expression",
    "invalid character class range": "invalid character class range",
    "invalid escape sequence": "invalid escape sequence",
    "invalid perl operator": "invalid or unsupported Perl syntax",
}


def _java_words(reason: str) -> str:
    return next((words for start, words in _REASONS.items() if reason.startswith(start)), reason)


TOOL = Tool(_parser, run)
