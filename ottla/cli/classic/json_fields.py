"""JSON files that tools are handed: their fields, and the complaints about them in the words of Apache's tools."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from ottla.cli.classic.java import Illegal

T = TypeVar("T")
_NAMES = {int: "Integer", str: "String"}
_INT_MAX = 2**31 - 1
_FILE_CHARACTERS_MAX = 64 << 20  # more than all partitions of a large cluster take, and less than memory


def text_of(path: str) -> str:
    """What stands in a file. Raises Illegal."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(_FILE_CHARACTERS_MAX + 1)
    except (OSError, UnicodeDecodeError):
        raise Illegal(f"Unable to read file {path}") from None
    if len(text) > _FILE_CHARACTERS_MAX:
        raise Illegal(f"Unable to read file {path}: it has more than {_FILE_CHARACTERS_MAX >> 20} MiB")
    return text


def parsed(text: str) -> Any:
    """Raises ValueError for what is no JSON, or is nested deeper than anybody nests."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def compact(value: Any) -> str:
    """JSON without blanks, as Java's tools print it."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value, separators=(",", ":"))


def twice(values: Iterable[T]) -> list[T]:
    """Those that come more than once."""
    return [each for each, count in Counter(values).items() if count > 1]


def object_of(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise Illegal(f"Expected JSON object, received {compact(value)}")
    return value


def array_of(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Illegal(f"Expected JSON array, received {compact(value)}")
    return value


def field(row: Mapping[str, Any], name: str) -> Any:
    """Raises Illegal if there is none."""
    if name not in row:
        raise Illegal(f"No such field exists: `{name}`")
    return row[name]


def of_kind(value: Any, kind: type) -> Any:
    """The value, if it is a number or a text as it should be."""
    is_so = isinstance(value, kind) and not isinstance(value, bool)
    if not is_so or (kind is int and not -_INT_MAX - 1 <= value <= _INT_MAX):
        raise Illegal(f"Expected `{_NAMES[kind]}` value, received {compact(value)}")
    return value
