"""Steps of a member towards its target."""

import uuid

import pytest

from ottla.core.errors import ErrorCode, KafkaError
from ottla.groups.consumer_member import Member, MemberState
from ottla.groups.consumer_reconcile import check_epoch, reconcile

T = uuid.UUID(int=1)
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState


def of(*partitions):
    return {T: frozenset(partitions)} if partitions else {}


def free_but(*taken):
    return lambda topic_id, partition: partition not in taken


def test_who_is_there_stays_there():
    member = Member("m", epoch=3, assigned=of(1))
    assert reconcile(member, 3, of(1, 2), None, free_but()) is member


def test_what_is_free_is_given_at_once():
    after = reconcile(Member("m", epoch=3, assigned=of(1)), 4, of(1, 2), None, free_but())
    assert (after.epoch, after.previous_epoch, after.state, after.assigned) == (4, 3, STABLE, of(1, 2))


def test_what_others_hold_is_waited_for_in_the_new_epoch():
    after = reconcile(Member("m", epoch=3, assigned=of(1)), 4, of(1, 2, 3), None, free_but(2))
    assert (after.epoch, after.state, after.assigned) == (4, UNRELEASED, of(1, 3))
    then = reconcile(after, 4, of(1, 2, 3), None, free_but())
    assert (then.epoch, then.state, then.assigned) == (4, STABLE, of(1, 2, 3))


@pytest.mark.parametrize("owned", [None, of(1, 2), of(2)])
def test_what_is_to_be_given_back_keeps_the_member_in_its_epoch(owned):
    after = reconcile(Member("m", epoch=3, assigned=of(1, 2)), 4, of(1, 3), owned, free_but())
    assert (after.epoch, after.state) == (3, UNREVOKED)
    assert (after.assigned, after.to_revoke) == (of(1), of(2)), "and it gets nothing new meanwhile"
    assert reconcile(after, 5, of(3), owned, free_but()) is after, "whatever becomes of the target"


def test_who_gave_it_back_moves_on():
    held = Member("m", epoch=3, state=UNREVOKED, assigned=of(1), to_revoke=of(2))
    after = reconcile(held, 4, of(1, 3), of(1), free_but())
    assert (after.epoch, after.previous_epoch, after.state) == (4, 3, STABLE)
    assert (after.assigned, after.to_revoke) == (of(1, 3), {})


def test_who_gave_it_back_may_have_to_give_back_more():
    held = Member("m", epoch=3, state=UNREVOKED, assigned=of(1), to_revoke=of(2))
    after = reconcile(held, 6, of(3), of(1), free_but())
    assert (after.epoch, after.state, after.to_revoke) == (4, UNREVOKED, of(1))


def test_who_never_had_it_need_not_give_it_back():
    after = reconcile(Member("m", epoch=3, assigned=of(1, 2)), 4, of(1), of(1), free_but())
    assert (after.epoch, after.state, after.to_revoke) == (4, STABLE, {})


def test_who_waits_may_lose_what_it_has():
    waiting = Member("m", epoch=3, state=UNRELEASED, assigned=of(1))
    after = reconcile(waiting, 4, of(2), of(1), free_but(2))
    assert (after.epoch, after.state, after.to_revoke) == (3, UNREVOKED, of(1))


def test_a_state_of_a_newer_coordinator_is_left_with_empty_hands():
    strange = Member("m", epoch=3, state=UNKNOWN, assigned=of(1))
    for owned in (None, of(1)):
        with pytest.raises(KafkaError) as caught:
            reconcile(strange, 4, of(1), owned, free_but())
        assert caught.value.code == ErrorCode.FENCED_MEMBER_EPOCH
    assert reconcile(strange, 4, of(1), {}, free_but()).state is STABLE


@pytest.mark.parametrize(
    ("epoch", "owned", "is_fine"),
    [
        (5, None, True),
        (5, of(9), True),
        (4, of(1), True),
        (4, {}, True),
        (4, None, False),
        (4, of(1, 3), False),
        (3, {}, False),
        (6, {}, False),
        (0, {}, True),
        (0, None, False),
        (0, of(1), False),
    ],
)
def test_epochs(epoch, owned, is_fine):
    member = Member("m", epoch=5, previous_epoch=4, assigned=of(1, 2))
    if is_fine:
        check_epoch(member, epoch, owned)
    else:
        with pytest.raises(KafkaError) as caught:
            check_epoch(member, epoch, owned)
        assert caught.value.code == ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize("epoch", [2, 3])
def test_who_left_for_a_while_has_no_epoch(epoch):
    with pytest.raises(KafkaError):
        check_epoch(Member("m", epoch=-2, previous_epoch=3), epoch, {})
