"""From topic to topic on an event loop: what was read together is worked on together.

At least once: offsets are committed when all results are acknowledged. A crash before that makes the results of up to
`max_poll_records` records be written again. The results keep the order of the records.
"""

import asyncio

from arguments import arguments

from ottla.client import AsyncConsumer, AsyncProducer, ConsumerRecord

args = arguments(__doc__, output="receipts")


async def price(record: ConsumerRecord) -> bytes:
    await asyncio.sleep(0.001)  # a question to another service
    return record.value + b": 3 euros"


async def main() -> None:
    async with (
        AsyncProducer(bootstrap_servers=args.bootstrap_server) as producer,
        AsyncConsumer(
            args.topic,
            bootstrap_servers=args.bootstrap_server,
            group_id=args.group,
            group_instance_id=args.member,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        ) as consumer,
    ):
        done = 0
        while not args.count or done < args.count:
            batches = await consumer.poll(timeout_ms=1000)
            records = [record for records in batches.values() for record in records]
            results = await asyncio.gather(*map(price, records))
            sent = [
                await producer.send(args.output, result, key=record.key)
                for record, result in zip(records, results, strict=True)
            ]
            for delivery in sent:
                await delivery  # raises if it was not written
            await consumer.commit()
            done += len(records)


asyncio.run(main())
