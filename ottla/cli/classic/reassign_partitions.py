"""`kafka-reassign-partitions`: move partitions between brokers, and replicas between the directories of a broker.

What fails after the command line was understood is said on stdout, behind `Error:`, as Apache's tool does.
"""

import argparse
import sys
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from ottla.cli.classic.admin_parser import AdminParser, has, require, servers_in
from ottla.cli.classic.java import Illegal, integer
from ottla.cli.classic.json_fields import text_of
from ottla.cli.classic.parser import Refused
from ottla.cli.classic.running import Tool, with_admin

_ACTIONS = ("generate", "execute", "verify", "cancel", "list")
_REQUIRED = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
_EVERYWHERE = ("bootstrap-server", "command-config", "zookeeper")
_ALLOWED = {
    "generate": ("disable-rack-aware",),
    "execute": (
        "additional",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "disallow-replication-factor-change",
    ),
    "verify": ("preserve-throttles",),
    "cancel": ("preserve-throttles", "timeout", "bootstrap-controller"),
    "list": ("bootstrap-controller",),
}
_KINDS = {
    "is not a recognized option": "joptsimple.UnrecognizedOptionException: ",
    "requires an argument": "joptsimple.OptionMissingRequiredArgumentException: ",
}
_TIMEOUT_MS = 10_000


class _Parser(AdminParser):
    """Complaints have Java's names of them in front; a number that is none is found later."""

    def read(self, words: Any) -> argparse.Namespace:
        try:
            return super().read(words)
        except Refused as refused:
            for ending, name in _KINDS.items():
                if str(refused).endswith(ending):
                    raise Refused(f"{name}{refused}", shows_help=False) from None
            if str(refused).startswith("Found multiple"):
                raise Illegal(str(refused)) from None
            raise


def _parser() -> AdminParser:
    parser = _Parser(
        "kafka-reassign-partitions", "This tool helps to move topic partitions between replicas."
    )
    parser.option("--bootstrap-server", help="The server(s) to use for bootstrapping.")
    parser.option("--bootstrap-controller", help="The controller to use, with --cancel and --list.")
    parser.option("--command-config", help="Property file with settings of the Admin Client.")
    parser.option("--zookeeper", help="The ZooKeeper that knows the brokers, as host:port[/chroot].")
    parser.flag("--generate", help="Generate a candidate reassignment; it is not executed.")
    parser.flag("--execute", help="Begin the reassignment that --reassignment-json-file says.")
    parser.flag("--verify", help="Say how far it is; if it is over, clear the throttles.")
    parser.flag("--cancel", help="Cancel an active reassignment.")
    parser.flag("--list", help="List all active reassignments.")
    parser.option(
        "--reassignment-json-file",
        help='{"partitions": [{"topic": "foo", "partition": 1, "replicas": [1, 2], "log_dirs": ["dir1", "any"]}]}',
        metavar="String: file",
    )
    parser.option(
        "--topics-to-move-json-file",
        help='With --generate: {"topics": [{"topic": "foo"}], "version": 1}',
        metavar="String: file",
    )
    parser.option("--broker-list", help='With --generate: the brokers to move to, as "0,1,2".')
    parser.flag("--disable-rack-aware", help="With --generate: do not look at racks.")
    parser.option("--throttle", help="Bytes/sec between brokers, while it moves.", metavar="Long: throttle")
    parser.option(
        "--replica-alter-log-dirs-throttle",
        help="Bytes/sec between the directories of a broker.",
        metavar="Long",
    )
    parser.option("--timeout", help="Milliseconds for directories to be told of a move.", metavar="Long")
    parser.flag("--additional", help="Execute it although another one is under way; or change its throttle.")
    parser.flag("--preserve-throttles", help="Do not modify broker or topic throttles.")
    parser.flag("--disallow-replication-factor-change", help="Refuse to change how many replicas there are.")
    return parser


def run(options: argparse.Namespace) -> int:
    action = _action(options)
    from ottla.cli.classic.reassign_actions import Terse

    try:
        return _run(action, options)
    except Terse as error:
        print(error)
        return 1


def _action(options: argparse.Namespace) -> str:
    """Raises Refused."""
    actions = [name for name in _ACTIONS if getattr(options, name)]
    if len(actions) != 1:
        named = ", ".join(f"--{name}" for name in _ACTIONS)
        raise Refused(f"Command must include exactly one action: {named}")
    if has(options, "bootstrap-server") and has(options, "bootstrap-controller"):
        raise Refused("Please don't specify both --bootstrap-server and --bootstrap-controller")
    if not any(has(options, name) for name in ("bootstrap-server", "bootstrap-controller", "zookeeper")):
        raise Refused("Please specify either --bootstrap-server or --bootstrap-controller")
    action = actions[0]
    require(options, *_REQUIRED[action])
    allowed = {action, *_EVERYWHERE, *_REQUIRED[action], *_ALLOWED[action]}
    for word in options.words:
        name = word.lstrip("-").partition("=")[0]
        if word.startswith("--") and has(options, name) and name not in allowed:
            raise Refused(f'Option "[{name}]" can\'t be used with action "[{action}]"')
    return action


def _run(action: str, options: argparse.Namespace) -> int:
    from ottla.cli.classic import reassign_actions as actions
    from ottla.cli.classic import reassign_files as files

    work: Callable[[Any], Coroutine[Any, Any, None]]
    servers = servers_in(_reached(options))
    if action == "list":
        with_admin(servers, options.command_config, actions.list_all)
        return 0
    if action == "generate":
        topics = files.read_topics(text_of(options.topics_to_move_json_file))
        brokers = files.read_brokers(options.named_brokers)
        aware = not options.disable_rack_aware
        work = partial(actions.generate, topics=topics, brokers=brokers, is_rack_aware=aware)
        with_admin(servers, options.command_config, work)
        return 0
    text = text_of(options.reassignment_json_file)
    limits = _limits(options)
    plan = files.read_plan(text, is_checked=action == "execute")
    if action == "verify":
        work = partial(actions.verify, plan=plan, preserve_throttles=options.preserve_throttles)
    elif action == "cancel":
        work = partial(
            actions.cancel,
            plan=plan,
            preserve_throttles=options.preserve_throttles,
            timeout_ms=limits["timeout_ms"],
        )
    else:
        may_change = not options.disallow_replication_factor_change
        work = partial(
            actions.execute,
            plan=plan,
            additional=options.additional,
            may_change_factor=may_change,
            **limits,
        )
    with_admin(servers, options.command_config, work)
    return 0


def _reached(options: argparse.Namespace) -> argparse.Namespace:
    """Where the cluster is. Here --broker-list names brokers, and not where they are."""
    options.named_brokers, options.broker_list = options.broker_list, None
    options.bootstrap_server = options.bootstrap_server or options.bootstrap_controller
    return options


def _limits(options: argparse.Namespace) -> dict[str, int]:
    """Raises Illegal for what is no number."""
    return {
        "throttle": _number(options, "throttle", -1),
        "dirs_throttle": _number(options, "replica-alter-log-dirs-throttle", -1),
        "timeout_ms": _number(options, "timeout", _TIMEOUT_MS),
    }


def _number(options: argparse.Namespace, name: str, default: int) -> int:
    text = getattr(options, name.replace("-", "_"))
    if text is None:
        return default
    try:
        return integer(text, 64)
    except Illegal:
        raise Illegal(f"Cannot parse argument '{text}' of option {name}") from None


def _report(error: Exception) -> None:
    from ottla.cli.classic.reassign_actions import explain

    sentence, _, reason = explain(error).partition("\n")
    print(f"Error: {sentence}")
    if reason:
        print(reason, file=sys.stderr)


TOOL = Tool(_parser, run, _report)
