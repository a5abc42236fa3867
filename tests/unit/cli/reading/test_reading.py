"""An interrupt is noted once, and taken seriously the second time. A topic that is gone is not waited for."""

import contextlib
import io
import signal

import pytest

from ottla.cli.reading.encoders import value_lines
from ottla.cli.reading.output import Output
from ottla.cli.reading.progress import ReadProgress
from ottla.cli.reading.reading import Interrupts, Reading, Wish
from ottla.cli.reading.remarks import Remarks
from ottla.cli.reading.stretches import Stretches
from ottla.cli.remote import NOT_FOUND, Failed
from ottla.cli.targets import span_of
from ottla.client import Admin, Consumer, Producer
from ottla.client.errors import WakeupError
from ottla.core.ids import TopicPartition
from ottla.testing import Broker


def test_the_first_interrupt_wakes_and_is_raised_in_the_end():
    woken, done = [], []
    interrupts = Interrupts(lambda: woken.append(True))
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interrupts.noted():
        signal.raise_signal(signal.SIGINT)
        done.append(True)
        raise WakeupError("wakeup() was called")
    assert woken and done and signal.getsignal(signal.SIGINT) is before


def test_the_second_interrupt_does_not_wait():
    with pytest.raises(KeyboardInterrupt), Interrupts(lambda: None).noted():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it went on")


def test_without_an_interrupt_nothing_is_raised():
    with Interrupts(lambda: None).noted():
        pass


# --- a topic that goes away -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server():
    with Broker() as broker:
        yield broker.bootstrap_server


class Noted(Remarks):
    """Wakes the consumer when it has something to say."""

    def __init__(self, consumer):
        super().__init__("consume", is_quiet=True)
        self.sentences = []
        self._consumer = consumer

    def note(self, sentence):
        self.sentences.append(sentence)
        self._consumer.wakeup()


@pytest.fixture
def reading(server):
    """Of a topic with a record, that is deleted when the reading is about to begin."""

    @contextlib.contextmanager
    def reading(topic, ends):
        with Producer(bootstrap_servers=server) as producer:
            producer.send(topic, b"tea").get()
        settings = {"auto_offset_reset": "earliest", "allow_auto_create_topics": False}
        with Consumer(bootstrap_servers=server, **settings) as consumer:
            stretches = Stretches(consumer, span_of("end"), ends=ends, has_group=False)
            output = Output(io.StringIO())
            one = Reading(consumer, stretches, Wish(value_lines), output, has_group=False, patience=0)
            one.assign([TopicPartition(topic, 0)])
            stretches.stops = {
                place: stop + 1 for place, stop in stretches.stops.items()
            }  # it waits for one more
            with Admin(bootstrap_servers=server) as admin:
                admin.delete_topics([topic])
            yield one, Noted(consumer)

    return reading


def test_what_has_an_end_fails_when_its_topic_is_deleted(reading):
    with reading("ended", True) as (one, remarks), pytest.raises(Failed, match="'ended' any more") as failure:
        one.run(ReadProgress(is_quiet=True), remarks)
    assert failure.value.exit_code == NOT_FOUND


def test_what_has_no_end_says_that_its_topic_was_deleted_and_waits(reading):
    with reading("endless", False) as (one, remarks), pytest.raises(WakeupError):
        one.run(ReadProgress(is_quiet=True), remarks)
    assert remarks.sentences == ["there is no topic 'endless' any more: somebody has deleted it"]
