"""Tables, tab-separated values and JSON lines."""

import json

import pytest

from ottla.cli.dump.command import _output
from ottla.cli.dump.files import expand
from ottla.cli.dump.indexes import Check
from ottla.cli.dump.output import JsonOutput, Output, TableOutput, TsvOutput, printable
from ottla.cli.dump.readers import read
from ottla.cli.dump.rows import Problem, Row
from ottla.cli.dump.segments import Options
from ottla.records.builder import build
from tests.unit.cli.dump.helpers import SEGMENT, partition, record, write


def show(output: Output, path, options: Options | None = None) -> None:
    for target in expand([str(path)]):
        output.begin(target.path)
        for item in read(target, options or Options(), Check.SHOW):
            output.problem(item) if isinstance(item, Problem) else output.row(item)
        output.end()


def test_people_get_a_table_of_batches(tmp_path, capsys):
    directory = partition(tmp_path)
    show(TableOutput(), directory / f"{SEGMENT}.log")
    title, names, *rows = capsys.readouterr().out.splitlines()
    assert title == str(directory / f"{SEGMENT}.log")
    assert " ".join(names.split()) == (
        "position offsets count size magic codec time epoch producer sequences flags crc"
    )
    assert " ".join(rows[0].split()) == "0 0-1 2 79 2 none 2023-11-14 22:13:20.001Z 5 - - valid"
    assert rows[2].split()[-5:] == ["6", "9/1", "0-0", "transactional", "valid"]
    assert rows[3].split()[-3:] == ["-", "transactional,control", "valid"]
    assert len(rows) == 4


def test_people_get_a_table_of_records(tmp_path, capsys):
    long = build([record(0, value=b"x" * 500, headers=(("h", b"1"), ("n", None)))])
    path = write(tmp_path, f"{SEGMENT}.log", long)
    show(TableOutput(), path, Options(deep=True, data=True))
    row = capsys.readouterr().out.splitlines()[2]
    assert "x" * 200 + "…" in row
    assert "x" * 201 not in row
    assert row.endswith("h=1, n=null")
    show(TableOutput(), path, Options(deep=True))
    assert capsys.readouterr().out.splitlines()[2].rstrip().endswith("h, n")
    show(TableOutput(), path, Options(deep=True, data=True, metadata=False))
    assert capsys.readouterr().out.splitlines()[1].split() == ["key", "value", "headers"]


def test_people_get_tables_of_every_other_file(tmp_path, capsys):
    show(TableOutput(), partition(tmp_path))
    out = capsys.readouterr().out
    assert "last stable offset" in out
    assert "txn first offset" in out
    assert "start offset" in out


def test_a_table_is_printed_in_pieces_and_before_a_problem(capsys):
    output = TableOutput()
    output.begin("f")
    for number in range(1001):
        output.row(Row("index", {"offset": number, "position": number}))
    assert capsys.readouterr().out.count("offset") == 1
    output.problem(Problem("is wrong", 8))
    captured = capsys.readouterr()
    assert captured.out.count("offset") == 1
    assert captured.err == "ottla: f: byte 8: is wrong\n"
    output.end()
    assert capsys.readouterr().out == ""


def test_nothing_from_a_file_reaches_the_terminal_raw(tmp_path, capsys):
    evil = b"\x1b[2J[red]\tx\n\x00\xc2\x9b\xff"
    path = write(
        tmp_path, f"{SEGMENT}.log", build([record(0, key=evil, headers=((evil.decode("latin-1"), evil),))])
    )
    for output in (TableOutput(), TsvOutput(), JsonOutput()):
        show(output, path, Options(deep=True, data=True))
        out = capsys.readouterr().out
        assert all(c.isprintable() for c in out.replace("\n", "").replace("\t", ""))
        assert "[red]" in out


def test_a_time_that_no_calendar_reaches_is_a_number(capsys):
    output = TableOutput()
    output.begin("f")
    output.row(Row("timeindex", {"timestamp": 2**62, "offset": -1}))
    output.row(Row("timeindex", {"timestamp": -5, "offset": -1}))
    output.end()
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[2:]] == [str(2**62), "-"]


def test_a_new_kind_of_row_gets_its_own_names(capsys):
    output = TsvOutput()
    output.begin("f")
    output.row(Row("snapshot", {"version": 1}))
    output.row(Row("producer", {"id": None, "ok": True}))
    assert capsys.readouterr().out == "# f\nversion\n1\nid\tok\nnull\ttrue\n"


def test_problems_are_lines_of_json_and_sentences(capsys):
    output = JsonOutput()
    output.begin("f")
    output.problem(Problem("breaks", 3, stops=True, next_intact=9))
    captured = capsys.readouterr()
    assert json.loads(captured.out)["next_intact"] == 9
    assert captured.err == "ottla: f: stops at byte 3: breaks; a whole batch follows at byte 9\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("plain", "plain"), ("a\tb", "a\\tb"), ("\ud800", "\\ud800"), ("käse\\", "käse\\"), ("\x85", "\\x85")],
)
def test_what_would_not_show_is_escaped(text, shown):
    assert printable(text) == shown


def test_tables_are_for_terminals_unless_asked_otherwise(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert isinstance(_output(False), TableOutput)
    assert isinstance(_output(True), JsonOutput)
    monkeypatch.setenv("NO_COLOR", "1")
    assert isinstance(_output(False), TsvOutput)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr("sys.stdout.isatty", lambda: False, raising=False)
    assert isinstance(_output(False), TsvOutput)
