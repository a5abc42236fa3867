"""Exactly once: copying with transactions survives coordinators that fail over, late messages and clients that die."""

import pytest

from ottla.testing.simulation.network import ROUGH, Weather
from tests.simulation.cluster import Cluster
from tests.simulation.copiers import Copier, check_output, is_done
from tests.simulation.seeds import seeds

STORM_MS, PATIENCE_MS = 10_000, 60_000
LATE = Weather(drop=0.005, duplicate=0.05, delay_ms_max=10, straggler=0.03, straggler_ms_max=3_000)


def run_copiers(seed, cluster_type=Cluster, count=3):
    cluster = cluster_type(seed, LATE if seed % 2 else ROUGH, refusal=0.02 if seed % 3 == 0 else 0.0)
    copiers = [Copier(cluster, f"c{number}") for number in range(count)]
    cluster.storm([copier.name for copier in copiers], STORM_MS)
    world = cluster.world
    if not world.run_until(lambda: is_done(cluster), PATIENCE_MS):
        world.violate("everything is copied in the end", f"not after {PATIENCE_MS} ms")
    world.run(world.now_ms + 4_000)  # what is late arrives yet
    check_output(cluster)
    return cluster


@pytest.mark.parametrize("part", range(4))
def test_every_value_is_copied_exactly_once(part):
    for seed in seeds(60):
        if seed % 4 == part:
            run_copiers(seed)
