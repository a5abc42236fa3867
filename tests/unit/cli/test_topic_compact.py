"""`ottla topic compact`: what it prints, what it returns, and how it ends."""

import json
import signal
import threading
from contextlib import asynccontextmanager

import pytest

from ottla.cli.main import main
from ottla.core.loop_thread import LoopThread
from ottla.protocol.messages.compaction import CompactTopicsResponse
from tests.unit.cli.fake_cluster import fake_cluster
from tests.unit.cli.states import runner

Topic = CompactTopicsResponse.Topic
TOPICS = {"orders": {0: 1, 1: 2}, "quiet": {0: 1}, "plain": {0: 1, 1: 1}}
INVALID_CONFIG, DENIED = 40, 29


class Leaders:
    """Brokers that compact whatever is asked for, in two looks: first they copy, then they are done."""

    def __init__(self):
        self.runs = {}
        self.looks = {}
        self.on_look = lambda place: None
        self.are_gone = False

    def __call__(self, node_id, request):
        if self.are_gone:
            raise ConnectionError
        return CompactTopicsResponse(
            topics=[
                Topic(
                    name=topic.name,
                    partitions=[self._row((topic.name, at), request.start) for at in topic.partitions],
                )
                for topic in request.topics
            ]
        )

    def _row(self, place, start):
        topic, index = place
        if topic == "plain":
            return Topic.Partition(
                partition_index=index, error_code=INVALID_CONFIG, error_message="no policy"
            )
        if topic == "quiet":
            return Topic.Partition(partition_index=index, error_code=0, state="idle")
        if start:
            self.looks[place] = 0
            return self._told(index, "waiting", 0)
        self.looks[place] += 1
        self.on_look(place)
        return self._told(index, *(("copying", 0) if self.looks[place] == 1 else ("idle", 1)))

    def _told(self, index, state, runs):
        return Topic.Partition(
            partition_index=index,
            error_code=0,
            state=state,
            runs=runs,
            dirty_ratio=0.75,
            first_dirty_offset=100 * runs,
            end_offset=100,
            done_bytes=500,
            total_bytes=1000,
            bytes_before=1000,
            bytes_after=250,
            records_before=100,
            records_after=25,
        )


@asynccontextmanager
async def _served(leaders):
    async with fake_cluster(leaders, topics=TOPICS) as fake:
        yield f"127.0.0.1:{fake.ports[1]}"


@pytest.fixture
def leaders():
    return Leaders()


@pytest.fixture
def address(leaders):
    thread = LoopThread("brokers")
    serving = _served(leaders)
    yield thread.run(serving.__aenter__())
    thread.run(serving.__aexit__(None, None, None))
    thread.end()


@pytest.fixture
def ottla(address, capsys):
    return runner(capsys, address)


def test_without_waiting_it_is_begun_and_shown_as_it_stands(ottla, leaders):
    ran = ottla("topic", "compact", "orders")
    assert (ran.code, ran.err) == (0, "")
    assert ran.rows == [
        {"topic": "orders", "partition": number, "state": "waiting", "dirty_ratio": "0.750"}
        for number in ("0", "1")
    ]
    assert set(leaders.looks.values()) == {0}, "nobody looked again"


def test_waited_for_it_ends_with_bytes_and_records_before_and_after(ottla):
    ran = ottla("topic", "compact", "orders", "quiet", "--wait")
    assert (ran.code, ran.err) == (0, "")
    names = ["bytes_before", "bytes_after", "saved_percent", "records_before", "records_after"]
    assert [(row["topic"], row["partition"], *(row[name] for name in names)) for row in ran.rows] == [
        ("orders", "0", "1000", "250", "75.000", "100", "25"),
        ("orders", "1", "1000", "250", "75.000", "100", "25"),
        ("quiet", "0", "-", "-", "-", "-", "-"),
    ]


def test_one_partition_is_compacted_alone(ottla, leaders):
    ran = ottla("topic", "compact", "orders", "--partition", "1", "--wait", "--json")
    assert ran.json == {
        "partitions": [
            {
                "topic": "orders",
                "partition": 1,
                "bytes_before": 1000,
                "bytes_after": 250,
                "saved_percent": 75.0,
                "records_before": 100,
                "records_after": 25,
            }
        ],
        "failures": [],
    }
    assert list(leaders.looks) == [("orders", 1)]


def test_what_is_refused_is_said_once_for_all_partitions_that_are(ottla):
    ran = ottla("topic", "compact", "plain")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "ottla: plain:0,1: INVALID_CONFIG: no policy\n"


def test_when_a_part_fails_the_rest_is_done(ottla):
    ran = ottla("topic", "compact", "plain", "orders", "nowhere", "--wait", "--json")
    assert ran.code == 3
    assert [row["topic"] for row in json.loads(ran.out)["partitions"]] == ["orders", "orders"]
    failures = [
        "UNKNOWN_TOPIC_OR_PARTITION: there is no topic nowhere",
        "plain:0,1: INVALID_CONFIG: no policy",
    ]
    assert json.loads(ran.out)["failures"] == failures
    assert ran.err.splitlines() == [f"ottla: {each}" for each in failures]


@pytest.mark.parametrize("args", [["nowhere"], ["orders", "--partition", "7"]])
def test_a_topic_or_partition_that_does_not_exist_is_not_found(ottla, args):
    ran = ottla("topic", "compact", *args)
    assert (ran.code, ran.out) == (4, "")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in ran.err


def test_nobody_who_answers_is_exit_code_6(capsys):
    assert main(["topic", "compact", "orders", "-b", "127.0.0.1:1"]) == 6
    assert "cannot connect to 127.0.0.1:1" in capsys.readouterr().err


def test_a_name_that_no_topic_can_have_is_a_usage_error(ottla):
    ran = ottla("topic", "compact", "or ders")
    assert ran.code == 2
    assert ran.err.startswith("ottla topic compact: 'or ders' names no topic: the name ")


def test_a_broker_that_goes_away_while_it_is_waited_for_is_asked_again(ottla, leaders):
    gone = []

    def hang_up_once(place):
        if place == ("orders", 1) and not gone:
            gone.append(place)
            raise ConnectionError

    leaders.on_look = hang_up_once
    ran = ottla("topic", "compact", "orders", "--wait")
    assert (ran.code, ran.err, len(ran.rows)) == (0, "", 2)
    assert gone


def test_one_that_stays_away_is_not_waited_for_longer_than_an_answer_may_take(ottla, leaders):
    def hang_up(place):
        leaders.are_gone = True
        raise ConnectionError

    leaders.on_look = hang_up
    ran = ottla("topic", "compact", "orders", "--partition", "0", "--wait", "--timeout", "0.3")
    assert (ran.code, ran.out) == (6, "")
    assert "closed the connection" in ran.err


def test_an_interrupt_ends_the_waiting_and_says_what_goes_on(ottla, leaders):
    def interrupt(place):
        leaders.looks[place] = 1  # it is still being copied, whenever the interrupt is noticed
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    leaders.on_look = interrupt
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # other tests may have left it ignored
    try:
        ran = ottla("topic", "compact", "orders", "--wait")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (ran.code, ran.out) == (130, "")
    assert ran.err == "ottla: nobody waits any more, but the compaction goes on\n"


def test_people_get_a_sum(ottla, monkeypatch):
    monkeypatch.setattr("ottla.cli.topic_compact.is_for_people", lambda: True)
    assert ottla("topic", "compact", "orders", "--wait").out.endswith("saved 1.5 KiB of 2.0 KiB (75.0 %)\n")
    assert ottla("topic", "compact", "quiet", "--wait").out.endswith("there was nothing to compact\n")
