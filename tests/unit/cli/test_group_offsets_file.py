"""Offsets of groups in files: what is written is read, and what cannot be read is named with its line."""

import io
import json

import pytest

from ottla.cli.group_offsets_file import read_offsets, written_offsets
from ottla.core.ids import TopicPartition

PLACES = {TopicPartition("orders", 0): 5, TopicPartition("orders", 11): 0}


def _read(tmp_path, text, group="g"):
    path = tmp_path / "offsets"
    path.write_text(text)
    return read_offsets(str(path), group)


@pytest.mark.parametrize(
    "text",
    [
        written_offsets(PLACES),
        '"orders",0,5\n\n orders , 11 , 0\n',
        "g,orders,0,5\nother,orders,3,3\ng,orders,11,0\n",
        json.dumps(
            {
                "partitions": [
                    {"topic": "orders", "partition": 0, "offset": 5},
                    {"topic": "orders", "partition": 11, "after": 0, "before": 3},
                    {"topic": "orders", "partition": 12, "after": None},
                ]
            }
        ),
    ],
)
def test_files_are_csv_or_json(tmp_path, text):
    assert _read(tmp_path, text) == PLACES


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no offsets for group 'g'"),
        ("other,orders,0,5\n", "has no offsets for group 'g'"),
        ("topic,partition,offset\n", "line 1: 'partition' is no partition"),
        ("orders,0,5\norders,0\n", "line 2: write topic,partition,offset"),
        ("orders,0,-5\n", "line 1: '-5' is no offset"),
        ("orders,0,99999999999999999999\n", "line 1: '99999999999999999999' is no offset"),
        ("orders,0,5\norders,0,6\n", "line 2: orders:0 has an offset already"),
        ("a b,0,5\n", "line 1: 'a b' is no name of a topic"),
        ("{", "is no such JSON"),
        ('{"partitions": 3}', "is no such JSON"),
        ('{"partitions": [{"topic": "t"}]}', "is no such JSON"),
        ('{"partitions": [{"topic": "t", "partition": true, "offset": 1}]}', "True is no partition"),
        ('{"group": "other", "partitions": []}', "has no offsets for group 'g'"),
    ],
)
def test_files_that_make_no_sense_are_refused_with_the_line(tmp_path, text, sentence):
    with pytest.raises(Exception, match="offsets") as refused:
        _read(tmp_path, text)
    assert sentence in str(refused.value)


def test_a_file_may_come_through_a_pipe(monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(written_offsets(PLACES).encode())))
    assert read_offsets("-", "g") == PLACES
