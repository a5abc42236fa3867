"""Put aside what fails and go on: `orders.retry.1`, `orders.retry.2`, and in the end `orders.dlq`.

At least once. Nothing waits for a record that fails, so it is overtaken by those behind it. Its copy is acknowledged
before its offset is committed: a crash in between copies it twice, and loses nothing. The headers of a dead letter say
where it comes from, how often it was tried, and why it failed.
"""

from arguments import arguments

from ottla.client import Consumer, ConsumerRecord, Producer
from ottla.client.helpers.retry_topics import RetryPlan, RetryTopics

args = arguments(__doc__)
plan = RetryPlan(args.topic, delays_ms=[100, 500])


def handle(record: ConsumerRecord) -> None:
    print(int(record.value), flush=True)  # raises ValueError if it is no number


with (
    Producer(bootstrap_servers=args.bootstrap_server) as producer,
    Consumer(
        *plan.topics,
        bootstrap_servers=args.bootstrap_server,
        group_id=args.group,
        group_instance_id=args.member,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer,
):
    RetryTopics(consumer, producer, handle, plan).run(args.count or None)
