"""One setting, declared once: name, type, default, checks, scope, broker twin and documentation together.

Documentation, the reader of server.properties, DescribeConfigs and AlterConfigs are all derived from it. A
key's default passes its own checks; a value that does not is refused in one sentence that names the key, the
value and what is accepted. Sensitive values appear in no sentence.
"""

import enum
import math
from collections.abc import Mapping, Sequence
from typing import Any, Generic, NoReturn, TypeVar, overload

from ottla.core.errors import ConfigError
from ottla.core.values import (
    HIDDEN,
    INT16_MAX,
    INT32_MAX,
    INT64_MAX,
    Check,
    Long,
    ValueType,
    WireType,
    between,
    value_type,
)

T = TypeVar("T")

REQUIRED: Any = object()
"""The default of a key that has none: it must be set."""

_SHOWN_LENGTH_MAX = 80


class Scope(enum.Enum):
    """When a broker's setting can change."""

    READ_ONLY = "read-only"
    """Only with a restart."""
    PER_BROKER = "per-broker"
    """While it runs, for one broker."""
    CLUSTER_WIDE = "cluster-wide"
    """While it runs, for one broker or for all of them."""


class Key(Generic[T]):
    """A setting. On an instance of its Config the attribute is the value, on the class the key itself."""

    def __init__(
        self,
        name: str,
        type: ValueType[T] | type[T],
        default: T = REQUIRED,
        *checks: Check,
        doc: str,
        scope: Scope = Scope.READ_ONLY,
        broker_key: str | None = None,
        broker_fallbacks: Mapping[str, int] | None = None,
        fallbacks: Mapping[str, int] | None = None,
        aliases: Sequence[str] = (),
        sensitive: bool = False,
    ) -> None:
        """`broker_key` holds the value for topics that do not set theirs. If it is unset, `broker_fallbacks`
        are asked in turn; each says what its values are multiplied by (`log.retention.hours`: 3600000).
        `fallbacks` are the same within one Config: other keys that hold the value while this one is unset.

        `aliases` are other names under which the key may be written; it is always shown under its own.
        """
        self.name = name
        self.type: ValueType[T] = value_type(type)
        self.default = default
        self.checks = checks
        self.doc = doc
        self.scope = scope
        self.broker_key = broker_key
        self.broker_fallbacks = dict(broker_fallbacks or {})
        self.fallbacks = dict(fallbacks or {})
        self.names = (name, *self.fallbacks, *self.broker_names)  # every key that can hold the value
        self.aliases = tuple(aliases)
        self.sensitive = sensitive or self.type.wire is WireType.PASSWORD
        if default is not REQUIRED and default is not None:
            assert self.read(default) == default, f"the default of {name} must be written as the value itself"

    def __repr__(self) -> str:
        return f"<Key {self.name}>"

    def __set_name__(self, owner: Any, attribute: str) -> None:
        assert attribute == attribute_of(self.name), (
            f"{self.name} must be declared as {attribute_of(self.name)}"
        )

    @overload
    def __get__(self, instance: None, owner: Any) -> "Key[T]": ...
    @overload
    def __get__(self, instance: object, owner: Any) -> T: ...
    def __get__(self, instance: Any, owner: Any) -> Any:
        # A Config keeps its values in its __dict__, where Python looks before it asks a descriptor without
        # __set__: reading a setting costs no more than reading any attribute.
        assert instance is None, f"{self.name} has no value"
        return self

    def read(self, value: object, written_as: str | None = None, factor: int = 1) -> T:
        """The typed value, checked. `written_as` is the name to complain about, `factor` a multiplier."""
        try:
            typed: Any = self.type.read(value)
        except (ValueError, OverflowError):
            self._refuse(value, written_as)
        if factor != 1:
            typed = _multiplied(typed, factor)
        if not all(check.passes(typed) for check in self.checks):
            self._refuse(value, written_as)
        return typed  # type: ignore[no-any-return]  # checks and factors know no T

    def write(self, value: T | None) -> str | None:
        """The text of a value; None for a key that is not set."""
        return None if value is None else self.type.write(value)

    def show(self, value: T | None) -> str:
        """The text of a value for people: nothing sensitive in it."""
        if value is None:
            return "(not set)"
        return HIDDEN if self.sensitive else self.type.write(value)

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED

    @property
    def wire_type(self) -> WireType:
        """The type for DescribeConfigs. A LONG that its checks keep within 32 bits is an INT, one of 16 a SHORT."""
        high = min((check.high for check in self.checks if check.high is not None), default=math.inf)
        if high == INT16_MAX and self.type.wire is WireType.INT:
            return WireType.SHORT
        return WireType.INT if self.type.wire is WireType.LONG and high <= INT32_MAX else self.type.wire

    @property
    def accepts(self) -> str:
        """What may be written, as the end of "must be ..."."""
        return ", ".join([self.type.accepts, *(check.accepts for check in self.checks)])

    @property
    def broker_names(self) -> dict[str, int]:
        """The broker keys behind this one in the order they are asked, each with its factor."""
        return {self.broker_key: 1, **self.broker_fallbacks} if self.broker_key else {}

    def broker_twins(self) -> "list[Key[Any]]":
        """The broker keys behind this one, derived from it."""
        return [self._broker_twin(name, factor) for name, factor in self.broker_names.items()]

    def _broker_twin(self, name: str, factor: int) -> "Key[Any]":
        doc = f"Stands in for `{self.name}` in topics that do not set it"
        if name == self.broker_key:
            return Key(
                name,
                self.type,
                self.default,
                *self.checks,
                doc=f"{doc}. {self.doc}",
                scope=self.scope,
                fallbacks=self.broker_fallbacks,
                sensitive=self.sensitive,
            )
        return Key[Any](
            name,
            Long,
            None,
            *(_times(factor, check) for check in (*self.checks, between(-INT64_MAX - 1, INT64_MAX))),
            doc=f"{doc}, if `{self.broker_key}` is not set either: times {factor}.",
            scope=self.scope,
        )

    def _refuse(self, value: object, written_as: str | None) -> NoReturn:
        shown = HIDDEN if self.sensitive else repr(value)
        if len(shown) > _SHOWN_LENGTH_MAX:
            shown = shown[:_SHOWN_LENGTH_MAX] + "..."
        name = written_as or self.name
        # "from None": the cause repeats the value, and it may be a secret.
        raise ConfigError(f"{name} is {shown}, but must be {self.accepts}") from None


def _multiplied(value: int, factor: int) -> int:
    return value * factor if value > 0 else value  # -1 means "no limit" in hours as well as in milliseconds


def _times(factor: int, check: Check) -> Check:
    """The same check for a key whose values count in another unit."""
    return Check(f"times {factor} {check.accepts}", lambda value: check.passes(_multiplied(value, factor)))


def attribute_of(name: str) -> str:
    """`segment.bytes` -> `segment_bytes`."""
    return name.replace(".", "_").replace("-", "_")
