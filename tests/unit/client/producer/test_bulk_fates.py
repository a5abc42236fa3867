"""Whatever brokers answer, many records at once are all accounted for: what is acknowledged lies in the log once and in
order, and what failed does not lie there."""

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client import AsyncAdmin, AsyncProducer
from ottla.testing.broker import AsyncBroker

ERRORS = [
    "NOT_LEADER_OR_FOLLOWER",
    "NOT_ENOUGH_REPLICAS",
    "MESSAGE_TOO_LARGE",
    "INVALID_RECORD",
    "CORRUPT_MESSAGE",
]
STEPS = st.one_of(
    st.tuples(st.just("many"), st.integers(0, 60)),
    st.tuples(st.just("rows"), st.integers(0, 30)),
    st.tuples(st.just("one"), st.just(1)),
    st.tuples(st.just("fail"), st.sampled_from(ERRORS)),
    st.tuples(st.just("grow"), st.just(1)),
    st.tuples(st.just("flush"), st.just(0)),
)
LIMITS = st.fixed_dictionaries(
    {
        "batch_size": st.sampled_from([0, 100, 400, 16384]),
        "buffer_memory": st.sampled_from([700, 3000, 1 << 20]),
        "batch_max_records": st.sampled_from([0, 3]),
        "max_in_flight_requests_per_connection": st.sampled_from([1, 5]),
    }
)


class Fates:
    """What was handed in, numbered, and what became of it."""

    def __init__(self, broker, producer, topic):
        self._broker, self._producer, self._topic = broker, producer, topic
        self._stretches, self._single = [], []
        self._count = 0

    def _numbered(self, count):
        self._count += count
        return [
            b"%06d" % number + b"." * (number % 7 * 9) for number in range(self._count - count, self._count)
        ]

    async def do(self, step, what):
        if step == "fail":
            self._broker.fail_next("Produce", what)
        elif step == "flush":
            await self._producer.flush()
        elif step == "grow":
            async with AsyncAdmin(bootstrap_servers=self._broker.bootstrap_server) as admin:
                count = len(await self._producer.partitions_for(self._topic))
                await admin.create_partitions({self._topic: count + 1})
            await self._producer._core.cluster.refresh([self._topic])
        else:
            await self._send(step, self._numbered(what))

    async def _send(self, step, values):
        if step == "one":
            self._single.append((values[0], await self._producer.send(self._topic, values[0])))
            return

        def placed(stretches):
            for each in stretches:
                self._stretches.append((each, [values[place] for place in each.origins]))

        if step == "many":
            keys = [value[:6] if number % 3 else None for number, value in enumerate(values)]
            await self._producer.send_many(self._topic, values, keys, placed=placed)
        else:
            await self._producer.send_rows(
                self._topic, [(5, None, value, ()) for value in values], placed=placed
            )

    async def check(self):
        await self._producer.flush()
        acknowledged = failed = 0
        for stretch, values in self._stretches:
            settled = stretch.settled()
            assert stretch.count == len(values) == settled.acknowledged + settled.failed
            assert (settled.error is None) == (settled.failed == 0)
            acknowledged, failed = acknowledged + settled.acknowledged, failed + settled.failed
        for _, delivery in self._single:
            good = delivery.exception() is None
            acknowledged, failed = acknowledged + good, failed + (not good)
        assert acknowledged + failed == self._count
        found = [
            [each.value for each in await self._broker.records(self._topic, number, timeout=0)]
            for number in range(len(await self._producer.partitions_for(self._topic)))
        ]
        assert all(each == sorted(set(each)) for each in found)
        assert sum(map(len, found)) == acknowledged
        metrics = self._producer.metrics()
        assert (metrics["buffered_bytes"], metrics["buffered_records"]) == (0, 0)


@given(st.lists(st.tuples(LIMITS, st.lists(STEPS, max_size=12)), min_size=8, max_size=8))
@settings(max_examples=6, deadline=None)
def test_every_record_is_acknowledged_and_in_the_log_or_failed_and_not(runs):
    async def one(broker, number, limits, steps):
        await broker.create_topic(f"t{number}", 1 + number % 3)
        async with AsyncProducer(
            bootstrap_servers=broker.bootstrap_server, retry_backoff_ms=1, retry_backoff_max_ms=5, **limits
        ) as producer:
            fates = Fates(broker, producer, f"t{number}")
            for step in steps:
                await fates.do(*step)
            await fates.check()
        broker.faults.clear()

    async def run():
        async with AsyncBroker(memory=True) as broker:
            for number, (limits, steps) in enumerate(runs):
                await one(broker, number, limits, steps)

    asyncio.run(run())
