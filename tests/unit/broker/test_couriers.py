"""What waits for the same broker travels together, and nobody waits for a broker that is gone."""

import asyncio
from functools import wraps

import pytest

from ottla.broker.couriers import UNDER_WAY_MAX, Couriers
from ottla.network.peer import PeerClosed


def scenario(test):
    @wraps(test)
    def inner():
        asyncio.run(asyncio.wait_for(test(), 60))

    return inner


class Peers:
    """Connections that are there at once, or refused."""

    def __init__(self):
        self.refused = set()
        self.dropped = []

    async def to(self, broker_id, purpose):
        if broker_id in self.refused:
            raise PeerClosed("nobody there")
        return broker_id

    def drop(self, purpose):
        self.dropped.append(purpose)


class Post:
    """Carries questions, and answers them with their broker when it is let."""

    def __init__(self):
        self.trips = []
        self.open = asyncio.Event()
        self.error = None

    async def __call__(self, peer, questions):
        self.trips.append(list(questions))
        await self.open.wait()
        if self.error is not None:
            raise self.error
        return [(peer, each) for each in questions]


def couriers(identity=id):
    post = Post()
    return Couriers(Peers(), post, identity), post


async def turn():
    for _ in range(5):
        await asyncio.sleep(0)


@scenario
async def test_what_is_asked_in_one_turn_goes_together_and_to_each_its_own_answer():
    asked, post = couriers()
    post.open.set()
    answers = await asyncio.gather(*(asked.ask(1, word) for word in "abc"), asked.ask(2, "d"))
    assert answers == [(1, "a"), (1, "b"), (1, "c"), (2, "d")]
    assert sorted(post.trips) == [["a", "b", "c"], ["d"]]
    await asked.close()


@scenario
async def test_only_so_many_requests_are_under_way_and_the_rest_goes_with_the_next():
    asked, post = couriers()
    waiting = []
    for number in range(UNDER_WAY_MAX + 3):
        waiting.append(asyncio.ensure_future(asked.ask(1, number)))
        await turn()
    assert post.trips == [[number] for number in range(UNDER_WAY_MAX)]
    post.open.set()
    assert [answer for _, answer in await asyncio.gather(*waiting)] == list(range(UNDER_WAY_MAX + 3))
    assert post.trips[UNDER_WAY_MAX] == [UNDER_WAY_MAX, UNDER_WAY_MAX + 1, UNDER_WAY_MAX + 2]
    await asked.close()


@scenario
async def test_two_of_one_identity_do_not_travel_together():
    asked, post = couriers(identity=lambda question: question[0])
    post.open.set()
    await asyncio.gather(*(asked.ask(1, question) for question in ("t1", "u1", "t2")))
    assert post.trips == [["t1", "u1"], ["t2"]]
    await asked.close()


@scenario
async def test_who_asks_learns_that_there_is_no_answer_and_can_ask_again():
    asked, post = couriers()
    post.open.set()
    post.error = PeerClosed("it hung up")
    with pytest.raises(PeerClosed):
        await asked.ask(1, "a")
    post.error = None
    asked._peers.refused.add(1)
    with pytest.raises(PeerClosed):
        await asked.ask(1, "b")
    asked._peers.refused.clear()
    assert await asked.ask(1, "c") == (1, "c")
    assert len(asked._peers.dropped) == 2
    await asked.close()


@scenario
async def test_nobody_waits_for_a_broker_that_is_not_alive_any_more():
    asked, post = couriers()
    gone, alive = (asyncio.ensure_future(asked.ask(broker, "a")) for broker in (1, 2))
    await turn()
    asked.keep([2])
    with pytest.raises(PeerClosed):
        await gone
    post.open.set()
    assert await alive == (2, "a")
    await asked.close()


@scenario
async def test_what_nobody_waits_for_any_more_is_not_sent():
    asked, post = couriers()
    post.open.set()
    first, second = (asyncio.ensure_future(asked.ask(1, word)) for word in "ab")
    await asyncio.sleep(0)
    first.cancel()
    assert await second == (1, "b")
    assert post.trips in ([["b"]], [["a", "b"]])
    await asked.close()


@scenario
async def test_a_mistake_of_ours_leaves_nobody_waiting():
    asked, post = couriers()
    post.open.set()
    post.error = ZeroDivisionError()
    faults = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: faults.append(context))
    with pytest.raises(PeerClosed):
        await asked.ask(1, "a")
    await asked.close()


@scenario
async def test_closing_lets_everybody_down_and_leaves_no_task():
    asked, _ = couriers()
    waiting = [asyncio.ensure_future(asked.ask(1, number)) for number in range(3)]
    await turn()
    await asked.close()
    for each in waiting:
        with pytest.raises(PeerClosed):
            await each
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("ask broker")]
