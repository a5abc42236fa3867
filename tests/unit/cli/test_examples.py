"""Every example is understood by the command that it is an example of, and every command has one."""

import shlex

import click
import pytest

from ottla.cli.classic.names import CLASSIC, name_of, tool_of
from ottla.cli.examples import EXAMPLES, example_of
from ottla.cli.main import cli


def leaves(command, ctx):
    """The paths of all commands below, such as `ottla topic ls`."""
    if not isinstance(command, click.Group):
        yield ctx.command_path
        return
    for name in command.list_commands(ctx):
        child = command.get_command(ctx, name)
        yield from leaves(child, click.Context(child, info_name=name, parent=ctx))


def understood(words):
    """Parse without running anything; returns the path of the command that would run."""
    command, ctx = cli, cli.make_context("ottla", list(words))
    while isinstance(command, click.Group):
        rest = [*ctx._protected_args, *ctx.args]
        name, command, rest = command.resolve_command(ctx, rest)
        ctx = command.make_context(name, rest, parent=ctx)
    return ctx.command_path


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")  # what an option sets is undone


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_understood(example):
    tool, *words = shlex.split(example)
    assert tool == "ottla"
    if (name := name_of(words[0])) is not None:
        tool_of(name).parser().read(words[1:])
    else:
        path = understood(words)
        assert example == path or example.startswith(f"{path} ")


def test_every_command_has_an_example():
    paths = list(leaves(cli, click.Context(cli, info_name="ottla")))
    assert [path for path in paths if not example_of(path)] == []


def test_every_classic_name_has_an_example():
    assert [name for name in CLASSIC if not example_of(f"ottla {name}")] == []


def test_an_example_is_found_by_whole_words():
    assert example_of("ottla topic delete").startswith("ottla topic delete ")
    assert example_of("ottla topic delet") == ""
