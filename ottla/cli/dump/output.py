"""Three ways to print rows: tables for people, tab-separated values for pipes, JSON lines for programs.

All print as the rows come; a table is cut into pieces so that a long file needs no memory. Problems are sentences on
stderr; in JSON they are lines among the others as well. Nothing from a file reaches a terminal unescaped.
"""

import json
import sys
from typing import Any, Protocol, TextIO

from ottla.cli.dump.rows import Problem, Row

_ROWS_PER_TABLE = 1000
_CELL_MAX = 200  # characters of a key or value in a table; the other formats show all of it
_WIDTH_MAX = 10_000  # wider than any table: rich must not shorten numbers to fit them in


class Output(Protocol):
    """Gets the rows of one file after the other."""

    def begin(self, path: str) -> None: ...

    def row(self, row: Row) -> None: ...

    def problem(self, problem: Problem) -> None: ...

    def end(self) -> None: ...


def say(sentence: str) -> None:
    """A sentence on stderr, behind everything that stdout has got so far."""
    sys.stdout.flush()
    sys.stderr.write(f"ottla: {printable(sentence)}\n")
    sys.stderr.flush()


class JsonOutput:
    """One object per line. `type` says what it is, `file` where it was found."""

    def begin(self, path: str) -> None:
        self._path = path

    def row(self, row: Row) -> None:
        sys.stdout.write(json.dumps({"type": row.kind, "file": self._path, **row.fields}) + "\n")

    def problem(self, problem: Problem) -> None:
        sys.stdout.write(json.dumps({"type": "problem", "file": self._path, **problem._asdict()}) + "\n")
        say(problem.about(self._path))

    def end(self) -> None:
        pass


class TsvOutput:
    """A line per row under a line of names. A file starts with `# ` and its path."""

    def begin(self, path: str) -> None:
        self._path, self._kind = path, ""
        sys.stdout.write(f"# {printable(path)}\n")

    def row(self, row: Row) -> None:
        if row.kind != self._kind:
            self._kind = row.kind
            sys.stdout.write("\t".join(row.fields) + "\n")
        sys.stdout.write("\t".join(cell(value) for value in row.fields.values()) + "\n")

    def problem(self, problem: Problem) -> None:
        say(problem.about(self._path))

    def end(self) -> None:
        pass


class TableOutput:
    """Tables for people: what belongs together stands together, times can be read, defaults are left out."""

    def begin(self, path: str) -> None:
        self._path, self._kind, self._rows = path, "", list[dict[str, str]]()
        sys.stdout.write(f"{printable(path)}\n")

    def row(self, row: Row) -> None:
        if row.kind != self._kind or len(self._rows) >= _ROWS_PER_TABLE:
            self._print()
            self._kind = row.kind
        self._rows.append(_for_people(row))

    def problem(self, problem: Problem) -> None:
        self._print()
        say(problem.about(self._path))

    def end(self) -> None:
        self._print()

    def _print(self) -> None:
        """What has gathered, as wide as it is: a terminal that is too narrow wraps, and nothing is left out."""
        if not self._rows:
            return
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in self._rows[0]:
            table.add_column(name, no_wrap=True, justify="left" if name in _LEFT else "right")
        for row in self._rows:
            style = "red" if row.get("crc") == "invalid" else ""
            table.add_row(*(Text(value) for value in row.values()), style=style)
        Console(file=sys.stdout, highlight=False, width=_WIDTH_MAX).print(table)
        self._rows.clear()


def printable(text: str) -> str:
    """The text with everything escaped that would move a cursor, end a line or hide something."""
    return text if text.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in text)


def as_seen(text: str, stream: TextIO) -> str:
    """What scripts read is as it is; of what a terminal shows, nothing may move the cursor. Lines stay lines."""
    return "\n".join(map(printable, text.split("\n"))) if stream.isatty() else text


def _escaped(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def cell(value: Any) -> str:
    """A field's value in one cell: text as it is, everything else as JSON writes it."""
    if isinstance(value, str):
        return printable(value)
    return json.dumps(value)


def _short(value: Any) -> str:
    text = cell(value)
    return text if len(text) <= _CELL_MAX else f"{text[:_CELL_MAX]}…"


_LEFT = ("codec", "flags", "control", "key", "value", "headers", "header keys", "topic", "topic id", "time")


def _for_people(row: Row) -> dict[str, str]:
    if row.kind == "batch":
        return _batch(row.fields)
    if row.kind == "record" and "offset" in row.fields:
        return _record(row.fields)
    return {
        name.replace("_", " "): _time(v) if name == "timestamp" else _short(v)
        for name, v in row.fields.items()
    }


def _batch(fields: dict[str, Any]) -> dict[str, str]:
    first = "…" if fields["base_offset"] is None else str(fields["base_offset"])
    return {
        "position": str(fields["position"]),
        "offsets": f"{first}-{fields['last_offset']}",
        "count": "…" if fields["count"] is None else str(fields["count"]),
        "size": str(fields["size"]),
        "magic": str(fields["magic"]),
        "codec": fields["compression"],
        "time": _time(fields["max_timestamp"]),
        "epoch": _number(fields["leader_epoch"]),
        "producer": _producer(fields),
        "sequences": _range(fields["base_sequence"], fields["last_sequence"]),
        "flags": _flags(fields),
        "crc": fields["crc"],
    }


def _record(fields: dict[str, Any]) -> dict[str, str]:
    shown = {
        "offset": str(fields["offset"]),
        "time": _time(fields["timestamp"]),
        "epoch": _number(fields["leader_epoch"]),
        "producer": _producer(fields),
        "sequence": _number(fields["sequence"]),
        "crc": fields["crc"],
        "control": "" if fields["control"] is None else " ".join(str(v) for v in fields["control"].values()),
        "key bytes": _number(fields["key_size"]),
        "value bytes": _number(fields["value_size"]),
    }
    if "key" not in fields:
        return shown | {"header keys": _short(", ".join(fields["header_keys"]))}
    headers = ", ".join(f"{name}={'null' if text is None else text}" for name, text in fields["headers"])
    return shown | {
        "key": _short(fields["key"]),
        "value": _short(fields["value"]),
        "headers": _short(headers),
    }


def _producer(fields: dict[str, Any]) -> str:
    return "-" if fields["producer_id"] < 0 else f"{fields['producer_id']}/{fields['producer_epoch']}"


def _range(first: int, last: int) -> str:
    return "-" if first < 0 else f"{first}-{last}"


def _number(value: int) -> str:
    return "-" if value < 0 else str(value)


def _flags(fields: dict[str, Any]) -> str:
    flags = [name for name in ("transactional", "control") if fields[f"is_{name}"]]
    if fields["timestamp_type"] == "LogAppendTime":
        flags.append("append-time")
    if fields["delete_horizon_ms"] is not None:
        flags.append("delete-horizon")
    return ",".join(flags)


def _time(milliseconds: int) -> str:
    """UTC, to the millisecond; a number where no calendar reaches."""
    if milliseconds < 0:
        return "-"
    from datetime import UTC, datetime

    try:
        moment = datetime.fromtimestamp(milliseconds // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{milliseconds % 1000:03d}Z"
