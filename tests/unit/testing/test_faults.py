"""Planted faults: who is struck, how often, and what happens to names that nobody knows."""

import asyncio
import inspect

import pytest

from ottla.broker.call import Call
from ottla.core.errors import ErrorCode, KafkaError
from ottla.testing.faults import Faults

PRODUCE, FETCH = 0, 1


def struck(faults: Faults, api_key: int = PRODUCE) -> ErrorCode | None:
    """What one request meets, now."""

    async def ask() -> ErrorCode | None:
        outcome = faults(Call(None, api_key, 9, 1, "me"), None)
        try:
            if inspect.isawaitable(outcome):
                outcome = await outcome
        except KafkaError as error:
            outcome = error
        return outcome.code if isinstance(outcome, KafkaError) else outcome

    return asyncio.run(ask())


def test_the_next_requests_of_an_api_fail_and_then_no_more():
    faults = Faults()
    faults.fail_next("Produce", "NOT_LEADER_OR_FOLLOWER", times=2)
    assert faults.pending == {"Produce": 2}
    assert struck(faults, FETCH) is None
    assert [struck(faults) for _ in range(3)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2 + [None]
    assert faults.pending == {}


def test_faults_strike_in_the_order_in_which_they_were_planted():
    faults = Faults()
    faults.fail_next("produce", "not_enough_replicas")
    faults.fail_next("PRODUCE", 7)
    assert [struck(faults) for _ in range(3)] == [19, 7, None]


def test_a_delay_lasts_until_it_is_taken_back():
    faults = Faults()
    faults.delay("Fetch", 0.001)
    faults.fail_next("Fetch", "CORRUPT_MESSAGE")
    assert struck(faults, FETCH) == ErrorCode.CORRUPT_MESSAGE
    waiting = faults(Call(None, FETCH, 9, 1, "me"), None)
    assert inspect.iscoroutine(waiting)
    waiting.close()
    faults.delay("Fetch", 0)
    assert struck(faults, FETCH) is None


def test_while_paused_requests_wait_and_go_on_in_their_order():
    faults = Faults()
    order = []

    async def ask(number: int) -> None:
        outcome = faults(Call(None, PRODUCE, 9, number, "me"), None)
        assert inspect.isawaitable(outcome)
        await outcome
        order.append(number)

    async def scenario() -> None:
        faults.pause()
        asked = [asyncio.create_task(ask(number)) for number in range(3)]
        await asyncio.sleep(0)
        assert order == []
        await asyncio.to_thread(faults.resume)
        await asyncio.gather(*asked)
        assert order == [0, 1, 2]

    asyncio.run(scenario())


def test_who_was_held_still_meets_what_was_planted_for_it():
    faults = Faults()
    faults.fail_next("Produce", "REQUEST_TIMED_OUT")

    async def scenario() -> None:
        faults.pause()
        outcome = faults(Call(None, PRODUCE, 9, 1, "me"), None)
        faults.resume()
        with pytest.raises(KafkaError) as failure:
            await outcome
        assert failure.value.code == ErrorCode.REQUEST_TIMED_OUT

    asyncio.run(scenario())


def test_resuming_after_the_broker_has_gone_is_no_error():
    faults = Faults()
    faults.pause()

    async def scenario() -> None:
        waiting = asyncio.ensure_future(faults(Call(None, PRODUCE, 9, 1, "me"), None))
        await asyncio.sleep(0)
        waiting.cancel()

    asyncio.run(scenario())
    faults.resume()


def test_clear_takes_everything_back():
    faults = Faults()
    faults.fail_next("Produce", "REQUEST_TIMED_OUT")
    faults.delay("Produce", 100)
    faults.pause()
    faults.clear()
    assert struck(faults) is None


@pytest.mark.parametrize(
    ("api", "error", "sentence"),
    [
        ("Prodduce", "REQUEST_TIMED_OUT", "no API is called 'Prodduce'; did you mean Produce?"),
        ("Produce", "NOT_LEADER", "no error is called 'NOT_LEADER'; did you mean NOT_LEADER_OR_FOLLOWER?"),
        ("Produce", 9999, "no error is called 9999"),
        ("Produce", "NONE", "NONE is not an error"),
        ("DescribeQuorum", "NOT_CONTROLLER", "does not serve DescribeQuorum"),
    ],
)
def test_a_name_that_nobody_knows_is_refused_at_once(api, error, sentence):
    with pytest.raises(ValueError, match=sentence.replace("?", r"\?")):
        Faults().fail_next(api, error)


def test_numbers_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="at least once"):
        Faults().fail_next("Produce", "REQUEST_TIMED_OUT", times=0)
    with pytest.raises(ValueError, match="0 to 3600 seconds, not -1"):
        Faults().delay("Produce", -1)
