"""From a frame to a reply, whatever happens in between."""

import asyncio
import logging

import pytest

from ottla.broker.apis import SERVED
from ottla.broker.dispatch import EXEMPT, WRITE_TXN_MARKERS
from ottla.core.errors import ErrorCode, KafkaError, ProtocolError
from ottla.network.peer import connect
from ottla.protocol.messages.metadata import (
    ApiVersionsRequest,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.messages.sasl import SaslHandshakeRequest
from ottla.protocol.messages.transactions import WriteTxnMarkersRequest
from ottla.testing.broker import AsyncBroker
from tests.unit.broker.client import (
    PRODUCE,
    Caller,
    batch,
    fetch_frame,
    frame_of,
    produce_frame,
    produced,
    response_of,
)

DESCRIBE_CLUSTER, API_VERSIONS, SASL_HANDSHAKE = 60, 18, 17
VERSION = 1


def play(main):
    """Run with a broker in memory; nothing may be left running for its requests."""

    async def whole():
        async with AsyncBroker(memory=True) as broker:
            await broker.create_topic("tea", 2)
            before = asyncio.all_tasks()
            await asyncio.wait_for(main(broker, Caller(broker.node)), 60)
            while asyncio.all_tasks() - before:
                await asyncio.sleep(0)

    asyncio.run(whole())


def describe(**header):
    return frame_of(
        DESCRIBE_CLUSTER,
        VERSION,
        DescribeClusterRequest(include_cluster_authorized_operations=False),
        **header,
    )


async def handled_by(caller, handler):
    """Put a handler of the test's in the place of DescribeCluster's."""
    await caller.ask(describe())
    caller.node.dispatch._routes[DESCRIBE_CLUSTER << 16 | VERSION].handler = handler


def answer(code=0):
    return DescribeClusterResponse(error_code=code, cluster_id="c", controller_id=1, brokers=[])


async def error_of(caller, **header):
    return response_of(DESCRIBE_CLUSTER, VERSION, await caller.ask(describe(**header)))[1].error_code


def bad_requests(node):
    return node.metrics.bad_requests.labels().value


# --- what is no request ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        bytes(7),
        b"\x7f\xff\0\0" + bytes(10),
        b"\xff\xff\xff\xff" + bytes(10),
        b"\0\3\0\x63" + bytes(10),
        b"\0\3\xff\xff" + bytes(10),
        b"\0\0\0\x63" + bytes(10),
        frame_of(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN")),
        describe()[:-1],
        b"\0\3\0\1" + bytes(4) + b"\0\1\xff",
    ],
)
def test_nonsense_is_no_request_and_is_counted(frame):
    async def main(broker, caller):
        for count in (1, 2):
            with pytest.raises(ProtocolError):
                caller.serve(frame)
            assert bad_requests(broker.node) == count

    play(main)


def test_an_api_that_is_known_but_not_served_is_named():
    async def main(broker, caller):
        with pytest.raises(ProtocolError, match="SaslHandshake v1 is not served here"):
            caller.serve(frame_of(SASL_HANDSHAKE, 1, SaslHandshakeRequest(mechanism="PLAIN")))

    if SASL_HANDSHAKE not in SERVED:
        play(main)


@pytest.mark.parametrize("version", [b"\0\5", b"\x7f\xff"])
def test_who_asks_for_versions_in_one_yet_to_come_is_told_in_the_oldest(version):
    async def main(broker, caller):
        reply = await caller.ask(b"\0\x12" + version + b"\0\0\0\x2a" + b"whatever that may be")
        correlation_id, response = response_of(API_VERSIONS, 0, reply)
        assert (correlation_id, response.error_code) == (42, ErrorCode.UNSUPPORTED_VERSION)
        offered = {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}
        assert offered[API_VERSIONS] == (0, 4)
        assert bad_requests(broker.node) == 0

    play(main)


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_the_first_question_is_answered_in_its_own_words(version):
    async def main(broker, caller):
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        reply = await caller.ask(frame_of(API_VERSIONS, version, request, correlation_id=-7))
        correlation_id, response = response_of(API_VERSIONS, version, reply)
        assert (correlation_id, response.error_code) == (-7, 0)
        assert {row.api_key for row in response.api_keys} <= SERVED.keys()

    play(main)


# --- handlers -------------------------------------------------------------------------------------------------------


def plain(work):
    return lambda broker, call, request: work()


def at_once(work):
    async def handler(broker, call, request):
        return work()

    return handler


def later(work):
    async def handler(broker, call, request):
        await asyncio.sleep(0)
        return work()

    return handler


every_kind = pytest.mark.parametrize("kind", [plain, at_once, later])


@every_kind
def test_a_handler_answers_at_once_or_when_it_can(kind):
    async def main(broker, caller):
        await handled_by(caller, kind(lambda: answer(0)))
        reply = caller.serve(describe(correlation_id=99))
        assert isinstance(reply, list) == (kind is not later)
        parts = reply if isinstance(reply, list) else await reply
        assert response_of(DESCRIBE_CLUSTER, VERSION, b"".join(map(bytes, parts)))[0] == 99

    play(main)


def raising(error):
    def work():
        raise error

    return work


@every_kind
def test_an_error_of_kafka_is_answered_with_its_code_and_counted(kind):
    async def main(broker, caller):
        error = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not for you")
        await handled_by(caller, kind(raising(error)))
        assert await error_of(caller) == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        errors = broker.node.metrics.request_errors
        assert errors.labels("DescribeCluster", "CLUSTER_AUTHORIZATION_FAILED").value == 1
        assert not caller.closed

    play(main)


@every_kind
def test_any_other_error_is_told_in_the_log_and_answered(kind, caplog):
    async def main(broker, caller):
        await handled_by(caller, kind(raising(ZeroDivisionError("our mistake"))))
        assert await error_of(caller) == ErrorCode.UNKNOWN_SERVER_ERROR
        assert not caller.closed

    with caplog.at_level(logging.ERROR):
        play(main)
    assert "DescribeCluster v1 failed" in caplog.text and "ZeroDivisionError: our mistake" in caplog.text


@every_kind
def test_a_request_whose_contents_make_no_sense_closes_the_connection(kind):
    async def main(broker, caller):
        await handled_by(caller, kind(raising(ProtocolError("a session of the wrong kind"))))
        assert await caller.ask(describe()) == b""
        assert caller.closed == ["a session of the wrong kind"]

    play(main)


@every_kind
def test_an_answer_that_cannot_be_written_is_an_error_of_ours_and_answered_as_one(kind, caplog):
    async def main(broker, caller):
        await handled_by(caller, kind(lambda: answer(code=10**9)))
        assert await error_of(caller) == ErrorCode.UNKNOWN_SERVER_ERROR
        await handled_by(caller, kind(lambda: answer("no number")))
        assert await error_of(caller) == ErrorCode.UNKNOWN_SERVER_ERROR

    with caplog.at_level(logging.ERROR):
        play(main)
    assert "a response to DescribeCluster cannot be written" in caplog.text


@every_kind
def test_no_answer_is_no_reply(kind):
    async def main(broker, caller):
        await handled_by(caller, kind(lambda: None))
        assert await caller.ask(describe()) == b""
        assert not caller.closed

    play(main)


def test_a_handler_that_waits_can_be_cancelled_and_cleans_up():
    cleaned = []

    async def handler(broker, call, request):
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cleaned.append(True)

    async def main(broker, caller):
        await handled_by(caller, handler)
        task = caller.serve(describe())
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cleaned == [True]

    play(main)


def test_a_handler_knows_who_asks():
    calls = []

    async def main(broker, caller):
        await handled_by(caller, lambda node, call, request: calls.append((node, call)) or answer())
        await caller.ask(describe(correlation_id=5, client_id="kühn"))
        await caller.ask(describe(correlation_id=6, client_id=None))
        (node, call), (_, nameless) = calls
        assert node is broker.node and call.connection is caller
        assert (call.api_key, call.version, call.correlation_id) == (DESCRIBE_CLUSTER, VERSION, 5)
        assert (call.client_id, nameless.client_id, nameless.correlation_id) == ("kühn", None, 6)

    play(main)


# --- produce --------------------------------------------------------------------------------------------------------


def test_who_wants_no_answer_gets_none_and_is_closed_if_it_fails():
    async def main(broker, caller):
        assert await caller.ask(produce_frame(7, "tea", batch(), acks=0)) == b""
        assert not caller.closed
        assert await caller.ask(produce_frame(7, "nowhere", batch(), acks=0)) == b""
        assert "nowhere-0 failed: UNKNOWN_TOPIC_OR_PARTITION" in caller.closed[0]
        assert len(await broker.records("tea")) == 1

    play(main)


def test_who_wants_no_answer_is_closed_also_if_the_whole_request_fails():
    async def main(broker, caller):
        broker.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER")
        assert await caller.ask(produce_frame(7, "tea", batch(), acks=0)) == b""
        assert len(caller.closed) == 1

    play(main)


def test_requests_of_one_connection_are_appended_in_the_order_they_came_in():
    """Also when the first has to be opened by a thread, and the others need not."""

    async def main(broker, caller):
        await broker.create_topic("small", compression_type="gzip")
        large = batch(1, value=bytes(300_000))
        replies = [caller.serve(produce_frame(7, "small", large))]
        replies += [caller.serve(produce_frame(7, "small", batch(value=b"%d" % n))) for n in range(20)]
        replies += [caller.serve(produce_frame(7, "tea", batch(value=b"%d" % n))) for n in range(5)]
        replies = [each if isinstance(each, list) else await each for each in replies]
        offsets = [produced(7, b"".join(map(bytes, parts))).base_offset for parts in replies]
        assert offsets == [*range(21), *range(5)]
        assert caller.appending is None

    play(main)


# --- throttle -------------------------------------------------------------------------------------------------------


class Slow:
    def __init__(self, delay_ms):
        self.ms = delay_ms
        self.asked = []

    def delay_ms(self, call, request_bytes, response):
        self.asked.append((call.api_key, request_bytes, type(response).__name__))
        return self.ms


def test_who_is_throttled_is_told_so_and_not_read_from():
    async def main(broker, caller):
        broker.node.throttle = throttle = Slow(250)
        frame = produce_frame(7, "tea", batch())
        _, response = response_of(PRODUCE, 7, await caller.ask(frame))
        assert (response.throttle_time_ms, response.responses[0].partition_responses[0].error_code) == (
            250,
            0,
        )
        assert caller.muted == [0.25]
        assert throttle.asked == [(PRODUCE, len(frame), "ProduceResponse")]
        assert broker.node.metrics.throttled_ms.labels().value == 250

    play(main)


@pytest.mark.parametrize("key", sorted(SERVED))
def test_an_answer_has_a_place_to_tell_of_a_throttle_or_there_is_none(key):
    assert hasattr(SERVED[key].api.response, "throttle_time_ms") == (key not in EXEMPT)


def test_markers_are_never_throttled():
    async def main(broker, caller):
        broker.node.throttle = throttle = Slow(250)
        await caller.ask(frame_of(WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(markers=[])))
        assert (caller.muted, throttle.asked) == ([], [])

    play(main)


def test_who_is_not_throttled_is_not_muted():
    async def main(broker, caller):
        broker.node.throttle = Slow(0)
        await caller.ask(produce_frame(7, "tea", batch()))
        assert caller.muted == []

    play(main)


# --- faults ---------------------------------------------------------------------------------------------------------


def test_what_tests_plant_comes_before_the_handler():
    async def main(broker, caller):
        met, dispatch = [], broker.node.dispatch

        async def wait():
            await asyncio.sleep(0)
            met.append("waited")

        dispatch.faults += [
            lambda call, request: met.append(call.api_key),
            lambda call, request: 0.001,
            lambda call, request: wait(),
        ]
        assert await error_of(caller) == 0
        assert met == [DESCRIBE_CLUSTER, "waited"]
        dispatch.faults.append(lambda call, request: KafkaError(ErrorCode.REQUEST_TIMED_OUT, "on demand"))
        assert await error_of(caller) == ErrorCode.REQUEST_TIMED_OUT

    play(main)


def test_a_fault_strikes_a_producer_in_the_middle_of_its_stride():
    async def main(broker, caller):
        frame = produce_frame(7, "tea", batch())
        codes = []
        for number in range(8):
            if number in (3, 5):
                broker.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER")
            codes.append(produced(7, await caller.ask(frame)).error_code)
        assert codes == [0, 0, 0, 6, 0, 6, 0, 0]
        assert caller.shortcut is not None, "without a fault it is served as in production"

    play(main)


# --- all of it, over a socket ---------------------------------------------------------------------------------------


def test_a_long_poll_does_not_keep_those_behind_it_from_being_done_but_from_being_told():
    async def main(broker, caller):
        async with await connect("127.0.0.1", broker.port) as peer:
            assert (
                await peer.send(DescribeClusterRequest(include_cluster_authorized_operations=False))
            ).error_code == 0
        fetching = caller.serve(fetch_frame("tea", 0, max_wait_ms=60_000))
        assert not fetching.done()
        await caller.ask(produce_frame(7, "tea", batch()))
        assert await fetching

    play(main)
