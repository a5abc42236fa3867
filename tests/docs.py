"""`make docs`: the pages of docs/reference, written from the tables in the code, and pictures in other pages.

A picture stands below `<!-- drawn from package.module.function -->`: what that function returns, as Mermaid.
"""

import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

REFERENCE = Path(__file__).parent.parent / "docs" / "reference"
INTERNALS = REFERENCE.parent / "internals"


def _errors() -> str:
    from ottla.core.reference import errors_markdown

    return errors_markdown()


def _configuration() -> str:
    from ottla.broker.config import BrokerConfig
    from ottla.core.reference import config_markdown
    from ottla.storage.config import TopicConfig

    return config_markdown([BrokerConfig, TopicConfig])


def _metrics() -> str:
    from ottla.broker.metrics import BrokerMetrics
    from ottla.core.reference import metrics_markdown

    return metrics_markdown([BrokerMetrics])


def _protocol() -> str:
    from ottla.protocol.reference import protocol_markdown

    return protocol_markdown()


def _cli() -> dict[str, Callable[[], str]]:
    """A page for each command, and one that lists them."""
    from ottla.cli.main import cli
    from ottla.cli.reference import pages

    return dict(pages(cli))


def _client() -> str:
    from ottla.client.reference import client_markdown

    return client_markdown()


PAGES: dict[str, Callable[[], str]] = {
    "errors.md": _errors,
    "configuration.md": _configuration,
    "metrics.md": _metrics,
    "protocol.md": _protocol,
    "client.md": _client,
    **_cli(),
}


def _parameters() -> str:
    from ottla.client.reference import parameters_source

    return parameters_source()


SOURCES: dict[str, Callable[[], str]] = {
    "ottla/client/parameters.py": _parameters,
}
"""Modules that are written from tables."""


PICTURE = re.compile(r"<!-- drawn from ([\w.]+) -->\n```mermaid\n(.*?)```\n", re.DOTALL)


def redrawn(text: str) -> str:
    """The page with its pictures as they are today."""

    def draw(found: re.Match[str]) -> str:
        module, _, function = found[1].rpartition(".")
        picture = getattr(import_module(module), function)()
        return f"<!-- drawn from {found[1]} -->\n```mermaid\n{picture}```\n"

    return PICTURE.sub(draw, text)


def main() -> None:
    for path in sorted(INTERNALS.glob("*.md")):
        before = path.read_text()
        if (after := redrawn(before)) != before:
            path.write_text(after)
            print(f"docs/internals/{path.name}")
    for name, render in SOURCES.items():
        (REFERENCE.parents[1] / name).write_text(render())
        print(name)
    for path in set(REFERENCE.rglob("*.md")) - {REFERENCE / name for name in PAGES}:
        path.unlink()  # of a command that is no more
    for name, render in PAGES.items():
        (REFERENCE / name).parent.mkdir(exist_ok=True)
        (REFERENCE / name).write_text(render())
        print(f"docs/reference/{name}")


if __name__ == "__main__":
    main()
