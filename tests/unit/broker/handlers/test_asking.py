"""What every question to a coordinator begins with."""

import asyncio

import pytest

from ottla.broker.authorizer import NOT_ASKED, Operation, ResourceType, operation_bits
from ottla.broker.call import Call
from ottla.broker.handlers import asking
from ottla.core.errors import ErrorCode, KafkaError
from tests.unit.broker.handlers.fakes import Connection, broker_with


def call(client_id="me"):
    return Call(Connection(), 11, 5, 1, client_id)


def test_who_asks_is_known_by_version_name_and_address():
    assert asking.asker_of(call()) == (5, "me", "/127.0.0.1")
    assert asking.asker_of(call(None)).client_id == ""


def test_what_may_be_done_to_a_group_is_told_if_it_is_asked_for():
    broker = broker_with()
    broker.authorizer.deny(Operation.DELETE, "readers")
    bits = asking.group_operations(broker, call(), "readers", is_asked=True)
    all_bits = asking.authorized_operations(broker.authorizer, call(), ResourceType.GROUP, "others")
    assert all_bits - bits == operation_bits([Operation.DELETE])
    assert asking.group_operations(broker, call(), "readers", is_asked=False) == NOT_ASKED


def test_what_is_denied_is_named():
    broker = broker_with()
    broker.authorizer.deny(Operation.READ)
    with pytest.raises(KafkaError, match="READ of group 'readers'") as raised:
        asking.check_group(broker, call(), Operation.READ, "readers")
    assert raised.value.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(KafkaError, match="READ of transactional id 'mine'") as raised:
        asking.check_transactional_id(broker, call(), Operation.READ, "mine")
    assert raised.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    asking.check_group(broker, call(), Operation.DESCRIBE, "readers")


def test_others_get_their_turn_while_hundreds_are_answered():
    async def main():
        done = []

        async def answer(number):
            done.append(number)
            return -number

        asked = asyncio.ensure_future(asking.one_by_one(range(250), answer))
        await asyncio.sleep(0)
        assert 0 < len(done) < 250
        assert await asked == [-number for number in range(250)]

    asyncio.run(main())


def test_a_few_are_answered_without_waiting():
    async def answer(number):
        return number

    coroutine = asking.one_by_one([1, 2], answer)
    with pytest.raises(StopIteration) as stopped:
        coroutine.send(None)
    assert stopped.value.value == [1, 2]
