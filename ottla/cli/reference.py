"""docs/reference/cli.md and a page for each command, written from the commands themselves so that they cannot disagree.

A page has a section for each command below: how to call it, what it does, its arguments and options, what its exit
codes mean, and an example. Exit codes stand in the docstring of its module, examples in `ottla.cli.examples`.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from functools import partial

import click

from ottla.cli.classic.names import CLASSIC, tool_of
from ottla.cli.examples import example_of
from ottla.core.reference import NOTICE

_EXIT_CODES = re.compile(r"Exit codes: (.*?)\.(?:\s|$)", re.DOTALL)
_ONE_CODE = re.compile(r"(?:^|(?<=[,;] ))(?=[0-9]+ )")
_USUAL = "0 done, 1 failed, 2 usage, 130 interrupted"
_CLASSIC_CODES = "0 done, 1 failed"


def index_markdown(root: click.Group, name: str = "ottla") -> str:
    """What all commands have in common, and where each of them is described."""
    ctx = _context(root, name)
    parts = [
        "# Command line",
        NOTICE,
        f"```\n{_usage(root, ctx)}\n```",
        _prose(root.help or ""),
        _options(root, ctx),
        "A setting of the connection comes from the first of these that has it: a flag, `-X`, a variable such as "
        "`OTTLA_SECURITY_PROTOCOL`, the profile, `client.properties` beside the profiles, the default.",
        "## Commands",
        _listed({each: _one_line(root, ctx, each) for each in root.list_commands(ctx)}),
        "## Kafka's own tools",
        f"`{name} kafka-topics ...` takes the options, prints the output and has the exit codes of kafka-topics.sh, "
        f"and so on. `{name} shims install` makes commands of them.",
        _listed({each: classic.help for each, classic in CLASSIC.items()}),
        "## Exit codes",
        _codes(_codes_of(sys.modules["ottla.cli.main"].__doc__) or _USUAL),
    ]
    return "\n\n".join(parts) + "\n"


def command_markdown(root: click.Group, command: str, name: str = "ottla") -> str:
    """The page of one command of the root, with a section for each command below it."""
    above = _context(root, name)
    child = root.get_command(above, command)
    assert child is not None, "a listed command exists"
    first, *others = _walk(child, click.Context(child, info_name=command, parent=above))
    parts = [f"# {first[1].command_path}", NOTICE, *_section(*first)]
    for each, ctx in others:
        parts += [f"## {ctx.command_path}", *_section(each, ctx)]
    return "\n\n".join(parts) + "\n"


def classic_markdown(name: str) -> str:
    """The page of one classic name."""
    parser = tool_of(name).parser()
    parts = [
        f"# {name}",
        NOTICE,
        f"```\nottla {name} [--option value]...\n```",
        _prose(parser.description or CLASSIC[name].help),
        _table(
            "option", [_classic_option(each) for each in parser._actions if each.help != argparse.SUPPRESS]
        ),
        _codes(_CLASSIC_CODES),
        f"```\n{example_of(f'ottla {name}') or f'ottla {name} --help'}\n```",
    ]
    return "\n\n".join(parts) + "\n"


# --- a section --------------------------------------------------------------------------------------------------------


def _context(root: click.Command, name: str) -> click.Context:
    return click.Context(root, info_name=name, **root.context_settings)


def _walk(command: click.Command, ctx: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    yield command, ctx
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            child = command.get_command(ctx, name)
            assert child is not None, "a listed command exists"
            yield from _walk(child, click.Context(child, info_name=name, parent=ctx))


def _section(command: click.Command, ctx: click.Context) -> list[str]:
    parts = [f"```\n{_usage(command, ctx)}\n```", _prose(command.help or "")]
    if isinstance(command, click.Group):
        return [*parts, *filter(None, [_options(command, ctx)])]
    parts += filter(None, [_arguments(command, ctx), _options(command, ctx)])
    parts.append(_codes(_codes_of_command(command, ctx)))
    if example := example_of(ctx.command_path) or _plain_example(command, ctx):
        parts.append(f"```\n{example}\n```")
    return parts


def _usage(command: click.Command, ctx: click.Context) -> str:
    return " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])


def _prose(text: str) -> str:
    """Paragraphs, each on one line."""
    plain = text.split("\f")[0].replace("\b\n", "")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in plain.split("\n\n")).strip()


def _arguments(command: click.Command, ctx: click.Context) -> str:
    rows = [
        (_metavar(each, ctx), _how_many(each)) for each in command.params if isinstance(each, click.Argument)
    ]
    return _table("argument", rows)


def _metavar(argument: click.Argument, ctx: click.Context) -> str:
    return argument.make_metavar(ctx).strip("[]").rstrip(".").rstrip("]")


def _how_many(argument: click.Argument) -> str:
    if argument.nargs == 1:
        return "required" if argument.required else "optional"
    return "one or more" if argument.required else "any number"


def _options(command: click.Command, ctx: click.Context) -> str:
    """The options as a table, without --help, which every command has."""
    rows = [
        record
        for parameter in command.params
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx)) is not None
    ]
    return _table("option", rows)


def _classic_option(action: argparse.Action) -> tuple[str, str]:
    value = f" {action.metavar}" if action.nargs != 0 and action.metavar else ""
    return ", ".join(action.option_strings) + value, (action.help or "").replace("%%", "%")


def _plain_example(command: click.Command, ctx: click.Context) -> str:
    """A command that needs nothing is its own example."""
    needed = [each for each in command.params if each.required]
    return "" if needed else ctx.command_path


# --- exit codes -------------------------------------------------------------------------------------------------------


def _codes_of_command(command: click.Command, ctx: click.Context) -> str:
    """Those of its own module, of the group's, or the usual ones."""
    for each in (command, *(above.command for above in _above(ctx) if above.parent is not None)):
        module = sys.modules.get(getattr(each.callback, "__module__", ""))
        if module is not None and (found := _codes_of(module.__doc__)):
            return found
    return _USUAL


def _above(ctx: click.Context) -> Iterator[click.Context]:
    while ctx.parent is not None:
        ctx = ctx.parent
        yield ctx


def _codes_of(docstring: str | None) -> str | None:
    found = _EXIT_CODES.search(docstring or "")
    return " ".join(found[1].split()) if found else None


def _codes(sentence: str) -> str:
    """`0 done, 1 failed` as a table."""
    rows = [each.strip().rstrip(",;").partition(" ") for each in _ONE_CODE.split(sentence) if each.strip()]
    return _table("exit code", [(code, meaning) for code, _, meaning in rows])


# --- Markdown ---------------------------------------------------------------------------------------------------------


def _one_line(root: click.Group, ctx: click.Context, name: str) -> str:
    """As `--help` lists it: the table of lazy commands has it without importing any."""
    if (table := getattr(root, "table", None)) is not None:
        return str(table[name].help)
    command = root.get_command(ctx, name)
    return "" if command is None else command.get_short_help_str(200)


def _listed(helps: dict[str, str]) -> str:
    lines = [f"| [{name}](cli/{name}.md) | {_cell(text)} |" for name, text in helps.items()]
    return "\n".join(["| command | |", "|---|---|", *lines])


def _table(title: str, rows: "list[tuple[str, str]]") -> str:
    lines = [f"| `{_cell(name)}` | {_cell(text)} |" for name, text in rows]
    return "\n".join([f"| {title} | meaning |", "|---|---|", *lines]) if lines else ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def pages(root: click.Group) -> "dict[str, partial[str]]":
    """What renders each page, by its path in docs/reference."""
    ctx = _context(root, "ottla")
    found = {"cli.md": partial(index_markdown, root)}
    found |= {f"cli/{name}.md": partial(command_markdown, root, name) for name in root.list_commands(ctx)}
    return found | {f"cli/{name}.md": partial(classic_markdown, name) for name in CLASSIC}
