"""References between schemas, and names of subjects."""

import pytest

from ottla.client.serde.memory_registry import InMemoryRegistry
from ottla.client.serde.schema_registry import (
    Reference,
    Registered,
    Schema,
    SchemaRegistryError,
    UnknownSchemaError,
    referenced,
    subject_name_of,
)
from ottla.core.errors import ConfigError


def test_what_a_schema_builds_on_comes_first_and_once():
    registry = InMemoryRegistry()
    registry.register("a", Schema('"a"'))
    registry.register("b", Schema('"b"', references=(Reference("A", "a", 1),)))
    top = Schema('"c"', references=(Reference("B", "b", 1), Reference("A", "a", 1)))
    assert [name for name, _ in referenced(registry, top)] == ["A", "B"]


def test_schemas_that_refer_to_each_other_are_refused():
    class Circle:
        def version(self, subject, version=None):
            other = "b" if subject == "a" else "a"
            return Registered(1, subject, 1, Schema("{}", references=(Reference(other, other, 1),)))

    with pytest.raises(ValueError, match="refers to itself"):
        referenced(Circle(), Schema("{}", references=(Reference("a", "a", 1),)))


def test_an_endless_row_of_references_ends():
    class Row:
        def version(self, subject, version=None):
            return Registered(
                1, subject, version, Schema("{}", references=(Reference("n", "n", version + 1),))
            )

    with pytest.raises(ValueError, match="more than 200"):
        referenced(Row(), Schema("{}", references=(Reference("n", "n", 1),)))


def test_a_strategy_has_confluents_names():
    assert subject_name_of("topic")("t", True, None) == "t-key"
    assert subject_name_of("TopicNameStrategy")("t", False, None) == "t-value"
    assert (
        subject_name_of("io.confluent.kafka.serializers.subject.RecordNameStrategy")("t", False, "R") == "R"
    )
    assert subject_name_of("topic_record")("t", False, "R") == "t-R"
    with pytest.raises(ConfigError, match="there are topic, record, topic_record"):
        subject_name_of("nothing")


def test_errors_say_whether_it_may_pass():
    assert SchemaRegistryError("down").retriable
    assert SchemaRegistryError("busy", 503).retriable
    assert not SchemaRegistryError("no", 409).retriable
    assert not UnknownSchemaError("no", 404).retriable
