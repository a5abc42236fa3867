"""Which replica a consumer should read from (KIP-392). Pure: facts about the replicas in, one of them out.

A leader answers a consumer that gave its rack with the replica to turn to. It must have what is asked for: its log
begins at or before the offset, and ends at or behind it. Who reads from a follower sees no more than the high watermark
that the follower knows of.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple


class ReplicaView(NamedTuple):
    """A replica as its leader knows it. `rack` is None where nobody said. `is_usable` if its broker is alive, and in
    sync: one that lags would keep its readers behind."""

    broker: int
    rack: str | None
    log_start_offset: int
    log_end_offset: int
    caught_up_ms: int
    """When it last had everything the leader had. The leader's own is now."""
    is_usable: bool = True


Selector = Callable[[str, int, int, Sequence[ReplicaView]], int]
"""The rack of a client, the offset it wants, the leader, and all replicas, the leader's included: who to read from."""


def leader_only(rack: str, offset: int, leader: int, replicas: Sequence[ReplicaView]) -> int:
    """Everybody reads from the leader."""
    return leader


def rack_aware(rack: str, offset: int, leader: int, replicas: Sequence[ReplicaView]) -> int:
    """A replica in the client's rack: the leader, if it is there, else the one that is furthest."""
    if not rack:
        return leader
    near = [view for view in replicas if view.rack == rack and _has(view, offset)]
    if not near or any(view.broker == leader for view in near):
        return leader
    return max(near, key=lambda view: (view.log_end_offset, view.caught_up_ms, -view.broker)).broker


def _has(view: ReplicaView, offset: int) -> bool:
    """Can it answer? A log start that is not known yet (-1) does not speak against it."""
    return view.is_usable and view.log_start_offset <= offset <= view.log_end_offset


SELECTORS: dict[str, Selector] = {"LeaderSelector": leader_only, "RackAwareReplicaSelector": rack_aware}
"""By the names of Kafka's classes."""


def selector_of(name: str | None) -> Selector | None:
    """What `replica.selector.class` names; None if nobody is to be told anything, as by default."""
    return None if not name else SELECTORS[name.rpartition(".")[2]]
