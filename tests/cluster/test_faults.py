"""Histories of a cluster that is broken under load, judged by the checker: a test for each fault.

One cluster serves all faults, one after the other, in whatever order they come. `make chaos` strikes more often and
writes tests/chaos/CLUSTER.md. What fails says where its evidence lies: the histories, and all that the brokers said.
"""

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import FaultyCluster, ensure
from tests.cluster.faults import FAULTS, Fault
from tests.cluster.rounds import IS_LONG, break_and_judge

RUN = [fault for fault in FAULTS if fault.short or IS_LONG]
pytestmark = pytest.mark.timeout(3600 if IS_LONG else 900)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCluster]:
    ensure()
    with FaultyCluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.mark.parametrize("fault", RUN, ids=lambda fault: fault.name)
def test_a_fault_breaks_no_promise(fault: Fault, cluster: FaultyCluster) -> None:
    break_and_judge(fault, cluster)
