"""Snapshots of clusters that nobody has to start."""

from ottla.cli.cluster_state import Node, Partition, Snapshot


def nodes(*ids, rack=None):
    """Brokers; `rack` is one for all, or a function of the id."""
    return {id: Node(id, "host", 9092 + id, rack(id) if callable(rack) else rack) for id in ids}


def partition(topic, number, leader, replicas, isr=None):
    return Partition(topic, number, leader, tuple(replicas), tuple(replicas if isr is None else isr))


def snapshot_of(alive, *partitions, controller="first"):
    chosen = next(iter(alive), None) if controller == "first" else controller
    return Snapshot("cluster", chosen, alive, {each.place: each for each in partitions})
