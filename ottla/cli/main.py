"""The `ottla` command: one table of subcommands, and one place where failures become sentences.

Exit codes: 0 done, 1 the operation failed, 2 the command line makes no sense, 3 a part of it failed, 4 there is no such
thing, 5 not allowed, 6 nobody answers, 8 the cluster is not healthy, 130 interrupted. Whatever fails says so in one
sentence on stderr; OTTLA_TRACEBACK=1 adds where in the code it happened.
"""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ottla.cli.classic.names import CLASSIC, name_of
from ottla.cli.lazy import Lazy, LazyGroup
from ottla.cli.session import root_options

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

FAILED, USAGE, INTERRUPTED = 1, 2, 130

COMMANDS = {
    "start": Lazy("ottla.cli.start:start", "Run a broker in the foreground."),
    "cluster": Lazy("ottla.cli.cluster:cluster", "Run a cluster, look at its health, move partitions."),
    "topic": Lazy("ottla.cli.topic:topic", "List, describe, create, alter, delete, compact, clone topics."),
    "cat": Lazy("ottla.cli.cat.command:cat", "Send and read records with the options of kcat."),
    "consume": Lazy("ottla.cli.consume:consume", "Print the records of topics."),
    "produce": Lazy("ottla.cli.produce:produce", "Write records to a topic: lines, JSON, files."),
    "group": Lazy("ottla.cli.group:group", "Look at consumer groups; reset and delete them."),
    "config": Lazy("ottla.cli.config:config", "Look at settings, change them, see where they come from."),
    "txn": Lazy("ottla.cli.txn:txn", "Look at transactions, and end those that hang."),
    "log": Lazy("ottla.cli.log:log", "Look into the files of a log, offline."),
    "bench": Lazy("ottla.cli.bench:bench", "Measure a cluster: writing, reading, more partitions."),
    "sim": Lazy("ottla.cli.sim:sim", "Simulate a cluster, with faults drawn from a seed."),
    "protocol": Lazy("ottla.cli.protocol:protocol", "Look at the wire protocol as this build speaks it."),
    "profile": Lazy("ottla.cli.profile:profile", "Keep the settings of clusters under names."),
    "completion": Lazy("ottla.cli.completion:completion", "Let TAB complete commands, topics and groups."),
    "shims": Lazy("ottla.cli.shims:shims", "Put kafka-topics and the like on the PATH."),
}


class Root(LazyGroup):
    """`ottla` itself. Behind TAB there are the classic names, too."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if ctx.resilient_parsing and (tool := name_of(cmd_name)) is not None:
            from ottla.cli.completing import classic_command

            return classic_command(tool)
        return super().get_command(ctx, cmd_name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        classic = {name: each.help for name, each in CLASSIC.items() if name.startswith(incomplete)}
        offered = [CompletionItem(name, help=text) for name, text in classic.items()]
        return super().shell_complete(ctx, incomplete) + offered


def _classic_names() -> str:
    """For the end of the help: names are not cut at their dashes."""
    lines = ["\b\nKafka's own tools, with their own options:"]
    for name in CLASSIC:
        if len(lines) == 1 or len(lines[-1]) + len(name) > 74:
            lines.append(f"  {name}")
        else:
            lines[-1] += f", {name}"
    return "\n".join(lines)


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from ottla import __version__

        click.echo(f"ottla {__version__}")
        ctx.exit()


@click.group(
    cls=Root,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_classic_names(),
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Say which version.",
)
@root_options
def cli() -> None:
    """Ottla: the whole of Kafka in Python.

    The options count for every command, and may stand behind it as well.
    """


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    _check_streams()
    words = list(sys.argv[1:] if args is None else args)
    try:
        if os.environ.get("_OTTLA_COMPLETE"):
            return _answer_shell()
        if words and (tool := name_of(words[0])) is not None:
            return _classic(tool, words[1:])
        code = _run(words)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _hang_up()
    except (click.Abort, KeyboardInterrupt):
        return _give_in()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()  # the help of a group that was called without a command
        return error.exit_code
    except click.ClickException as error:
        return _explain(_where(error) + error.format_message(), error.exit_code)
    except Exception as error:
        return _explain(_sentence(error), FAILED)


def _check_streams() -> None:
    """Nobody need be there: of a closed stdout, the next connection would get the number, and the answers with it."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, and those below are not
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115  # to the end of the process
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # what a terminal cannot show must not end the command
            stream.reconfigure(errors="backslashreplace")


def _run(words: list[str]) -> int:
    """As click's own `main`, which would write an empty line for every interrupt, also where nobody typed ^C."""
    try:
        with cli.make_context("ottla", words) as ctx:
            code = cli.invoke(ctx)
    except click.exceptions.Exit as ending:
        code = ending.exit_code
    except EOFError:
        raise click.Abort() from None
    return code if isinstance(code, int) else 0


def _give_in() -> int:
    """The prompt of the shell should not stand behind the ^C."""
    if sys.stderr.isatty():
        click.echo(err=True)
    return INTERRUPTED


def _classic(tool: str, words: list[str]) -> int:
    from ottla.cli.classic.running import main as run

    return run(tool, words)


def _answer_shell() -> int:
    from ottla.cli.completion import answer

    return answer()


def _hang_up() -> int:
    """The reader of our output has gone: let nothing complain about that when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return FAILED


def _where(error: click.ClickException) -> str:
    path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "ottla"
    return f"{path}: "


def _sentence(error: Exception) -> str:
    from ottla.core.errors import OttlaError

    if isinstance(error, OttlaError):
        return f"ottla: {error}"
    if isinstance(error, OSError):
        return f"ottla: {describe(error)}"
    return f"ottla: a bug: {type(error).__name__}: {error}; OTTLA_TRACEBACK=1 shows where"


def describe(error: OSError) -> str:
    """Which file, and what the operating system said about it."""
    reason = error.strerror or str(error) or type(error).__name__
    return reason if error.filename is None else f"{os.fsdecode(error.filename)}: {reason}"


def _explain(sentence: str, code: int) -> int:
    """Say it on stderr. Called while the exception is being handled."""
    if os.environ.get("OTTLA_TRACEBACK") == "1":
        import traceback

        traceback.print_exc()
    click.echo(" ".join(sentence.split()), err=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
