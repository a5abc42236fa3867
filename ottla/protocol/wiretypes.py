"""The vocabulary of declarations: version ranges, and the wire types that stand behind Python's types.

`schema.py` re-exports what message modules need. A type checker sees `int`, `str`, `bytes`; the codec sees
the object that stands beside it in the `Annotated`.
"""

import dataclasses
import uuid
from collections.abc import Iterator
from typing import Annotated, Any, Final, NoReturn

_VERSION_MAX = 32767  # versions travel as int16
NULL_UUID: Final = uuid.UUID(int=0)  # Kafka writes "no uuid" as sixteen zero bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Versions:
    """An inclusive range of versions: "3+", "0-7", "2" or "none"."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> "Versions":
        if text == "none":
            return NO_VERSIONS
        first, dash, last = text.partition("-")
        try:
            if text.endswith("+"):
                return cls(int(text[:-1]), _VERSION_MAX)
            return cls(int(first), int(last) if dash else int(first))
        except ValueError:
            raise TypeError(f'{text!r} is no version range: write "3+", "0-7", "2" or "none"') from None

    @property
    def is_open(self) -> bool:
        return self.last == _VERSION_MAX

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __and__(self, other: "Versions") -> "Versions":
        both = Versions(max(self.first, other.first), min(self.last, other.last))
        return both if both.first <= both.last else NO_VERSIONS

    def __str__(self) -> str:
        if self == NO_VERSIONS:
            return "none"
        if self.is_open:
            return f"{self.first}+"
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


NO_VERSIONS: Final = Versions(1, 0)
ALL_VERSIONS: Final = Versions(0, _VERSION_MAX)


@dataclasses.dataclass(frozen=True, slots=True)
class Fixed:
    """A number of fixed width: `code` is its letter in the `struct` module."""

    code: str
    size: int


@dataclasses.dataclass(frozen=True, slots=True)
class Variable:
    """A length and that many bytes. A string's length is an int16, else an int32; when compact, a uvarint."""

    name: str


@dataclasses.dataclass(frozen=True, slots=True)
class ArrayOf:
    element: "WireType"


@dataclasses.dataclass(frozen=True, slots=True)
class StructOf:
    cls: type


WireType = Fixed | Variable | ArrayOf | StructOf

TEXT: Final = Variable("string")
BLOB: Final = Variable("bytes")
RECORDS: Final = Variable("records")
UUID_BYTES: Final = Fixed("16s", 16)

Int8 = Annotated[int, Fixed("b", 1)]
Int16 = Annotated[int, Fixed("h", 2)]
Int32 = Annotated[int, Fixed("i", 4)]
Int64 = Annotated[int, Fixed("q", 8)]
UInt16 = Annotated[int, Fixed("H", 2)]
UInt32 = Annotated[int, Fixed("I", 4)]
Float64 = Annotated[float, Fixed("d", 8)]
Bool = Annotated[bool, Fixed("?", 1)]
Uuid = Annotated[uuid.UUID, UUID_BYTES]
String = Annotated[str, TEXT]
Bytes = Annotated[bytes, BLOB]
# Record batches are not copied: decoded, a view into the frame; to encode, any buffer or list of buffers.
Records = Annotated[Any, RECORDS]


class _NoTags(dict[int, bytes]):
    """The empty mapping that all structs without unknown tags share: nobody may write to it."""

    __slots__ = ()

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError("this mapping is shared: assign a new dict to unknown_tags instead")

    __setitem__ = __delitem__ = update = setdefault = pop = popitem = clear = __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]  # Mapping says None, being mutable elsewhere
        return 0

    def __copy__(self) -> "_NoTags":
        return self

    def __deepcopy__(self, _memo: object) -> "_NoTags":
        return self

    def __reduce__(self) -> str:
        return "NO_TAGS"


NO_TAGS: Final = _NoTags()
