"""`kafka-server-stop`: end the brokers that `kafka-server-start` has started here, or those with a node id or a role.

It asks them with SIGTERM, and does not wait until they have gone, as Apache's does not; who is stopping already is not
asked again. No other process gets a signal, whatever it is called: neither Apache's brokers nor those of `ottla start`.
"""

import argparse

from ottla.cli.classic.java import integer
from ottla.cli.classic.parser import ClassicParser
from ottla.cli.classic.running import Tool


def _parser() -> ClassicParser:
    parser = ClassicParser("kafka-server-stop", "Stop the brokers that kafka-server-start has started.")
    parser.option("--node-id", help="Only the one with this id.", metavar="Integer")
    parser.option("--process-role", help="Only those with this role: broker or controller.", metavar="String")
    return parser


def run(options: argparse.Namespace) -> int:
    from ottla.cli.classic.server_registry import ask_to_stop, servers

    found = servers()
    if options.node_id is not None:
        wanted = integer(options.node_id)
        found = [each for each in found if each.node_id == wanted]
    elif options.process_role is not None:
        found = [each for each in found if options.process_role in each.roles]
    if not found:
        print("No kafka server to stop")
        return 1
    for each in found:
        ask_to_stop(each)
    return 0


TOOL = Tool(_parser, run, needs_words=False)
