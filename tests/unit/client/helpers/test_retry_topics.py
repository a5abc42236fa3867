"""Plans: which topic follows on which."""

import pytest

from ottla.client.helpers.failures import Failure
from ottla.client.helpers.retry_topics import Next, RetryPlan
from ottla.client.records import ConsumerRecord
from ottla.core.errors import ConfigError


def test_topics_follow_each_other_with_growing_delays():
    plan = RetryPlan("orders", [1000, 60_000])
    assert plan.topics == ["orders", "orders.retry.1", "orders.retry.2"]
    assert plan.dead_letter_topics == ["orders.dlq"]
    assert plan.after("orders", is_worthwhile=True) == Next("orders.retry.1", 1000)
    assert plan.after("orders.retry.1", is_worthwhile=True) == Next("orders.retry.2", 60_000)
    assert plan.after("orders.retry.2", is_worthwhile=True) == Next("orders.dlq", None)
    assert plan.after("orders", is_worthwhile=False) == Next("orders.dlq", None)


def test_without_delays_there_are_dead_letters_only():
    plan = RetryPlan(["a", "b"], dead_letter_topic="dead")
    assert plan.topics == ["a", "b"] and plan.dead_letter_topics == ["dead"]
    assert plan.after("b", is_worthwhile=True) == Next("dead", None)


@pytest.mark.parametrize(
    "names",
    [{"retry_topic": "{topic}.again"}, {"dead_letter_topic": "{topic}"}, {"retry_topic": "{topic}.dlq"}],
)
def test_a_plan_that_leads_in_circles_is_refused(names):
    with pytest.raises(ConfigError):
        RetryPlan("orders", [1, 2], **names)


def test_a_topic_that_is_not_in_the_plan_is_named():
    with pytest.raises(ConfigError, match="payments"):
        RetryPlan("orders").after("payments", is_worthwhile=True)


def test_nobody_waits_longer_than_the_delay_of_the_topic():
    plan = RetryPlan("orders", [1000])
    first = ConsumerRecord("orders", 0, 0, 0, None, b"")
    copy = first._replace(topic="orders.retry.1", timestamp=5000)
    assert plan.wait_ms(first, 0) == 0
    assert plan.wait_ms(copy, 5400) == 600  # no header: by its timestamp
    for due_ms, wait_ms in ((5200, 200), (4000, -1000), (10**15, 1000)):
        failure = Failure.of(first)._replace(due_ms=due_ms)
        assert plan.wait_ms(copy._replace(headers=tuple(failure.headers(first))), 5000) == wait_ms
