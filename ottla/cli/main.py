"""The `ottla` command: one table of subcommands, and one place where failures become sentences.

Exit codes: 0 done, 1 the operation failed, 2 the command line makes no sense, 3 a part of it failed, 4 there is no such
thing, 5 not allowed, 6 nobody answers, 8 the cluster is not healthy, 130 interrupted. Whatever fails says so in one
sentence on stderr; OTTLA_TRACEBACK=1 adds where in the code it happened.
"""

import os
import sys
from collections.abc import Sequence

import click

from ottla.cli.lazy import Lazy, LazyGroup

FAILED, USAGE, INTERRUPTED = 1, 2, 130

COMMANDS = {
    "start": Lazy("ottla.cli.start:start", "Run a broker in the foreground."),
    "cluster": Lazy("ottla.cli.cluster:cluster", "Run a cluster, look at its health, move partitions."),
    "topic": Lazy("ottla.cli.topic:topic", "Compact topics now."),
    "group": Lazy("ottla.cli.group:group", "Look at consumer groups, and how far they are behind."),
    "txn": Lazy("ottla.cli.txn:txn", "Look at transactions, and end those that hang."),
    "log": Lazy("ottla.cli.log:log", "Look into the files of a log, offline."),
    "sim": Lazy("ottla.cli.sim:sim", "Simulate a cluster, with faults drawn from a seed."),
    "protocol": Lazy("ottla.cli.protocol:protocol", "Look at the wire protocol as this build speaks it."),
}


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from ottla import __version__

        click.echo(f"ottla {__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Say which version.",
)
def cli() -> None:
    """Ottla: the whole of Kafka in Python."""


def main(args: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(
                errors="backslashreplace"
            )  # what a terminal cannot show must not end the command
    try:
        code = cli.main(args, prog_name="ottla", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except BrokenPipeError:
        return _hang_up()
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()  # the help of a group that was called without a command
        return error.exit_code
    except click.ClickException as error:
        return _explain(_where(error) + error.format_message(), error.exit_code)
    except Exception as error:
        return _explain(_sentence(error), FAILED)


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
