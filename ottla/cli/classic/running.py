"""One command line of a classic tool: its words, its connection, and 0 or 1 in the end.

A tool is a parser and a function. The function may return an exit code, and raises `Refused` for a command line that
makes no sense; whatever else goes wrong is reported as the tool itself would, in its `failure`.
"""

import argparse
import asyncio
import logging
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ottla.cli.classic.java import Illegal
from ottla.cli.classic.parser import ClassicParser, Refused
from ottla.core.errors import ConfigError, OttlaError

if TYPE_CHECKING:
    from ottla.client.config import ClientConfig

T = TypeVar("T")
KAFKA_VERSION = "4.3.1"
"""Whose tools these are the likes of."""


def _report(error: Exception) -> None:
    print(f"Error: {error}", file=sys.stderr)


class Tool(NamedTuple):
    """One of the classic names."""

    parser: Callable[[], ClassicParser]
    run: Callable[[argparse.Namespace], int | None]
    failure: Callable[[Exception], None] = _report
    """Says what went wrong in the tool's own words."""
    needs_words: bool = True
    """Called without any words it shows its options and fails, as most do."""


def main(name: str, words: list[str]) -> int:
    """Run a tool; returns the exit code."""
    from ottla.cli.classic.names import tool_of

    return run_tool(tool_of(name), name, words)


def run_tool(tool: Tool, name: str, words: list[str]) -> int:
    """The same for a tool that is at hand."""
    parser = tool.parser()
    try:
        if not words and tool.needs_words:
            raise Refused(parser.description or name)
        options = parser.read(words)
        if options.help:
            raise Refused(parser.description or name)
        if options.version:
            print(options.version if isinstance(options.version, str) else KAFKA_VERSION)
            return 0
        code = tool.run(options)
        sys.stdout.flush()
        return code or 0
    except Refused as refused:
        sys.stdout.flush()
        print(refused, file=sys.stdout if refused.is_help else sys.stderr)
        if refused.shows_help:
            parser.print_options()
        return 1
    except (OttlaError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        sys.stdout.flush()
        tool.failure(error)
        return 1


# --- the connection ---------------------------------------------------------------------------------------------------


def read_properties(path: str | None) -> dict[str, str]:
    """A file such as --command-config names, under our own names of settings."""
    from ottla.cli.synonyms import translated

    return translated(_properties(path)) if path is not None else {}


def settings_file(path: str | None) -> dict[str, str]:
    """The same under the names that the file uses, with Java's complaint if there is none."""
    try:
        return _properties(path) if path is not None else {}
    except FileNotFoundError:
        raise Illegal(f"java.nio.file.NoSuchFileException: {path}") from None


def _properties(path: str) -> dict[str, str]:
    from ottla.core.properties import parse_properties

    try:
        with open(path, encoding="utf-8") as file:
            return dict(parse_properties(file.read(), path))
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not a text in UTF-8") from None


def pairs_of(words: list[str]) -> dict[str, str]:
    """`key=value`; without a value it is empty."""
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def assignments(words: list[str]) -> dict[str, str]:
    """`key=value` words, as of --producer-property, under our own names of settings."""
    from ottla.cli.synonyms import translated

    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals:
            raise Refused(f"Invalid command line properties: {word}", shows_help=False)
        found[name.strip()] = value.strip()
    return translated(found)


def servers_of(options: argparse.Namespace, parser_names: str = "--bootstrap-server") -> str:
    """What --bootstrap-server, --broker-list or --zookeeper says."""
    if server := (getattr(options, "bootstrap_server", None) or getattr(options, "broker_list", None)):
        return str(server)
    if connect := getattr(options, "zookeeper", None):
        from ottla.cli.classic.zookeeper import servers_from

        return servers_from(connect)
    raise Refused(f'Missing required argument "[{parser_names.lstrip("-")}]"')


def client_settings(cls: Any, settings: Mapping[str, str], **more: object) -> dict[str, Any]:
    """Those that this kind of client has; Java's clients ignore what they do not know, too."""
    logging.getLogger("ottla.client").setLevel(logging.CRITICAL)
    return {key: value for key, value in settings.items() if key in cls.keys} | more


async def meet(config: "ClientConfig") -> None:
    """Return if there is a broker. Where nobody is, that is said at once, and not after a minute."""
    from ottla.client.cluster import Cluster

    cluster = Cluster(config)
    try:
        await cluster.any_peer()
    finally:
        await cluster.close()


def with_admin(
    servers: str, config: str | None, work: Callable[[Any], Coroutine[Any, Any, T]], timeout_ms: int = 60_000
) -> T:
    """Do the work with an admin client, as `ottla.cli.remote.with_admin` does. `config` is a properties file."""
    from ottla.cli.remote import Admin
    from ottla.client.admin.routes import Routes
    from ottla.client.config import AdminConfig
    from ottla.client.settings import read_settings

    settings = {"client.id": "admin-client", "default.api.timeout.ms": timeout_ms} | client_settings(
        AdminConfig, read_properties(config)
    )
    settings["bootstrap.servers"] = servers

    async def connected() -> T:
        routes = Routes(read_settings(AdminConfig, settings))
        try:
            await routes.cluster.any_peer()  # as in `meet`, and the connection stays
            return await work(Admin(routes))
        finally:
            await routes.cluster.close()

    return asyncio.run(connected())


def print_metrics(kind: str, metrics: Mapping[str, int], client_id: str) -> None:
    """In the shape that Apache's tools give theirs. The names are those of this client."""
    named = {
        f"{kind}-metrics:{name.replace('_', '-')}:{{client-id={client_id}}}": value
        for name, value in metrics.items()
    }
    width = max(map(len, named))
    print(f"\n{'Metric Name':<{width}}   Value")
    for name, value in sorted(named.items()):
        print(f"{name:<{width}} : {value:.3f}")
