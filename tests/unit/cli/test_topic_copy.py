"""The records of one topic, written to another."""

import asyncio
import io
import os
import pty

import click
import pytest

from ottla.cli.remote import Failed
from ottla.cli.session import Session
from ottla.cli.topic_copy import CopyProgress, copied
from ottla.core.ids import TopicPartition
from tests.unit.cli.nouns import asked, broker, topic

__all__ = ["asked", "broker", "topic"]


@pytest.fixture
def session(asked):
    """That of a command which was told where the broker is."""
    made = Session()
    made.bootstrap_server = asked.address
    with click.Context(click.Command("clone"), obj=made):
        yield made


def copy(source, target, starts, ends):
    places = [TopicPartition(source, number) for number in range(len(ends))]
    wanted = zip(places, starts, strict=True), zip(places, ends, strict=True)
    return asyncio.run(copied(target, *map(dict, wanted)))


def test_records_between_two_places_of_each_partition_are_copied(session, asked, broker, topic):
    asked.produce(topic, 10)
    asked.produce(topic, 5, partition=1)
    target = asked.create(f"{topic}-b", 2)
    assert copy(topic, target, [2, 5], [6, 5]) == 4
    assert [(each.partition, each.offset) for each in broker.records(target)] == [(0, n) for n in range(4)]


def test_of_an_empty_topic_nothing_is_copied_and_nobody_asked():
    assert copy("empty", "other", [7, 0], [7, 0]) == 0


def test_how_far_it_came_is_said_with_the_reason(session, asked, topic):
    asked.produce(topic, 3, partition=1)
    session.assignments = ["max.block.ms=500"]
    target = asked.create(f"{topic}-b", 1)
    with pytest.raises(Failed, match=r"^after 0 records: "):
        copy(topic, target, [0, 0], [0, 3])


def test_offsets_that_are_not_there_any_more_are_said(session, asked, topic):
    asked.produce(topic, 3)
    target = asked.create(f"{topic}-b", 2)
    with pytest.raises(Failed, match=r"^after 0 records: .*7"):
        copy(topic, target, [7], [9])


@pytest.mark.parametrize(("is_quiet", "is_drawn"), [(False, True), (True, False)])
def test_a_terminal_sees_how_far_it_is_unless_it_wants_quiet(session, monkeypatch, is_quiet, is_drawn):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    session.is_quiet = is_quiet
    reading, writing = pty.openpty()
    try:
        with open(writing, "w", closefd=False) as stream:
            monkeypatch.setattr("sys.stderr", stream)
            bar = CopyProgress(10)
            bar.show(5)
            bar.close()
            stream.write("end")
        assert (b"copying records" in os.read(reading, 65536)) == is_drawn
    finally:
        os.close(reading)
        os.close(writing)


def test_elsewhere_nothing_is_drawn(session, monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    bar = CopyProgress(10)
    bar.show(5)
    bar.close()
    assert stream.getvalue() == ""
