"""Libraries that may be missing."""

import sys

import pytest

from ottla.client.serde.avro import AvroSerializer
from ottla.client.serde.extras import library
from ottla.client.serde.memory_registry import InMemoryRegistry


def test_a_library_that_is_there():
    assert library("json", "JSON") is sys.modules["json"]


def test_one_that_is_missing_is_named_with_the_way_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(ImportError, match=r"Avro needs fastavro: pip install 'ottla\[schema\]'"):
        AvroSerializer(InMemoryRegistry(), "string")
