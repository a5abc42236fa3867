import itertools
import random

from ottla.assignors.flows import Flows


def settled(
    subscribers: list[list[int]], partition_counts: list[int], held: list[list[int]]
) -> list[list[int]]:
    sparse = [{member: count for member, count in enumerate(row) if count} for row in held]
    flows = Flows(len(held[0]), subscribers, partition_counts, sparse)
    flows.settle()
    return flows.counts


def cost(counts: list[list[int]], held: list[list[int]]) -> tuple[int, int]:
    """How uneven loads are, then how many partitions were taken off members that held them."""
    loads = [sum(column) for column in zip(*counts, strict=True)]
    lost = sum(
        max(0, had - count)
        for row, had_row in zip(counts, held, strict=True)
        for count, had in zip(row, had_row, strict=True)
    )
    return sum(load * load for load in loads), lost


def all_rows(subscribers: list[int], partition_count: int, member_count: int) -> list[list[int]]:
    """All ways to hand out one topic."""
    return [
        [chosen.count(member) for member in range(member_count)]
        for chosen in itertools.combinations_with_replacement(subscribers, partition_count)
    ]


def test_a_topic_goes_to_whoever_has_least():
    assert settled([[0, 1], [1]], [2, 2], [[0, 0], [0, 0]]) == [[2, 0], [0, 2]]


def test_what_is_held_stays_if_loads_allow_it():
    assert settled([[0, 1, 2], [2]], [2, 1], [[1, 1, 0], [0, 0, 1]]) == [[1, 1, 0], [0, 0, 1]]


def test_no_move_is_made_only_to_make_another_one_unnecessary():
    subscribers, held = [[0, 1, 2, 3], [0, 2, 3]], [[1, 0, 0, 1], [0, 0, 0, 0]]
    assert cost(settled(subscribers, [2, 2], held), held) == (4, 1)
    subscribers, held = [[0, 1, 2], [0, 2], [1]], [[1, 2, 1], [0, 0, 1], [0, 1, 0]]
    assert cost(settled(subscribers, [4, 1, 1], held), held) == (12, 1)


def test_nothing_better_can_be_found_by_trying_everything():
    source = random.Random(848)
    for _ in range(400):
        member_count, topic_count = source.randint(1, 4), source.randint(1, 3)
        subscribers = [
            sorted(source.sample(range(member_count), source.randint(1, member_count)))
            for _ in range(topic_count)
        ]
        partition_counts = [source.randint(1, 4) for _ in range(topic_count)]
        held = [[0] * member_count for _ in range(topic_count)]
        for topic, members in enumerate(subscribers):
            for _ in range(source.randint(0, partition_counts[topic])):
                held[topic][source.choice(members)] += 1
        ours = settled(subscribers, partition_counts, held)
        assert [sum(row) for row in ours] == partition_counts
        choices = [
            all_rows(members, count, member_count)
            for members, count in zip(subscribers, partition_counts, strict=True)
        ]
        best = min(cost(list(rows), held) for rows in itertools.product(*choices))
        assert cost(ours, held) == best, (subscribers, partition_counts, held, ours)
