"""`kafka-server-start`: a broker with the settings of a server.properties, as `ottla start --config` runs it.

    kafka-server-start [-daemon] server.properties [--override property=value]*

Files of real clusters are taken as they are: with `zookeeper.connect` the broker joins the others there, a file for
KRaft with one node is run as one node. What is not known is ignored with a warning. With `-daemon` it goes on in the
background, and this command ends when clients are let in, or when it failed: Apache's ends at once, and leaves it to
the user to find out. What it prints is in `kafkaServer.out`, in the directory `LOG_DIR` or in `logs`.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ottla.cli.classic.parser import ClassicParser, Refused
from ottla.cli.classic.running import Tool
from ottla.core.errors import ConfigError, OttlaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

USAGE = "USAGE: kafka-server-start [-daemon] server.properties [--override property=value]*"
_OUTPUT = "kafkaServer.out"
_READY = "OTTLA_READY_FD"
"""The variable with the number of the pipe through which a broker in the background says that it is ready."""
_TAIL_BYTES = 4096


class _Parser(ClassicParser):
    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """The file comes first, and takes no part in what joptsimple reads."""
        words = list(words)
        daemon, at = False, 0
        while at < len(words) and words[at] in ("-daemon", "-loggc", "-name"):
            daemon = daemon or words[at] == "-daemon"
            at += 2 if words[at] == "-name" else 1
        rest = words[at:]
        file = rest.pop(0) if rest and not rest[0].startswith("-") else None
        if more := self._more(rest):
            raise Refused(f"Found non argument parameters: {','.join(more)}")
        found = self.parse_args(rest)
        found.file, found.daemon = file, daemon
        return found

    def _more(self, words: list[str]) -> list[str]:
        """What belongs to no option. Raises Refused."""
        _, unknown = self.parse_known_args(words)
        for word in unknown:
            if word.startswith("-"):
                raise Refused(f"{word.lstrip('-').partition('=')[0]} is not a recognized option")
        return unknown


def _parser() -> _Parser:
    parser = _Parser("kafka-server-start", "Run a broker with the settings of a server.properties.")
    parser.usage = USAGE.removeprefix("USAGE: ")
    parser.options(
        "--override",
        help="A property that goes before the one in the file.",
        metavar="String: property=value",
    )
    return parser


def run(options: argparse.Namespace) -> int:
    if options.file is None:
        print(USAGE)
        return 1
    for each in options.override:
        if "=" not in each:
            raise Refused(f"Invalid command line properties: {each}", shows_help=False)
    if not os.path.exists(options.file):
        raise OttlaError(f"java.nio.file.NoSuchFileException: {options.file}\nThere is no such file.")
    return (
        _start_daemon(options.file, options.override)
        if options.daemon
        else _serve(options.file, options.override)
    )


# --- here -------------------------------------------------------------------------------------------------------------


def _serve(file: str, overrides: list[str]) -> int:
    from ottla.cli.classic.server_registry import registered
    from ottla.cli.logs import LEVELS, set_up
    from ottla.cli.settings import Flags
    from ottla.cli.start import collector_at_rest, leave_at_once, read_config, run_broker

    style: Literal["text", "json"] = "json" if os.environ.get("OTTLA_LOG_FORMAT") == "json" else "text"
    level = os.environ.get("OTTLA_LOG_LEVEL", "").lower()
    set_up(level if level in LEVELS else "warning", style)
    with collector_at_rest():
        config = read_config(Flags(), _known(overrides), file)
        with registered(config.node_id, tuple(config.process_roles), os.path.abspath(file)):
            outcome = run_broker(config, _say_ready)
    if outcome.in_a_hurry:
        leave_at_once(outcome.code)
    return outcome.code


def _known(overrides: list[str]) -> list[str]:
    """Kafka ignores properties that it does not know, wherever they are written."""
    import logging

    from ottla.broker.config import BrokerConfig

    known = []
    for each in overrides:
        try:
            BrokerConfig.key_named(each.partition("=")[0].strip())
            known.append(each)
        except ConfigError as error:
            logging.getLogger(__name__).warning("--override: %s; it is ignored", error)
    return known


def _say_ready(broker: "Broker") -> None:
    from ottla.cli.start import announcement

    if (number := os.environ.pop(_READY, None)) is not None:
        with os.fdopen(int(number), "w") as pipe:
            pipe.write(announcement(broker))


# --- in the background ------------------------------------------------------------------------------------------------


def _start_daemon(file: str, overrides: list[str]) -> int:
    output = _output()
    reader, writer = os.pipe()
    words = ["kafka-server-start", os.path.abspath(file)]
    for each in overrides:
        words += ["--override", each]
    with open(output, "ab") as sink:
        start = sink.tell()
        child = subprocess.Popen(
            [*_this_ottla(), *words],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env={**os.environ, _READY: str(writer)},
            pass_fds=(writer,),
            start_new_session=True,
        )
    os.close(writer)
    with os.fdopen(reader) as pipe:
        ready = pipe.read()
    if ready:
        print(f"{ready}; process {child.pid} writes to {output}")
        return 0
    child.wait()
    with open(output, "rb") as printed:
        printed.seek(start)
        said = printed.read()[-_TAIL_BYTES:].decode(errors="replace").strip()
    raise OttlaError(f"The broker did not start; {output} says:\n{said}")


def _output() -> Path:
    path = Path(os.environ.get("LOG_DIR") or "logs").absolute()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OttlaError(f"{path} cannot be made ({error.strerror}): say in LOG_DIR where to write") from None
    return path / _OUTPUT


def _this_ottla() -> list[str]:
    """This Python and this Ottla, wherever they are."""
    import ottla

    parent = str(Path(ottla.__file__).resolve().parents[1])
    code = f"import sys; sys.path.append({parent!r}); from ottla.cli.main import main; sys.exit(main())"
    return [sys.executable, "-P", "-c", code]


def _report(error: Exception) -> None:
    from ottla.cli.main import describe

    text = describe(error) if isinstance(error, OSError) else str(error)
    print(text.replace("with --port, or 0 for a free one", "in listeners"), file=sys.stderr)


TOOL = Tool(_parser, run, _report, needs_words=False)
