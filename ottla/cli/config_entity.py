"""Whose settings a command is about: `topic orders`, `broker 1`, `broker-default`, `group billing`, and so on."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.cli import completing

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ottla.cli.remote import Admin
    from ottla.client.admin.config_values import ConfigEntry, ConfigResource

TOPIC, BROKER, BROKER_DEFAULT, BROKER_LOGGER, GROUP, CLIENT_METRICS = KINDS = (
    "topic",
    "broker",
    "broker-default",
    "broker-logger",
    "group",
    "client-metrics",
)
_OTHER_NAMES = {
    "topics": TOPIC,
    "brokers": BROKER,
    "broker-defaults": BROKER_DEFAULT,
    "broker-loggers": BROKER_LOGGER,
    "groups": GROUP,
}
_BY_NUMBER = (BROKER, BROKER_LOGGER)
_DIGITS_MAX = 9  # of the id of a broker


class Entity(NamedTuple):
    """Something that has settings. Without a name it stands for all brokers."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind

    @property
    def resource(self) -> "ConfigResource":
        from ottla.client.admin.config_values import ConfigResource, ConfigResourceType

        kind = BROKER if self.kind == BROKER_DEFAULT else self.kind
        return ConfigResource(ConfigResourceType[kind.upper().replace("-", "_")], self.name)

    async def check(self, admin: "Admin") -> None:
        """Raises `Failed` if there is no such topic or broker. Groups may have settings before there is one."""
        from ottla.cli.outcomes import unknown
        from ottla.cli.targets import the_topic

        if self.kind == TOPIC:
            await the_topic(admin, self.name)
        elif self.kind in _BY_NUMBER:
            await admin._routes.cluster.refresh([])
            known = [str(id) for id in await admin._routes.brokers()]
            if self.name not in known:
                raise unknown("broker", self.name, known)


def entity_of(kind: str, words: Sequence[str]) -> tuple[Entity, list[str]]:
    """The entity that a command line begins with, and the words behind it. Raises UsageError."""
    found = kind_of(kind)
    if found == BROKER_DEFAULT:
        return Entity(found, ""), list(words)
    if not words:
        raise click.UsageError(f"which {found}? Its name is missing: {found} {_sample(found)}")
    return named(found, words[0]), list(words[1:])


def kind_of(text: str) -> str:
    """Raises UsageError."""
    from ottla.cli.lazy import guess

    found = _OTHER_NAMES.get(text, text)
    if found not in KINDS:
        raise click.UsageError(f"{text!r} has no settings{guess(text, list(KINDS))}")
    return found


def named(kind: str, name: str) -> Entity:
    """Raises UsageError for a name that nothing of the kind can have."""
    if kind in _BY_NUMBER and not (name.isascii() and name.isdecimal() and len(name) <= _DIGITS_MAX):
        raise click.UsageError(f"{name!r} is no broker: {kind} takes the id of one, as in {kind} 1")
    if not name:
        raise click.UsageError(f"the name of a {kind} is not empty")
    return Entity(kind, name)


def _sample(kind: str) -> str:
    return "1" if kind in _BY_NUMBER else "orders" if kind == TOPIC else "NAME"


# --- on the command line ----------------------------------------------------------------------------------------------


def _kinds(_: click.Context, __: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    from click.shell_completion import CompletionItem

    return [CompletionItem(kind) for kind in KINDS if kind.startswith(incomplete)]


def _names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> "list[CompletionItem]":
    """Behind the kind comes a name."""
    ask = {TOPIC: completing.topics, GROUP: completing.groups}.get(ctx.params.get("kind", ""))
    return [] if ask is None or ctx.params.get("words") else ask(ctx, parameter, incomplete)


def entity_arguments(metavar: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`kind` and `words` of a command; `metavar` says what stands behind the kind."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        command = click.argument("words", nargs=-1, metavar=metavar, shell_complete=_names)(command)
        return click.argument("kind", metavar="KIND", shell_complete=_kinds)(command)

    return add


# --- what they are ----------------------------------------------------------------------------------------------------


async def entries(
    admin: "Admin", entity: Entity, *, synonyms: bool = False, documentation: bool = False
) -> "dict[str, ConfigEntry]":
    """All settings by name. Raises what the broker has against it."""
    from ottla.client.admin.configs import describe_configs
    from ottla.client.errors import PartialFailure

    await entity.check(admin)
    resource = entity.resource
    try:
        found = await describe_configs(
            admin, [resource], include_synonyms=synonyms, include_documentation=documentation
        )
    except PartialFailure as failure:
        raise next(iter(failure.errors.values())) from None
    return dict(sorted(found[resource].items()))


def check_keys(entity: Entity, keys: Sequence[str], known: Sequence[str]) -> None:
    """Raises `Failed` for the first that is no setting of it."""
    from ottla.cli.outcomes import unknown

    for key in keys:
        if key not in known:
            raise unknown(f"{entity.kind} setting", key, known)
