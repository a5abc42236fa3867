"""Telemetry of clients, as a broker answers that wants none."""

import uuid

import pytest

from ottla.broker.handlers.telemetry import TELEMETRY_BYTES_MAX, subscription_id_of
from ottla.core.errors import ErrorCode
from ottla.core.ids import NULL_ID
from tests.unit.broker.handlers.fakes import ask, broker_with

CLIENT = uuid.UUID("0192f6a0-aaaa-7bbb-8ccc-123456789abc")


def subscriptions(client=CLIENT):
    return ask(broker_with(), "GetTelemetrySubscriptions", 0, client_instance_id=client)


def push(**changes):
    fields = {
        "client_instance_id": CLIENT,
        "subscription_id": subscription_id_of(CLIENT),
        "terminating": False,
        "compression_type": 0,
        "metrics": b"",
    }
    return ask(broker_with(), "PushTelemetry", 0, **(fields | changes)).error_code


def test_no_metrics_are_wanted_and_the_client_asks_again_later():
    found = subscriptions()
    assert found.error_code == ErrorCode.NONE
    assert found.client_instance_id == CLIENT
    assert found.requested_metrics == []
    assert found.push_interval_ms == 300_000
    assert found.accepted_compression_types == [4, 3, 1, 2]
    assert found.telemetry_max_bytes == TELEMETRY_BYTES_MAX


def test_a_client_without_an_id_gets_a_fresh_one():
    first, second = (subscriptions(NULL_ID).client_instance_id for _ in range(2))
    assert NULL_ID not in (first, second)
    assert first != second


def test_the_subscription_stays_the_same_for_a_client_and_differs_between_clients():
    assert subscriptions().subscription_id == subscriptions().subscription_id
    assert subscriptions().subscription_id != subscriptions(uuid.uuid4()).subscription_id


def test_a_push_for_the_current_subscription_is_taken():
    assert push() == ErrorCode.NONE
    assert push(terminating=True, compression_type=4, metrics=b"x") == ErrorCode.NONE


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"client_instance_id": NULL_ID}, ErrorCode.INVALID_REQUEST),
        ({"client_instance_id": uuid.UUID(int=1)}, ErrorCode.INVALID_REQUEST),
        ({"subscription_id": 4711}, ErrorCode.UNKNOWN_SUBSCRIPTION_ID),
        ({"compression_type": 9}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"metrics": bytes(TELEMETRY_BYTES_MAX + 1)}, ErrorCode.TELEMETRY_TOO_LARGE),
    ],
)
def test_a_push_that_makes_no_sense_is_refused(changes, code):
    assert push(**changes) == code
