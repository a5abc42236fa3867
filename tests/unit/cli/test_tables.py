"""Rows are printed as tables for people, as lines for pipes, and never as commands to a terminal."""

import io
import json

from rich.console import Console

from ottla.cli import tables
from ottla.cli.tables import document, lines, show, table

NAMES = ["topic", "log_end_offset", "lag_seconds"]
ROWS = [
    {"topic": "orders", "log_end_offset": 12, "lag_seconds": 1.25},
    {"topic": "\x1b[31mred\n", "log_end_offset": None, "lag_seconds": None},
]


def drawn(rows, names):
    console = Console(file=io.StringIO(), width=200)
    console.print(table(rows, names))
    return console.file.getvalue()


def test_lines_are_tab_separated_under_their_names(capsys):
    lines(ROWS, NAMES)
    assert capsys.readouterr().out.splitlines() == [
        "topic\tlog_end_offset\tlag_seconds",
        "orders\t12\t1.250",
        "\\x1b[31mred\\n\t-\t-",
    ]
    lines(ROWS[:1], NAMES, header=False)
    assert capsys.readouterr().out == "orders\t12\t1.250\n"


def test_a_table_has_readable_names_and_escapes_what_is_not_printable():
    text = drawn(ROWS, NAMES)
    assert "log end offset" in text
    assert "\\x1b[31mred\\n" in text
    assert "\x1b[31mred" not in text
    assert "12" in text


def test_square_brackets_are_no_markup():
    assert "[bold]x[/bold]" in drawn([{"topic": "[bold]x[/bold]"}], ["topic"])


def test_lists_are_joined_and_empty_ones_are_a_dash(capsys):
    lines([{"a": ["x:0", "x:1"], "b": []}], ["a", "b"])
    assert capsys.readouterr().out == "a\tb\nx:0,x:1\t-\n"


def test_without_rows_the_names_are_still_there(capsys):
    show([], NAMES)
    assert capsys.readouterr().out == "\t".join(NAMES) + "\n"


def test_a_document_is_one_line(capsys):
    document({"groups": ROWS})
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {"groups": ROWS}


def test_no_color_means_lines_even_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert tables.is_for_people()
    show(ROWS[:1], NAMES)
    assert "log end offset" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    assert not tables.is_for_people()
