"""Which brokers get the replicas of a partition: around the circle, as Kafka does.

First replicas go to one broker after the other, beginning at `start`; the further replicas of a partition stand
`shift` and more steps away, and the distance grows with every round. So the load of a broker that dies is spread
over all others.

Where every broker names its rack, the racks take turns on the circle, and a broker is passed over while its rack has a
replica of the partition and another has none: so a partition has replicas in as many racks as can be. Where only some
name it, racks are not looked at, unless somebody insists: then that is an error.
"""

from collections.abc import Iterable, Mapping, Sequence

from ottla.core.errors import ErrorCode, KafkaError
from ottla.replication.state import BrokerImage

Racks = Mapping[int, str]
"""The rack of every broker that replicas are placed on, or of none."""


def racks_of(brokers: Iterable[BrokerImage], *, insist: bool = False) -> dict[int, str]:
    """The racks, if all brokers have one; else nothing, or an error if somebody insists."""
    brokers = list(brokers)
    racks = {broker.node_id: broker.rack for broker in brokers if broker.rack is not None}
    if len(racks) == len(brokers):
        return racks
    if insist and racks:
        missing = sorted(broker.node_id for broker in brokers if broker.rack is None)
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Not all brokers have rack information: {', '.join(map(str, missing))} have none.",
        )
    return {}


def circle(brokers: Iterable[int], racks: Racks) -> list[int]:
    """The brokers in the order in which they are given replicas: by id, the racks taking turns."""
    by_rack: dict[str, list[int]] = {}
    for id in sorted(brokers):
        by_rack.setdefault(racks.get(id, ""), []).append(id)
    turns = [(turn, rack, id) for rack, ids in by_rack.items() for turn, id in enumerate(ids)]
    return [id for _, _, id in sorted(turns)]


def place(
    brokers: Iterable[int],
    partition_count: int,
    replication_factor: int,
    *,
    start: int,
    shift: int,
    first_partition: int = 0,
    racks: Racks | None = None,
) -> list[tuple[int, ...]]:
    """Replicas of `partition_count` partitions, numbered from `first_partition`; the first of each is to lead.

    `start` is a position on the circle."""
    racks = racks or {}
    around = circle(brokers, racks)
    assert 1 <= replication_factor <= len(around), "the caller checks that there are enough brokers"
    rack_count = len(set(racks.values())) or 1
    placed = []
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % len(around) == 0:
            shift += 1
        first = (partition + start) % len(around)
        # Whole turns of the racks: a distance that is none would put the second replica into the first one's rack.
        steps = [_step(shift * rack_count, follower, len(around)) for follower in range(len(around) - 1)]
        others = [around[(first + step) % len(around)] for step in steps]
        placed.append(_pick([around[first], *others], replication_factor, racks))
    return placed


def _pick(candidates: Sequence[int], count: int, racks: Racks) -> tuple[int, ...]:
    """So many of them, in their order, but none from a rack that has one before every rack has."""
    picked: list[int] = []
    passed = list(candidates)
    while len(picked) < count:
        used = {racks.get(id) for id in picked}
        chosen = next((id for id in passed if racks.get(id) not in used), passed[0])
        passed = _after(passed, chosen)
        picked.append(chosen)
    return tuple(picked)


def _after(candidates: Sequence[int], chosen: int) -> list[int]:
    """Whoever comes behind on the circle; those who were passed over are last."""
    at = candidates.index(chosen)
    return [*candidates[at + 1 :], *candidates[:at]]


def _step(shift: int, follower: int, broker_count: int) -> int:
    """How far a follower stands from the first replica: 1 to one less than there are brokers."""
    return 1 + (shift + follower) % (broker_count - 1)
