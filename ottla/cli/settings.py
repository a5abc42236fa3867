"""The settings of a broker that is started from a command line, from all the places where they can be written.

A flag goes before `--set`, that before the environment, that before the file; what nobody set has its default. Names
are compared by what they mean: `broker.id` on the command line goes before `node.id` in the file, and
`log.retention.hours` before a `log.retention.ms` from further below.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.broker.config import BrokerConfig
from ottla.core.errors import ConfigError
from ottla.core.hosts import Address, parse_address, parse_host
from ottla.core.key import attribute_of
from ottla.core.properties import parse_properties

PREFIX = "OTTLA_"
Layer = dict[str, Any]
"""Values by the key's own name. None takes back what a layer below says."""


class Gathered(NamedTuple):
    """The settings that hold, and what their owner should know about those that do not."""

    values: Layer
    warnings: list[str]


class Flags(NamedTuple):
    """The flags of `ottla start` that are settings."""

    data_dir: str | None = None
    port: int | None = None
    listen: str | None = None
    advertise: str | None = None
    http: str | None = None
    broker_id: int | None = None
    zookeeper: str | None = None


def gather(
    flags: Flags, assignments: Iterable[str], environment: Mapping[str, str], text: str | None, where: str
) -> Gathered:
    """Bring it all together. `text` is that of a server.properties which is called `where`."""
    warnings: list[str] = []
    values = from_file(text, where, warnings) if text is not None else {}
    values = overlaid(values, from_environment(environment, warnings))
    values = overlaid(values, from_assignments(assignments))
    values = overlaid(values, from_flags(flags, values))
    return Gathered({name: value for name, value in values.items() if value is not None}, warnings)


def overlaid(below: Layer, above: Layer) -> Layer:
    """`above` on top of `below`, and nothing left below that would outweigh it under another name."""
    hidden = {
        name
        for key in BrokerConfig.keys.values()
        for at, coarse in enumerate(key.fallbacks)
        if coarse in above
        for name in (key.name, *list(key.fallbacks)[:at])
    }
    return {name: value for name, value in below.items() if name not in hidden} | above


def from_file(text: str, where: str, warnings: list[str]) -> Layer:
    """Kafka ignores what it does not know in its file, and so do we: client keys may live there too."""
    known: list[tuple[str, str]] = []
    for name, value in parse_properties(text, where).items():
        try:
            BrokerConfig.key_named(name)
        except ConfigError as error:
            warnings.append(f"{where}: {error}; it is ignored")
        else:
            known.append((name, value))
    return _layer(known, where)


def from_environment(environment: Mapping[str, str], warnings: list[str]) -> Layer:
    """`OTTLA_LOG_DIRS` is `log.dirs`. Other variables with the prefix are not settings, unless they look like it."""
    names = {PREFIX + attribute_of(name).upper(): name for name in BrokerConfig.spellings()}
    found = [(names[name], value) for name, value in environment.items() if name in names]
    for name in environment:
        if name.startswith(PREFIX) and name not in names and (near := _nearest(name, names)):
            warnings.append(f"the variable {name} is not a known setting; did you mean {near}?")
    return _layer(found, "the environment")


def from_assignments(assignments: Iterable[str]) -> Layer:
    """`--set key=value`. The last one counts."""
    values: Layer = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise ConfigError(f"--set {assignment} has no value: write --set key=value")
        values[BrokerConfig.key_named(name.strip()).name] = value
    return values


def from_flags(flags: Flags, below: Layer) -> Layer:
    values: Layer = {}
    if flags.data_dir is not None:
        values["log.dirs"] = (flags.data_dir,)  # a tuple: a path may have commas in it
    if flags.broker_id is not None:
        values["node.id"] = flags.broker_id
    if flags.zookeeper is not None:
        values["zookeeper.connect"] = flags.zookeeper
    if flags.http is not None:
        values["http.listen"] = str(parse_address(flags.http, "--http"))
    return values | _listeners(flags, below)


def _listeners(flags: Flags, below: Layer) -> Layer:
    """A flag replaces all listeners by one, and what was said about those below does not hold for it."""
    if flags.listen is not None and flags.port is not None:
        raise ConfigError("--listen has a port already: leave out --port")
    advertised = None if flags.advertise is None else parse_host(flags.advertise, "--advertise")
    if flags.listen is not None:
        address = parse_address(flags.listen, "--listen")
    elif flags.port is not None:
        address = Address("127.0.0.1", flags.port)
    elif advertised is not None:
        return {"advertised.listeners": (f"{_only_listener(below)}://{advertised}",)}
    else:
        return {}
    return {
        "listeners": (f"PLAINTEXT://{address}",),
        "advertised.listeners": (f"PLAINTEXT://{advertised}",) if advertised else None,
        "inter.broker.listener.name": None,
        "controller.listener.names": None,
    }


def _only_listener(below: Layer) -> str:
    config = BrokerConfig.keys["listeners"]
    uris = config.read(below.get("listeners", config.default))
    names = BrokerConfig.keys["controller.listener.names"]
    controllers = {name.upper() for name in names.read(below.get("controller.listener.names", ""))}
    found = {uri.partition("://")[0].upper() for uri in uris} - controllers
    if len(found) != 1:
        raise ConfigError("--advertise is for a single listener: set advertised.listeners instead")
    return str(found.pop())


def _layer(pairs: Iterable[tuple[str, str]], where: str) -> Layer:
    """Values under the keys' own names. A key and its alias may both be there if they agree, as in Kafka."""
    values: Layer = {}
    spelled: dict[str, str] = {}
    for name, value in pairs:
        key = BrokerConfig.key_named(name)
        if values.setdefault(key.name, value) != value:
            raise ConfigError(f"{where}: {spelled[key.name]} and {name} are the same setting, but differ")
        spelled.setdefault(key.name, name)
        key.read(value, name)  # so that a complaint uses the name that is written there
    return values


def _nearest(name: str, names: Iterable[str]) -> str | None:
    import difflib  # here, because only a typing error needs it

    return next(iter(difflib.get_close_matches(name, names, n=1, cutoff=0.85)), None)
