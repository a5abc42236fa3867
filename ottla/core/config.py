"""Settings: what was declared as `Key`s, what was set where, and what holds.

A Config has layers, one per source. The value that holds is that of the first source to set it: the topic's
own, this broker's, that of all brokers, the file the broker started with, the default. A topic's Config falls
back to the broker's; when the broker's changes, its topics follow.

Whoever uses a setting that can change holds the Config and reads the attribute each time; the few that must
react register with `on_change`. An update is checked as a whole and applied as a whole or not at all.
"""

import enum
import itertools
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple, TypeVar

from ottla.core.errors import ConfigError
from ottla.core.key import REQUIRED as REQUIRED
from ottla.core.key import Key as Key
from ottla.core.key import Scope as Scope
from ottla.core.key import attribute_of
from ottla.core.values import Bytes as Bytes
from ottla.core.values import Check as Check
from ottla.core.values import Duration as Duration
from ottla.core.values import Long as Long
from ottla.core.values import Password as Password
from ottla.core.values import WireType as WireType
from ottla.core.values import Words as Words
from ottla.core.values import at_least as at_least
from ottla.core.values import between as between
from ottla.core.values import list_of as list_of
from ottla.core.values import not_empty as not_empty
from ottla.core.values import one_of as one_of

T = TypeVar("T")


class Source(enum.IntEnum):
    """Who set a value: the numbers of DescribeConfigs."""

    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    FILE = 4
    DEFAULT = 5
    CLIENT_METRICS = 7
    GROUP = 8


_PRECEDENCE = [
    Source.TOPIC,
    Source.GROUP,
    Source.CLIENT_METRICS,
    Source.BROKER,
    Source.ALL_BROKERS,
    Source.FILE,
]
_Layers = Mapping[Source, Mapping[str, Any]]
_births = itertools.count()  # topics are told of a change in the order of their birth, so that runs repeat


class Setting(NamedTuple):
    """A value that was set, or the default: one link in the chain that DescribeConfigs calls synonyms."""

    name: str
    value: str | None
    source: Source


class Entry(NamedTuple):
    """All there is to know about one key: what DescribeConfigs answers. Sensitive values are None."""

    name: str
    value: str | None
    source: Source
    type: WireType
    read_only: bool
    sensitive: bool
    synonyms: tuple[Setting, ...]
    """Everything that was set for this key, the one that holds first."""
    doc: str


class Config:
    """Settings declared by a subclass. Attributes are values, and cannot be assigned: see `update`.

    `class BrokerConfig(Config, topics=TopicConfig)` adds the broker twins of TopicConfig's keys that it does not
    declare itself.
    """

    keys: ClassVar[dict[str, Key[Any]]] = {}
    """Every key by its name, twins included."""
    own_source: ClassVar[Source] = Source.FILE
    _spellings: ClassVar[dict[str, Key[Any]]] = {}

    def __init_subclass__(cls, *, topics: "type[Config] | None" = None, source: Source | None = None) -> None:
        declared = [vars(parent).values() for parent in reversed(cls.__mro__)]
        inherited = {
            name: key for parent in cls.__bases__ for name, key in getattr(parent, "keys", {}).items()
        }
        keys = inherited | {key.name: key for values in declared for key in values if isinstance(key, Key)}
        for key in topics.keys.values() if topics else ():
            keys = {twin.name: twin for twin in key.broker_twins()} | keys
        cls.keys = keys
        cls._spellings = {spelling: key for key in keys.values() for spelling in (key.name, *key.aliases)}
        # Keys with a broker key behind them are a topic's, unless the class says otherwise.
        is_topic = any(key.broker_key for key in keys.values())
        cls.own_source = source or (Source.TOPIC if is_topic else Source.FILE)

    def __init__(self, values: Mapping[str, object] | None = None, *, broker: "Config | None" = None) -> None:
        """`values` by key name, as text or typed. A topic's Config falls back to that of its `broker`."""
        self.__dict__.update(
            _broker=broker, _topics=weakref.WeakValueDictionary(), _watchers={}, _layers={}, _values={}
        )
        self._broker: Config | None
        self._topics: weakref.WeakValueDictionary[int, Config]
        self._watchers: dict[str, list[Callable[[Any], object]]]
        self._layers: _Layers
        self._values: dict[str, Any]
        layers = {
            self.own_source: {key.name: value for key, value in self._read(values or {}) if value is not None}
        }
        self._hold(layers, self._judged(layers, broker._layers if broker else {}))
        if broker is not None:
            broker._topics[next(_births)] = self

    def check(self) -> None:
        """Override to judge settings together: raise ConfigError if they contradict each other.

        Runs before a change takes effect, on an object that has the new values already.
        """

    def __getitem__(self, name: str) -> Any:
        """The value of a key by its name, for code that handles keys as data. Others read the attribute."""
        return self._values[self.key_named(name).name]

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(f"settings change by update(), not by assigning {attribute}")

    def __repr__(self) -> str:
        set_here = {name for layer in self._layers.values() for name in layer}
        shown = [
            f"{name}={self.keys[name].show(self._values[name])}" for name in self.keys if name in set_here
        ]
        return f"<{' '.join([type(self).__name__, *shown])}>"

    def update(
        self,
        values: Mapping[str, object],
        source: Source | None = None,
        *,
        replace: bool = False,
        dry_run: bool = False,
    ) -> None:
        """Change settings while running: all of them, or none and a ConfigError. None takes a setting back.

        `replace` takes back everything else that `source` had set; `dry_run` only checks.
        """
        source = source or (self.own_source if self.own_source is not Source.FILE else Source.BROKER)
        layer = {} if replace else dict(self._layers.get(source, {}))
        for key, value in self._read(values):
            _check_scope(key, source)
            if value is None:
                layer.pop(key.name, None)
            else:
                layer[key.name] = value
        broker_layers = self._broker._layers if self._broker else {}
        plan = list(self._plan({**self._layers, source: layer}, broker_layers))
        if not dry_run:
            changes = [(config, config._hold(layers, held)) for config, layers, held in plan]
            for config, changed in changes:
                config._announce(changed)

    def on_change(self, key: Key[T], fn: Callable[[T], object]) -> Callable[[], None]:
        """Call `fn` with the new value whenever the key's changes, whoever did it. Returns how to stop."""
        watchers = self._watchers.setdefault(self.key_named(key.name).name, [])
        watchers.append(fn)
        return lambda: watchers.remove(fn)

    def describe(self, name: str) -> Entry:
        """All there is to know about a key."""
        key = self.key_named(name)
        chain = list(self._chain(key, self._layers, self._broker._layers if self._broker else {}))
        synonyms = tuple(
            Setting(name, None if key.sensitive else key.write(value), source)
            for name, value, source in chain
        )
        return Entry(
            name=key.name,
            value=None if key.sensitive else key.write(self._values[key.name]),
            source=chain[0][2] if chain else Source.DEFAULT,
            type=key.wire_type,
            read_only=self.own_source is Source.FILE and key.scope is Scope.READ_ONLY,
            sensitive=key.sensitive,
            synonyms=synonyms,
            doc=key.doc,
        )

    @classmethod
    def spellings(cls) -> list[str]:
        """Every name under which a key can be written."""
        return list(cls._spellings)

    @classmethod
    def key_named(cls, name: str) -> Key[Any]:
        """The key of that name or alias. Raises ConfigError, with a guess at what was meant."""
        key = cls._spellings.get(name)
        if key is None:
            import difflib  # here, because only a typing error needs it

            close = difflib.get_close_matches(name, cls._spellings, n=1, cutoff=0.75)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ConfigError(f"{name} is not a known setting{hint}")
        return key

    @classmethod
    def _read(cls, values: Mapping[str, object]) -> Iterator[tuple[Key[Any], Any]]:
        """Every key with its typed value; None stays None."""
        written: dict[str, str] = {}
        for name, value in values.items():
            key = cls.key_named(name)
            if key.name in written:
                raise ConfigError(
                    f"{written[key.name]} and {name} are the same setting: write only one of them"
                )
            written[key.name] = name
            yield key, None if value is None else key.read(value, name)

    @staticmethod
    def _chain(key: Key[Any], layers: _Layers, broker: _Layers) -> Iterator[tuple[str, Any, Source]]:
        """Everything that was set for the key, the one that holds first, the default last."""
        for source in _PRECEDENCE:
            if key.name in layers.get(source, ()):
                yield key.name, layers[source][key.name], source
        for names, asked in ((key.fallbacks, layers), (key.broker_names, broker)):
            for name, factor in names.items():
                for source in _PRECEDENCE:
                    if name in asked.get(source, ()):
                        yield name, key.read(asked[source][name], name, factor), source
        if key.default is not None and not key.is_required:
            yield key.broker_key or key.name, key.default, Source.DEFAULT

    def _judged(self, layers: _Layers, broker: _Layers) -> dict[str, Any]:
        """The values that would hold, if they make sense together."""
        values: dict[str, Any] = {}
        written = {name for layer in (*layers.values(), *broker.values()) for name in layer}
        for key in self.keys.values():
            # Most keys are set nowhere, and thousands of topics ask.
            link = None if written.isdisjoint(key.names) else next(self._chain(key, layers, broker), None)
            if link is None and key.is_required:
                raise ConfigError(f"{key.name} must be set: {key.accepts}")
            values[key.name] = link[1] if link else key.default
        if type(self).check is not Config.check:
            candidate = object.__new__(type(self))
            candidate.__dict__.update(_values=values, **_attributes(values))
            candidate.check()
        return values

    def _plan(self, layers: _Layers, broker: _Layers) -> "Iterator[tuple[Config, _Layers, dict[str, Any]]]":
        """What this Config, and every topic's that falls back to it, would hold."""
        yield self, layers, self._judged(layers, broker)
        for topic in list(self._topics.values()):
            yield from topic._plan(topic._layers, layers)

    def _hold(self, layers: _Layers, values: dict[str, Any]) -> list[str]:
        """Make it so. Returns the names of what changed."""
        changed = [name for name, value in values.items() if self._values.get(name) != value]
        self.__dict__.update(_layers=layers, _values=values, **_attributes(values))
        return changed

    def _announce(self, changed: list[str]) -> None:
        for name in changed:
            for fn in tuple(self._watchers.get(name, ())):
                fn(self._values[name])


def _attributes(values: Mapping[str, Any]) -> dict[str, Any]:
    return {attribute_of(name): value for name, value in values.items()}


def _check_scope(key: Key[Any], source: Source) -> None:
    if source is Source.BROKER and key.scope is Scope.READ_ONLY:
        raise ConfigError(f"{key.name} cannot change while the broker runs")
    if source is Source.ALL_BROKERS and key.scope is not Scope.CLUSTER_WIDE:
        raise ConfigError(f"{key.name} cannot change for all brokers at once, only for each by itself")
