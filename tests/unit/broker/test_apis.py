"""The table of served APIs against the declarations and the handlers."""

import inspect
import subprocess
import sys

import pytest

from ottla.broker.apis import FEATURES, SERVED, handler_of, is_served
from ottla.protocol.apis import APIS, PRIVATE


@pytest.mark.parametrize("row", SERVED.values(), ids=lambda row: row.api.name)
def test_every_served_version_is_declared(row):
    assert row.min_version in row.api.versions
    assert row.max_version in row.api.versions
    assert row.min_version <= row.max_version


@pytest.mark.parametrize("row", SERVED.values(), ids=lambda row: row.api.name)
def test_every_served_api_has_its_handler(row):
    handler = handler_of(row.key)
    assert handler.__name__ == row.function
    assert len(inspect.signature(handler).parameters) == 3
    assert handler_of(row.key) is handler


def test_clients_of_every_age_find_a_version_of_what_they_need():
    oldest_max = {0: 3, 1: 4, 2: 1, 3: 0, 8: 2, 9: 1, 11: 0, 18: 0, 19: 0, 20: 0, 24: 0, 32: 0}
    newest = {
        0: 13,
        1: 18,
        2: 11,
        3: 13,
        8: 10,
        9: 10,
        10: 6,
        11: 9,
        18: 4,
        19: 7,
        20: 6,
        22: 6,
        26: 5,
        68: 1,
    }
    assert all(is_served(key, version) for key, version in oldest_max.items())
    assert all(is_served(key, version) for key, version in newest.items())


def test_nothing_outside_the_table_is_served():
    assert not is_served(3, 14)
    assert not is_served(3, -1)
    assert not is_served(4711, 0)


def test_only_what_kafka_has_too_is_listed():
    assert {row.key for row in SERVED.values() if row.is_listed} <= APIS.keys()
    assert {row.key for row in SERVED.values() if not row.is_listed} == PRIVATE.keys()


def test_functions_are_called_as_the_apis():
    assert SERVED[2].function == "list_offsets"
    assert SERVED[3].function == "metadata"
    assert SERVED[44].function == "incremental_alter_configs"


def test_a_finalized_level_lies_within_the_supported_ones():
    for feature in FEATURES:
        assert feature.min_level <= feature.finalized_level <= feature.max_level


def test_groups_and_transactions_are_spoken_as_by_kafka_4():
    assert {feature.name: feature.finalized_level for feature in FEATURES} == {
        "group.version": 1,
        "transaction.version": 2,
    }


def test_looking_at_the_table_imports_no_message_and_no_handler():
    script = (
        "import sys; from ottla.broker.apis import SERVED, is_served, handler_of\n"
        "loaded = lambda: sorted(m for m in sys.modules if m.startswith(('ottla.protocol.messages.',"
        " 'ottla.broker.handlers.')))\n"
        "assert is_served(18, 3) and SERVED[18].function == 'api_versions'\n"
        "assert loaded() == [], loaded()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
