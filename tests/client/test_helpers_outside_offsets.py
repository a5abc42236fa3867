"""Offsets in a database: a group moves partitions, and the database says where to go on."""

import asyncio
import sqlite3
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client import AsyncConsumer, Consumer, Producer, TopicPartition
from ottla.client.errors import CommitFailedError, IllegalStateError
from ottla.client.helpers.outside_offsets import AsyncOutsideOffsets, OutsideOffsets, SqliteOffsets
from ottla.client.listener import RebalanceListener
from tests.client.conftest import unused_name

BY_HAND: dict[str, Any] = {"enable_auto_commit": False, "auto_offset_reset": "earliest"}


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "results.db", timeout=30)
    connection.execute("CREATE TABLE results (text TEXT)")
    yield connection
    connection.close()


def fill(server: str, topic: str, values: range, partitions: int = 1) -> None:
    with Producer(bootstrap_servers=server) as producer:
        for number in values:
            producer.send(topic, b"%d" % number, partition=number % partitions)


def consume(reader: Consumer, offsets: SqliteOffsets, count: int) -> None:
    while count > 0:
        for records in reader.poll(timeout_ms=500).values():
            with offsets.transaction(records) as connection:
                rows = [(record.value.decode(),) for record in records]
                connection.executemany("INSERT INTO results VALUES (?)", rows)
            count -= len(records)


def results(database: sqlite3.Connection) -> list[int]:
    return sorted(int(text) for (text,) in database.execute("SELECT text FROM results"))


def test_the_next_reader_goes_on_where_the_database_says(server, new_topic, database):
    topic, group = new_topic(2), unused_name("group")
    offsets = SqliteOffsets(database, group)
    told: list[int] = []

    class Listener(RebalanceListener):
        def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
            told.append(len(assigned))

    for first in (0, 20):
        fill(server, topic, range(first, first + 20), 2)
        with Consumer(bootstrap_servers=server, group_id=group, **BY_HAND) as reader:
            OutsideOffsets(reader, offsets).subscribe([topic], listener=Listener())
            consume(reader, offsets, 20)
            assert reader.committed(TopicPartition(topic, 0)) is None
    assert results(database) == list(range(40)) and told == [2, 2]


def test_a_reader_that_was_cut_off_cannot_write_twice(server, new_topic, database):
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    fill(server, topic, range(10))
    offsets = SqliteOffsets(database, "group")
    with (
        Consumer(bootstrap_servers=server, **BY_HAND) as cut_off,
        Consumer(bootstrap_servers=server, **BY_HAND) as successor,
    ):
        outside = OutsideOffsets(cut_off, offsets)
        for reader in (cut_off, successor):
            reader.assign([partition])
        records = []
        while not records:
            records = cut_off.poll(timeout_ms=500).get(partition, [])
        consume(successor, offsets, 10)
        with pytest.raises(CommitFailedError), database:
            database.execute("INSERT INTO results VALUES ('-1')")
            outside.save(records)
        outside.seek([partition])
        assert cut_off.position(partition) == 10
        fill(server, topic, range(10, 12))
        consume(cut_off, offsets, 2)
        with pytest.raises(IllegalStateError, match="one partition at a time"):
            outside.save([records[0], records[0]._replace(partition=1)])
        outside.save([])
    assert results(database) == list(range(12))


def test_the_asynchronous_one_does_the_same(server, new_topic, database):
    topic, group = new_topic(), unused_name("group")
    fill(server, topic, range(10))
    offsets = SqliteOffsets(database, group)
    with database:
        offsets.save(TopicPartition(topic, 0), 0, 4)

    async def run() -> None:
        async with AsyncConsumer(bootstrap_servers=server, group_id=group, **BY_HAND) as reader:
            outside = AsyncOutsideOffsets(reader, offsets)
            await outside.subscribe([topic])
            count = 6
            while count:
                for records in (await reader.poll(timeout_ms=500)).values():
                    with database:
                        rows = [(record.value.decode(),) for record in records]
                        database.executemany("INSERT INTO results VALUES (?)", rows)
                        await outside.save(records)
                    count -= len(records)

    asyncio.run(run())
    assert results(database) == list(range(4, 10))
    assert offsets.load([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 10}
