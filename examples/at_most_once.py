"""At most once: commit, then work.

No record is worked on twice. A crash loses what was committed and not worked on yet: up to `max_poll_records`.
For readings of sensors, live positions: where a record that is missing is better than one too many.
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
        batches = consumer.poll(timeout_ms=1000)
        consumer.commit()  # from here on these records count as done
        for records in batches.values():
            for record in records:
                print(record.value.decode(), flush=True)  # the work
                done += 1
