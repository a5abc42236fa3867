"""A group of commands whose modules are imported only when one of them runs.

The names and one-line helps stand in a table, so that `ottla --help` costs no more than click itself.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Lazy(NamedTuple):
    """Where a command is found, as `module:attribute`, and what it does in one line."""

    target: str
    help: str


class LazyGroup(click.Group):
    """A group that knows its commands by name. A name that it does not know gets a guess instead of a shrug.

    `aliases` are other names that people try, such as `list` for `ls`; no help mentions them.
    """

    def __init__(
        self,
        *args: Any,
        table: dict[str, Lazy] | None = None,
        aliases: dict[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.table = table or {}
        self.aliases = aliases or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if (lazy := self.table.get(self.aliases.get(cmd_name, cmd_name))) is None:
            return None
        module, _, attribute = lazy.target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.table.keys() | self.aliases.keys()
        if args and args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            raise click.UsageError(f"no command is called {args[0]!r}{guess(args[0], list(self.table))}", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """The names of the table: to list them, no module is imported."""
        from click.shell_completion import CompletionItem

        names = {name: lazy.help for name, lazy in self.table.items() if name.startswith(incomplete)}
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [CompletionItem(name, help=text) for name, text in names.items()] + options

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, lazy.help) for name, lazy in self.table.items()])


def guess(name: str, known: list[str]) -> str:
    """The end of a sentence about an unknown name: what may have been meant, or what there is."""
    from difflib import get_close_matches

    if near := get_close_matches(name, known, n=1, cutoff=0.5):
        return f"; did you mean {near[0]!r}?"
    return f"; there are: {', '.join(known)}"
