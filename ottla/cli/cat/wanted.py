"""What a kcat command line asks for, once it is understood: no word of it is looked at again."""

from dataclasses import dataclass
from typing import NamedTuple

from ottla.cli.cat.packing import Serdes
from ottla.cli.cat.words import Question, Start

PRODUCE, CONSUME, GROUP, METADATA, QUERY, BROKERS = "P", "C", "G", "L", "Q", "M"


class Input(NamedTuple):
    """Of -P: what becomes of what is read."""

    delimiter: bytes
    key_delimiter: bytes | None
    fixed_key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    files: tuple[str, ...]
    is_by_line: bool
    """The file is split as stdin is, instead of being one record."""
    is_tee: bool
    codec: str | None


class Output(NamedTuple):
    """Of -C and -G: how records are written."""

    format: str | None
    delimiter: bytes
    key_delimiter: bytes | None
    has_offsets: bool
    serdes: Serdes
    registry: str | None
    is_unbuffered: bool


@dataclass(slots=True, frozen=True)
class Wanted:
    """All of it."""

    mode: str
    topics: tuple[str, ...]
    partition: int | None
    group: str | None
    count: int | None
    """How many records at most."""
    start: Start
    ends_at_end: bool
    is_patient: bool
    """-E: go on after what can be survived."""
    has_nulls: bool
    """-Z: empty and null are the same."""
    is_json: bool
    verbosity: int
    questions: tuple[Question, ...]
    brokers: int
    input: Input
    output: Output

    @property
    def topic(self) -> str:
        return self.topics[-1]
