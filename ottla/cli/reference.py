"""docs/reference/cli.md, written from the commands themselves so that it cannot disagree with them."""

import click

from ottla.core.reference import NOTICE


def cli_markdown(root: click.Command, name: str = "ottla") -> str:
    """A page with a section for every command below `root`: what it does, how to call it, its options."""
    sections = _sections(root, click.Context(root, info_name=name, **root.context_settings))
    return "\n\n".join(["# Command line", NOTICE, *sections]) + "\n"


def _sections(command: click.Command, ctx: click.Context) -> list[str]:
    usage = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
    parts = [f"## {ctx.command_path}", f"```\n{usage}\n```", _prose(command.help or "")]
    parts += filter(None, [_options(command, ctx)])
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None, "a listed command exists"
            parts += _sections(child, click.Context(child, info_name=name, parent=ctx))
    return parts


def _prose(text: str) -> str:
    """Paragraphs, each on one line."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n")).strip()


def _options(command: click.Command, ctx: click.Context) -> str:
    """The options as a table, without --help, which every command has."""
    rows = [
        record
        for parameter in command.params
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx)) is not None
    ]
    lines = [f"| `{_cell(names)}` | {_cell(text)} |" for names, text in rows]
    return "\n".join(["| option | meaning |", "|---|---|", *lines]) if lines else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
