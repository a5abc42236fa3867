"""How a Kafka message is declared: one class for all versions, with the version range beside the field.

    @api(key=0, versions="0-13", flexible="9+")
    class ProduceRequest:
        transactional_id: String | None = field("3+", default=None)
        acks: Int16
        topics: list[Topic]

A declaration is data only; `codec.py` turns it into an encoder and a decoder per version, on first use. The
invariant kept here: what leaves this module can be encoded in every version the message claims. So a field
that some version lacks has a default, a tag has a number and a default, every annotation names a wire type.

Message modules must not use `from __future__ import annotations`: nested structs would not resolve.
"""

import copy
import dataclasses
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar, dataclass_transform, get_args, get_origin, overload

from ottla.protocol.wiretypes import (
    ALL_VERSIONS,
    NO_TAGS,
    NO_VERSIONS,
    RECORDS,
    ArrayOf,
    Fixed,
    StructOf,
    Variable,
    Versions,
    WireType,
)
from ottla.protocol.wiretypes import NULL_UUID as NULL_UUID
from ottla.protocol.wiretypes import Bool as Bool
from ottla.protocol.wiretypes import Bytes as Bytes
from ottla.protocol.wiretypes import Float64 as Float64
from ottla.protocol.wiretypes import Int8 as Int8
from ottla.protocol.wiretypes import Int16 as Int16
from ottla.protocol.wiretypes import Int32 as Int32
from ottla.protocol.wiretypes import Int64 as Int64
from ottla.protocol.wiretypes import Records as Records
from ottla.protocol.wiretypes import String as String
from ottla.protocol.wiretypes import UInt16 as UInt16
from ottla.protocol.wiretypes import UInt32 as UInt32
from ottla.protocol.wiretypes import Uuid as Uuid

_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class _Options:
    """What `field(...)` was told, until the decorator knows the annotation as well."""

    versions: Versions
    tag: int | None
    tagged: Versions
    nullable: Versions | None
    ignorable: bool
    compact: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One field of a struct, ready for the codec."""

    name: str
    type: WireType
    versions: Versions
    nullable: Versions
    tag: int | None
    tagged: Versions
    default: Any  # dataclasses.MISSING when the field is in every version
    ignorable: bool
    compact: bool

    @property
    def has_default(self) -> bool:
        return self.default is not dataclasses.MISSING

    def is_tagged(self, version: int) -> bool:
        return version in self.tagged


@dataclasses.dataclass(frozen=True, slots=True)
class Declaration:
    """What the decorators learned about a class. A nested struct claims all versions: the message decides."""

    cls: type
    fields: tuple[Field, ...]
    api_key: int | None
    versions: Versions
    flexible: Versions
    is_message: bool


@overload
def field(
    versions: str = ...,
    *,
    default: _T,
    tag: int | None = ...,
    tagged: str | None = ...,
    nullable: str | None = ...,
    ignorable: bool = ...,
    compact: bool = ...,
) -> _T: ...
@overload
def field(versions: str = ..., *, nullable: str | None = ..., compact: bool = ...) -> Any: ...
def field(
    versions: str = "0+",
    *,
    default: Any = dataclasses.MISSING,
    tag: int | None = None,
    tagged: str | None = None,
    nullable: str | None = None,
    ignorable: bool = False,
    compact: bool = True,
) -> Any:
    """Say more about a field than its type.

    versions   where the field exists; where it does not, a decoded message holds the default
    default    required when a version of the message lacks the field; lists, structs are copied per instance
    tag        its number in the tagged section, in the versions `tagged` (unless told, wherever it exists)
    nullable   where null is allowed, when that is narrower than the `| None` of the annotation
    ignorable  versions without the field drop its value silently; otherwise they refuse all but the default
    compact    False for the rare string that keeps its int16 length in flexible versions

    A tagged struct declared `X | None` with default None is null by being absent; with an explicit `nullable`
    it carries a marker of one byte instead, 0 for null.
    """
    present = Versions.parse(versions)
    if tag is None and tagged is not None:
        raise TypeError("a tagged field needs a tag number")
    options = _Options(
        present,
        tag,
        NO_VERSIONS if tag is None else (Versions.parse(tagged) & present if tagged else present),
        Versions.parse(nullable) if nullable is not None else None,
        ignorable,
        compact,
    )
    metadata = {"ottla": options}
    if isinstance(default, list):
        return dataclasses.field(default_factory=_copies_of(default), metadata=metadata)
    if hasattr(type(default), "__declaration__"):
        return dataclasses.field(default_factory=_copies_of(default), metadata=metadata)
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def _copies_of(default: Any) -> Callable[[], Any]:
    if default == []:
        return list
    return lambda: copy.deepcopy(default)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def struct(cls: type[_T]) -> type[_T]:
    """A struct inside messages. Its field versions are those of the message around it."""
    return _declare(cls, None, ALL_VERSIONS, NO_VERSIONS, is_message=False)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def api(*, key: int, versions: str, flexible: str = "none") -> Callable[[type[_T]], type[_T]]:
    """A request or response of the API `key`, in these versions, flexible (compact and tagged) in those."""
    return lambda cls: _declare(cls, key, Versions.parse(versions), Versions.parse(flexible), is_message=True)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def message(*, versions: str, flexible: str = "none") -> Callable[[type[_T]], type[_T]]:
    """A message with versions but no API key: records of internal topics, subscription blobs, headers."""
    return lambda cls: _declare(
        cls, None, Versions.parse(versions), Versions.parse(flexible), is_message=True
    )


def declaration(cls: type) -> Declaration:
    """What was declared for a struct or message class."""
    found = cls.__dict__.get("__declaration__")
    if not isinstance(found, Declaration):
        raise TypeError(f"{cls.__qualname__} is not declared with @api, @message or @struct")
    return found


def unknown_tags(message: object) -> Mapping[int, bytes]:
    """The tagged fields of a struct that its declaration does not know, as they arrived."""
    tags: Mapping[int, bytes] = message.unknown_tags  # type: ignore[attr-defined]  # a decorator adds it
    return tags


def _declare(
    cls: type[_T], api_key: int | None, versions: Versions, flexible: Versions, *, is_message: bool
) -> type[_T]:
    reserved = {"unknown_tags", "api_key", "versions", "flexible"} if is_message else {"unknown_tags"}
    annotations = inspect.get_annotations(cls)
    if taken := reserved & annotations.keys():
        raise TypeError(f"{cls.__qualname__}.{min(taken)}: the name is reserved")
    for name in annotations:
        if isinstance(cls.__dict__.get(name), list):
            setattr(cls, name, field(default=cls.__dict__[name]))
    annotations["unknown_tags"] = Mapping[int, bytes]
    cls.__annotations__ = annotations
    cls.unknown_tags = dataclasses.field(default=NO_TAGS, repr=False)  # type: ignore[attr-defined]  # added here
    made: Any = dataclasses.dataclass(slots=True, kw_only=True)(cls)
    fields = tuple(_resolve(made, f) for f in dataclasses.fields(made) if f.name != "unknown_tags")
    made.__declaration__ = Declaration(made, fields, api_key, versions, flexible, is_message)
    if is_message:
        if versions.is_open:
            raise TypeError(f"{cls.__qualname__}: versions={versions} needs an end")
        made.api_key, made.versions, made.flexible = api_key, versions, flexible & versions
        _check_defaults(made, versions)
    return typing.cast(type[_T], made)


def _resolve(cls: type, declared: "dataclasses.Field[Any]") -> Field:
    where = f"{cls.__qualname__}.{declared.name}"
    options = declared.metadata.get("ottla") or _Options(ALL_VERSIONS, None, NO_VERSIONS, None, False, True)
    annotation, is_nullable = _without_none(declared.type, where)
    if options.nullable is not None and not is_nullable:
        raise TypeError(f"{where}: nullable={options.nullable} needs an annotation with `| None`")
    nullable = ALL_VERSIONS if is_nullable else NO_VERSIONS
    wire_type = _wire_type(annotation, where)
    default = declared.default
    if declared.default_factory is not dataclasses.MISSING:
        default = declared.default_factory()
    if default is None and not is_nullable:
        raise TypeError(f"{where}: the default None needs an annotation with `| None`")
    if (
        default is None
        and options.nullable is not None
        and options.nullable & options.versions != options.versions
    ):
        raise TypeError(f"{where}: the default None is not allowed in all of {options.versions}")
    if options.tag is not None and default is dataclasses.MISSING:
        raise TypeError(f"{where}: a tagged field needs a default")
    if options.nullable is not None:
        nullable = options.nullable
    elif isinstance(wire_type, StructOf) and options.tag is not None and default is None:
        nullable = NO_VERSIONS  # null by being absent
    if is_nullable and isinstance(wire_type, Fixed):
        raise TypeError(f"{where}: numbers and uuids cannot be null on the wire")
    return Field(
        declared.name,
        wire_type,
        options.versions,
        nullable & options.versions,
        options.tag,
        options.tagged,
        default,
        options.ignorable,
        options.compact,
    )


def _without_none(annotation: Any, where: str) -> tuple[Any, bool]:
    if isinstance(annotation, str):
        raise TypeError(f"{where}: an annotation is a string (drop `from __future__ import annotations`)")
    if get_origin(annotation) not in (types.UnionType, typing.Union):
        return annotation, False
    others = [each for each in get_args(annotation) if each is not types.NoneType]
    if len(others) != 1:
        raise TypeError(f"{where}: one wire type, or one wire type `| None`")
    return others[0], True


def _wire_type(annotation: Any, where: str) -> WireType:
    if get_origin(annotation) is list:
        element = _wire_type(get_args(annotation)[0], where)
        if isinstance(element, ArrayOf) or element == RECORDS:
            raise TypeError(f"{where}: Kafka has no arrays of arrays or of records")
        return ArrayOf(element)
    if get_origin(annotation) is Annotated and isinstance(annotation.__metadata__[0], Fixed | Variable):
        return annotation.__metadata__[0]
    if isinstance(annotation, type) and "__declaration__" in annotation.__dict__:
        return StructOf(annotation)
    raise TypeError(f"{where}: {annotation!r} is no wire type")


def _check_defaults(cls: type, versions: Versions) -> None:
    """A field that one of `versions` lacks must have a default, here and in every struct below."""
    for each in declaration(cls).fields:
        if not each.has_default and any(version not in each.versions for version in versions):
            raise TypeError(
                f"{cls.__qualname__}.{each.name}: some of {versions} lack it, so it needs a default"
            )
        below = each.type.element if isinstance(each.type, ArrayOf) else each.type
        if isinstance(below, StructOf):
            _check_defaults(below.cls, versions & each.versions)
