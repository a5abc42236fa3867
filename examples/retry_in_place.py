"""Try again where the record lies: its partition pauses, the others go on.

At least once, and the records of a partition stay in order: those behind one that fails wait for it. After five
attempts a record is dropped, with a line in the log. A crash starts the attempts anew.
"""

import logging
import random

from arguments import arguments

from ottla.client import Consumer, ConsumerRecord
from ottla.client.helpers.attempts import Attempts, drop
from ottla.client.helpers.retry import RetryInPlace

args = arguments(__doc__)
logging.basicConfig()


def handle(record: ConsumerRecord) -> None:
    if random.random() < 0.2:
        raise ConnectionError("the shop does not answer")
    print(record.value.decode(), flush=True)


with Consumer(
    args.topic,
    bootstrap_servers=args.bootstrap_server,
    group_id=args.group,
    group_instance_id=args.member,
    auto_offset_reset="earliest",
    enable_auto_commit=False,
) as consumer:
    attempts = Attempts(count=5, first_pause_ms=10, pause_ms_max=1000)  # 10, 20, 40, 80 ms
    RetryInPlace(consumer, handle, attempts, on_exhausted=drop).run(args.count or None)
