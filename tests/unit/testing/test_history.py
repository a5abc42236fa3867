"""What clients write down, and how an error decides what may have happened."""

import threading

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.testing.history import Action, History, Outcome, Poll, Send, outcome_of


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (7, Outcome.INFO),
        (20, Outcome.INFO),
        (19, Outcome.FAIL),
        (6, Outcome.INFO),
        (0, Outcome.OK),
        (47, Outcome.INFO),
        (90, Outcome.INFO),
        (10, Outcome.FAIL),
        (12_345, Outcome.INFO),
        (ErrorCode.NOT_ENOUGH_REPLICAS, Outcome.FAIL),
        (KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND), Outcome.INFO),
        (KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS), Outcome.FAIL),
        (TimeoutError(), Outcome.INFO),
        (ConnectionResetError(), Outcome.INFO),
    ],
)
def test_only_what_was_surely_not_done_has_failed(error, outcome):
    assert outcome_of(error) is outcome


def test_an_operation_is_written_down_when_it_begins_and_when_it_ends():
    history = History(now_ns=iter(range(100)).__next__)
    client = history.client()
    client.subscribe(["x"]).ok()
    client.send("x", 1).ok([Send("x", 1, 5)])
    client.send("x", 2).refused(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "slow"))
    client.poll().ok([Poll({"x": [(5, 1)]})], rebalanced=["x"])
    client.txn([Send("x", 3)]).fail("aborted", [Send("x", 3), Poll({})])
    assert [(each.outcome, each.action) for each in history][1::2] == [
        (Outcome.OK, Action.SUBSCRIBE),
        (Outcome.OK, Action.SEND),
        (Outcome.INFO, Action.SEND),
        (Outcome.OK, Action.POLL),
        (Outcome.FAIL, Action.TXN),
    ]
    assert {each.outcome for each in list(history)[::2]} == {Outcome.INVOKE}
    assert [each.time_ns for each in history] == [each.number for each in history] == list(range(10))
    assert history.operations[3].steps == (Send("x", 1, 5),)
    assert history.operations[5].steps == (Send("x", 2),) and "slow" in history.operations[5].error
    assert history.operations[7].rebalanced == {"x"}


def test_a_batch_is_one_send_of_several_values():
    history = History()
    history.client().send("x", 1, 2)
    assert history.operations[0].steps == (Send("x", 1), Send("x", 2))


def test_a_client_does_one_thing_after_the_other_and_ends_it_once():
    client = History().client()
    pending = client.send("x", 1)
    with pytest.raises(AssertionError, match="two clients"):
        client.poll()
    pending.info()
    with pytest.raises(AssertionError, match="ends once"):
        pending.ok()


def test_many_threads_write_one_history():
    history = History()

    def work(client):
        for number in range(300):
            client.send("x", number).ok([Send("x", number, number)])

    threads = [threading.Thread(target=work, args=(history.client(),)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(history) == 6 * 600
    assert [each.number for each in history] == list(range(len(history)))
    assert len({each.process for each in history}) == 6
    times = [each.time_ns for each in history]
    assert times == sorted(times)


def test_an_operation_reads_as_a_sentence():
    history = History()
    client = history.client()
    client.txn([Send("x", "a"), Poll({})]).info(
        "timed out", [Send("x", "a", 7), Poll({"y": [(n, n) for n in range(9)]})]
    )
    text = str(history.operations[1])
    assert text.startswith("[1] process 0 info txn x <- 'a' at 7, y -> 0: 0, ")
    assert text.endswith("... 3 more (timed out)")
    assert "nothing" in str(history.operations[0])
