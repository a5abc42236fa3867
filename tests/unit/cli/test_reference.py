"""The reference says what the commands say: one page for each."""

import sys

import click
import pytest

from ottla.cli.classic.names import CLASSIC, tool_of
from ottla.cli.main import COMMANDS, cli
from ottla.cli.reference import classic_markdown, command_markdown, index_markdown, pages


@pytest.fixture
def tool():
    """A group with one command, which is no part of ottla."""

    @click.group(help="A group.")
    def tool() -> None: ...

    @tool.group(help="Above.")
    def group() -> None: ...

    @group.command(help="Does it.\n\nIn two\nparagraphs.")
    @click.argument("names", nargs=-1, required=True, metavar="NAME...")
    @click.argument("place", required=False, metavar="[PLACE]")
    @click.option("--how", type=click.Choice(["a", "b"]), help="Which way.")
    @click.option("--secret", hidden=True)
    def act(names: str, place: str, how: str, secret: str) -> None: ...

    return tool


def test_there_is_a_page_for_each_command_and_each_classic_name():
    names = {"cli.md", *(f"cli/{name}.md" for name in (*COMMANDS, *CLASSIC))}
    assert pages(cli).keys() == names


def test_every_command_gets_a_section_with_its_arguments_and_options(tool):
    page = command_markdown(tool, "group", "tool")
    assert page.startswith("# tool group\n")
    usage = "```\ntool group act [OPTIONS] NAME... [PLACE]\n```"
    assert f"## tool group act\n\n{usage}\n\nDoes it.\n\nIn two paragraphs.\n" in page
    assert "| `NAME` | one or more |\n| `PLACE` | optional |" in page
    assert "| `--how [a\\|b]` | Which way. |" in page
    assert "secret" not in page


def test_exit_codes_are_those_of_the_module_or_the_usual_ones(tool, monkeypatch):
    page = command_markdown(tool, "group", "tool")
    assert "| `130` | interrupted |" in page
    words = "What it is.\n\nExit codes: 0 done, or begun; 7 lost,\nbut\nfound, 130 interrupted. More."
    monkeypatch.setattr(sys.modules[__name__], "__doc__", words)
    page = command_markdown(tool, "group", "tool")
    assert "| `0` | done, or begun |\n| `7` | lost, but found |\n| `130` | interrupted |\n" in page


def test_the_index_links_to_every_page():
    index = index_markdown(cli)
    for name in (*COMMANDS, *CLASSIC):
        assert f"[{name}](cli/{name}.md)" in index
    assert "| `6` | nobody answers |" in index
    assert "| `--bootstrap-server HOST:PORT`" in index or "| `-b, --bootstrap-server HOST:PORT` |" in index


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_has_an_example_in_every_section_of_a_command(name):
    page = command_markdown(cli, name)
    sections = page.split("\n## ") if "\n## " in page else [page]
    for section in sections[1:] or sections:
        assert section.rstrip().endswith("```"), section.splitlines()[0]
        assert "| exit code | meaning |" in section


@pytest.mark.parametrize("name", CLASSIC)
def test_a_classic_page_has_all_options_of_the_tool(name):
    page = classic_markdown(name)
    for action in tool_of(name).parser()._actions:
        for option in action.option_strings:
            assert f"`{option}" in page or f", {option}" in page
    assert f"```\nottla {name} " in page
