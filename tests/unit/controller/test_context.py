"""What the controller knows, and how it learns."""

from ottla.controller import topics
from ottla.controller.commands import NewTopic
from ottla.controller.decision import BrokersChanged
from tests.unit.controller.helpers import broker, carried_out, cluster, with_topic


def test_similar_names_are_found_among_the_living_and_the_doomed():
    context = cluster(0)
    with_topic(context, NewTopic("a.b"))
    assert context.similar_topic("a.b") == "a.b"
    assert context.similar_topic("a_b") == "a.b"
    assert context.similar_topic("a-b") is None
    carried_out(context, topics.doom(context, ["a.b"])[0])
    assert context.similar_topic("a_b") == "a.b"
    carried_out(context, topics.bury(context, {"a.b": []}))
    assert context.similar_topic("a_b") is None


def test_states_are_those_of_all_living_topics():
    context = cluster(0)
    with_topic(context, NewTopic("a", 2))
    with_topic(context, NewTopic("b", 1))
    assert [str(state.topic_partition) for state in context.states()] == ["a-0", "a-1", "b-0"]
    carried_out(context, topics.doom(context, ["a"])[0])
    assert [state.topic for state in context.states()] == ["b"]


def test_brokers_are_those_that_were_named_last():
    context = cluster(0, 1)
    context.apply(BrokersChanged((broker(1), broker(2))))
    assert list(context.brokers) == [1, 2]
