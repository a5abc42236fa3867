"""Writes the decoder of one message version.

The generated function is `decode(buf, pos, left) -> (message, pos)`. It reads adjacent fixed-width fields
with one `struct` call, and the first byte of a compact length with them. Running off the end shows as
`IndexError` or `struct.error`, which `codec.py` catches once; slices would shorten silently, so each is
checked. `pos` only grows, because no negative length gets through; `left` counts down the objects to come.
"""

import copy
import functools
import struct
from typing import Any

from ottla.protocol import primitives
from ottla.protocol.codegen import Source, element_size, fields_in
from ottla.protocol.schema import Field
from ottla.protocol.wiretypes import (
    BLOB,
    NO_TAGS,
    RECORDS,
    TEXT,
    UUID_BYTES,
    ArrayOf,
    Fixed,
    StructOf,
    Variable,
    WireType,
)


class DecoderWriter:
    """Emits the lines that turn bytes into objects. `_run` holds fixed-width reads, to be done at once."""

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self.source, self.version, self.flexible = source, version, flexible
        self._run: list[tuple[str, str]] = []
        self._after_run: list[str] = []

    def function(self, cls: type) -> None:
        self.source.names |= _NAMES
        with self.source.block("def decode(buf, pos, left):"):
            self.source.line("size = len(buf)")
            at = len(self.source.lines)
            made = self._struct(cls, cls.__name__)
            self._flush()
            self.source.line(f"return {made}, pos")
            self._prologue(at)

    def _prologue(self, at: int) -> None:
        """What the lines from `at` on turned out to need."""
        body = "".join(self.source.lines[at:])
        if "text(" in body:
            self.source.lines.insert(at, "    text = bytes_text if type(buf) is bytes else view_text")
        if "view[" in body:
            self.source.lines.insert(at, "    view = memoryview(buf)")

    def _struct(self, cls: type, path: str) -> str:
        """Lines that make one object; returns the variable that holds it."""
        source = self.source
        made = source.name(cls.__name__.lower())
        plain, tagged, absent = fields_in(cls, self.version, self.flexible)
        source.line(f"{made} = new({source.bind(cls.__name__, cls)})")
        for field in (*absent, *tagged):
            source.line(f"{made}.{field.name} = {self._default(field)}")
        source.line(f"{made}.unknown_tags = NO_TAGS")
        for field in plain:
            self._field(field, f"{made}.{field.name}", f"{path}.{field.name}")
        if self.flexible:
            self._tagged_section(tagged, made, path)
        return made

    def _default(self, field: Field) -> str:
        default = field.default
        if default is None or isinstance(default, bool | int):
            return repr(default)
        if default == []:
            return "[]"
        if isinstance(default, list) or hasattr(type(default), "__declaration__"):
            return f"deepcopy({self.source.bind(f'default_{field.name}', default)})"
        return self.source.bind(f"default_{field.name}", default)

    def _field(self, field: Field, target: str, path: str) -> None:
        nullable = self.version in field.nullable
        if nullable and isinstance(field.type, StructOf):
            self._nullable_struct(field, field.type.cls, target, path)
        else:
            self._value(field.type, nullable, self.flexible and field.compact, target, path)

    def _value(self, wire_type: WireType, nullable: bool, compact: bool, target: str, path: str) -> None:
        match wire_type:
            case Fixed():
                self._fixed(wire_type, target)
            case Variable():
                self._variable(wire_type, nullable, compact, target, path)
            case ArrayOf():
                self._array(wire_type.element, nullable, compact, target, path)
            case StructOf():
                self._plain_struct(wire_type.cls, target, path)

    def _nullable_struct(self, field: Field, cls: type, target: str, path: str) -> None:
        """Behind a marker: null is -1, but 0 in the tagged section."""
        marker = self.source.name("marker")
        self._run.append(("b", marker))
        self._flush()
        with self.source.block(f"if {marker} < {1 if field.is_tagged(self.version) else 0}:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self._plain_struct(cls, target, path)

    def _plain_struct(self, cls: type, target: str, path: str) -> None:
        made = self._struct(cls, path)
        self._flush()
        self.source.line(f"{target} = {made}")

    def _fixed(self, wire_type: Fixed, target: str) -> None:
        if wire_type == UUID_BYTES:
            raw = self.source.name("raw")
            self._run.append((wire_type.code, raw))
            self._after_run.append(f"{target} = read_uuid({raw})")
        else:
            self._run.append((wire_type.code, target))

    def _flush(self) -> None:
        """Do the waiting reads."""
        if not self._run:
            return
        codes = "".join(code for code, _ in self._run)
        targets = ", ".join(target for _, target in self._run)
        if codes == "B":
            self.source.line(f"{targets} = buf[pos]")
            self.source.line("pos += 1")
        else:
            unpack = self.source.struct_method("unpack_from", codes)
            comma = "," if len(self._run) == 1 else ""
            self.source.line(f"{targets}{comma} = {unpack}(buf, pos)")
            self.source.line(f"pos += {struct.calcsize('>' + codes)}")
        for line in self._after_run:
            self.source.line(line)
        self._run.clear()
        self._after_run.clear()

    def _length(self, stem: str, code: str, compact: bool) -> str:
        """Read a length or a count: plain ones are -1 for null, compact ones 0 and otherwise one too many."""
        name = self.source.name(stem)
        self._run.append(("B" if compact else code, name))
        self._flush()
        if compact:
            with self.source.block(f"if {name} > 127:"):
                self.source.line(f"{name}, pos = read_uvarint(buf, pos - 1)")
        return name

    def _variable(self, wire_type: Variable, nullable: bool, compact: bool, target: str, path: str) -> None:
        source = self.source
        length = self._length("length", "h" if wire_type == TEXT else "i", compact)
        if not nullable:
            self._bytes(wire_type, length, compact, target, path)
            return
        with source.block(f"if {length} == {0 if compact else -1}:"):
            source.line(f"{target} = None")
        with source.block("else:"):
            self._bytes(wire_type, length, compact, target, path)

    def _bytes(self, wire_type: Variable, length: str, compact: bool, target: str, path: str) -> None:
        source = self.source
        source.line(f"end = pos + {length}{' - 1' if compact else ''}")
        with source.block("if not pos <= end <= size:"):
            source.line(f"refuse_length({path!r}, end - pos, pos, size)")
        source.line(f"{target} = {_SLICES[wire_type]}")
        source.line("pos = end")

    def _array(self, element: WireType, nullable: bool, compact: bool, target: str, path: str) -> None:
        source = self.source
        count = self._length("count", "i", compact)
        if compact:
            source.line(f"{count} -= 1")
        if not nullable:
            self._elements(element, count, target, path)
            return
        with source.block(f"if {count} == -1:"):
            source.line(f"{target} = None")
        with source.block("else:"):
            self._elements(element, count, target, path)

    def _elements(self, element: WireType, count: str, target: str, path: str) -> None:
        source = self.source
        smallest = element_size(element, self.version, self.flexible)
        times = f" * {smallest}" if smallest > 1 else ""
        with source.block(f"if not 0 <= {count}{times} <= size - pos:"):
            source.line(f"refuse_count({path!r}, {count}, pos, size)")
        if isinstance(element, Fixed):
            self._numbers(element, count, target)
            return
        source.line(f"left -= {count}")
        with source.block("if left < 0:"):
            source.line(f"refuse_objects({path!r})")
        elements = source.name("elements")
        source.line(f"{target} = {elements} = []")
        with source.block(f"for _ in range({count}):"):
            if isinstance(element, StructOf):
                each = self._struct(element.cls, path)
            else:
                each = source.name("each")
                self._value(element, False, self.flexible, each, path)
            self._flush()
            source.line(f"{elements}.append({each})")

    def _numbers(self, element: Fixed, count: str, target: str) -> None:
        source = self.source
        if element == UUID_BYTES:
            source.line(f"end = pos + {count} * 16")
            source.line(f"{target} = [read_uuid(raw) for (raw,) in iter_uuids(view[pos:end])]")
            source.line("pos = end")
            return
        table = source.bind(f"unpack_array_{_letter(element.code)}", _unpack_table(element.code))
        with source.block(f"if {count} <= {primitives.SMALL_ARRAY_MAX}:"):
            source.line(f"{target} = list({table}[{count}](buf, pos))")
        with source.block("else:"):
            source.line(f"{target} = list(unpack_any('>%d{element.code}' % {count}, buf, pos))")
        source.line(f"pos += {count} * {element.size}" if element.size > 1 else f"pos += {count}")

    def _tagged_section(self, tagged: list[Field], made: str, path: str) -> None:
        """The end of a flexible struct: usually one zero byte."""
        source = self.source
        tags = source.name("tags")
        self._run.append(("B", tags))
        self._flush()
        with source.block(f"if {tags}:"):
            if not tagged:
                source.line(f"{made}.unknown_tags, pos = read_unknown_tags(buf, pos - 1, size)")
                return
            source.line(f"{tags}, pos = read_tag_count(buf, pos - 1, size)")
            tag, tag_end, start = source.name("tag"), source.name("tag_end"), source.name("tag_start")
            rest = source.name("unknown")
            source.line(f"{tag} = -1")
            source.line(f"{rest} = []")
            with source.block(f"for _ in range({tags}):"):
                source.line(f"{start} = pos")
                source.line(f"{tag}, pos, {tag_end} = read_tag(buf, pos, size, {tag})")
                for index, field in enumerate(tagged):
                    with source.block(f"{'el' if index else ''}if {tag} == {field.tag}:"):
                        self._field(field, f"{made}.{field.name}", f"{path}.{field.name}")
                        self._flush()
                        with source.block(f"if pos != {tag_end}:"):
                            source.line(f"refuse_tag_size('{path}.{field.name}', pos, {tag_end})")
                with source.block("else:"):
                    source.line(f"{rest}.append(bytes(buf[{start}:{tag_end}]))")
                    source.line(f"pos = {tag_end}")
            with source.block(f"if {rest}:"):
                source.line(f"{made}.unknown_tags = UnknownTags(b''.join({rest}))")


_SLICES = {
    TEXT: "text(buf[pos:end])",
    BLOB: "bytes(buf[pos:end])",
    RECORDS: "view[pos:end]",
}


def _letter(code: str) -> str:
    return "bool" if code == "?" else code


@functools.cache
def _unpack_table(code: str) -> tuple[Any, ...]:
    """`unpack_from` for arrays of 0, 1, 2 ... numbers."""
    return tuple(
        struct.Struct(f">{count}{code}").unpack_from for count in range(primitives.SMALL_ARRAY_MAX + 1)
    )


_NAMES: dict[str, Any] = {
    "NO_TAGS": NO_TAGS,
    "bytes_text": bytes.decode,
    "view_text": functools.partial(str, encoding="utf-8"),
    "UnknownTags": primitives.UnknownTags,
    "deepcopy": copy.deepcopy,
    "iter_uuids": struct.Struct(UUID_BYTES.code).iter_unpack,
    "new": object.__new__,
    "read_tag": primitives.read_tag,
    "read_tag_count": primitives.read_tag_count,
    "read_unknown_tags": primitives.read_unknown_tags,
    "read_uuid": primitives.read_uuid,
    "read_uvarint": primitives.read_uvarint,
    "refuse_count": primitives.refuse_count,
    "refuse_length": primitives.refuse_length,
    "refuse_objects": primitives.refuse_objects,
    "refuse_tag_size": primitives.refuse_tag_size,
    "unpack_any": struct.unpack_from,
}
