"""At least once: work, then commit.

No record is lost. After a crash the records since the last commit are worked on again: up to `max_poll_records`.
For work that may happen twice: setting a value, writing a file, whatever can recognise a duplicate.
"""

from arguments import arguments

from ottla.client import Consumer

args = arguments(__doc__)

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
            for record in records:
                print(record.value.decode(), flush=True)  # the work
                done += 1
        consumer.commit()
