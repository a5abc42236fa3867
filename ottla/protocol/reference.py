"""The protocol reference, written from the declarations so that it cannot disagree with the code.

A pure function from the API table to Markdown; `make docs` puts the text into docs/reference/protocol.md.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from ottla.core.reference import NOTICE
from ottla.protocol.apis import APIS, PRIVATE, Api
from ottla.protocol.messages.record_types import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.protocol.messages.subscription import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from ottla.protocol.schema import Field, declaration
from ottla.protocol.wiretypes import ALL_VERSIONS, UUID_BYTES, ArrayOf, Fixed, StructOf, Variable, WireType

_NUMBERS = {
    "b": "int8",
    "h": "int16",
    "i": "int32",
    "q": "int64",
    "H": "uint16",
    "I": "uint32",
    "d": "float64",
}
_NUMBERS |= {"?": "bool", UUID_BYTES.code: "uuid"}
_INTRODUCTION = (
    "Every API that Ottla can read and write, in all versions of Kafka 4.3 and 3.9. Flexible versions have compact "
    "lengths and tagged fields. Below the table, each message field by field: its type, `?` where null is allowed, "
    "and the versions that have it when not all do."
)


def protocol_markdown() -> str:
    """The page: a table of the APIs, then every message with its fields."""
    parts = [
        "# Protocol",
        NOTICE,
        _INTRODUCTION,
        _table(APIS.values()),
        *(part for api in APIS.values() for part in _api_section(api)),
        "## APIs of Ottla's own",
        "Kafka has none of these. A broker serves them, and ApiVersions does not tell of them.",
        _table(PRIVATE.values()),
        *(part for api in PRIVATE.values() for part in _api_section(api)),
        "## Records of internal topics",
        "A key starts with its record type, a value with its version, both int16.",
        *(_record_section("__consumer_offsets", row) for row in CONSUMER_OFFSETS.values()),
        *(_record_section("__transaction_state", row) for row in TRANSACTION_STATE.values()),
        "## Consumer protocol",
        "What members of a classic consumer group tell each other. Both start with their version, an int16.",
        *(_fields_block(cls) for cls in (ConsumerProtocolSubscription, ConsumerProtocolAssignment)),
    ]
    return "\n\n".join(parts) + "\n"


def _table(apis: Iterable[Api]) -> str:
    rows = [
        f"| {api.key} | [{api.name}](#{api.name.lower()}) | {api.versions} | {declaration(api.request).flexible} |"
        for api in apis
    ]
    return "\n".join(["| Key | Name | Versions | Flexible |", "| --- | --- | --- | --- |", *rows])


def _api_section(api: Api) -> Iterator[str]:
    yield f"## {api.name}"
    yield from (_paragraphs(api.request), _fields_block(api.request))
    yield from (_paragraphs(api.response), _fields_block(api.response))


def _record_section(topic: str, row: Any) -> str:
    title = f"### {row.key.__name__.removesuffix('Key')} (`{topic}` type {row.number})"
    return "\n\n".join((title, _paragraphs(row.value), _fields_block(row.key), _fields_block(row.value)))


def _paragraphs(cls: type[Any]) -> str:
    """The docstring, each paragraph on one line."""
    paragraphs = (cls.__doc__ or "").strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _fields_block(cls: type[Any]) -> str:
    declared = declaration(cls)
    lines = [(cls.__name__, f"versions {declared.versions}", "")]
    lines += _field_lines(cls, 1)
    widths = [max(len(line[column]) for line in lines) for column in (0, 1)]
    text = "\n".join(f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in lines)
    return f"```\n{text}\n```"


def _field_lines(cls: type[Any], depth: int) -> Iterator[tuple[str, str, str]]:
    for each in declaration(cls).fields:
        yield "  " * depth + each.name, _type_name(each), ", ".join(_remarks(each))
        below = each.type.element if isinstance(each.type, ArrayOf) else each.type
        if isinstance(below, StructOf):
            yield from _field_lines(below.cls, depth + 1)


def _type_name(field: Field) -> str:
    is_nullable = field.nullable.first <= field.nullable.last
    return _wire_name(field.type) + ("?" if is_nullable else "")


def _wire_name(kind: WireType) -> str:
    match kind:
        case Fixed(code=code):
            return _NUMBERS[code]
        case Variable(name=name):
            return name
        case ArrayOf(element=element):
            return f"[{_wire_name(element)}]"
        case StructOf(cls=cls):
            return cls.__name__


def _remarks(field: Field) -> Iterator[str]:
    if field.versions != ALL_VERSIONS:
        yield f"v{field.versions}"
    if field.tag is not None:
        yield f"tag {field.tag}"
    if field.nullable.first <= field.nullable.last and field.nullable != field.versions:
        yield f"null since v{field.nullable.first}"
