"""Transcripts of replication: what brokers and the controller do, step by step, and a table after each.

The partition, its logs, the controller's decisions and the store are the real ones; `stage.py` has the commands. With
OTTLA_REWRITE=1 the files are written anew: read the diff then.
"""

from pathlib import Path

import pytest

from tests.scenarios.datadriven import check
from tests.scenarios.replication.stage import Stage

TRANSCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
LOSSY = {
    "jepsen_2013_min_1",  # unclean.leader.election.enable
    "kip_101_divergence_unclean",
    "unclean_on",
    "unclean_by_hand",  # ElectLeaders, asked for by somebody
    "power_loss_unflushed",  # the power went everywhere
    "two_unclean_shutdowns",  # the second before the ISR was full again
}
"""Where acknowledged records are lost: the settings or the faults are those against which nothing is promised."""


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path):
    stage = Stage()
    check(path, stage.run, stage.table)
    assert stage.is_lossy == (path.stem in LOSSY)


def test_every_lossy_transcript_exists():
    assert {path.stem for path in TRANSCRIPTS} >= LOSSY
