import pytest

from ottla.assignors.exchange import (
    BLOB_SIZE_MAX,
    assign_group,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    specs,
    subscription_of,
    topics_of,
)
from ottla.assignors.registry import CLIENT_SIDE
from ottla.assignors.user_data import Claim, encode_cooperative
from ottla.core.errors import ProtocolError
from ottla.protocol.codec import encode_versioned
from ottla.protocol.messages.groups import JoinGroupResponse
from ottla.protocol.messages.subscription import ConsumerProtocolSubscription, TopicPartitions
from tests.unit.assignors.groups import shares

RANGE, STICKY, COOPERATIVE = (CLIENT_SIDE[name] for name in ("range", "sticky", "cooperative-sticky"))
CLAIM = Claim({"t": frozenset({0, 1})}, 6)


def joined(member_id: str, metadata: bytes, instance_id: str | None = None) -> JoinGroupResponse.Member:
    return JoinGroupResponse.Member(member_id=member_id, group_instance_id=instance_id, metadata=metadata)


def results(assignor, members, **partition_counts):
    assignments = assign_group(assignor, members, partition_counts)
    return shares({each.member_id: decode_assignment(each.assignment) for each in assignments})


def test_a_leader_turns_subscriptions_into_assignments():
    nothing = Claim({})
    members = [joined(name, subscription_of(RANGE, ["t"], nothing)) for name in ("c1", "c0")]
    assert results(RANGE, members, t=3) == {"c0": "t-0 t-1", "c1": "t-2"}


def test_a_sticky_member_remembers_in_its_user_data_and_owns_nothing():
    blob = subscription_of(STICKY, ["t"], CLAIM)
    assert decode_subscription(blob).owned_partitions == []
    spec = specs(STICKY, [joined("m", blob, "i")])["m"]
    assert (spec.current, spec.generation_id, spec.instance_id) == (CLAIM.partitions, 6, "i")


def test_a_cooperative_member_lists_what_it_owns_and_since_when():
    blob = subscription_of(COOPERATIVE, ["t"], CLAIM, rack_id="r")
    spec = specs(COOPERATIVE, [joined("m", blob)])["m"]
    assert (spec.current, spec.generation_id, spec.rack_id) == (CLAIM.partitions, 6, "r")


def test_a_cooperative_member_of_an_old_client_has_its_generation_in_the_user_data():
    owned = [TopicPartitions(topic="t", partitions=[4])]
    old = ConsumerProtocolSubscription(topics=["t"], user_data=encode_cooperative(3), owned_partitions=owned)
    spec = specs(COOPERATIVE, [joined("m", encode_versioned(old, 1))])["m"]
    assert (spec.current, spec.generation_id) == ({"t": frozenset({4})}, 3)


def test_a_member_of_the_oldest_kind_claims_nothing():
    oldest = encode_versioned(ConsumerProtocolSubscription(topics=["t"]), 0)
    for assignor in CLIENT_SIDE.values():
        spec = specs(assignor, [joined("m", oldest)])["m"]
        assert (spec.subscribed, spec.current, spec.generation_id) == ({"t"}, {}, -1)


def test_a_subscription_of_a_version_to_come_is_read_as_far_as_we_know_it():
    blob = b"\x00\x09" + subscription_of(RANGE, ["t"], CLAIM, rack_id="r")[2:] + b"what was added"
    assert decode_subscription(blob).rack_id == "r"


@pytest.mark.parametrize(
    "blob", [b"", b"\x00", b"\xff\xff", b"\x00\x03", b"\x00\x00\x7f\xff\xff\xff", b"\x00\x01garbage"]
)
def test_a_member_that_cannot_be_understood_gets_nothing_and_the_others_get_theirs(blob):
    members = [joined("bad", blob), joined("good", subscription_of(RANGE, ["t"], Claim({})))]
    assert topics_of(members) == {"t"}
    for assignor in CLIENT_SIDE.values():
        assert results(assignor, members, t=2) == {"bad": "", "good": "t-0 t-1"}
    with pytest.raises(ProtocolError):
        decode_subscription(blob)


def test_the_leader_asks_for_every_topic_that_anybody_wants():
    members = [joined(topic, subscription_of(RANGE, [topic, "both"], Claim({}))) for topic in ("a", "b")]
    assert topics_of(members) == {"a", "b", "both"}


def test_a_blob_beyond_all_measure_is_not_read():
    with pytest.raises(ProtocolError, match="are possible"):
        decode_subscription(bytes(BLOB_SIZE_MAX + 1))


def test_an_assignment_survives_the_way_there_and_back():
    given = {"a": frozenset({0, 5}), "b": frozenset({2})}
    assert decode_assignment(encode_assignment(given)) == given


def test_no_assignment_at_all_is_one_of_nothing():
    assert decode_assignment(b"") == {}


@pytest.mark.parametrize("blob", [b"\x00", b"\xff\xfe", b"\x00\x00", b"\x00\x00\x7f\xff\xff\xff"])
def test_an_assignment_that_cannot_be_understood_is_refused(blob):
    with pytest.raises(ProtocolError):
        decode_assignment(blob)


def test_two_cooperative_rounds_move_a_partition_without_two_readers():
    had = {"c0": Claim({"t": frozenset({0, 1})}, 1), "c1": Claim({}, 1)}
    seen = []
    for generation_id in (2, 3):
        members = [joined(name, subscription_of(COOPERATIVE, ["t"], claim)) for name, claim in had.items()]
        assignments = assign_group(COOPERATIVE, members, {"t": 2})
        had = {
            each.member_id: Claim(decode_assignment(each.assignment), generation_id) for each in assignments
        }
        seen.append(shares({name: claim.partitions for name, claim in had.items()}))
    assert seen == [{"c0": "t-0", "c1": ""}, {"c0": "t-0", "c1": "t-1"}]
