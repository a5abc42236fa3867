"""Changes of settings: what is asked for makes sense, and secrets stay secret."""

import click
import pytest

from ottla.cli.config_change import HIDDEN, changes, kind_of, shown
from ottla.client.admin.config_values import AlterConfigOp, AlterConfigOpType, ConfigEntry, ConfigResource
from tests.unit.cli.nouns import asked, broker, ottla, topic

__all__ = ["asked", "broker", "ottla", "topic"]


def test_values_lose_their_units_and_keep_their_order():
    found = changes({"retention.ms": "1s", "a": "b"}, ["flush.ms"], {"list": "x"}, {"other": "y"})
    assert found == [
        AlterConfigOp("retention.ms", "1000", AlterConfigOpType.SET),
        AlterConfigOp("a", "b", AlterConfigOpType.SET),
        AlterConfigOp("flush.ms", None, AlterConfigOpType.DELETE),
        AlterConfigOp("list", "x", AlterConfigOpType.APPEND),
        AlterConfigOp("other", "y", AlterConfigOpType.SUBTRACT),
    ]


def test_nothing_and_twice_make_no_sense():
    with pytest.raises(click.UsageError, match="nothing is to be changed"):
        changes({}, [], {}, {})
    with pytest.raises(click.UsageError, match="a is changed twice"):
        changes({"a": "1"}, ["a"], {}, {})
    with pytest.raises(click.UsageError, match="a is changed twice"):
        changes({}, ["a", "a"], {}, {})


def test_things_are_named_as_on_the_command_line():
    assert kind_of(ConfigResource.topic("x")) == "topic"
    assert kind_of(ConfigResource.broker(1)) == "broker"


def test_a_secret_is_not_shown():
    assert shown(None) is None
    fields = dict.fromkeys(ConfigEntry._fields)
    assert shown(ConfigEntry(**{**fields, "value": "x", "is_sensitive": False})) == "x"
    assert shown(ConfigEntry(**{**fields, "value": None, "is_sensitive": True})) == HIDDEN


def test_lists_grow_and_shrink(ottla, topic):
    ran = ottla("config", "set", "topic", topic, "cleanup.policy=compact", "--json")
    assert ran.json["changes"][0]["after"] == "compact"
    ran = ottla("config", "set", "topic", topic, "--append", "cleanup.policy=delete", "--json")
    assert sorted(ran.json["changes"][0]["after"].split(",")) == ["compact", "delete"]
    assert ran.json["changes"][0]["operation"] == "append"
