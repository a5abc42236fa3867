"""What a setting's value may be: types that read and write it, and checks that judge it.

A type turns text (from a file, a command line, AlterConfigs) or a plain value into the typed value, and back
into the text that DescribeConfigs shows. Reading raises ValueError; the key turns it into a sentence.
"""

import enum
import math
import re
from collections.abc import Callable
from typing import Any, Generic, Literal, NamedTuple, TypeVar, cast, overload

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

HIDDEN = "[hidden]"
INT16_MAX = (1 << 15) - 1
INT32_MAX = (1 << 31) - 1
INT64_MAX = (1 << 63) - 1


class WireType(enum.IntEnum):
    """The numbers by which DescribeConfigs names a type."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Password:
    """A value that is never shown: `value` holds it, everything else says [hidden]."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


class ValueType(Generic[T_co]):
    """How one kind of value is read and written. `accepts` is the end of "must be ..."."""

    __slots__ = ("accepts", "read", "wire", "write")

    def __init__(
        self,
        wire: WireType,
        accepts: str,
        read: Callable[[object], T_co],
        write: Callable[[Any], str] = str,
    ) -> None:
        self.wire = wire
        self.accepts = accepts
        self.read = read
        self.write = write


class Check(NamedTuple):
    """A judgement on the typed value. `low` and `high` are its bounds, when it is about bounds."""

    accepts: str
    """What passes, as the end of "must be ..."."""
    passes: Callable[[Any], bool]
    low: float | None = None
    high: float | None = None


def at_least(low: float) -> Check:
    return Check(f"at least {low}", lambda value: bool(value >= low), low=low)


def between(low: float, high: float) -> Check:
    """Both ends are allowed."""
    return Check(f"between {low} and {high}", lambda value: bool(low <= value <= high), low=low, high=high)


def not_empty() -> Check:
    return Check("not empty", lambda value: len(value) > 0)


_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_AMOUNT = re.compile(r"([+-]?[0-9]+) ?([a-zA-Z]*)")
_BYTE_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}
_TIME_UNITS = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _bounded(value: int, limit: int) -> int:
    if not -limit - 1 <= value <= limit:
        raise ValueError("out of range")
    return value


def _whole(limit: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
            return _bounded(_to_int(value.strip()), limit)
        if not _is_whole(value):
            raise ValueError("not a whole number")
        return _bounded(cast(int, value), limit)

    return read


def _to_int(digits: str) -> int:
    if len(digits) > 25:  # far beyond 64 bits; Python itself refuses only thousands of digits
        raise ValueError("out of range")
    return int(digits)


def _amount(units: dict[str, int]) -> Callable[[object], int]:
    def read(value: object) -> int:
        if _is_whole(value):
            return _bounded(cast(int, value), INT64_MAX)
        match = _AMOUNT.fullmatch(value.strip()) if isinstance(value, str) else None
        unit = units.get(match[2].lower()) if match else None
        if match is None or unit is None:
            raise ValueError("no such amount")
        return _bounded(_to_int(match[1]) * unit, INT64_MAX)

    return read


def _read_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word not in ("true", "false"):
        raise ValueError("neither")
    return word == "true"


def _read_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("not text")
    return value.strip()


def _read_float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("not a number")
    if isinstance(value, str) and not _DECIMAL.fullmatch(value.strip()):
        raise ValueError("not a number")  # float() also reads 1_000 and the digits of other scripts
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("not finite")
    return number


def _write_float(value: float) -> str:
    """As Java writes it, and so Kafka: 1.0E30."""
    digits, is_large, exponent = repr(value).partition("e")
    if not is_large:
        return digits
    return f"{digits if '.' in digits else digits + '.0'}E{int(exponent)}"


def _read_password(value: object) -> Password:
    return value if isinstance(value, Password) else Password(_read_text(value))


def _words(value: object) -> tuple[str, ...]:
    """A list in Kafka's spelling (commas, blanks around them ignored) or as a list of strings."""
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",")) if value.strip() else ()
    if not isinstance(value, list | tuple):
        raise ValueError("not a list")
    return tuple(_read_text(word) for word in value)


Integer = ValueType[int](WireType.INT, "a whole number of 32 bits", _whole(INT32_MAX))
Long = ValueType[int](WireType.LONG, "a whole number of 64 bits", _whole(INT64_MAX))
Boolean = ValueType[bool](WireType.BOOLEAN, "true or false", _read_bool, lambda value: str(value).lower())
Text = ValueType[str](WireType.STRING, "text", _read_text)
Float = ValueType[float](WireType.DOUBLE, "a number", _read_float, _write_float)
Secret = ValueType[Password](WireType.PASSWORD, "text", _read_password, lambda value: cast(str, value.value))
Words = ValueType[tuple[str, ...]](WireType.LIST, "a list with commas", _words, ",".join)

Bytes = ValueType[int](WireType.LONG, "a number of bytes, such as 1048576 or 1 MiB", _amount(_BYTE_UNITS))
"""A size: a plain number, or one with KiB, MiB, GiB or TiB behind it. Always written as a plain number."""

Duration = ValueType[int](
    WireType.LONG, "a number of milliseconds, such as 60000 or 1m", _amount(_TIME_UNITS)
)
"""A time: plain milliseconds, or a number with ms, s, m, h or d behind it. Always written as milliseconds."""

_BUILTIN: dict[type, ValueType[Any]] = {
    int: Integer,
    bool: Boolean,
    str: Text,
    float: Float,
    Password: Secret,
}


def value_type(kind: "ValueType[T] | type[T]") -> ValueType[T]:
    """The type that `int`, `bool`, `str`, `float` or `Password` stands for in a declaration."""
    return kind if isinstance(kind, ValueType) else _BUILTIN[kind]


@overload
def one_of(*words: str, many: Literal[False] = False) -> ValueType[str]: ...
@overload
def one_of(*words: str, many: Literal[True]) -> ValueType[tuple[str, ...]]: ...
def one_of(*words: str, many: bool = False) -> ValueType[Any]:
    """One of a few words, or a list of them. Case matters, as in Kafka."""

    def read(value: object) -> str:
        word = _read_text(value)
        if word not in words:
            raise ValueError("not one of them")
        return word

    choice = " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
    if not many:
        return ValueType[str](WireType.STRING, choice, read)
    return ValueType[tuple[str, ...]](
        WireType.LIST,
        f"a list, with commas, of {choice}",
        lambda value: tuple(read(word) for word in _words(value)),
        ",".join,
    )


def list_of(kind: ValueType[T] | type[T]) -> ValueType[tuple[T, ...]]:
    """A list of another type, written with commas."""
    element = value_type(kind)

    def read(value: object) -> tuple[T, ...]:
        items = _words(value) if isinstance(value, str) else value
        if not isinstance(items, list | tuple):
            raise ValueError("not a list")
        return tuple(element.read(item) for item in items)

    return ValueType(
        WireType.LIST,
        f"a list, with commas, each {element.accepts}",
        read,
        lambda values: ",".join(element.write(value) for value in values),
    )
