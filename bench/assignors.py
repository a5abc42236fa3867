"""How long does an assignment take? 500 members, 1,000 and 10,000 partitions, each assignor.

A coordinator assigns on its event loop, so while it does nobody else is served. Three moments are measured: a new
group, one that was balanced and lost a tenth of its members, and one that got a tenth more. Members want all 20 topics,
or each its own 5 of them. Moves are the partitions that members who stayed had to give up. Medians, in CPU time.
"""

import random
import statistics
import time
from collections.abc import Iterator

from ottla.assignors import cooperative_sticky, round_robin, sticky, uniform
from ottla.assignors.range import assign as assign_range
from ottla.assignors.spec import Assign, Assignment, MemberSpec

ASSIGNORS: dict[str, Assign[str]] = {
    "range": assign_range,
    "roundrobin": round_robin.assign,
    "sticky": sticky.assign,
    "cooperative-sticky": cooperative_sticky.assign,
    "uniform": uniform.assign,
}
MEMBER_COUNT = 500
TOPIC_COUNT = 20
WISH_COUNT = 5
PARTITION_COUNTS = (1_000, 10_000)
REPETITIONS = 5

Members = dict[str, MemberSpec[str]]


def group(topics: dict[str, int], *, all_want_the_same: bool) -> Members:
    source = random.Random(1)
    names = [f"member-{source.getrandbits(64):016x}" for _ in range(MEMBER_COUNT)]
    return {
        name: MemberSpec(
            frozenset(topics if all_want_the_same else source.sample(sorted(topics), WISH_COUNT)), {}
        )
        for name in names
    }


def changes(assign: Assign[str], members: Members, topics: dict[str, int]) -> Iterator[tuple[str, Members]]:
    """The same group as it begins, after a tenth has left, and after a tenth has come."""
    tenth = sorted(members)[::10]
    yield "new", members
    yield (
        "fewer",
        {name: member for name, member in having(assign, members, topics).items() if name not in tenth},
    )
    before = {name: member for name, member in members.items() if name not in tenth}
    yield "more", having(assign, before, topics) | {name: members[name] for name in tenth}


def having(assign: Assign[str], members: Members, topics: dict[str, int]) -> Members:
    assignment = assign(members, topics)
    return {
        name: member._replace(current=assignment[name], generation_id=1) for name, member in members.items()
    }


def moves(members: Members, assignment: Assignment[str]) -> int:
    return sum(
        len(partitions - assignment[name].get(topic, frozenset()))
        for name, member in members.items()
        for topic, partitions in member.current.items()
    )


def measure(assign: Assign[str], members: Members, topics: dict[str, int]) -> tuple[float, int]:
    """Median milliseconds of CPU time, and the moves."""
    taken = []
    for _ in range(REPETITIONS):
        started = time.process_time()
        assignment = assign(members, topics)
        taken.append((time.process_time() - started) * 1000)
    return statistics.median(taken), moves(members, assignment)


def main() -> None:
    for partition_count in PARTITION_COUNTS:
        topics = {f"topic-{number}": partition_count // TOPIC_COUNT for number in range(TOPIC_COUNT)}
        for wishes in ("same", "different"):
            members = group(topics, all_want_the_same=wishes == "same")
            for name, assign in ASSIGNORS.items():
                figures = [
                    f"{moment} {taken_ms:7.1f} ms {move_count:5d} moves"
                    for moment, changed in changes(assign, members, topics)
                    for taken_ms, move_count in [measure(assign, changed, topics)]
                ]
                print(
                    f"assignors {partition_count:6d} partitions, {wishes:9} wishes, {name:18}  {'  '.join(figures)}"
                )


if __name__ == "__main__":
    main()
