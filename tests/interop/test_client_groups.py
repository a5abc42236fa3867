"""Members of ours in groups of other makes, where it matters what a member votes for.

That groups of several makes share, cooperate and change their protocol is in `test_groups` and `test_groups_consumer`.
"""

import pytest

from tests.interop.clients.members import TIMEOUTS, members_of
from tests.interop.group_life import PARTITIONS, GroupLife

CLASSIC = {key.replace(".", "_"): value for key, value in TIMEOUTS.items()}
COOPERATIVE = {**CLASSIC, "partition_assignment_strategy": "cooperative-sticky"}

pytestmark = pytest.mark.usefixtures("coordinators")


@pytest.fixture
def life(control, bootstrap_server, new_topic, connected):
    """Makes a group on a topic of its own; `clients` are those that will be members."""
    with members_of(bootstrap_server) as join:

        def make(*clients):
            for name in clients:
                connected(name)  # which fetches and compiles what is missing, or skips
            topic = new_topic(partitions=PARTITIONS)
            return GroupLife(control, join, topic, f"group-of-{topic}")

        yield make


@pytest.mark.parametrize(
    ("other", "strategy"),
    [("confluent-kafka", "range"), ("java", "range"), ("java", "roundrobin"), ("java", "sticky")],
)
def test_eager_members_of_ours_and_of_others_share_a_group(life, other, strategy):
    group = life("ottla", other)
    how = {**CLASSIC, "partition_assignment_strategy": strategy}
    first, second = group.join("ottla", **how), group.join(other, **how)
    group.has_settled(3, 3)
    group.reads()
    before = first.assignment, second.assignment
    group.join("ottla", **how)
    group.has_settled(2, 2, 2)
    if strategy == "sticky":  # each told the leader what it had, whoever led
        assert first.assignment < before[0] and second.assignment < before[1]
    group.reads()
    group.close(first)
    group.has_settled(3, 3)
    group.reads()
    group.close(second)
    group.has_settled(6)
    group.reads()


def test_a_group_becomes_cooperative_one_member_after_the_other(life):
    """Ours and Java's vote for range and cooperative-sticky unless they are told otherwise: for this very purpose."""
    group = life("ottla", "java", "confluent-kafka")
    ours, java = group.join("ottla", **CLASSIC), group.join("java", **CLASSIC)
    group.has_settled(3, 3)
    group.reads()
    librdkafka = group.join("confluent-kafka", **COOPERATIVE)
    group.has_settled(2, 2, 2)
    group.reads()
    group.close(ours)
    group.join("ottla", **COOPERATIVE)
    group.has_settled(2, 2, 2)
    group.reads()
    group.close(java)
    group.has_settled(3, 3)
    group.reads()
    group.close(librdkafka)
    group.has_settled(6)
    group.reads()
