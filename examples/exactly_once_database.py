"""Exactly once, from a topic to a database: results and offsets are one transaction of the database.

Every record is in the table once. A crash rolls back the open transaction, results and offset alike; started again, the
program reads on from the offset in the database. Nothing is committed to Kafka. A member that was taken for dead and
comes back cannot write twice: the database refuses an offset that was passed already.
"""

import sqlite3

from arguments import arguments

from ottla.client import Consumer
from ottla.client.helpers.outside_offsets import OutsideOffsets, SqliteOffsets

args = arguments(__doc__, database="orders.db")

database = sqlite3.connect(args.database, timeout=30)
database.execute("CREATE TABLE IF NOT EXISTS orders (text TEXT)")
offsets = SqliteOffsets(database, args.group)

with Consumer(
    bootstrap_servers=args.bootstrap_server,
    group_id=args.group,
    group_instance_id=args.member,
    auto_offset_reset="earliest",
    enable_auto_commit=False,
    max_poll_records=100,
) as consumer:
    OutsideOffsets(consumer, offsets).subscribe([args.topic])  # seeks whenever partitions are assigned
    done = 0
    while not args.count or done < args.count:
        for records in consumer.poll(timeout_ms=1000).values():
            with offsets.transaction(records):
                rows = [(record.value.decode(),) for record in records]
                database.executemany("INSERT INTO orders VALUES (?)", rows)
            done += len(records)
            print(f"{done} records", flush=True)
database.close()
