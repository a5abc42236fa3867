"""The command lines of those tools that administer a cluster: stricter than joptsimple is by itself.

They take no shortened options, an option that has one value may not have two, and whatever comes behind an option that
wants a value is its value, even with dashes in front.
"""

import argparse
import re
from collections.abc import Sequence
from typing import Any

from ottla.cli.classic.parser import ClassicParser, Refused
from ottla.cli.classic.running import servers_of
from ottla.core.errors import ConfigError

_SERVER = re.compile(r"(?:[A-Za-z0-9+]+://)?(?:\[[^\]]+\]|[^\s,\[\]]+):\d+")


class AdminParser(ClassicParser):
    """`words` of the result are the command line as it was. `complaint` is put in front of what makes no sense."""

    def __init__(self, name: str, description: str, complaint: str = "") -> None:
        super().__init__(name, description)
        self.allow_abbrev = False
        self._complaint = complaint
        self._valued: set[str] = set()
        self._single: dict[str, str] = {}

    def option(self, *names: str, help: str, metavar: str = "String", **how: Any) -> None:
        self._valued.update(names)
        made = self.add_argument(
            *names,
            help=help.replace("%", "%%"),
            metavar=f"<{metavar}>",
            action="append",
            **how,
        )
        self._single[made.dest] = names[0].lstrip("-")

    def options(self, *names: str, help: str, metavar: str = "String", **how: Any) -> None:
        self._valued.update(names)
        super().options(*names, help=help, metavar=metavar, **how)

    def connection(self, *, old: bool = True) -> None:
        """Where the cluster is: as it is said today and, with `old`, as it was said before."""
        self.option("--bootstrap-server", help="The Kafka server to connect to.", metavar="String: server")
        self.option(
            "--command-config",
            help="Property file with settings of the Admin Client.",
            metavar="String: file",
        )
        if old:
            self.option(
                "--broker-list",
                help="The same as --bootstrap-server, as it was once called.",
                metavar="String",
            )
            self.option(
                "--zookeeper",
                help="The ZooKeeper that knows the brokers, as host:port[/chroot].",
                metavar="String: urls",
            )

    def read(self, words: Sequence[str]) -> argparse.Namespace:
        """Raises Refused."""
        try:
            found = super().read(self._joined(words))
            for dest, name in self._single.items():
                values = getattr(found, dest) or []
                if len(values) > 1:
                    raise Refused(f"Found multiple arguments for option {name}, but you asked for only one")
                setattr(found, dest, values[0] if values else None)
        except Refused as refused:
            raise Refused(f"{self._complaint}{refused}", shows_help=False) from None
        found.words = list(words)
        return found

    def _joined(self, words: Sequence[str]) -> list[str]:
        joined: list[str] = []
        rest = iter(words)
        for word in rest:
            if word in self._valued and (value := next(rest, None)) is not None:
                word = f"{word}={value}"
            joined.append(word)
        return joined


def servers_in(options: argparse.Namespace) -> str:
    """Where the cluster is. Raises ConfigError where a port is missing: Kafka's own tools suppose none."""
    servers = servers_of(options)
    for each in servers.split(","):
        if each.strip() and not _SERVER.fullmatch(each.strip()):
            raise ConfigError(f"Invalid url in bootstrap.servers: {each.strip()}")
    return servers


def require(options: argparse.Namespace, *names: str) -> None:
    """Raises Refused for the first that is missing, in the words of Apache's tools."""
    for name in names:
        if not has(options, name):
            raise Refused(f'Missing required argument "[{name}]"')


def forbid(options: argparse.Namespace, used: str, *invalid: str) -> None:
    """Raises Refused if options came together that make no sense together."""
    for name in invalid:
        if has(options, used) and has(options, name):
            raise Refused(f'Option "[{used}]" can\'t be used with option "[{name}]"')


def has(options: argparse.Namespace, name: str) -> bool:
    """Was it said?"""
    value = getattr(options, name.replace("-", "_"), None)
    return value is not None and value is not False and value != []
