"""What the background has for the next poll."""

import asyncio

import pytest

from ottla.client.consumer.alerts import Alerts, now_ms, overdue
from ottla.client.consumer.config import ConsumerConfig
from ottla.client.deadline import Deadline
from ottla.client.errors import NetworkError
from ottla.core.errors import ErrorCode, FencedError, KafkaError
from tests.unit.client.consumer.driven import until


def with_alerts(test, **settings):
    """Run a function with alerts, and a list that grows with every wake."""

    async def run():
        woken = []
        given = {key.replace("_", "."): value for key, value in settings.items()}
        config = ConsumerConfig({"group.id": "g", **given})
        await test(Alerts(config, lambda: woken.append(now_ms())), woken)

    asyncio.run(run())


def test_an_error_wakes_who_waits_and_is_raised_once():
    async def test(alerts, woken):
        assert not alerts.are_there
        alerts.fail(NetworkError("one"))
        alerts.fail(NetworkError("two"))
        assert alerts.are_there and len(woken) == 2
        with pytest.raises(NetworkError, match="one"):
            alerts.polled()
        alerts.polled()
        assert not alerts.are_there

    with_alerts(test)


def test_who_was_replaced_hears_it_in_every_poll_whatever_else_happened():
    async def test(alerts, woken):
        alerts.fail(NetworkError("one"))
        alerts.fail(KafkaError.of(ErrorCode.FENCED_INSTANCE_ID, "replaced"))
        for _ in range(2):
            with pytest.raises(FencedError, match="replaced"):
                alerts.polled()
        assert alerts.are_there

    with_alerts(test)


def test_who_waits_in_a_poll_is_asked_to_look_before_it_is_overdue():
    async def test(alerts, woken):
        assert not alerts.is_overdue and not woken
        await until(lambda: alerts.is_overdue or woken)
        assert alerts.are_there and woken
        alerts.polled()
        assert not alerts.are_there and not alerts.is_overdue
        await until(lambda: alerts.is_overdue)
        assert 0 <= alerts.next_ms(at_most=50) <= 50

    with_alerts(test, max_poll_interval_ms=200)


def test_commits_before_a_handover_have_time_also_in_a_poll_that_has_none():
    async def test(alerts, woken):
        assert alerts.for_commits(Deadline(0)).timeout_ms == 7000
        assert alerts.for_commits(Deadline(-1)).timeout_ms == 9000

    with_alerts(test, request_timeout_ms=7000, max_poll_interval_ms=9000)


def test_the_warning_names_the_setting():
    assert "max_poll_interval_ms (9000 ms)" in overdue(
        ConsumerConfig({"group.id": "g", "max.poll.interval.ms": 9000})
    )
