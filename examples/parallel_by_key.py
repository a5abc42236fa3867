"""Eight threads for one consumer: records of one key in order, those of different keys in parallel.

At least once. An offset is committed when every record before it is done. A crash does the records again that were done
beyond the first unfinished one.
"""

from arguments import arguments

from ottla.client import Consumer, ConsumerRecord
from ottla.client.helpers.parallel import Parallel

args = arguments(__doc__)


def handle(record: ConsumerRecord) -> None:
    print(f"{record.key.decode()}: {record.value.decode()}\n", end="", flush=True)


with Consumer(
    bootstrap_servers=args.bootstrap_server,
    group_id=args.group,
    group_instance_id=args.member,
    auto_offset_reset="earliest",
    enable_auto_commit=False,
) as consumer:
    work = Parallel(consumer, handle, workers=8)
    work.subscribe([args.topic])
    work.run(args.count or None)
