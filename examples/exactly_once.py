"""Exactly once, from topic to topic: results and offsets are one transaction.

Whoever reads the output with `isolation_level="read_committed"` sees the result of every record once. A crash leaves a
transaction that is aborted when the program starts again: its results are never seen, its records are read again.
Only what is sent by this producer is part of it. An email is not.
"""

from arguments import arguments

from ottla.client import Consumer, Producer

args = arguments(__doc__, output="receipts")

with (
    Producer(
        bootstrap_servers=args.bootstrap_server,
        transactional_id=args.member or args.group,  # each running copy of this program needs its own
    ) as producer,
    Consumer(
        bootstrap_servers=args.bootstrap_server,
        group_id=args.group,
        group_instance_id=args.member,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        max_poll_records=100,
    ) as consumer,
):
    producer.init_transactions()  # ends what a crashed predecessor has left open
    consumer.subscribe([args.topic])
    done = 0
    while not args.count or done < args.count:
        batches = consumer.poll(timeout_ms=1000)
        if not batches:
            continue
        with producer.transaction():
            for records in batches.values():
                for record in records:
                    producer.send(args.output, record.value.upper(), key=record.key)
                    done += 1
            offsets = {partition: records[-1].offset + 1 for partition, records in batches.items()}
            producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        print(f"{done} records", flush=True)
