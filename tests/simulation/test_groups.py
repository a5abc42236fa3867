"""Groups under coordinators that load, unload and fail over at any point, over a network that loses and doubles."""

import pytest

from ottla.protocol.messages.record_types import CONSUMER_OFFSETS, decode_key
from tests.simulation.cluster import Cluster
from tests.simulation.members import ClassicMember, ConsumerMember, MigratingMember, VisitingMember
from tests.simulation.seeds import seeds

STORM_MS, END_MS = 8_000, 12_000


def run_group(kinds, seed, cluster_type=Cluster):
    """Four members in a storm; afterwards they must all come to rest."""
    kinds = kinds if isinstance(kinds, list) else [kinds] * 4
    cluster = cluster_type(seed, refusal=0.02 if seed % 3 == 0 else 0.0)
    members = [kind(cluster, f"c{number}") for number, kind in enumerate(kinds)]
    cluster.storm([member.name for member in members], STORM_MS)
    cluster.world.run(STORM_MS)
    for member in members:
        member.is_stopping = True
    acknowledged = [member.acknowledged for member in members]
    cluster.world.run(END_MS)
    for member, before in zip(members, acknowledged, strict=True):
        if member.rounds == 0 or sum(each.acknowledged for each in members) == sum(acknowledged):
            cluster.world.violate("everybody gets on in the end", f"{member.name} after {before} commits")
    return cluster


@pytest.mark.parametrize("kind", [ClassicMember, ConsumerMember])
@pytest.mark.parametrize("part", range(4))
def test_groups_keep_their_promises(kind, part):
    for seed in seeds(40):
        if seed % 4 == part:
            run_group(kind, seed)


@pytest.mark.parametrize("part", range(2))
def test_groups_that_change_their_protocol_keep_their_promises(part):
    kinds = [MigratingMember, MigratingMember, MigratingMember, VisitingMember]
    records = []
    for seed in seeds(20):
        if seed % 2 == part:
            log = run_group(kinds, seed).group_log
            records += [type(decode_key(CONSUMER_OFFSETS, item.key)).__name__ for item in log.committed]
    assert records.count("GroupMetadataKey") > 20 and records.count("ConsumerGroupMetadataKey") > 20
