"""Partitions change hands."""

import asyncio

import pytest

from ottla.client.consumer.handover import Handover
from ottla.client.consumer.subscription import Subscription
from ottla.client.deadline import Deadline
from ottla.client.listener import RebalanceListener
from ottla.core.ids import TopicPartition

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


class Told(RebalanceListener):
    """Notes what it is told, and what is held at that moment."""

    def __init__(self, subscription):
        self.subscription, self.heard, self.fails = subscription, [], False

    def note(self, what, partitions):
        self.heard.append((what, list(partitions), sorted(self.subscription.partitions)))
        if self.fails:
            raise ValueError(what)

    def on_partitions_assigned(self, assigned):
        self.note("assigned", assigned)

    async def on_partitions_revoked(self, revoked):
        self.note("revoked", revoked)

    def on_partitions_lost(self, lost):
        self.note("lost", lost)


def new_handover(*held, commit=None):
    async def nothing(deadline):
        pass

    subscription = Subscription()
    listener = Told(subscription)
    subscription.subscribe(["t"], None, listener)
    subscription.set_assignment(held)
    return Handover(subscription, commit or nothing), listener


def test_what_is_revoked_is_held_while_the_listener_runs():
    handover, listener = new_handover(T0, T1)
    asyncio.run(handover.revoke([T1]))
    assert listener.heard == [("revoked", [T1], [T0, T1])]
    assert handover.held == {T0}


def test_what_is_taken_over_is_held_when_the_listener_hears_of_it():
    handover, listener = new_handover(T0)
    place = listener.subscription.partitions[T0]
    asyncio.run(handover.take({T2, T1}))
    assert listener.heard == [("assigned", [T1, T2], [T0, T1, T2])]
    assert listener.subscription.partitions[T0] is place


def test_what_is_lost_is_told_as_lost_and_nothing_is_told_of_nothing():
    handover, listener = new_handover(T0)
    asyncio.run(handover.lose())
    asyncio.run(handover.lose())
    assert [what for what, *_ in listener.heard] == ["lost"]
    assert not handover.held


def test_partitions_move_also_if_the_listener_fails_and_the_first_error_is_raised_later(caplog):
    handover, listener = new_handover(T0, T1)
    listener.fails = True

    async def run():
        await handover.revoke([T1])
        await handover.take([T2])

    asyncio.run(run())
    assert handover.held == {T0, T2}
    with pytest.raises(ValueError, match="revoked"):
        handover.raise_first()
    handover.raise_first()
    assert "assigned" in caplog.text


def test_a_commit_that_fails_does_not_keep_partitions_from_moving():
    async def run():
        async def refuse(deadline):
            raise ValueError("no commit")

        handover, _ = new_handover(T0, commit=refuse)
        await handover.commit(Deadline(1000))
        await handover.revoke([T0])
        assert not handover.held
        with pytest.raises(ValueError, match="no commit"):
            handover.raise_first()

    asyncio.run(run())


def test_who_is_cancelled_while_the_listener_runs_has_given_up_nevertheless():
    async def run():
        handover, listener = new_handover(T0, T1)
        running = asyncio.Event()

        async def wait_for_ever(revoked):
            running.set()
            await asyncio.Event().wait()

        listener.on_partitions_revoked = wait_for_ever
        task = asyncio.ensure_future(handover.revoke([T0]))
        await running.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert handover.held == {T1}

    asyncio.run(run())


def test_without_a_listener_partitions_just_move():
    handover, listener = new_handover(T0)
    listener.subscription.listener = None
    asyncio.run(handover.take([T1]))
    asyncio.run(handover.revoke([T0]))
    asyncio.run(handover.lose())
    assert not listener.heard
