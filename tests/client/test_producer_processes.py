"""Producers at the edges of a process: its end, a fork, an interruption, its memory."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from ottla.client import Producer
from ottla.client.errors import BufferFullError, ClosedError, KafkaTimeoutError
from ottla.testing.broker import Broker


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker, request: pytest.FixtureRequest) -> str:
    name = f"t-{abs(hash(request.node.name))}"
    broker.create_topic(name)
    return name


def run(program: str, *arguments: str) -> str:
    """Run it in a process of its own, and return what it printed. It must not complain."""
    command = [sys.executable, "-W", "error", "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return done.stdout


def test_a_program_that_forgets_to_close_loses_nothing(broker, topic):
    program = """
import sys
from ottla.client import Producer
producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
for number in range(5000):
    producer.send(sys.argv[2], b"%d" % number)
"""
    run(program, broker.bootstrap_server, topic)
    assert [int(row.value) for row in broker.records(topic)] == list(range(5000))


def test_a_program_that_fails_loses_nothing_either(broker, topic):
    program = """
import sys
from ottla.client import Producer
producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
producer.send(sys.argv[2], b"0")
sys.exit(3)
"""
    done = subprocess.run([sys.executable, "-c", program, broker.bootstrap_server, topic], timeout=60)
    assert done.returncode == 3
    assert len(broker.records(topic)) == 1


def test_a_program_whose_broker_is_away_ends_nevertheless():
    program = """
import sys
from ottla.client.producer import blocking
blocking._EXIT_MS = 200
from ottla.client import Producer, errors
producer = Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=100)
try:
    producer.send("t", b"0")
except errors.NoBrokersAvailable:
    print("as expected")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "as expected\n"), done.stderr


def test_a_child_makes_its_own_producer_and_the_parents_goes_on(broker, topic):
    program = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
from ottla.client import Producer, errors
server, topic = sys.argv[1:]
producer = Producer(bootstrap_servers=server)
producer.send(topic, b"parent").get(30)
child = os.fork()
if not child:
    for call in (lambda: producer.send(topic, b"lost"), producer.flush):
        try:
            call()
        except errors.ClosedError as error:
            assert "before the fork" in str(error), error
        else:
            os._exit(1)
    producer.close()
    with Producer(bootstrap_servers=server) as mine:
        mine.send(topic, b"child").get(30)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
producer.send(topic, b"parent again").get(30)
producer.close()
"""
    run(program, broker.bootstrap_server, topic)
    assert [row.value for row in broker.records(topic)] == [b"parent", b"child", b"parent again"]


def test_a_million_records_in_a_small_buffer_take_no_more_memory_than_a_hundred_thousand(broker, topic):
    program = """
import sys
from ottla.client import Producer
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
settings = {"acks": 1, "buffer_memory": 4 * 1024 * 1024}
with Producer(bootstrap_servers=sys.argv[1], **settings) as producer:
    send, topic = producer.send, sys.argv[2]
    for number in range(100_000):
        send(topic, b"0123456789")
    before = resident()
    for number in range(900_000):
        send(topic, b"0123456789")
    print(resident() - before)
"""
    grown = int(run(program, broker.bootstrap_server, topic).split()[-1])
    assert grown < 16 * 1024 * 1024, f"{grown} bytes more"


def test_whoever_is_interrupted_while_waiting_can_go_on(broker, topic):
    broker.pause()
    try:
        with Producer(bootstrap_servers=broker.bootstrap_server, max_block_ms=60_000) as producer:
            for call in (lambda: producer.send(topic, b"0"), lambda: producer.partitions_for("u")):
                with pytest.raises(KeyboardInterrupt), _interrupted():
                    call()
            broker.resume()
            producer.send(topic, b"1").get(30)
            broker.pause()
            delivery = producer.send(topic, b"2")
            for call in (producer.flush, delivery.get):
                with pytest.raises(KeyboardInterrupt), _interrupted():
                    call()
            broker.resume()
            assert delivery.get(30).offset == 1
    finally:
        broker.resume()


class _interrupted:
    """As Ctrl-C a moment later."""

    def __enter__(self) -> None:
        self._timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.join()


def test_closing_that_is_interrupted_leaves_nobody_waiting(broker, topic):
    producer = Producer(bootstrap_servers=broker.bootstrap_server)
    producer.send(topic, b"1").get(30)
    broker.pause()
    try:
        delivery = producer.send(topic, b"2")
        with pytest.raises(KeyboardInterrupt), _interrupted():
            producer.close()
        assert isinstance(delivery.exception(timeout=30), ClosedError)
        with pytest.raises(ClosedError):
            producer.send(topic, b"3")
    finally:
        broker.resume()
    assert not [each for each in threading.enumerate() if each.name == "ottla-producer"]


def test_threads_that_wait_when_the_producer_is_closed_are_told(broker, topic):
    """One for room, one for a topic, one for its record: none of them stays behind."""
    producer = Producer(bootstrap_servers=broker.bootstrap_server, buffer_max_records=1, max_block_ms=-1)
    producer.send(topic, b"1").get(30)
    broker.pause()
    heard: list[BaseException] = []

    def told(call) -> None:
        try:
            call()
        except BaseException as error:
            heard.append(error)

    try:
        delivery = producer.send(topic, b"2")
        calls = [delivery.get, lambda: producer.send(topic, b"3"), lambda: producer.send("unknown", b"")]
        threads = [threading.Thread(target=told, args=(call,)) for call in calls]
        for each in threads:
            each.start()
        while len(producer._core.cluster._refreshing) == 0:
            time.sleep(0.001)
        producer.close(timeout=0.05)
        for each in threads:
            each.join(30)
        assert not any(each.is_alive() for each in threads)
        assert [type(error) for error in heard] == [ClosedError] * 3, heard
    finally:
        broker.resume()


def test_one_that_raises_when_the_buffer_is_full_does_not_wait(broker, topic):
    with pytest.warns(DeprecationWarning, match="block.on.buffer.full"):
        producer = Producer(
            bootstrap_servers=broker.bootstrap_server, block_on_buffer_full=False, buffer_max_records=2
        )
    with producer:
        producer.send(topic, b"0").get(30)
        broker.pause()
        try:
            deliveries = [producer.send(topic, b"%d" % number) for number in (1, 2)]
            with pytest.raises(BufferFullError):
                producer.send(topic, b"3")
            with pytest.raises(KafkaTimeoutError):
                producer.flush(timeout=0.01)
        finally:
            broker.resume()
        assert [each.get(30).offset for each in deliveries] == [1, 2]
