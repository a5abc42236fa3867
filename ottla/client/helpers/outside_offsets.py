"""Offsets in the application's own database, written by the transaction that writes the results: exactly once.

    offsets = SqliteOffsets(connection, "billing")
    consumer = Consumer(enable_auto_commit=False, auto_offset_reset="earliest", group_id="billing", ...)
    outside = OutsideOffsets(consumer, offsets)
    outside.subscribe(["orders"])
    while True:
        for records in consumer.poll(timeout_ms=500).values():
            with offsets.transaction(records):
                ...                                          # write results with the same connection

The group only shares the partitions. Where to begin is read from the database when a partition is assigned, and nothing
is committed to Kafka. `save` refuses records that another reader has saved meanwhile: a member that was cut off, and
does not know yet that its partitions belong to others, cannot write results twice. So every record takes effect once,
whatever crashes.
"""

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from ottla.client.errors import CommitFailedError, IllegalStateError
from ottla.client.helpers.claims_sqlite import checked_table
from ottla.client.helpers.faces import AnyConsumer, drive, listener_for, settled
from ottla.client.listener import RebalanceListener
from ottla.client.records import ConsumerRecord
from ottla.core.ids import TopicPartition


class OffsetStore(Protocol):
    """Offsets somewhere else. Both may return coroutines where the consumer is asynchronous."""

    def load(self, partitions: Collection[TopicPartition]) -> Any:
        """A mapping from partitions to the offset of the next record, for those that are known."""

    def save(self, partition: TopicPartition, first_offset: int, end_offset: int) -> Any:
        """In the application's open transaction: the records from `first_offset` to `end_offset` are done. Raises
        CommitFailedError if the stored offset is beyond the first one: somebody else has done them."""


class AsyncOutsideOffsets:
    """Lets an AsyncConsumer begin where a store says."""

    def __init__(self, consumer: AnyConsumer, store: OffsetStore) -> None:
        self._consumer, self._store = consumer, store

    async def subscribe(
        self, topics: Any = (), pattern: Any = None, listener: RebalanceListener | None = None
    ) -> None:
        """As the consumer's: through here, because this must hear of new partitions."""
        await settled(
            self._consumer.subscribe(topics, pattern, listener_for(self._consumer, _Seeker(self, listener)))
        )

    async def seek(self, partitions: Collection[TopicPartition]) -> None:
        """Go to the stored offsets: after `consumer.assign`, or when a transaction was rolled back. A partition without
        one begins as `auto_offset_reset` says."""
        known: Mapping[TopicPartition, int] = await settled(self._store.load(partitions))
        for partition, offset in known.items():
            await settled(self._consumer.seek(partition, offset))

    async def save(self, records: Sequence[ConsumerRecord]) -> None:
        """These records of one partition are done: call it within the transaction that writes their results. Raises
        CommitFailedError if somebody else has done them: roll back, and `seek`."""
        if not records:
            return
        partition, last = records[0].topic_partition, records[-1]
        if last.topic_partition != partition:
            raise IllegalStateError(
                f"records of {partition} and {last.topic_partition}: save one partition at a time"
            )
        await settled(self._store.save(partition, records[0].offset, last.offset + 1))


class OutsideOffsets:
    """Lets a Consumer begin where a store says."""

    def __init__(self, consumer: AnyConsumer, store: OffsetStore) -> None:
        self._inner = AsyncOutsideOffsets(consumer, store)

    def subscribe(
        self, topics: Any = (), pattern: Any = None, listener: RebalanceListener | None = None
    ) -> None:
        """As the consumer's: through here, because this must hear of new partitions."""
        drive(self._inner.subscribe(topics, pattern, listener))

    def seek(self, partitions: Collection[TopicPartition]) -> None:
        """Go to the stored offsets: after `consumer.assign`, or when a transaction was rolled back. A partition without
        one begins as `auto_offset_reset` says."""
        drive(self._inner.seek(partitions))

    def save(self, records: Sequence[ConsumerRecord]) -> None:
        """These records of one partition are done: call it within the transaction that writes their results. Raises
        CommitFailedError if somebody else has done them: roll back, and `seek`."""
        drive(self._inner.save(records))


class _Seeker(RebalanceListener):
    """Seeks when partitions come, before it tells the application's own listener."""

    def __init__(self, offsets: AsyncOutsideOffsets, listener: RebalanceListener | None) -> None:
        self._offsets, self._listener = offsets, listener or RebalanceListener()

    async def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
        await self._offsets.seek(assigned)
        await settled(self._listener.on_partitions_assigned(assigned))

    async def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
        await settled(self._listener.on_partitions_revoked(revoked))

    async def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
        await settled(self._listener.on_partitions_lost(lost))


class SqliteOffsets:
    """Offsets in a table of an SQLite database, one row for each group and partition."""

    def __init__(self, connection: sqlite3.Connection, group: str, table: str = "ottla_offsets") -> None:
        self._connection, self._group, self._table = connection, group, checked_table(table)
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS {table} (consumer_group TEXT, topic TEXT, partition INTEGER, "
            "next_offset INTEGER NOT NULL, PRIMARY KEY (consumer_group, topic, partition)) WITHOUT ROWID"
        )

    def load(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where to go on, for the partitions that are known."""
        found = {}
        for partition in partitions:
            row = self._connection.execute(
                f"SELECT next_offset FROM {self._table} WHERE consumer_group = ? AND topic = ? AND partition = ?",
                (self._group, partition.topic, partition.partition),
            ).fetchone()
            if row is not None:
                found[partition] = int(row[0])
        return found

    def save(self, partition: TopicPartition, first_offset: int, end_offset: int) -> None:
        """Without committing: that is the application's. One statement, so nobody can come in between."""
        written = self._connection.execute(
            f"INSERT INTO {self._table} VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE "
            "SET next_offset = excluded.next_offset WHERE next_offset <= ?",
            (self._group, partition.topic, partition.partition, end_offset, first_offset),
        )
        if written.rowcount != 1:
            raise CommitFailedError(
                f"the records of {partition} from offset {first_offset} on were done by another reader of the group "
                f"{self._group!r}"
            )

    @contextmanager
    def transaction(self, records: Sequence[ConsumerRecord]) -> Iterator[sqlite3.Connection]:
        """`with offsets.transaction(records) as connection:` writes results and offsets together, or neither. Records
        of one partition, as `poll` hands them out."""
        with self._connection:
            yield self._connection
            if records:
                first, last = records[0], records[-1]
                self.save(first.topic_partition, first.offset, last.offset + 1)
