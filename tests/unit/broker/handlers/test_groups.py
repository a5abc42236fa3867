"""FindCoordinator, while there is nobody to be found."""

import pytest

from ottla.broker.authorizer import Operation
from ottla.core.errors import ErrorCode
from tests.unit.broker.handlers.fakes import ask, broker_with

GROUP, TRANSACTION, SHARE = 0, 1, 2


@pytest.mark.parametrize("version", range(4))
def test_one_key_is_answered_in_the_reply_itself(version):
    found = ask(broker_with(), "FindCoordinator", version, key="readers")
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (found.node_id, found.host, found.port) == (-1, "", -1)
    assert found.error_message == (None if version == 0 else "no broker coordinates group 'readers'")
    assert found.coordinators == []


@pytest.mark.parametrize("version", range(4, 7))
def test_many_keys_are_answered_one_by_one(version):
    found = ask(broker_with(), "FindCoordinator", version, key_type=TRANSACTION, coordinator_keys=["a", "b"])
    assert [each.key for each in found.coordinators] == ["a", "b"]
    assert {each.error_code for each in found.coordinators} == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert found.coordinators[1].error_message == "no broker coordinates transactional id 'b'"


def test_a_type_of_key_that_nobody_knows_is_an_invalid_request():
    found = ask(broker_with(), "FindCoordinator", 3, key="x", key_type=9)
    assert found.error_code == ErrorCode.INVALID_REQUEST
    assert found.error_message == "there are no coordinators of type 9"


@pytest.mark.parametrize("version", [5, 6])
def test_share_partitions_have_no_coordinator(version):
    found = ask(
        broker_with(),
        "FindCoordinator",
        version,
        key_type=SHARE,
        coordinator_keys=["g:AAAAAAAAAAAAAAAAAAAAAA:0"],
    )
    assert found.coordinators[0].error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("key_type", "operation", "code"),
    [
        (GROUP, Operation.DESCRIBE, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (TRANSACTION, Operation.DESCRIBE, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (SHARE, Operation.CLUSTER_ACTION, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ],
)
def test_who_may_not_see_it_is_told_so(key_type, operation, code):
    broker = broker_with()
    broker.authorizer.deny(operation)
    found = ask(broker, "FindCoordinator", 6, key_type=key_type, coordinator_keys=["x"])
    assert found.coordinators[0].error_code == code
