"""docs/reference/cli.md says what the commands say."""

from pathlib import Path

import click

from ottla.cli.main import cli
from ottla.cli.reference import cli_markdown

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == cli_markdown(cli)


def test_every_command_gets_a_section_with_its_options():
    @click.group(help="A group.")
    def tool() -> None: ...

    @tool.command(help="Does it.\n\nIn two\nparagraphs.")
    @click.option("--how", type=click.Choice(["a", "b"]), help="Which way.")
    @click.option("--secret", hidden=True)
    def act(how: str, secret: str) -> None: ...

    page = cli_markdown(tool, "tool")
    assert "## tool act\n\n```\ntool act [OPTIONS]\n```\n\nDoes it.\n\nIn two paragraphs.\n" in page
    assert "| `--how [a\\|b]` | Which way. |" in page
    assert "secret" not in page
