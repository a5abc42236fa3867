"""A producer that repeats itself is answered faster, and not one byte differently."""

import asyncio
import uuid
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.controller.commands import ConfigResource, ResourceType
from ottla.core.clock import ManualClock
from ottla.core.errors import ErrorCode, ProtocolError
from ottla.core.ids import TopicPartition
from ottla.protocol.messages.produce import ProduceRequest
from ottla.records import legacy
from ottla.records.compression import Codec
from ottla.records.record import Record
from ottla.testing.broker import AsyncBroker
from tests.unit.broker.client import (
    PRODUCE,
    TIME_MS,
    Caller,
    batch,
    frame_of,
    joined,
    produce_frame,
    produced,
    response_of,
)
from tests.unit.broker.handlers.logs import copied

TOPICS = {
    "plain": {},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "narrow": {"max.message.bytes": "300"},
    "packed": {"compression.type": "gzip"},
    "careful": {"flush.messages": "1"},
    "compacted": {"cleanup.policy": "compact"},
    "strict": {"message.timestamp.after.max.ms": "1000"},
}
VERSIONS = range(14)
every_version = pytest.mark.parametrize("version", VERSIONS)
as_it_comes = pytest.mark.parametrize("kind", ["bytes", "view"])


class Side:
    """A broker, and one connection to it; with `is_short` it may learn shortcuts."""

    def __init__(self, broker, *, is_short):
        self.broker, self.node = broker, broker.node
        self.clock = self.node.clock = ManualClock(TIME_MS)
        self.caller = Caller(self.node, keeps_shortcut=is_short)

    def topic_id(self, name):
        image = self.node.metadata.topics.get(name)
        return uuid.UUID(int=7) if image is None else image.topic_id

    def frame(self, version, topic, data, kind="bytes", trailer=b"", **options):
        frame = produce_frame(version, topic, data, topic_id=self.topic_id(topic), **options) + trailer
        return frame if kind == "bytes" else memoryview(bytearray(frame))

    async def produce(self, version, topic, data, **options):
        """The reply, with the topic's id made the same on both sides; None if the request made no sense."""
        try:
            reply = await self.caller.ask(self.frame(version, topic, data, **options))
        except ProtocolError:
            return None
        return reply.replace(self.topic_id(topic).bytes, b"id of this topic")

    async def configure(self, topic, values):
        await self.node.controller.alter_configs(ConfigResource(ResourceType.TOPIC, topic), values)

    async def recreate(self, topic):
        await self.node.controller.delete_topics([topic])
        await self.create(topic)

    async def create(self, topic):
        settings = {key.replace(".", "_"): value for key, value in TOPICS[topic].items()}
        await self.broker.create_topic(topic, 2, **settings)

    def contents(self):
        """Everything that is stored, and everything that was counted."""
        logs = {
            place: (partition.log.log_start_offset, partition.log.end_offset, partition.high_watermark.value)
            for place, partition in self.node.replicas.partitions.items()
        }
        meters = {
            topic: (meter.bytes_in.value, meter.records_in.value)
            for topic, meter in self.node.topic_meters.items()
        }
        bad = self.node.metrics.bad_requests.labels().value
        return logs, meters, self.node.metrics.requests.labels("Produce").value, bad

    async def records(self):
        return [await self.broker.records(topic) for topic in TOPICS]


def play(main):
    """Run with two brokers that are alike, of which only the first takes shortcuts."""

    async def whole():
        async with AsyncBroker(memory=True) as one, AsyncBroker(memory=True) as other:
            sides = Side(one, is_short=True), Side(other, is_short=False)
            for side in sides:
                for topic in TOPICS:
                    await side.create(topic)
            await main(*sides)

    asyncio.run(asyncio.wait_for(whole(), 120))


# --- it is taken ----------------------------------------------------------------------------------------------------


@every_version
@as_it_comes
@pytest.mark.parametrize("topic", ["plain", "stamped"])
def test_every_version_has_a_shortcut_with_the_reply_of_the_long_way(version, kind, topic):
    async def main(short, long):
        for number in range(4):
            known = short.caller.shortcut
            options = {"correlation_id": number * 1000 - 1, "acks": -1, "kind": kind}
            data = batch(number + 1, value=bytes(number * 50))
            for side in (short, long):
                side.clock.advance(10)
            assert await short.produce(version, topic, data, **options) == await long.produce(
                version, topic, data, **options
            )
            assert (short.caller.shortcut is None) == (number == 0), "learned from two that are alike"
            assert number < 2 or short.caller.shortcut is known, "the long way would have learned anew"
        assert short.contents() == long.contents()
        assert await short.records() == await long.records()
        stored = await short.broker.records(topic)
        assert [record.offset for record in stored] == list(range(10))

    play(main)


# --- it changes nothing ---------------------------------------------------------------------------------------------


class Produce(NamedTuple):
    times: int
    version: int
    topic: str
    partition: int
    acks: int
    client_id: str | None
    contents: str
    size: int
    kind: str
    trailer: bytes


CONTENTS = (
    "records",
    "numbered",
    "numbered again",
    "numbered with a gap",
    "damaged",
    "cut off",
    "two batches",
    "gzip",
    "zstd",
    "a message set",
    "the future",
    "keyless",
    "nothing",
    "null",
    "one byte",
)


class Producer:
    """Makes up what a producer sends; the same for both sides."""

    def __init__(self):
        self._sequences = {}
        self._last = {}

    def data(self, produce):
        what, size, place = produce.contents, produce.size, (produce.topic, produce.partition)
        value = bytes(size)
        if what.startswith("numbered"):
            return self._numbered(what, place, value)
        if what == "two batches":
            return batch(1, value=value) + batch(2)
        if what == "damaged":
            return batch(2, value=value)[:-1] + b"?"
        if what == "a message set":
            return legacy.build([Record(0, TIME_MS, b"key", value)], 1)
        return {
            "cut off": batch(2, value=value)[:-3],
            "gzip": batch(2, value=value, codec=Codec.GZIP),
            "zstd": batch(2, value=value, codec=Codec.ZSTD),
            "the future": batch(2, value=value, timestamp=TIME_MS + 10**10),
            "keyless": batch(1, value=value, key=None),
            "nothing": b"",
            "null": None,
            "one byte": b"x",
        }.get(what, batch(size % 3 + 1, value=value))

    def _numbered(self, what, place, value):
        sequence = self._sequences.get(place, 0)
        if what == "numbered again" and place in self._last:
            return self._last[place]
        if what == "numbered with a gap":
            return batch(1, value=value, producer=(4, 0, sequence + 5))
        self._sequences[place] = sequence + 2
        self._last[place] = batch(2, value=value, producer=(4, 0, sequence))
        return self._last[place]


often = st.sampled_from
produces = st.builds(
    Produce,
    times=st.integers(1, 4),
    version=st.one_of(often([3, 7, 9, 13]), st.integers(0, 13)),
    topic=st.one_of(often(["plain", "stamped"]), often([*TOPICS, "nowhere"])),
    partition=often([0, 0, 0, 1, 9]),
    acks=often([1, 1, -1, -1, 0, 3]),
    client_id=often(["a", "a", "a", "b", "", None]),
    contents=st.one_of(often(["records", "numbered", "numbered again"]), often(CONTENTS)),
    size=often([0, 1, 30, 100, 127, 128, 400, 20_000]),
    kind=often(["bytes", "view"]),
    trailer=often([b"", b"", b"", b"", b"\0", b"\0\0\0", b"junk"]),
)
changes = st.one_of(
    st.tuples(often(["recreate"]), often(sorted(TOPICS))),
    st.tuples(often(["delete records"]), often(["plain", "stamped"])),
    st.tuples(often(["stamp", "unstamp", "narrow", "widen"]), often(["plain", "stamped"])),
    st.tuples(often(["later"]), st.none()),
)
SETTINGS = {
    "stamp": {"message.timestamp.type": "LogAppendTime"},
    "unstamp": {"message.timestamp.type": "CreateTime"},
    "narrow": {"max.message.bytes": "200"},
    "widen": {"max.message.bytes": "1000000"},
}


async def change(side, what, topic):
    if what == "recreate":
        await side.recreate(topic)
    elif what == "delete records":
        log = side.node.replicas.get(topic, 0).log
        log.advance_log_start(log.end_offset)
    elif what == "later":
        side.clock.advance(1000)
    else:
        await side.configure(topic, SETTINGS[what])


@settings(deadline=None, max_examples=80)
@given(st.lists(st.one_of(produces, produces, produces, changes), min_size=2, max_size=25))
def test_whatever_a_producer_sends_the_answers_and_the_logs_are_those_of_the_long_way(script):
    async def main(short, long):
        producer = Producer()
        for step in script:
            if not isinstance(step, Produce):
                for side in (short, long):
                    await change(side, *step)
                continue
            for number in range(step.times):
                options = {
                    "partition": step.partition,
                    "acks": step.acks,
                    "client_id": step.client_id,
                    "correlation_id": number,
                    "kind": step.kind,
                    "trailer": step.trailer,
                }
                data = producer.data(step)
                replies = [
                    await side.produce(step.version, step.topic, data, **options) for side in (short, long)
                ]
                assert replies[0] == replies[1]
                assert short.caller.closed == long.caller.closed
        assert short.contents() == long.contents()
        assert await short.records() == await long.records()

    play(main)


@as_it_comes
@pytest.mark.parametrize(("one", "other"), [(3, 4), (3, 5), (5, 8), (2, 0), (9, 10), (9, 12), (12, 9)])
def test_another_version_with_the_same_bytes_is_answered_in_its_own_words(kind, one, other):
    """The request looks the same but for two bytes; its reply does not."""

    async def main(short, long):
        for version in (one, one, one, other, other, other, one):
            replies = [await side.produce(version, "plain", batch(), kind=kind) for side in (short, long)]
            assert replies[0] == replies[1]

    play(main)


@pytest.mark.parametrize(
    "tail", [b"\xff" * 4, b"\xff" * 5, b"\x80" * 4, b"\x80\x80\x80\x80\0", b"\0\0\0", b""]
)
def test_a_length_that_makes_no_sense_is_nonsense_on_both_ways(tail):
    async def main(short, long):
        for side in (short, long):
            data = batch()
            for _ in range(3):
                await side.produce(9, "plain", data)
            frame = side.frame(9, "plain", data)
            start = frame[: len(frame) - 3 - len(data) - 1]
            with pytest.raises(ProtocolError):
                side.caller.serve(start + tail)
        assert short.contents() == long.contents()

    play(main)


def test_a_request_of_another_kind_with_the_same_bytes_is_not_taken_for_a_produce():
    async def main(short, long):
        for _ in range(3):
            await short.produce(9, "plain", batch())
        frame = bytearray(short.frame(9, "plain", batch()))
        frame[0:2] = (3).to_bytes(2, "big")  # Metadata
        before = short.contents()[0]
        reply = await short.caller.ask(bytes(frame))
        assert response_of(3, 9, reply)[1].cluster_id == short.node.cluster_id
        assert short.contents()[0] == before

    play(main)


@pytest.mark.parametrize("version", [7, 9])
def test_a_copy_of_the_records_behind_the_request_is_not_taken_for_the_records(version):
    """What follows a request is ignored; who sends it must not find that next time it is what counts."""

    async def main(short, long):
        data, rest = batch(value=b"real"), batch(value=b"junk")
        length = len(data).to_bytes(4, "big") if version == 7 else bytes([len(data) + 1])
        tail = b"" if version == 7 else bytes(3)
        for behind in (data, data, data, rest, rest):
            replies = [
                await side.produce(version, "plain", data, trailer=length + behind + tail)
                for side in (short, long)
            ]
            assert replies[0] == replies[1]
        assert await short.records() == await long.records()
        assert {record.value for record in await short.broker.records("plain")} == {b"real"}

    play(main)


# --- it is not taken ------------------------------------------------------------------------------------------------


def test_a_throttle_that_comes_later_is_asked_about_every_request():
    class Slow:
        def delay_ms(self, call, request_bytes, response):
            return 40

    async def main(short, long):
        for _ in range(3):
            await short.produce(9, "plain", batch())
        short.node.throttle = Slow()
        for _ in range(3):
            reply = await short.produce(9, "plain", batch())
            assert response_of(PRODUCE, 9, reply)[1].throttle_time_ms == 40
        assert short.caller.muted == [0.04] * 3

    play(main)


def test_an_authorizer_that_comes_later_is_asked_about_every_request():
    class Nobody:
        def allows(self, *_):
            return False

    async def main(short, long):
        for _ in range(3):
            await short.produce(9, "plain", batch())
        short.node.authorizer = Nobody()
        reply = await short.produce(9, "plain", batch())
        assert produced(9, reply).error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert len(await short.broker.records("plain")) == 3

    play(main)


def test_a_partition_that_is_led_by_another_is_not_written_to():
    async def main(short, long):
        for _ in range(3):
            await short.produce(9, "plain", batch())
        partition = short.node.replicas.get("plain", 0)
        partition.follow_orders(partition.state._replace(leader=99, leader_epoch=5, partition_epoch=9))
        reply = await short.produce(9, "plain", batch())
        assert produced(9, reply).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert partition.log.end_offset == 3

    play(main)


def test_with_a_follower_that_may_be_in_sync_soon_the_producer_takes_the_long_way_too():
    """The controller may have taken it into the ISR already: then what it lacks is not committed."""

    async def main(short, long):
        for _ in range(3):
            await short.produce(9, "plain", batch(), acks=-1)
        partition = short.node.replicas.get("plain", 0)
        state = partition.state
        partition.follow_orders(state._replace(replicas=(*state.replicas, 99), partition_epoch=9), 0)
        copied(partition, 99, 3, now_ms=1)
        assert partition.propose(1).members == {*state.isr, 99}
        waiting = short.caller.serve(short.frame(9, "plain", batch(), acks=-1, timeout_ms=60_000))
        assert not isinstance(waiting, list)
        copied(partition, 99, 4, now_ms=2)
        assert produced(9, joined(await waiting)).base_offset == 3

    play(main)


def test_with_a_follower_in_sync_the_producer_waits_for_it():
    async def main(short, long):
        for _ in range(3):
            await short.produce(9, "plain", batch(), acks=-1)
        partition = short.node.replicas.get("plain", 0)
        state = partition.state
        partition.follow_orders(
            state._replace(replicas=(*state.replicas, 99), isr=(*state.isr, 99), partition_epoch=9)
        )
        waiting = short.caller.serve(short.frame(9, "plain", batch(), acks=-1, timeout_ms=60_000))
        assert not isinstance(waiting, list)
        copied(partition, 99, 4)
        assert produced(9, joined(await waiting)).base_offset == 3

    play(main)


def test_a_flush_policy_that_comes_later_is_waited_for():
    async def main(short, long):
        for _ in range(3):
            await short.produce(9, "plain", batch())
        await short.configure("plain", {"flush.messages": "1"})
        waiting = short.caller.serve(short.frame(9, "plain", batch()))
        assert not isinstance(waiting, list)
        assert produced(9, joined(await waiting)).base_offset == 3
        assert short.node.replicas.get("plain", 0).log.recovery_point == 4

    play(main)


def test_nothing_overtakes_an_append_that_waits():
    async def main(short, long):
        await short.configure("packed", {"compression.type": "producer"})
        for _ in range(3):
            await short.produce(9, "packed", batch())
        await short.configure("packed", {"compression.type": "gzip"})
        first = short.caller.serve(short.frame(9, "packed", batch(value=bytes(300_000))))
        await short.configure("packed", {"compression.type": "producer"})
        second = short.caller.serve(short.frame(9, "packed", batch(value=b"second")))
        replies = [joined(each if isinstance(each, list) else await each) for each in (first, second)]
        assert [produced(9, reply).base_offset for reply in replies] == [3, 4]
        values = [record.value for record in await short.broker.records("packed")]
        assert values == [b"value"] * 3 + [bytes(300_000), b"second"]

    play(main)


def test_a_disk_that_fails_is_noticed():
    async def main(short, long):
        for side in (short, long):
            for _ in range(3):
                await side.produce(9, "plain", batch())
            side.node.replicas.get("plain", 0).log.failure = OSError("gone")
        replies = [await side.produce(9, "plain", batch()) for side in (short, long)]
        assert replies[0] == replies[1]
        assert produced(9, replies[0].replace(b"id of this topic", bytes(16))).error_code == 56
        assert not short.node.replicas.directories

    play(main)


def test_two_partitions_in_a_request_are_both_written_to():
    async def main(short, long):
        parts = [ProduceRequest.Topic.Partition(index=index, records=batch()) for index in (0, 1)]
        topic = ProduceRequest.Topic(name="plain", partition_data=parts)
        request = ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])
        for _ in range(3):
            await short.produce(9, "plain", batch())
            _, response = response_of(PRODUCE, 9, await short.caller.ask(frame_of(PRODUCE, 9, request)))
            answers = response.responses[0].partition_responses
            assert [(answer.index, answer.error_code) for answer in answers] == [(0, 0), (1, 0)]
        assert [record.partition for record in await short.broker.records("plain")] == [0] * 6 + [1] * 3

    play(main)


@every_version
def test_a_producer_that_changes_the_partition_every_time_is_told_which_one_it_was(version):
    async def main(short, long):
        for number in range(8):
            options = {"partition": number % 2, "correlation_id": number}
            replies = [await side.produce(version, "plain", batch(), **options) for side in (short, long)]
            assert replies[0] == replies[1]
            answer = produced(version, replies[0])
            assert (answer.index, answer.base_offset) == (number % 2, number // 2)

    play(main)


@every_version
@pytest.mark.parametrize("topic", ["zZZz", "ZzZZzz.zZZz", "zZ"])
def test_a_topic_whose_name_looks_like_a_mark_of_ours_is_none(version, topic):
    async def main(short, long):
        for side in (short, long):
            await side.broker.create_topic(topic, 2)
        for number in range(6):
            options = {"partition": number // 2 % 2, "correlation_id": number}
            replies = [await side.produce(version, topic, batch(), **options) for side in (short, long)]
            assert replies[0] == replies[1]

    play(main)


def test_an_error_is_told_every_time():
    async def main(short, long):
        for data in (batch(), batch(), batch()[:-1] + b"?", batch(), batch(value=bytes(2_000_000)), batch()):
            for _ in range(2):
                replies = [await side.produce(9, "plain", data) for side in (short, long)]
                assert replies[0] == replies[1]

    play(main)


def test_what_a_new_topic_of_the_same_name_gets_begins_at_zero():
    async def main(short, long):
        for side in (short, long):
            for _ in range(3):
                await side.produce(7, "plain", batch())
            await side.node.controller.delete_topics(["plain"])
        replies = [await side.produce(7, "plain", batch()) for side in (short, long)]
        assert replies[0] == replies[1]
        assert produced(7, replies[0]).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for side in (short, long):
            await side.create("plain")
            assert [produced(7, await side.produce(7, "plain", batch())).base_offset for _ in "abc"] == [
                0,
                1,
                2,
            ]
        assert TopicPartition("plain", 0) in short.node.replicas.partitions
        assert short.contents() == long.contents()

    play(main)
