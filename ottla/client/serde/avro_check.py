"""What Avro's library must not be shown: bytes of a record that would cost far more than they weigh.

The library is quick because it is written in C and trusts its input. It overflows the stack where a schema that
contains itself is nested some thousand times; it makes a list of a billion nulls from six bytes; it takes minutes for
a decimal of a megabyte. Schemas in which that can be are walked first, without making anything. Others are not.
"""

from collections.abc import Callable, Mapping
from typing import Any

DEPTH_MAX = 100  # of a type within itself, in a record; the reader's stack ends at some thousand
ITEMS_MAX = 1_000_000  # in arrays of one record, of items that may take no bytes
DECIMAL_BYTES_MAX = 4096  # nearly 10,000 digits
VALUE_DEPTH_MAX = 500  # of dicts and lists in each other, in a value to write
SCHEMA_DEPTH_MAX = 200  # of a schema as it is written
_VARINT_BYTES_MAX = 10

Walk = Callable[[bytes, int, int], int]
"""From the data, a place in it and a depth, to the place behind the value."""

_SIZES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def checker(schema: Any, named: Mapping[str, Any]) -> Callable[[bytes], None] | None:
    """What raises ValueError for bytes that the reader must not be shown; None if there are none for this schema."""
    walks = _Walks(named)
    walk = walks.of(schema)
    if not walks.is_needed:
        return None

    def check(data: bytes) -> None:
        walks.items = 0
        try:
            walk(data, 0, 0)
        except RecursionError:
            raise ValueError("a record that is nested too deeply") from None

    return check


def check_value(value: Any) -> None:
    """Raises ValueError for a value that is nested too deeply to be written: the writer's stack ends as well."""
    level, depth = [value], 0
    while level:
        if depth > VALUE_DEPTH_MAX:
            raise ValueError(f"a value that is nested more than {VALUE_DEPTH_MAX} deep")
        inner: list[Any] = []
        for each in level:
            if isinstance(each, Mapping):
                inner += each.values()
            elif isinstance(each, list | tuple):
                inner += each
        level, depth = inner, depth + 1


def check_nesting(schema: Any, depth: int = 0) -> None:
    """Raises ValueError for a schema that is nested too deeply to be parsed."""
    if depth > SCHEMA_DEPTH_MAX:
        raise ValueError(f"the schema is nested more than {SCHEMA_DEPTH_MAX} deep")
    for each in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        check_nesting(each, depth + 1)


class _Walks:
    """The walks of one schema. A named type is walked through `named`, so that it may contain itself."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._walks: dict[str, Walk] = {}
        self._under_way: set[str] = set()
        self.is_needed = False
        self.items = 0

    def of(self, schema: Any) -> Walk:
        if isinstance(schema, list):
            return self._union([self.of(each) for each in schema])
        if isinstance(schema, str):
            return self._by_name(schema) if schema in self._named else self._primitive(schema)
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "array":
            return self._array(schema["items"])
        if kind == "map":
            return self._blocks(self._map_item(self.of(schema["values"])))
        if kind == "fixed":
            return _fixed(schema["size"])
        if kind == "enum":
            return _skip_varint
        if kind == "bytes" and schema.get("logicalType") == "decimal":
            self.is_needed = True
            return _decimal
        return self.of(kind)

    def _by_name(self, name: str) -> Walk:
        if name not in self._walks and name not in self._under_way:
            return self.of(self._named[name])
        if name in self._under_way:
            self.is_needed = True  # it contains itself
        return lambda data, at, depth: self._walks[name](data, at, _deeper(depth))

    @staticmethod
    def _primitive(name: str) -> Walk:
        if name in ("int", "long"):
            return _skip_varint
        if name in ("bytes", "string"):
            return _sized
        if name not in _SIZES:
            raise ValueError(f"the schema names the type {name!r}, which it does not have")
        return _fixed(_SIZES[name])

    def _record(self, schema: Any) -> Walk:
        name = schema["name"]
        self._under_way.add(name)
        walks = [self.of(each["type"]) for each in schema["fields"]]
        self._under_way.discard(name)

        def walk(data: bytes, at: int, depth: int) -> int:
            for each in walks:
                at = each(data, at, depth)
            return at

        self._walks[name] = walk
        return walk

    def _array(self, items: Any) -> Walk:
        walk = self.of(items)
        if _may_be_empty(items, self._named, set()):
            self.is_needed = True
        return self._blocks(walk)

    @staticmethod
    def _map_item(walk: Walk) -> Walk:
        return lambda data, at, depth: walk(data, _sized(data, at, depth), depth)

    def _blocks(self, item: Walk) -> Walk:
        def walk(data: bytes, at: int, depth: int) -> int:
            while True:
                count, at = _varint(data, at)
                if count == 0:
                    return at
                if count < 0:
                    count, (_, at) = -count, _varint(data, at)
                for _ in range(count):
                    before = at
                    at = item(data, at, depth)
                    if at == before:
                        self._count_empty()

        return walk

    def _count_empty(self) -> None:
        self.items += 1
        if self.items > ITEMS_MAX:
            raise ValueError(f"arrays with more than {ITEMS_MAX} items that take no bytes")

    @staticmethod
    def _union(branches: list[Walk]) -> Walk:
        def walk(data: bytes, at: int, depth: int) -> int:
            index, at = _varint(data, at)
            if not 0 <= index < len(branches):
                raise ValueError(f"branch {index} of a union that has {len(branches)}")
            return branches[index](data, at, depth)

        return walk


def _may_be_empty(schema: Any, named: Mapping[str, Any], seen: set[str]) -> bool:
    """Whether a value may take no bytes at all."""
    if isinstance(schema, str):
        if schema not in named or schema in seen:
            return schema == "null"
        return _may_be_empty(named[schema], named, seen | {schema})
    if isinstance(schema, list):
        return False
    if schema["type"] in ("record", "error"):
        inner = seen | {schema["name"]}
        return all(_may_be_empty(each["type"], named, inner) for each in schema["fields"])
    if schema["type"] == "fixed":
        return bool(schema["size"] == 0)
    return (
        _may_be_empty(schema["type"], named, seen)
        if schema["type"] not in ("array", "map", "enum")
        else False
    )


def _deeper(depth: int) -> int:
    if depth >= DEPTH_MAX:
        raise ValueError(f"a record that is nested more than {DEPTH_MAX} deep")
    return depth + 1


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for place in range(_VARINT_BYTES_MAX):
        if at + place >= len(data):
            break
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), at + place + 1
    raise ValueError(f"no integer at byte {at}")


def _skip_varint(data: bytes, at: int, depth: int) -> int:
    return _varint(data, at)[1]


def _sized(data: bytes, at: int, depth: int) -> int:
    size, at = _varint(data, at)
    if not 0 <= size <= len(data) - at:
        raise ValueError(f"{size} bytes are announced at byte {at} of {len(data)}")
    return at + size


def _decimal(data: bytes, at: int, depth: int) -> int:
    size, _ = _varint(data, at)
    if size > DECIMAL_BYTES_MAX:
        raise ValueError(f"a decimal of {size} bytes")
    return _sized(data, at, depth)


def _fixed(size: int) -> Walk:
    def walk(data: bytes, at: int, depth: int) -> int:
        if size > len(data) - at:
            raise ValueError(f"{size} bytes should follow byte {at} of {len(data)}")
        return at + size

    return walk
