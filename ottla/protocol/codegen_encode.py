"""Writes the encoder of one message version.

The generated function is `encode(m, out, parts) -> out`. Everything small is added to the bytearray `out`; a
large `Records` buffer ends it: `out` and the buffer move to `parts` and a fresh bytearray begins. Adjacent
fixed-width fields, the first byte of a compact length and the zero of an empty tagged section are one call.
"""

import functools
import struct
from typing import Any

from ottla.protocol import explain, primitives
from ottla.protocol.codegen import Source, fields_in
from ottla.protocol.schema import Field
from ottla.protocol.wiretypes import (
    NULL_UUID,
    RECORDS,
    TEXT,
    UUID_BYTES,
    ArrayOf,
    Fixed,
    StructOf,
    Variable,
    WireType,
)


class EncoderWriter:
    """Emits the lines that turn objects into bytes. `_run` holds fixed-width values, written at once."""

    def __init__(self, source: Source, version: int, flexible: bool) -> None:
        self.source, self.version, self.flexible = source, version, flexible
        self._run: list[tuple[str, str]] = []
        self._out = "out"

    def function(self, cls: type) -> None:
        self.source.names |= _NAMES
        with self.source.block("def encode(m, out, parts):"):
            self._struct(cls, "m", cls.__name__)
            self._flush()
            self.source.line("return out")

    def _struct(self, cls: type, value: str, path: str) -> None:
        plain, tagged, absent = fields_in(cls, self.version, self.flexible)
        self._refuse_what_would_be_lost(absent, value, path)
        for field in plain:
            self._field(field, f"{value}.{field.name}", f"{path}.{field.name}")
        if self.flexible:
            self._tagged_section(tagged, value, path)

    def _refuse_what_would_be_lost(self, absent: list[Field], value: str, path: str) -> None:
        """A version without a field cannot carry it: unless it is ignorable, it must be the default."""
        lost = [self._differs(field, f"{value}.{field.name}") for field in absent if not field.ignorable]
        if not self.flexible:
            lost.append(f"{value}.unknown_tags")
        if lost:
            with self.source.block(f"if {' or '.join(lost)}:"):
                self.source.line(f"refuse_lost({value}, {path!r}, {self.version}, {self.flexible})")

    def _differs(self, field: Field, value: str) -> str:
        """An expression that is true when `value` is not the field's default."""
        default = field.default
        if default is None:
            return f"{value} is not None"
        if isinstance(default, bool | int):
            return f"{value} != {default!r}"
        if default in ("", b"", []) and not field.nullable:
            return value
        name = self.source.bind("NULL_UUID" if default is NULL_UUID else f"default_{field.name}", default)
        return f"({value} is not {name} and {value} != {name})"

    def _field(self, field: Field, value: str, path: str) -> None:
        nullable, compact = self.version in field.nullable, self.flexible and field.compact
        if nullable and isinstance(field.type, StructOf):
            self._nullable_struct(field, field.type.cls, value, path)
        else:
            self._value(field.type, nullable, compact, value, path, field.name)

    def _value(
        self, wire_type: WireType, nullable: bool, compact: bool, value: str, path: str, stem: str
    ) -> None:
        match wire_type:
            case Fixed():
                self._run.append((wire_type.code, f"{value}.bytes" if wire_type == UUID_BYTES else value))
            case Variable() if wire_type == RECORDS:
                self._records(nullable, compact, value, stem)
            case Variable():
                self._variable(wire_type, nullable, compact, value, path, stem)
            case ArrayOf():
                self._array(wire_type.element, nullable, compact, value, path, stem)
            case StructOf():
                inner = self.source.name(stem)
                self.source.line(f"{inner} = {value}")
                self._struct(wire_type.cls, inner, path)

    def _flush(self, last_code: str = "", last_value: str = "") -> None:
        """Write what waits, and perhaps one thing more."""
        run = [*self._run, (last_code, last_value)] if last_code else self._run
        codes = "".join(code for code, _ in run)
        values = ", ".join(value for _, value in run if value)
        if codes == "x":
            self.source.line(f"{self._out}.append(0)")
        elif codes == "B":
            self.source.line(f"{self._out}.append({values})")
        elif codes:
            self.source.line(f"{self._out} += {self.source.struct_method('pack', codes)}({values})")
        self._run = []

    def _length(self, code: str, compact: bool, length: str) -> None:
        """Write a length or count after what waits. A compact one is one too many, so that 0 is null."""
        if not compact:
            self._flush(code, length)
            return
        waiting = list(self._run)
        with self.source.block(f"if {length} < 128:"):
            self._flush("B", length)
        self._run = waiting
        with self.source.block("else:"):
            if self._run:
                codes = "".join(code for code, _ in self._run)
                values = ", ".join(value for _, value in self._run)
                pack = self.source.struct_method("pack", codes)
                self.source.line(f"{self._out} += {pack}({values}) + uvarint({length})")
                self._run = []
            else:
                self.source.line(f"{self._out} += uvarint({length})")

    def _variable(
        self, wire_type: Variable, nullable: bool, compact: bool, value: str, path: str, stem: str
    ) -> None:
        source = self.source
        data, length = source.name(stem), source.name("length")
        encoded = ".encode()" if wire_type == TEXT else ""
        plus = " + 1" if compact else ""
        if nullable:
            source.line(f"{data} = {value}")
            with source.block(f"if {data} is None:"):
                source.line(f"{length}, {data} = {0 if compact else -1}, b''")
            with source.block("else:"):
                source.line(f"{length} = len({data} := {data}{encoded}){plus}")
        else:
            source.line(f"{data} = {value}{encoded}")
            source.line(f"{length} = len({data}){plus}")
        self._length("h" if wire_type == TEXT else "i", compact, length)
        source.line(f"{self._out} += {data}")

    def _records(self, nullable: bool, compact: bool, value: str, stem: str) -> None:
        source = self.source
        data, length, size = source.name(stem), source.name("length"), source.name("size")
        plus = " + 1" if compact else ""
        source.line(f"{data} = {value}")
        with source.block(f"if type({data}) is bytes:"):
            source.line(f"{length} = ({size} := len({data})){plus}")
        if nullable:
            with source.block(f"elif {data} is None:"):
                source.line(f"{length}, {size}, {data} = {0 if compact else -1}, 0, b''")
        with source.block("else:"):
            source.line(f"{length} = ({size} := records_size({data})){plus}")
        self._length("i", compact, length)
        with source.block(f"if {size} <= {primitives.RECORDS_INLINE_MAX} and type({data}) in BUFFERS:"):
            source.line(f"{self._out} += {data}")
        with source.block("else:"):
            if self._out == "out":
                source.line(f"out = put_records(out, parts, {data}, {size})")
            else:  # a tagged field is written aside, for its size, and copied once
                source.line(f"{self._out} += join_records({data})")

    def _nullable_struct(self, field: Field, cls: type, value: str, path: str) -> None:
        """Behind a marker: null is -1, but 0 in the tagged section."""
        source = self.source
        inner = source.name(field.name)
        source.line(f"{inner} = {value}")
        waiting = list(self._run)
        with source.block(f"if {inner} is None:"):
            self._flush("b", "0" if field.is_tagged(self.version) else "-1")
        self._run = waiting
        with source.block("else:"):
            self._run.append(("b", "1"))
            self._struct(cls, inner, path)
            self._flush()

    def _array(
        self, element: WireType, nullable: bool, compact: bool, value: str, path: str, stem: str
    ) -> None:
        source = self.source
        elements, count = source.name(stem), source.name("count")
        source.line(f"{elements} = {value}")
        if isinstance(element, Fixed) and element != UUID_BYTES:
            self._numbers(element, nullable, compact, elements)
            return
        plus = " + 1" if compact else ""
        if nullable:
            with source.block(f"if {elements} is None:"):
                source.line(f"{count}, {elements} = {0 if compact else -1}, ()")
            with source.block("else:"):
                source.line(f"{count} = len({elements}){plus}")
        else:
            source.line(f"{count} = len({elements}){plus}")
        self._length("i", compact, count)
        if element == UUID_BYTES:
            source.line(f"{self._out} += b''.join([each.bytes for each in {elements}])")
            return
        item = source.name("each")
        with source.block(f"for {item} in {elements}:"):
            if isinstance(element, StructOf):
                self._struct(element.cls, item, path)
            else:
                self._value(element, False, compact, item, path, stem)
            self._flush()

    def _numbers(self, element: Fixed, nullable: bool, compact: bool, elements: str) -> None:
        source = self.source
        self._flush()
        if not nullable:
            self._number_elements(element, compact, elements)
            return
        with source.block(f"if {elements} is None:"):
            if compact:
                source.line(f"{self._out}.append(0)")
            else:
                source.line(f"{self._out} += {source.struct_method('pack', 'i')}(-1)")
        with source.block("else:"):
            self._number_elements(element, compact, elements)

    def _number_elements(self, element: Fixed, compact: bool, elements: str) -> None:
        source = self.source
        count = source.name("count")
        source.line(f"{count} = len({elements})")
        head = "B" if compact else "i"
        letter = "bool" if element.code == "?" else element.code
        table = source.bind(f"pack_array_{head}{letter}", _pack_table(head, element.code))
        plus = " + 1" if compact else ""
        with source.block(f"if {count} <= {primitives.SMALL_ARRAY_MAX}:"):
            source.line(f"{self._out} += {table}[{count}]({count}{plus}, *{elements})")
        with source.block("else:"):
            source.line(f"put_numbers({self._out}, {element.code!r}, {elements}, flexible={compact})")

    def _tagged_section(self, tagged: list[Field], value: str, path: str) -> None:
        """The end of a flexible struct: one zero byte unless a tagged field differs from its default."""
        source = self.source
        waiting = list(self._run)
        conditions = [self._differs(field, f"{value}.{field.name}") for field in tagged]
        with source.block(f"if {' or '.join([*conditions, f'{value}.unknown_tags'])}:"):
            self._flush()
            if tagged:
                known = source.name("tagged")
                source.line(f"{known} = {{}}")
                for field, condition in zip(tagged, conditions, strict=True):
                    with source.block(f"if {condition}:"):
                        self._tagged_field(field, known, f"{value}.{field.name}", f"{path}.{field.name}")
                source.line(f"write_tags({self._out}, {known}, {value}.unknown_tags)")
            else:
                source.line(f"write_tags({self._out}, NOTHING, {value}.unknown_tags)")
        self._run = waiting
        with source.block("else:"):
            self._flush("x")

    def _tagged_field(self, field: Field, known: str, value: str, path: str) -> None:
        """Written aside first, because its size goes in front of it."""
        outer, self._out = self._out, self.source.name("aside")
        self.source.line(f"{self._out} = bytearray()")
        self._field(field, value, path)
        self._flush()
        self.source.line(f"{known}[{field.tag}] = {self._out}")
        self._out = outer


@functools.cache
def _pack_table(head: str, code: str) -> tuple[Any, ...]:
    """`pack` for a count and arrays of 0, 1, 2 ... numbers."""
    return tuple(
        struct.Struct(f">{head}{count}{code}").pack for count in range(primitives.SMALL_ARRAY_MAX + 1)
    )


def _join_records(records: Any) -> bytes:
    return b"".join(records) if isinstance(records, list) else bytes(records)


_NAMES: dict[str, Any] = {
    "NOTHING": {},
    "BUFFERS": primitives.BUFFERS,
    "join_records": _join_records,
    "put_numbers": primitives.put_numbers,
    "put_records": primitives.put_records,
    "records_size": primitives.records_size,
    "refuse_lost": explain.refuse_lost,
    "uvarint": primitives.uvarint,
    "write_tags": primitives.write_tags,
}
