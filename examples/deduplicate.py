"""Recognise messages that come twice, by the id in their header `message-id`.

The sender may send a message again, the reader may read it again after a crash: its effect is in the database once. The
id is written by the transaction that writes the effect, so there is no moment at which a crash could separate them.
"""

import sqlite3

from arguments import arguments

from ottla.client import Consumer
from ottla.client.helpers.dedup import Deduplicator, SharedSqliteStore, from_header

args = arguments(__doc__, database="orders.db")

database = sqlite3.connect(args.database, timeout=30)
database.execute("CREATE TABLE IF NOT EXISTS orders (text TEXT)")
once = Deduplicator(SharedSqliteStore(database), id_of=from_header("message-id"))

with Consumer(
    args.topic,
    bootstrap_servers=args.bootstrap_server,
    group_id=args.group,
    group_instance_id=args.member,
    auto_offset_reset="earliest",
    enable_auto_commit=False,
    max_poll_records=100,
) as consumer:
    done = 0
    while not args.count or done < args.count:
        for records in consumer.poll(timeout_ms=1000).values():
            with database:  # one transaction
                for record in records:
                    with once(record) as is_new:
                        if is_new:
                            database.execute("INSERT INTO orders VALUES (?)", (record.value.decode(),))
            done += len(records)
            print(f"{done} records", flush=True)
        consumer.commit()
database.close()
