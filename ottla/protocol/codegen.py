"""Python source under construction: lines with indentation, names, and the objects the lines refer to.

Shared by the encoder and decoder generators. Nothing that a peer sent is ever written into source: only field
names (identifiers by declaration), plain numbers, and names bound to objects.
"""

import contextlib
import struct
from collections.abc import Iterator
from typing import Any

from ottla.protocol.schema import Field, declaration
from ottla.protocol.wiretypes import TEXT, UUID_BYTES, ArrayOf, Fixed, StructOf, Variable, WireType


class Source:
    """Lines and the names they use."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self._depth = 0
        self._count = 0
        self._bound: dict[tuple[str, Any], str] = {}

    def line(self, text: str) -> None:
        self.lines.append("    " * self._depth + text)

    @contextlib.contextmanager
    def block(self, head: str) -> Iterator[None]:
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def name(self, stem: str) -> str:
        """A local variable that no other line uses."""
        self._count += 1
        return f"{stem}_{self._count}"

    def bind(self, name: str, thing: Any) -> str:
        """Make `thing` reachable from the lines; another thing of the same name gets a number."""
        key = (name, id(thing))
        if key not in self._bound:
            self._bound[key] = name if name not in self.names else self.name(name)
            self.names[self._bound[key]] = thing
        return self._bound[key]

    def struct_method(self, method: str, codes: str) -> str:
        """`pack` or `unpack_from` of big-endian `codes`, under a name that shows them."""
        name = f"{method.removesuffix('_from')}_{codes.replace('?', 'B_')}"
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + codes), method)
        return name

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def fields_in(cls: type, version: int, flexible: bool) -> tuple[list[Field], list[Field], list[Field]]:
    """The fields of a version: those in order, those in the tagged section, those it lacks."""
    plain: list[Field] = []
    tagged: list[Field] = []
    absent: list[Field] = []
    for field in declaration(cls).fields:
        if version not in field.versions or (field.is_tagged(version) and not flexible):
            absent.append(field)
        elif field.is_tagged(version):
            tagged.append(field)
        else:
            plain.append(field)
    return plain, tagged, absent


def min_size(wire_type: WireType, nullable: bool, compact: bool, version: int, flexible: bool) -> int:
    """The fewest bytes a value can take on the wire."""
    match wire_type:
        case Fixed():
            return wire_type.size
        case Variable() if compact:
            return 1
        case Variable():
            return 2 if wire_type == TEXT else 4
        case ArrayOf():
            return 1 if compact else 4
        case StructOf() if nullable:
            return 1
        case StructOf():
            plain, _, _ = fields_in(wire_type.cls, version, flexible)
            return flexible + sum(
                min_size(each.type, version in each.nullable, flexible and each.compact, version, flexible)
                for each in plain
            )


# Sizes of CPython objects, rounded up: what a hostile peer can make us allocate for the fewest bytes.
_OBJECT, _SLOT, _LIST, _NUMBER, _UUID, _VIEW = 32, 8, 56, 32, 144, 208


def memory_cost(cls: type, version: int, flexible: bool) -> int:
    """About how many bytes of memory a struct takes whose every field is as short as it can be."""
    plain, tagged, absent = fields_in(cls, version, flexible)
    cost = _OBJECT + _SLOT * (len(plain) + len(tagged) + len(absent) + 1) + _SLOT + 1
    cost += sum(_LIST for each in (*tagged, *absent) if isinstance(each.default, list))
    for each in plain:
        match each.type:
            case Fixed("?"):
                pass
            case Fixed():
                cost += _UUID if each.type == UUID_BYTES else _NUMBER
            case ArrayOf() if version not in each.nullable:
                cost += _LIST
            case Variable("records") if version not in each.nullable:
                cost += _VIEW
            case StructOf() if version not in each.nullable:
                cost += memory_cost(each.type.cls, version, flexible)
    return cost


MEMORY_FACTOR_MAX = (
    60  # a decoded message takes at most 64 times its frame; the rest is for the lists themselves
)


def element_size(element: WireType, version: int, flexible: bool) -> int:
    """The bytes an array element counts for when its array claims a length.

    That is its smallest encoding, but more for a struct that would be too big in memory for so few bytes.
    """
    size = max(1, min_size(element, False, flexible, version, flexible))
    if isinstance(element, StructOf):
        cost = memory_cost(element.cls, version, flexible)
        size = max(size, -(-cost // MEMORY_FACTOR_MAX))
    return size
