"""What is shown after every block of a transcript."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from ottla.replication.state import NO_LEADER, PartitionState
from tests.scenarios.replication.actors import Actor, Controller


class Stage(Protocol):
    brokers: dict[int, Actor]
    controller: Controller
    acknowledged: dict[str, int]
    by_one: dict[str, int]
    is_lossy: bool


def ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids)) or "-"


def replicas(brokers: Mapping[int, Actor]) -> Iterator[str]:
    yield f"   {'role':<10}{'epoch':>5}{'LEO':>5}{'HW':>5}  log"
    for id, actor in brokers.items():
        if not actor.is_alive:
            yield f"{id}  down"
        elif actor.partition is not None:
            one = actor.partition
            role = "leader" if one.is_leader else "follower"
            log = " ".join(f"{value}{epoch}" for _, value, epoch in actor.content())
            mark = one.high_watermark.value
            row = f"{id}  {role:<10}{one.leader_epoch:>5}{one.log.end_offset:>5}{mark:>5}  {log or '-'}"
            yield row + ("  (cut off)" if actor.is_cut else "")
            assert mark <= one.log.end_offset


def stored(state: PartitionState) -> Iterator[str]:
    """What the controller has written down."""
    leader = "none" if state.leader == NO_LEADER else str(state.leader)
    if state.last_known_leader != NO_LEADER:
        leader += f" (last {state.last_known_leader})"
    yield (
        f"leader {leader}  ISR {ids(state.isr)}  ELR {ids(state.elr)}  leader epoch {state.leader_epoch}  "
        f"partition epoch {state.partition_epoch}" + ("  recovering" if state.is_recovering else "")
    )
    if state.adding or state.removing:
        yield f"replicas {ids(state.replicas)}  adding {ids(state.adding)}  removing {ids(state.removing)}"


def acknowledged(stage: Stage) -> Iterator[str]:
    """What producers were told, and what of it the leader does not have."""
    if stage.acknowledged:
        yield f"acknowledged {' '.join(stage.acknowledged)}"
    leader = stage.brokers.get(stage.controller.state.leader)
    if leader is not None and leader.partition is not None:
        here = {(value, offset) for offset, value, _ in leader.content()}
        lost = [value for value, offset in stage.acknowledged.items() if (value, offset) not in here]
        stage.is_lossy |= bool(lost)
        if lost:
            yield f"LOST {' '.join(lost)}"
        lost = [value for value, offset in stage.by_one.items() if (value, offset) not in here]
        if lost:
            yield f"lost, as acks=1 may: {' '.join(lost)}"
