"""What a history proves about the order of values in a log."""

from ottla.testing.history import Action, History, Operation, Outcome, Poll, Send
from ottla.testing.version_order import Evidence, VersionOrder


def test_places_are_counted_without_holes():
    order = VersionOrder({10: ["a"], 12: ["b"], 100: ["c"]})
    assert [order.distance("a", value) for value in "abc"] == [0, 1, 2]
    assert order.distance("c", "a") == -2
    assert order.distance("a", "unknown") is None


def test_a_value_that_lies_twice_has_a_first_and_a_last_place():
    order = VersionOrder({0: ["a"], 1: ["b"], 2: ["a"]})
    assert (order.places["a"], order.last_places["a"]) == (0, 2)


def test_an_unknown_outcome_counts_once_somebody_has_read_of_it():
    history = History()
    writer, reader = history.client(), history.client()
    writer.txn([Send("x", 1), Send("y", 2)]).info("", [Send("x", 1, 0), Send("y", 2, 3)])
    writer.txn([Send("x", 5), Send("y", 6)]).info("", [Send("x", 5, 7), Send("y", 6, 7)])
    reader.poll().ok([Poll({"x": [(0, 1)]})])
    orders = Evidence(history).orders
    assert orders["x"].offsets == [0]
    assert (orders["y"].offsets, orders["y"].values) == ([3], [[2]])


def test_what_a_failed_operation_wrote_does_not_count_but_what_it_read_does():
    history = History()
    client = history.client()
    client.txn([Send("x", 1)]).fail("aborted", [Send("x", 1, 0), Poll({"y": [(4, "z")]})])
    evidence = Evidence(history)
    assert list(evidence.orders) == ["y"] and not evidence.seen["y"]


def test_what_never_ended_has_an_unknown_outcome():
    invoked = Operation(0, Outcome.INVOKE, Action.SEND, 3, 0, (Send("x", 1),))
    evidence = Evidence([invoked, invoked._replace(number=1, steps=(Send("x", 2),))])
    assert [each.outcome for each in evidence.done] == [Outcome.INFO] * 2
    assert set(evidence.writer) == {("x", 1), ("x", 2)}
