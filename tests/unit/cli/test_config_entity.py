"""Whose settings are meant, by the words of a command line."""

import click
import pytest

from ottla.cli.config_entity import Entity, entity_of
from ottla.client.admin.config_values import ConfigResource


@pytest.mark.parametrize(
    ("kind", "words", "entity", "rest"),
    [
        ("topic", ["orders", "a", "b"], Entity("topic", "orders"), ["a", "b"]),
        ("topics", ["orders"], Entity("topic", "orders"), []),
        ("broker", ["1"], Entity("broker", "1"), []),
        ("broker-default", ["a"], Entity("broker-default", ""), ["a"]),
        ("broker-defaults", [], Entity("broker-default", ""), []),
        ("group", ["g"], Entity("group", "g"), []),
    ],
)
def test_the_name_stands_behind_the_kind(kind, words, entity, rest):
    assert entity_of(kind, words) == (entity, rest)


def test_an_entity_is_a_config_resource():
    assert Entity("topic", "orders").resource == ConfigResource.topic("orders")
    assert Entity("broker", "1").resource == ConfigResource.broker(1)
    assert Entity("broker-default", "").resource == ConfigResource.broker()
    assert Entity("broker-logger", "1").resource == ConfigResource.broker_logger(1)
    assert Entity("client-metrics", "m").resource == ConfigResource.client_metrics("m")
    assert (str(Entity("topic", "t")), str(Entity("broker-default", ""))) == ("topic t", "broker-default")


@pytest.mark.parametrize(
    ("kind", "words"),
    [("topic", []), ("topic", [""]), ("broker", ["one"]), ("broker", ["9" * 5000]), ("nothing", ["x"])],
)
def test_what_names_nothing_is_refused(kind, words):
    with pytest.raises(click.UsageError):
        entity_of(kind, words)
