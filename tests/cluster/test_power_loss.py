"""A leader loses power under load: whatever it had not synced is gone when it comes back.

With the default settings nobody syncs before they acknowledge. What was acknowledged is in the memory of two brokers at
least, and whoever may have lost its memory must not lead before it has fetched from one that has not.
"""

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import FaultyCluster, ensure
from tests.cluster.faults import POWER_LOSS
from tests.cluster.rounds import IS_LONG, break_and_judge

pytestmark = pytest.mark.timeout(3600 if IS_LONG else 900)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCluster]:
    ensure()
    with FaultyCluster(tmp_path_factory.mktemp("cluster"), is_forgetful=True) as started:
        yield started


def test_a_leader_that_loses_power_breaks_no_promise(cluster: FaultyCluster) -> None:
    break_and_judge(POWER_LOSS, cluster)
